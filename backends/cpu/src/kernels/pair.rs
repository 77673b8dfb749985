//! Loops of two functions of `f32`, one of which reads what the other computes. Programs of many functions go through fewer
//! loops with them, and so read and write fewer elements.

use super::dispatch::{VectorLoop, dispatch_by_length};
use super::elementwise::{Run, slices};
use super::number::Number;
use super::op::Binary;

/// The operands of a pair of functions, `f`, and where results go.
struct Pair<'a, F> {
    out: &'a mut [f32],
    operands: [&'a [f32]; 3],
    f: F,
}

impl<F: Fn(f32, f32, f32) -> f32> VectorLoop for Pair<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let [a, b, c] = self.operands;
        for (((out, &a), &b), &c) in self.out.iter_mut().zip(a).zip(b).zip(c) {
            *out = (self.f)(a, b, c);
        }
    }
}

/// Writes `f(a, b, c)` for each three elements.
///
/// # Safety
///
/// As for [`Run`], of operands and results `f32`.
#[inline(always)]
unsafe fn each(out: *mut u8, operands: [*const u8; 3], n: usize, f: impl Fn(f32, f32, f32) -> f32) {
    // SAFETY: this function has the same contract.
    let (out, operands) = unsafe { slices(out, operands, n) };
    dispatch_by_length(n, Pair { out, operands, f });
}

/// Returns the loop that computes `second(first(a, b), c)`, each rounded by itself, if there is one.
pub(crate) fn pair(first: Binary, second: Binary) -> Option<Run<3>> {
    macro_rules! pairs {
        ($($first:ident $f:ident, $second:ident $s:ident;)*) => {
            match (first, second) {
                // SAFETY of each loop: `each` has the contract of `Run`.
                $((Binary::$first, Binary::$second) => Some(|out, x, n| unsafe {
                    each(out, x, n, |a, b, c| Number::$s(Number::$f(a, b), c));
                }),)*
                _ => None,
            }
        };
    }
    pairs! {
        Mul mul, Add add;
        Mul mul, Sub sub;
        Mul mul, Mul mul;
        Add add, Add add;
        Add add, Sub sub;
        Add add, Mul mul;
        Add add, Div div;
        Sub sub, Mul mul;
        Sub sub, Div div;
        Add add, Max max;
        Mul mul, Max max;
        Max max, Min min;
        Min min, Max max;
    }
}
