//! Functions that are computed one by one, because no loop over them is vectorised.

use super::elementwise::{Run, plain, with_type};
use super::number::Float;
use super::op::Unary;
use bb::DataType;
use half::{bf16, f16};

/// Returns the loop of a function that is computed one by one, in `f64`, and rounded once to the element type; `None`
/// for other operations and types.
pub(super) fn singly(op: Unary, dtype: DataType) -> Option<Run<1>> {
    macro_rules! function {
        ($f:path) => {
            with_type!(few dtype, T => |out, x, n| plain(out, x, n, |[x]: [T; 1]| T::from_f64($f(x.to_f64()))))
        };
    }
    // SAFETY of each loop: `plain` has the contract of `Run`, for elements of the type `T`.
    unsafe {
        match op {
            // These of the standard library are wide inside and fast.
            Unary::Sin if dtype == DataType::F32 => {
                Some(|out, x, n| plain(out, x, n, |[x]: [f32; 1]| x.sin()))
            }
            Unary::Cos if dtype == DataType::F32 => {
                Some(|out, x, n| plain(out, x, n, |[x]: [f32; 1]| x.cos()))
            }
            Unary::Sin => function!(libm::sin),
            Unary::Cos => function!(libm::cos),
            Unary::Tan => function!(libm::tan),
            Unary::Asin => function!(libm::asin),
            Unary::Acos => function!(libm::acos),
            Unary::Atan => function!(libm::atan),
            Unary::Sinh => function!(libm::sinh),
            Unary::Cosh => function!(libm::cosh),
            Unary::Asinh => function!(libm::asinh),
            Unary::Acosh => function!(acosh),
            Unary::Atanh => function!(libm::atanh),
            _ => None,
        }
    }
}

/// Returns the inverse hyperbolic cosine. The library's function does not look at the sign.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}
