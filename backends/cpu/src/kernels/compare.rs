//! Comparisons, and other operations whose results are bools.

use super::element_loop::{GRAIN, Kernel, Run, map, slices, with_type, zip};
use super::number::Number;
use super::op::{Binary, Test};
use crate::array::element_size;
use bb::DataType;
use half::{bf16, f16};

/// Returns the loop of an operation whose results are bools, if it supports elements of that type. Returns `None` for
/// other operations.
pub(super) fn kernel(op: Binary, dtype: DataType) -> Option<Run<2>> {
    let bools = matches!(op, Binary::And | Binary::Or | Binary::Xor);
    if bools != (dtype == DataType::Bool) && op != Binary::Equal {
        return None;
    }
    // SAFETY of each loop: `zip` has the contract of `Run`, for elements of the type `T`.
    unsafe {
        match op {
            Binary::Equal => {
                with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16, I8 | U8 | Bool: u8, I16 | U16: u16,
                I32 | U32: u32, I64 | U64: u64] dtype, T => equal::<T>)
            }
            Binary::Greater => with_type!(ordered dtype, T => greater::<T>),
            Binary::Less => with_type!(ordered dtype, T => |out, [a, b], n| greater::<T>(out, [b, a], n)),
            Binary::GreaterOrEqual => with_type!(ordered dtype, T => at_least::<T>),
            Binary::LessOrEqual => {
                with_type!(ordered dtype, T => |out, [a, b], n| at_least::<T>(out, [b, a], n))
            }
            Binary::And => Some(|out, x, n| zip(out, x, n, |a: u8, b: u8| u8::from((a != 0) & (b != 0)))),
            Binary::Or => Some(|out, x, n| zip(out, x, n, |a: u8, b: u8| u8::from((a | b) != 0))),
            Binary::Xor => Some(|out, x, n| zip(out, x, n, |a: u8, b: u8| u8::from((a != 0) ^ (b != 0)))),
            _ => None,
        }
    }
}

/// Writes whether each pair of elements is equal.
///
/// # Safety
///
/// As for [`Run`], of operands `T` and bools.
unsafe fn equal<T: Number>(out: *mut u8, operands: [*const u8; 2], n: usize) {
    // SAFETY: this function has the same contract.
    unsafe { zip(out, operands, n, |a: T, b: T| u8::from(a == b)) }
}

/// Writes whether each element of the first operand is greater than the element of the second.
///
/// # Safety
///
/// As for [`Run`], of operands `T` and bools.
unsafe fn greater<T: Number>(out: *mut u8, operands: [*const u8; 2], n: usize) {
    // SAFETY: this function has the same contract.
    unsafe { zip(out, operands, n, |a: T, b: T| u8::from(a > b)) }
}

/// Writes whether each element of the first operand is greater than or equal to the element of the second.
///
/// # Safety
///
/// As for [`Run`], of operands `T` and bools.
unsafe fn at_least<T: Number>(out: *mut u8, operands: [*const u8; 2], n: usize) {
    // SAFETY: this function has the same contract.
    unsafe { zip(out, operands, n, |a: T, b: T| u8::from(a >= b)) }
}

/// Returns the kernel that tests each element, if the test supports elements of that type.
pub(crate) fn test(test: Test, dtype: DataType) -> Option<Kernel<1>> {
    /// Selects the loop for floats that are read as integers `$t`. `$infinity` has the bits of the float's infinity.
    macro_rules! asked {
        ($t:ty, $infinity:expr) => {{
            const INFINITY: $t = $infinity;
            const SIGN: $t = 1 << (<$t>::BITS - 1);
            // SAFETY of each loop: `answered` has the contract of `Run`, for elements of these bits.
            let run: Run<1> = unsafe {
                match test {
                    Test::Not => return None,
                    Test::IsNan => |out, x, n| answered(out, x, n, |x: $t| (x & !SIGN) > INFINITY),
                    Test::IsInfinite => |out, x, n| answered(out, x, n, |x: $t| (x & !SIGN) == INFINITY),
                    Test::IsInfinity => |out, x, n| answered(out, x, n, |x: $t| x == INFINITY),
                    Test::IsMinusInfinity => |out, x, n| answered(out, x, n, |x: $t| x == INFINITY | SIGN),
                }
            };
            run
        }};
    }
    let run: Run<1> = match (test, dtype) {
        // SAFETY: `answered` has the contract of `Run`, for bools.
        (Test::Not, DataType::Bool) => |out, x, n| unsafe { answered(out, x, n, |x: u8| x == 0) },
        (_, DataType::F32) => asked!(u32, f32::INFINITY.to_bits()),
        (_, DataType::F64) => asked!(u64, f64::INFINITY.to_bits()),
        (_, DataType::F16) => asked!(u16, f16::INFINITY.to_bits()),
        (_, DataType::BF16) => asked!(u16, bf16::INFINITY.to_bits()),
        _ => return None,
    };
    Some(Kernel { run, operands: [element_size(dtype)], result: 1, half: None, grain: GRAIN })
}

/// Writes the result of the test for each element.
///
/// # Safety
///
/// As for [`Run`], of operands `T` and bools.
#[inline(always)]
unsafe fn answered<T: Copy>(out: *mut u8, x: [*const u8; 1], n: usize, f: impl Fn(T) -> bool) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices(out, x, n) };
    map(out, x, |x| u8::from(f(x)));
}

