//! The tolerance for values of two backends.

use super::compare::{Difference, Tolerance, compare, of_items};
use bb_core::operator::OnnxValue;
use bb_ir::convert::{Rounding, cast};
use bb_ir::{DataType, TensorData};

/// The allowed difference between the results of two backends.
///
/// A part that is `None` is chosen by the element type and the values. Rounding errors are proportional to the precision of the
/// type. If numbers in a tensor cancel, the errors are proportional to the numbers before cancellation. So the absolute part is a
/// fraction of the greatest finite absolute value of the tensor.
///
/// | elements | relative | of the greatest value |
/// |---|---|---|
/// | `f64`, `c128` | 1e-9 | 1e-11 |
/// | `f32`, `c64` | 1e-3 | 1e-5 |
/// | `f16` | 1e-2 | 4e-3 |
/// | `bf16` | 2^-5 | 2^-6 |
/// | floats of 8 bits and less | 2^-2 | 2^-4 |
/// | integers of 8 bits and less | none | none; but neighbours are alike, because floats that differ may round to either |
/// | other integers, booleans, strings | none | none |
///
/// # Examples
///
/// ```
/// use bb::TensorData;
/// use bb::conformance::onnx::BackendTolerance;
/// let x = TensorData::new(&[3], &[1e-6f32, -200.0, f32::INFINITY])?;
/// assert_eq!(BackendTolerance::default().of(&x).absolute, 200.0 * 1e-5);
/// # Ok::<(), bb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BackendTolerance {
    /// The part of the tolerance that is proportional to the expected value.
    pub relative: Option<f64>,
    /// The constant part of the tolerance.
    pub absolute: Option<f64>,
}

impl From<Tolerance> for BackendTolerance {
    fn from(Tolerance { relative, absolute }: Tolerance) -> Self {
        BackendTolerance { relative: Some(relative), absolute: Some(absolute) }
    }
}

impl BackendTolerance {
    /// Returns the tolerance for a tensor that the first backend computed.
    pub fn of(&self, expected: &TensorData) -> Tolerance {
        let (relative, part) = match expected.dtype() {
            DataType::F64 | DataType::C128 => (1e-9, 1e-11),
            DataType::F32 | DataType::C64 => (1e-3, 1e-5),
            DataType::F16 => (1e-2, 4e-3),
            DataType::BF16 => (1.0 / 32.0, 1.0 / 64.0),
            dtype if dtype.is_float() => (0.25, 0.0625),
            _ => (0.0, 0.0),
        };
        let is_small = expected.dtype().is_integer() && expected.dtype().bits() <= 8;
        let usual = || match part {
            0.0 if is_small => 1.0,
            0.0 => 0.0,
            part => part * greatest(expected),
        };
        Tolerance {
            relative: self.relative.unwrap_or(relative),
            absolute: self.absolute.unwrap_or_else(usual),
        }
    }

    /// Compares values of two backends.
    pub(crate) fn compare(
        &self,
        expected: &OnnxValue<TensorData>,
        got: &OnnxValue<TensorData>,
    ) -> Result<(), Difference> {
        of_items(expected, got, &|expected, got| compare(expected, got, self.of(expected)))
    }
}

/// Returns the greatest finite absolute value of an element, or of a real or imaginary part of a complex number; 0 if there is
/// none.
fn greatest(x: &TensorData) -> f64 {
    let real = match x.dtype() {
        DataType::C64 => DataType::F32,
        DataType::C128 => DataType::F64,
        other => other,
    };
    let parts = || {
        let count = x.len().saturating_mul(if real == x.dtype() { 1 } else { 2 });
        TensorData::adopt(real, &[count], x.bytes()?.clone())
    };
    let wide = parts().and_then(|parts| cast(&parts, DataType::F64, Rounding::default()));
    let numbers = wide.as_ref().ok().and_then(|wide| wide.as_slice::<f64>().ok()).unwrap_or_default();
    numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_core::f16;

    fn of(x: &TensorData) -> [f64; 2] {
        let Tolerance { relative, absolute } = BackendTolerance::default().of(x);
        [relative, absolute]
    }

    #[test]
    fn tolerances_fit_the_type_and_the_values() {
        assert_eq!(of(&TensorData::new(&[2], &[-4f64, f64::NAN]).unwrap()), [1e-9, 4e-11]);
        assert_eq!(of(&TensorData::new(&[2], &[0f32, 0.5]).unwrap()), [1e-3, 0.5e-5]);
        assert_eq!(of(&TensorData::new(&[1], &[f16::from_f32(2.0)]).unwrap()), [1e-2, 8e-3]);
        assert_eq!(of(&TensorData::new(&[1], &[100i64]).unwrap()), [0.0, 0.0]);
        assert_eq!(of(&TensorData::new(&[1], &[100u8]).unwrap()), [0.0, 1.0]);
        assert_eq!(of(&TensorData::strings(&[1], &["a"]).unwrap()), [0.0, 0.0]);
        assert_eq!(of(&TensorData::new::<f32>(&[0], &[]).unwrap()), [1e-3, 0.0]);
    }

    #[test]
    fn what_is_given_replaces_what_fits() {
        let x = TensorData::new(&[1], &[8f32]).unwrap();
        let given = BackendTolerance { relative: Some(0.5), absolute: None }.of(&x);
        assert_eq!((given.relative, given.absolute), (0.5, 8e-5));
        assert_eq!(BackendTolerance::from(Tolerance::default()).of(&x), Tolerance::default());
    }
}
