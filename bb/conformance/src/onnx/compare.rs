//! Compares outputs with the expected ones, as ONNX does.

use bb_core::operator::OnnxValue;
use bb_ir::convert::{Rounding, cast};
use bb_ir::text::sentence;
use bb_ir::{DataType, TensorData};

/// The allowed distance from the expected element: `absolute + relative * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The part that is proportional to the expected value.
    pub relative: f64,
    /// The constant part.
    pub absolute: f64,
}

impl Default for Tolerance {
    /// Returns ONNX's tolerance, from `onnx.backend.test.runner`.
    fn default() -> Self {
        Tolerance { relative: 1e-3, absolute: 1e-7 }
    }
}

/// The relative tolerance of bfloat16, which has 8 bits of precision.
const BFLOAT16: f64 = 1.0 / 64.0;

/// The difference between an output and the expected one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The element type differs.
    #[error("expected element type {expected}, got {got}")]
    Type {
        /// The expected type.
        expected: DataType,
        /// The actual type.
        got: DataType,
    },

    /// The shape differs.
    #[error("expected shape {expected:?}, got {got:?}")]
    Shape {
        /// The expected shape.
        expected: Box<[usize]>,
        /// The actual shape.
        got: Box<[usize]>,
    },

    /// The kinds of value differ, for instance a tensor and a sequence.
    #[error("expected {expected}, got {got}", expected = sentence(.expected), got = sentence(.got))]
    Structure {
        /// The expected kind.
        expected: String,
        /// The actual kind.
        got: String,
    },

    /// An item of a sequence differs.
    #[error("item {index}")]
    Item {
        /// The index of the item in the sequence.
        index: usize,
        /// The difference.
        #[source]
        source: Box<Difference>,
    },

    /// An element differs by more than the tolerance.
    #[error("element {index}: expected {expected}, got {got}; {count} elements differ", expected = sentence(.expected), got = sentence(.got))]
    Element {
        /// The row-major index of the first element that differs.
        index: usize,
        /// The expected element.
        expected: String,
        /// The actual element.
        got: String,
        /// The number of elements that differ.
        count: usize,
    },

    /// The elements cannot be compared.
    #[error(transparent)]
    Elements(#[from] bb_ir::Error),
}

/// Compares an output with the expected one, as ONNX's own test runner does.
///
/// NaN equals NaN. The relative tolerance of bfloat16 is at least 2^-6.
///
/// # Errors
///
/// The first [`Difference`].
pub fn compare(expected: &TensorData, got: &TensorData, tolerance: Tolerance) -> Result<(), Difference> {
    if expected.dtype() != got.dtype() {
        return Err(Difference::Type { expected: expected.dtype(), got: got.dtype() });
    }
    if expected.shape() != got.shape() {
        return Err(Difference::Shape { expected: expected.shape().into(), got: got.shape().into() });
    }
    if expected.dtype() == DataType::String {
        let pairs = expected.iter_bytes().map(Bytes).zip(got.iter_bytes().map(Bytes));
        return first_difference(pairs, |e, g| e == g);
    }
    let relative = match expected.dtype() {
        DataType::BF16 => tolerance.relative.max(BFLOAT16),
        _ => tolerance.relative,
    };
    let (expected, got) = (numbers(expected)?, numbers(got)?);
    first_difference(expected.into_iter().zip(got), |e: &f64, g: &f64| {
        // An infinity equals only itself, although its relative tolerance would be infinite.
        let near = || (e - g).abs() <= tolerance.absolute + relative * e.abs();
        e == g || (e.is_nan() && g.is_nan()) || (e.is_finite() && near())
    })
}

/// Compares an output, which may be a sequence, an optional or a map, with the expected one.
///
/// # Errors
///
/// The first [`Difference`].
pub fn compare_items(
    expected: &OnnxValue<TensorData>,
    got: &OnnxValue<TensorData>,
    tolerance: Tolerance,
) -> Result<(), Difference> {
    of_items(expected, got, &|expected, got| compare(expected, got, tolerance))
}

