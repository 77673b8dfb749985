//! Measures the errors of elements relative to the expected elements.

use bb::{DataType, TensorData, bf16, f16};
use bb_ir::convert::{Rounding, cast};

/// A maximum error and the element where it occurs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Greatest {
    pub(super) error: f64,
    /// The index of the element in each dimension.
    pub(super) at: Vec<usize>,
    pub(super) expected: f64,
    pub(super) got: f64,
}

/// The errors of the elements of a tensor.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Errors {
    /// The maximum of `|got - expected|`.
    pub(super) absolute: Option<Greatest>,
    /// The maximum of `|got - expected| / |expected|`. Elements whose expected value is 0 are ignored.
    pub(super) relative: Option<Greatest>,
    /// The maximum distance between an element and the expected element, in units in the last place. NaN is ignored.
    pub(super) ulps: Option<u64>,
}

impl Errors {
    /// Compares tensors of numbers that have the same type and shape. Returns no errors for other tensors.
    ///
    /// The error of NaN is infinite if a number is expected, and 0 if NaN is expected.
    pub(super) fn of(expected: &TensorData, got: &TensorData) -> Errors {
        if expected.dtype() != got.dtype() || expected.shape() != got.shape() {
            return Errors::default();
        }
        let (Some(wanted), Some(made)) = (numbers(expected), numbers(got)) else { return Errors::default() };
        let mut absolute: Option<(usize, f64)> = None;
        let mut relative: Option<(usize, f64)> = None;
        for (i, (&wanted, &made)) in wanted.iter().zip(&made).enumerate() {
            let error = distance(wanted, made);
            keep_greater(&mut absolute, i, error);
            if wanted != 0.0 {
                // If infinity is expected, the quotient is NaN, but the error is infinite.
                let quotient = if error == 0.0 { 0.0 } else { error / wanted.abs() };
                keep_greater(&mut relative, i, if quotient.is_nan() { f64::INFINITY } else { quotient });
            }
        }
        let greatest = |found: Option<(usize, f64)>| {
            let (i, error) = found?;
            let (expected_number, got) = (*wanted.get(i)?, *made.get(i)?);
            Some(Greatest { error, at: place(i, expected.shape()), expected: expected_number, got })
        };
        Errors { absolute: greatest(absolute), relative: greatest(relative), ulps: ulps(expected, got) }
    }
}

fn keep_greater(greatest: &mut Option<(usize, f64)>, i: usize, error: f64) {
    if greatest.is_none_or(|(_, most)| error > most) {
        *greatest = Some((i, error));
    }
}

