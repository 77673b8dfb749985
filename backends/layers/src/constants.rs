//! Compares the tensor that a backend created for a constant with the constant.

use bb::{DataType, Error, TensorData};
use bb_ir::convert::{Rounding, cast};

/// An element that differs from the element of the constant.
pub(crate) struct Difference {
    /// The row-major index.
    pub(crate) at: usize,
    /// The element of the constant.
    pub(crate) expected: String,
    /// The element of the backend's tensor.
    pub(crate) got: String,
}

/// Returns the first element that differs; `None` if all are equal. All NaNs are equal. Both tensors have the same type and
/// shape.
pub(crate) fn first_difference(
    constant: &TensorData,
    tensor: &TensorData,
) -> Result<Option<Difference>, Error> {
    if constant == tensor {
        return Ok(None);
    }
    if matches!(constant.dtype(), DataType::C64 | DataType::C128) {
        return complex(constant, tensor);
    }
    let texts = |x: &TensorData| cast(x, DataType::String, Rounding::default());
    let (expected, got) = (texts(constant)?, texts(tensor)?);
    let at = match constant.dtype().is_float() {
        true => {
            let wide = |x: &TensorData| cast(x, DataType::F64, Rounding::default());
            let (expected, got) = (wide(constant)?, wide(tensor)?);
            let mut pairs = expected.as_slice::<f64>()?.iter().zip(got.as_slice::<f64>()?);
            pairs.position(|(x, y)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan()))
        }
        false => expected.iter_bytes().zip(got.iter_bytes()).position(|(x, y)| x != y),
    };
    let text = |x: &TensorData, at| x.str_at(at).unwrap_or_default().into_owned();
    Ok(at.map(|at| Difference { at, expected: text(&expected, at), got: text(&got, at) }))
}

/// Does the same as [`first_difference`] for complex numbers, which have no text. The elements are their bytes.
fn complex(constant: &TensorData, tensor: &TensorData) -> Result<Option<Difference>, Error> {
    let size = constant.dtype().bits().div_ceil(8);
    let pairs = constant.unaligned_bytes()?.chunks(size).zip(tensor.unaligned_bytes()?.chunks(size));
    let found = pairs.enumerate().find(|(_, (x, y))| x != y);
    let text = |bytes: &[u8]| format!("the bytes {bytes:02x?}");
    Ok(found.map(|(at, (x, y))| Difference { at, expected: text(x), got: text(y) }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn elements_are_compared_exactly_and_a_nan_equals_a_nan() {
        let difference = |a: &TensorData, b: &TensorData| {
            first_difference(a, b).unwrap().map(|found| (found.at, found.expected, found.got))
        };
        let floats = |x: &[f32]| TensorData::new(&[x.len()], x).unwrap();
        let nan = f32::from_bits(0x7FC0_0001);
        assert_eq!(difference(&floats(&[1.0, f32::NAN]), &floats(&[1.0, nan])), None);
        let expected = |at, a: &str, b: &str| Some((at, a.to_owned(), b.to_owned()));
        let infinite = floats(&[1.0, f32::NEG_INFINITY]);
        assert_eq!(difference(&infinite, &floats(&[1.0, f32::NAN])), expected(1, "-inf", "nan"));
        assert!(difference(&floats(&[0.0]), &floats(&[-0.0])).is_some());
        let integers = |x: &[i64]| TensorData::new(&[x.len()], x).unwrap();
        assert_eq!(difference(&integers(&[1, 1 << 53]), &integers(&[1, (1 << 53) + 1])), {
            expected(1, "9007199254740992", "9007199254740993")
        });
        let texts = |x: &[&str]| TensorData::strings(&[x.len()], x).unwrap();
        assert_eq!(difference(&texts(&["a", "b"]), &texts(&["a", "c"])), expected(1, "b", "c"));
    }
}