/// Compares the tensors of two values of the same structure.
pub(super) fn of_items(
    expected: &OnnxValue<TensorData>,
    got: &OnnxValue<TensorData>,
    tensors: &dyn Fn(&TensorData, &TensorData) -> Result<(), Difference>,
) -> Result<(), Difference> {
    match (expected, got) {
        (OnnxValue::Tensor(expected), OnnxValue::Tensor(got)) => tensors(expected, got),
        (OnnxValue::Absent, OnnxValue::Absent) => Ok(()),
        (OnnxValue::Sequence(expected), OnnxValue::Sequence(got)) if expected.len() == got.len() => {
            for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                of_items(expected, got, tensors)
                    .map_err(|source| Difference::Item { index, source: Box::new(source) })?;
            }
            Ok(())
        }
        (OnnxValue::Map { keys, values }, OnnxValue::Map { keys: got_keys, values: got }) => {
            tensors(keys, got_keys)?;
            tensors(values, got)
        }
        _ => Err(Difference::Structure { expected: described(expected), got: described(got) }),
    }
}

/// Describes the kind of a value.
pub(super) fn described(item: &OnnxValue<TensorData>) -> String {
    match item {
        OnnxValue::Sequence(items) => format!("a sequence of {}", items.len()),
        other => other.kind().to_owned(),
    }
}

/// A string that is compared by its bytes, and displayed as text.
#[derive(PartialEq)]
struct Bytes<'a>(&'a [u8]);

impl std::fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        String::from_utf8_lossy(self.0).fmt(f)
    }
}

fn first_difference<T: std::fmt::Display>(
    pairs: impl Iterator<Item = (T, T)>,
    same: impl Fn(&T, &T) -> bool,
) -> Result<(), Difference> {
    let mut different = pairs.enumerate().filter(|(_, (e, g))| !same(e, g));
    match different.next() {
        None => Ok(()),
        Some((index, (expected, got))) => Err(Difference::Element {
            index,
            expected: expected.to_string(),
            got: got.to_string(),
            count: 1 + different.count(),
        }),
    }
}

/// Returns the elements as numbers. A complex number gives two numbers.
fn numbers(x: &TensorData) -> Result<Vec<f64>, bb_ir::Error> {
    match x.dtype() {
        // A complex number consists of two floats of half the width, interleaved.
        DataType::C64 => {
            let parts = TensorData::adopt(DataType::F32, &[2 * x.len()], x.bytes()?.clone())?;
            Ok(parts.as_slice::<f32>()?.iter().map(|&v| f64::from(v)).collect())
        }
        DataType::C128 => {
            let parts = TensorData::adopt(DataType::F64, &[2 * x.len()], x.bytes()?.clone())?;
            Ok(parts.as_slice::<f64>()?.to_vec())
        }
        _ => Ok(cast(x, DataType::F64, Rounding::default())?.as_slice::<f64>()?.to_vec()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn floats(x: &[f32]) -> TensorData {
        TensorData::new(&[x.len()], x).unwrap()
    }

    #[test]
    fn nan_equals_nan_and_infinity_itself() {
        let x = floats(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(compare(&x, &x, Tolerance::default()).is_ok());
        assert!(compare(&x, &floats(&[f32::NAN, f32::INFINITY, 0.0]), Tolerance::default()).is_err());
        assert!(compare(&floats(&[1.0]), &floats(&[f32::NAN]), Tolerance::default()).is_err());
    }

    #[test]
    fn tolerance_is_relative_to_the_expected_value() {
        assert!(compare(&floats(&[1000.0]), &floats(&[1000.9]), Tolerance::default()).is_ok());
        assert!(compare(&floats(&[1000.0]), &floats(&[1001.1]), Tolerance::default()).is_err());
    }

    #[test]
    fn shapes_and_types_are_compared() {
        let x = TensorData::scalar(1f32);
        assert!(matches!(compare(&x, &floats(&[1.0]), Tolerance::default()), Err(Difference::Shape { .. })));
        assert!(matches!(
            compare(&x, &TensorData::scalar(1f64), Tolerance::default()),
            Err(Difference::Type { .. })
        ));
    }
}
