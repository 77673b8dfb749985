//! Quotients of integers.
//!
//! Processors divide integers one by one, but floats in vectors. If integers are divided as floats, rounding changes
//! the integer part of the quotient only if the quotient has more digits than the float.

use super::element_loop::{Run, plain, with_type, zip};
use super::number::Number;
use bb::DataType;

/// Returns the loop of truncated quotients, if the type is an integer type. A divisor of 0 gives any number.
pub(super) fn kernel(dtype: DataType) -> Option<Run<2>> {
    // SAFETY of each loop: `zip` and `plain` have the contract of `Run`, for elements of the type `T`.
    let run: Option<Run<2>> = unsafe {
        match dtype {
            DataType::I64 | DataType::U64 => with_type!([I64: i64, U64: u64] dtype, T => {
                |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| Number::div(a, b))
            }),
            DataType::I32 | DataType::U32 => with_type!([I32: i32, U32: u32] dtype, T => {
                |out, x, n| zip(out, x, n, |a: T, b: T| wide(a, b) as T)
            }),
            _ => with_type!([I8: i8, I16: i16, U8: u8, U16: u16] dtype, T => {
                |out, x, n| zip(out, x, n, |a: T, b: T| narrow(a, b) as T)
            }),
        }
    };
    run
}

/// Returns an integer whose low bits are the quotient of 32-bit integers.
#[inline(always)]
fn wide(a: impl Into<f64>, b: impl Into<f64>) -> u64 {
    /// After adding this number, the low bits hold an integer.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    ((a.into() / b.into()).trunc() + MAGIC).to_bits()
}

/// Returns an integer whose low bits are the quotient of integers of at most 16 bits.
#[inline(always)]
fn narrow(a: impl Into<f32>, b: impl Into<f32>) -> u32 {
    /// After adding this number, the low bits hold an integer.
    const MAGIC: f32 = 12_582_912.0;
    ((a.into() / b.into()).trunc() + MAGIC).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    /// Divides numbers of every magnitude, and compares with the definition.
    fn check<T: Number + std::fmt::Debug>(dtype: DataType, of: impl Fn(u64) -> T) {
        let run = kernel(dtype).expect("integers");
        let drawn = |i: u64, seed: u64| {
            let bits = (i * 2 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // The shifts yield numbers of every magnitude.
            of(if bits & 256 == 0 { bits >> (bits & 63) } else { !(bits >> (bits & 63)) })
        };
        for n in [1, 9, 64, 5_000] {
            let extremes = [
                (T::LEAST, of(u64::MAX)),
                (T::LEAST, T::ONE),
                (T::GREATEST, T::GREATEST),
                (T::LEAST, T::GREATEST),
            ];
            let pairs = extremes.into_iter().chain((0..n).map(|i| (drawn(i, 1), drawn(i, 777))));
            let (a, b): (Vec<T>, Vec<T>) =
                pairs.map(|(a, b)| (a, if b == T::default() { T::ONE } else { b })).unzip();
            let expected: Vec<T> = a.iter().zip(&b).map(|(&a, &b)| Number::div(a, b)).collect();
            for level in levels() {
                let mut out = vec![T::default(); a.len()];
                // SAFETY: there are as many elements of each.
                at(level, || unsafe {
                    run(out.as_mut_ptr().cast(), [a.as_ptr().cast(), b.as_ptr().cast()], a.len());
                });
                let differs = (0..a.len()).find(|&i| out.get(i) != expected.get(i));
                assert_eq!(differs.map(|i| (a.get(i), b.get(i), out.get(i))), None, "{dtype:?} at {level:?}");
            }
        }
    }

    #[test]
    fn quotients_are_truncated() {
        check(DataType::I8, |x| x as i8);
        check(DataType::I16, |x| x as i16);
        check(DataType::I32, |x| x as i32);
        check(DataType::I64, |x| x as i64);
        check(DataType::U8, |x| x as u8);
        check(DataType::U16, |x| x as u16);
        check(DataType::U32, |x| x as u32);
        check(DataType::U64, |x| x);
    }
}