#[cfg(test)]
mod tests {
    use super::super::elementwise::binary;
    use super::*;
    use crate::level::{at, levels};
    use bb::ir::convert::{bf16_from_f64, f16_from_f64};

    const LENGTHS: [usize; 6] = [1, 7, 31, 64, 100, 257];

    /// Checks that the kernels return the same results as Rust's operators.
    fn check<T: Copy + PartialOrd + std::fmt::Debug>(dtype: DataType, of: impl Fn(usize) -> T) {
        type Defined<T> = fn(&T, &T) -> bool;
        let ops: [(Binary, Defined<T>); 5] = [
            (Binary::Equal, |a, b| a == b),
            (Binary::Greater, |a, b| a > b),
            (Binary::Less, |a, b| a < b),
            (Binary::GreaterOrEqual, |a, b| a >= b),
            (Binary::LessOrEqual, |a, b| a <= b),
        ];
        for n in LENGTHS {
            let (a, b): (Vec<T>, Vec<T>) =
                ((0..n).map(|i| of(i * 7)).collect(), (0..n).map(|i| of(i * 3)).collect());
            for (op, defined) in ops {
                let kernel = binary(op, dtype, false).expect("elements that are ordered");
                let expected: Vec<bool> = a.iter().zip(&b).map(|(a, b)| defined(a, b)).collect();
                for level in levels() {
                    let mut out = vec![false; n];
                    // SAFETY: there are `n` elements of each.
                    at(level, || unsafe {
                        (kernel.run)(out.as_mut_ptr().cast(), [a.as_ptr().cast(), b.as_ptr().cast()], n);
                    });
                    assert_eq!(out, expected, "{op:?} of {n} {dtype:?} at {level:?}");
                }
            }
        }
    }

    #[test]
    fn comparisons_are_those_of_the_type() {
        let floats = [0.0, -0.0, 1.5, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.0];
        let float = |i: usize| floats.get(i % 8).copied().unwrap_or_default();
        check(DataType::F32, |i| float(i) as f32);
        check(DataType::F64, float);
        check(DataType::F16, |i| f16_from_f64(float(i)));
        check(DataType::BF16, |i| bf16_from_f64(float(i)));
        check(DataType::I8, |i| (i * 37) as i8);
        check(DataType::I16, |i| (i * 9973) as i16);
        check(DataType::I32, |i| (i * 999_999_937) as i32);
        check(DataType::I64, |i| (i as i64).wrapping_mul(0x7fff_ffff_ffff_ff43));
        check(DataType::U8, |i| (i * 37) as u8);
        check(DataType::U16, |i| (i * 9973) as u16);
        check(DataType::U32, |i| (i * 999_999_937) as u32);
        check(DataType::U64, |i| (i as u64).wrapping_mul(0x7fff_ffff_ffff_ff43));
    }

    #[test]
    fn bools_are_combined() {
        for n in LENGTHS {
            let (a, b): (Vec<bool>, Vec<bool>) = (0..n).map(|i| (i % 2 == 0, i % 3 == 0)).unzip();
            type Defined = fn(bool, bool) -> bool;
            let ops: [(Binary, Defined); 3] =
                [(Binary::And, |a, b| a && b), (Binary::Or, |a, b| a || b), (Binary::Xor, |a, b| a != b)];
            for (op, defined) in ops {
                let kernel = binary(op, DataType::Bool, n < 32).expect("bools");
                for level in levels() {
                    let mut out = vec![false; n];
                    // SAFETY: there are `n` elements of each.
                    at(level, || unsafe {
                        (kernel.run)(out.as_mut_ptr().cast(), [a.as_ptr().cast(), b.as_ptr().cast()], n);
                    });
                    let expected: Vec<bool> = a.iter().zip(&b).map(|(&a, &b)| defined(a, b)).collect();
                    assert_eq!(out, expected, "{op:?} of {n} at {level:?}");
                }
            }
        }
    }

    /// Runs all tests on elements, and compares the results with the definition.
    fn ask<T: Copy>(dtype: DataType, of: impl Fn(f64) -> T) {
        let floats = [0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-40, 65504.0, -1.0];
        type Defined = fn(f64) -> bool;
        let tests: [(Test, Defined); 4] = [
            (Test::IsNan, f64::is_nan),
            (Test::IsInfinite, f64::is_infinite),
            (Test::IsInfinity, |x| x == f64::INFINITY),
            (Test::IsMinusInfinity, |x| x == f64::NEG_INFINITY),
        ];
        for n in LENGTHS {
            let x: Vec<f64> = floats.iter().copied().cycle().take(n).collect();
            let elements: Vec<T> = x.iter().map(|&x| of(x)).collect();
            for (asked, defined) in tests {
                let kernel = test(asked, dtype).expect("floats");
                for level in levels() {
                    let mut out = vec![false; n];
                    // SAFETY: there are `n` elements of each.
                    at(level, || unsafe {
                        (kernel.run)(out.as_mut_ptr().cast(), [elements.as_ptr().cast()], n);
                    });
                    let expected: Vec<bool> = x.iter().map(|&x| defined(x)).collect();
                    assert_eq!(out, expected, "{asked:?} of {n} {dtype:?} at {level:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_is_found() {
        ask(DataType::F32, |x| x as f32);
        ask(DataType::F64, |x| x);
        ask(DataType::F16, f16_from_f64);
        ask(DataType::BF16, bf16_from_f64);
        assert!(test(Test::IsNan, DataType::I32).is_none() && test(Test::Not, DataType::F32).is_none());
    }
}
