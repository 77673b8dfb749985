//! Functions of `f64` that are computed one by one, because loops over them cannot be vectorised.

use super::element_loop::{Run, plain};
use super::op::Unary;

/// Returns the loop of a function that is computed one by one, or `None` for other operations.
pub(super) fn scalar_fallback(op: Unary) -> Option<Run<1>> {
    macro_rules! function {
        ($f:path) => {
            Some(|out, x, n| plain(out, x, n, |[x]: [f64; 1]| $f(x)))
        };
    }
    // SAFETY of each loop: `plain` has the contract of `Run`, for elements of the type `f64`.
    unsafe {
        match op {
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

/// Returns the inverse hyperbolic cosine. The library's function ignores the sign of its argument.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}
