//! Whether an output is the one expected: ONNX's comparison.

use bb_ir::convert::Rounding;
use bb_ir::{DataType, TensorData};

/// How far an element may be from the one expected: `absolute + relative * |expected|`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) relative: f64,
    pub(crate) absolute: f64,
}

impl Default for Tolerance {
    /// ONNX's own, `onnx.backend.test.runner`.
    fn default() -> Self {
        Tolerance { relative: 1e-3, absolute: 1e-7 }
    }
}

/// Relative tolerance of bfloat16, which has eight bits of precision.
const BFLOAT16: f64 = 1.0 / 64.0;

/// Compares; `Err` says what differs and where.
pub(crate) fn compare(expected: &TensorData, got: &TensorData, tolerance: Tolerance) -> Result<(), String> {
    if expected.dtype() != got.dtype() {
        return Err(format!("expected element type {}, got {}", expected.dtype(), got.dtype()));
    }
    if expected.shape() != got.shape() {
        return Err(format!("expected shape {:?}, got {:?}", expected.shape(), got.shape()));
    }
    if expected.dtype() == DataType::String {
        let differs = expected.iter_str().zip(got.iter_str()).enumerate().find(|(_, (e, g))| e != g);
        return differs.map_or(Ok(()), |(i, (e, g))| Err(format!("element {i}: expected `{e}`, got `{g}`")));
    }
    let tolerance = match expected.dtype() {
        DataType::BF16 => Tolerance { relative: tolerance.relative.max(BFLOAT16), ..tolerance },
        _ => tolerance,
    };
    let (expected, got) = (numbers(expected)?, numbers(got)?);
    let close = |e: f64, g: f64| {
        e == g || (e.is_nan() && g.is_nan()) || (e - g).abs() <= tolerance.absolute + tolerance.relative * e.abs()
    };
    let mut wrong = expected.iter().zip(&got).enumerate().filter(|(_, (e, g))| !close(**e, **g));
    match wrong.next() {
        None => Ok(()),
        Some((i, (e, g))) => Err(format!(
            "element {i} of {}: expected {e}, got {g} ({} differ)",
            expected.len(),
            1 + wrong.count()
        )),
    }
}

/// Reads elements as numbers; complex ones as their two parts.
fn numbers(x: &TensorData) -> Result<Vec<f64>, String> {
    let read = || -> Result<Vec<f64>, bb_ir::Error> {
        match x.dtype() {
            DataType::C64 => Ok(x
                .as_slice::<num_complex::Complex<f32>>()?
                .iter()
                .flat_map(|c| [f64::from(c.re), f64::from(c.im)])
                .collect()),
            DataType::C128 => Ok(x.as_slice::<num_complex::Complex<f64>>()?.iter().flat_map(|c| [c.re, c.im]).collect()),
            _ => Ok(bb_ir::convert::cast(x, DataType::F64, Rounding::default())?.as_slice::<f64>()?.to_vec()),
        }
    };
    read().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(x: &[f32]) -> TensorData {
        TensorData::new(&[x.len()], x).unwrap_or_else(|_| TensorData::scalar(0f32))
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
        assert!(compare(&x, &floats(&[1.0]), Tolerance::default()).is_err());
        assert!(compare(&x, &TensorData::scalar(1f64), Tolerance::default()).is_err());
    }
}
