//! ONNX Runtime's numbers of element types.

use crate::error::CallError;
use crate::status::Result;
use bb::DataType;
use std::ffi::c_int;

/// The element types in the order of ONNX Runtime's numbers, which start at 1. The last ones differ from ONNX's numbers.
const TYPES: [DataType; 26] = [
    DataType::F32,
    DataType::U8,
    DataType::I8,
    DataType::U16,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::String,
    DataType::Bool,
    DataType::F16,
    DataType::F64,
    DataType::U32,
    DataType::U64,
    DataType::C64,
    DataType::C128,
    DataType::BF16,
    DataType::F8E4M3FN,
    DataType::F8E4M3FNUZ,
    DataType::F8E5M2,
    DataType::F8E5M2FNUZ,
    DataType::U4,
    DataType::I4,
    DataType::F4E2M1,
    DataType::U2,
    DataType::I2,
    DataType::F8E8M0,
];

/// Returns the element type with an ONNX Runtime number.
///
/// # Errors
///
/// [`CallError::Element`].
pub(crate) fn of_number(number: c_int) -> Result<DataType> {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| TYPES.get(place)).copied().ok_or(CallError::Element { number })
}

/// Returns the ONNX Runtime number of an element type.
///
/// # Errors
///
/// [`CallError::NoNumber`].
pub(crate) fn number(dtype: DataType) -> Result<c_int> {
    let mut numbered = TYPES.iter().zip(1..);
    numbered
        .find(|(known, _)| **known == dtype)
        .map(|(_, number)| number)
        .ok_or(CallError::NoNumber { dtype })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_types() {
        for dtype in DataType::ALL {
            match number(*dtype) {
                Ok(number) => assert_eq!(of_number(number).ok(), Some(*dtype)),
                // ONNX Runtime numbers the first 26 types of ONNX, the last of them in another order.
                Err(_) => assert!(dtype.to_onnx() > 26, "{dtype} has no number"),
            }
        }
        assert!(of_number(0).is_err() && of_number(27).is_err() && of_number(-1).is_err());
    }
}
