//! Decodes declared types, and merges them with the other known types of a value.

use crate::graph::{Dim, ValueType};
use crate::proto::tensor_shape_proto::dimension::Value as DimValue;
use crate::proto::type_proto::Value;
use crate::proto::{TensorShapeProto, TypeProto};
use crate::{DataType, Error, limits::within};

/// Decodes a declared type.
///
/// # Errors
///
/// [`Error::UnknownDataType`] if ONNX does not have the element type; [`Error::Limit`] if the type nests deeper
/// than `nesting`.
pub(super) fn decode(ty: &TypeProto, nesting: usize) -> Result<ValueType, Error> {
    let below = || {
        within("nesting", "levels of nesting", 1, nesting)?;
        Ok::<_, Error>(nesting - 1)
    };
    let inner = |ty: Option<&TypeProto>| -> Result<Box<ValueType>, Error> {
        let depth = below()?;
        Ok(Box::new(ty.map_or(Ok(ValueType::Unknown), |t| decode(t, depth))?))
    };
    Ok(match &ty.value {
        None | Some(Value::OpaqueType(_)) => ValueType::Unknown,
        Some(Value::TensorType(t)) => tensor(t.elem_type(), t.shape.as_ref())?,
        // Sparse constants are stored as dense tensors, so values that are declared sparse are dense too.
        Some(Value::SparseTensorType(t)) => tensor(t.elem_type(), t.shape.as_ref())?,
        Some(Value::SequenceType(s)) => ValueType::Sequence(inner(s.elem_type.as_deref())?),
        Some(Value::OptionalType(o)) => ValueType::Optional(inner(o.elem_type.as_deref())?),
        Some(Value::MapType(m)) => {
            let key = element(m.key_type())?.ok_or(Error::UnknownDataType { number: 0 })?;
            ValueType::Map(key, inner(m.value_type.as_deref())?)
        }
    })
}

/// Returns the element type that ONNX numbers `number`; `None` for 0, which means unspecified.
pub(super) fn element(number: i32) -> Result<Option<DataType>, Error> {
    match number {
        0 => Ok(None),
        _ => DataType::from_onnx(number).map(Some).ok_or(Error::UnknownDataType { number }),
    }
}

fn tensor(number: i32, shape: Option<&TensorShapeProto>) -> Result<ValueType, Error> {
    let Some(dtype) = element(number)? else {
        return Ok(ValueType::Unknown);
    };
    let extents = |s: &TensorShapeProto| s.dim.iter().map(|d| dim(d.value.as_ref())).collect();
    Ok(ValueType::Tensor { dtype, shape: shape.map(extents) })
}

/// Names that exporters write for an unknown extent.
///
/// In ONNX, dimensions of the same name have the same extent, so a run compares the extents of its inputs.
/// (ONNX Runtime compares ranks and numbers, but not names.) The names in this list are exceptions: converters
/// of Keras and Core ML models write `None`, and other exporters write `?` or `-1`, for every unknown extent,
/// even several times in one shape.
const NO_NAMES: [&str; 4] = ["", "None", "?", "-1"];

/// Decodes an extent. A negative number or a name in [`NO_NAMES`] means an unknown extent.
fn dim(value: Option<&DimValue>) -> Dim {
    match value {
        Some(DimValue::DimValue(n)) => usize::try_from(*n).map_or(Dim::Unknown, Dim::Known),
        Some(DimValue::DimParam(name)) if !NO_NAMES.contains(&name.as_str()) => Dim::Symbol(name.clone()),
        _ => Dim::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_extents_and_names_that_say_nothing_are_unknown() {
        assert_eq!(dim(Some(&DimValue::DimValue(-1))), Dim::Unknown);
        for name in NO_NAMES {
            assert_eq!(dim(Some(&DimValue::DimParam(name.to_owned()))), Dim::Unknown);
        }
    }
}