fn distance(expected: f64, got: f64) -> f64 {
    if expected == got || (expected.is_nan() && got.is_nan()) {
        return 0.0;
    }
    let distance = (got - expected).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// Converts the elements of a tensor of numbers or booleans to `f64`. Returns `None` for other types.
fn numbers(x: &TensorData) -> Option<Vec<f64>> {
    if matches!(x.dtype(), DataType::String | DataType::C64 | DataType::C128) {
        return None;
    }
    let wide = cast(x, DataType::F64, Rounding::default()).ok()?;
    Some(wide.as_slice::<f64>().ok()?.to_vec())
}

/// Converts the index of an element in row-major order to an index for each dimension.
fn place(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut at: Vec<usize> = shape
        .iter()
        .rev()
        .map(|extent| {
            let index = number % extent;
            number /= extent;
            index
        })
        .collect();
    at.reverse();
    at
}

/// Maps a float to an integer in the same order, so that neighbouring floats differ by 1. Returns `None` for NaN.
fn ordered(bits: u64, sign: u64, is_nan: bool) -> Option<i128> {
    let magnitude = i128::from(bits & !sign);
    (!is_nan).then_some(if bits & sign == 0 { magnitude } else { -magnitude })
}

fn ulps(expected: &TensorData, got: &TensorData) -> Option<u64> {
    fn most<T: bb_ir::Element>(
        expected: &TensorData,
        got: &TensorData,
        order: impl Fn(T) -> Option<i128>,
    ) -> Option<u64> {
        let (expected, got) = (expected.as_slice::<T>().ok()?, got.as_slice::<T>().ok()?);
        let steps = expected.iter().zip(got).filter_map(|(&e, &g)| Some(order(e)?.abs_diff(order(g)?)));
        steps.max().and_then(|steps| u64::try_from(steps).ok())
    }
    match expected.dtype() {
        DataType::F64 => most(expected, got, |x: f64| ordered(x.to_bits(), 1 << 63, x.is_nan())),
        DataType::F32 => most(expected, got, |x: f32| ordered(x.to_bits().into(), 1 << 31, x.is_nan())),
        DataType::F16 => most(expected, got, |x: f16| ordered(x.to_bits().into(), 1 << 15, x.is_nan())),
        DataType::BF16 => most(expected, got, |x: bf16| ordered(x.to_bits().into(), 1 << 15, x.is_nan())),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(expected: &[f32], got: &[f32]) -> Errors {
        let tensor = |x: &[f32]| TensorData::new(&[x.len() / 2, 2], x).unwrap();
        Errors::of(&tensor(expected), &tensor(got))
    }

    #[test]
    fn the_greatest_errors_have_their_positions() {
        let errors = of(&[100.0, 1.0, 0.0, -2.0], &[101.0, 1.5, 0.25, -2.0]);
        let absolute = errors.absolute.unwrap();
        assert_eq!(
            (absolute.error, &*absolute.at, absolute.expected, absolute.got),
            (1.0, &[0, 0][..], 100.0, 101.0)
        );
        let relative = errors.relative.unwrap();
        assert_eq!((relative.error, &*relative.at), (0.5, &[0, 1][..]));
        // There are 125 exponents between 0 and 0.25, with 2^23 floats each.
        assert_eq!(errors.ulps, Some(125 << 23));
    }

    #[test]
    fn neighbours_are_one_ulp_apart_across_zero_too() {
        assert_eq!(of(&[1.0, 2.0], &[1.0f32.next_up(), 2.0]).ulps, Some(1));
        assert_eq!(of(&[0.0f32.next_down(), 0.0], &[0.0f32.next_up(), -0.0]).ulps, Some(2));
        let halves = |x: f32| TensorData::new(&[1], &[f16::from_f32(x)]).unwrap();
        // An `f16` has 10 bits of fraction.
        assert_eq!(Errors::of(&halves(1.0), &halves(1.0 + 3.0 / 1024.0)).ulps, Some(3));
    }

    #[test]
    fn nan_equals_only_nan_and_infinities_equal_themselves() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let same = of(&[nan, infinity], &[nan, infinity]);
        assert_eq!((same.absolute.unwrap().error, same.relative.unwrap().error), (0.0, 0.0));
        for (expected, got) in
            [(nan, 1.0), (1.0, nan), (infinity, 1.0), (infinity, -infinity), (1.0, infinity)]
        {
            let errors = of(&[expected, 1.0], &[got, 1.0]);
            assert_eq!(errors.absolute.unwrap().error, f64::INFINITY, "{expected} {got}");
            assert_eq!(errors.relative.unwrap().error, f64::INFINITY, "{expected} {got}");
        }
    }

    #[test]
    fn strings_and_other_shapes_are_not_measured() {
        let texts = TensorData::strings(&[1], &["a"]).unwrap();
        assert_eq!(Errors::of(&texts, &texts), Errors::default());
        let (row, column) =
            (TensorData::new(&[1, 2], &[1f32; 2]).unwrap(), TensorData::new(&[2, 1], &[1f32; 2]).unwrap());
        assert_eq!(Errors::of(&row, &column), Errors::default());
        let empty = TensorData::new::<f32>(&[0], &[]).unwrap();
        assert_eq!(Errors::of(&empty, &empty), Errors::default());
    }
}
