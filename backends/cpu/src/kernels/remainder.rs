//! Remainders of floats, which are exact.
//!
//! The remainder is the dividend minus the product of the divisor and an integer. This difference is exact if it is
//! smaller than the divisor, so one fused multiply-add computes it. The rounded quotient may be one above the exact
//! integer part; then the difference has the wrong sign, and the divisor is added.

use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::slices;

/// The number of elements of a block. If one of its quotients is too large, the block is computed again.
const BLOCK: usize = 64;

struct Remainders<'a, T> {
    out: &'a mut [T],
    a: &'a [T],
    b: &'a [T],
}

/// Declares the loop for a type. `$most` is a bound of quotients whose products with divisors are exact.
macro_rules! remainders {
    ($name:ident, $t:ident, $most:literal, |$a:ident, $b:ident, $whole:ident| $portable:expr) => {
        impl VectorLoop for Remainders<'_, $t> {
            type Output = ();

            #[inline(always)]
            fn run<const FMA: bool>(self) {
                let Remainders { out, a, b } = self;
                for ((out, a), b) in out.chunks_mut(BLOCK).zip(a.chunks(BLOCK)).zip(b.chunks(BLOCK)) {
                    let mut simple = true;
                    for ((out, &$a), &$b) in out.iter_mut().zip(a).zip(b) {
                        let quotient = $a / $b;
                        let $whole = quotient.trunc();
                        let rest = if FMA { (-$whole).mul_add($b, $a) } else { $portable };
                        let low = if $a < 0.0 { rest > 0.0 } else { rest < 0.0 };
                        let rest = if low { rest + $b.copysign($a) } else { rest };
                        // A remainder of 0 has the sign of the dividend, too.
                        *out = rest.copysign($a);
                        // An infinite divisor gives the quotient 0, and their product is NaN.
                        simple &= (quotient.abs() < $most) & ($b.abs() < $t::INFINITY);
                    }
                    if !simple {
                        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                            *out = a % b;
                        }
                    }
                }
            }
        }

        /// Writes the remainders of the first operand divided by the second operand.
        ///
        /// # Safety
        ///
        #[doc = concat!("As for [`Run`](super::element_loop::Run), of operands and results `", stringify!($t), "`.")]
        pub(super) unsafe fn $name(out: *mut u8, operands: [*const u8; 2], n: usize) {
            // SAFETY: this function has the same contract.
            let (out, [a, b]) = unsafe { slices::<$t, $t, 2>(out, operands, n) };
            dispatch(Remainders { out, a, b });
        }
    };
}

remainders!(singles, f32, 4_194_304.0, |a, b, whole| {
    // The product is exact in `f64`.
    (f64::from(a) - f64::from(whole) * f64::from(b)) as f32
});
remainders!(doubles, f64, 2_251_799_813_685_248.0, |a, b, _whole| a % b);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    /// Returns numbers of every magnitude, special numbers, and neighbours of multiples.
    fn numbers(n: usize, seed: usize) -> Vec<f64> {
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310, 1e-45, 3.0, -1.0, 0.1];
        let of = |i: usize| {
            let bits = ((i * seed + 12_345) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // An exponent between -16 and 15, or a power of ten of any size.
            let near = f64::from_bits((bits >> 12) | ((1007 + (bits & 31)) << 52))
                * if bits & 64 == 0 { 1.0 } else { -1.0 };
            match bits >> 57 {
                0..10 => special.get((bits >> 57) as usize).copied().unwrap_or_default(),
                10..16 => near * 10f64.powi((bits >> 32) as i32 % 37),
                16..40 => near.round(),
                _ => near,
            }
        };
        (0..n).map(of).collect()
    }

    #[test]
    fn remainders_are_exact() {
        for level in levels() {
            for n in [1, 5, 64, 65, 9_999] {
                for seed in [3, 77, 1009] {
                    let (a, b) = (numbers(n, seed), numbers(n, seed * 5 + 2));
                    let mut out = vec![0f64; n];
                    let operands = [a.as_ptr().cast(), b.as_ptr().cast()];
                    // SAFETY: there are `n` elements of each.
                    at(level, || unsafe { doubles(out.as_mut_ptr().cast(), operands, n) });
                    for ((a, b), y) in a.iter().zip(&b).zip(&out) {
                        let same = y.to_bits() == (a % b).to_bits() || (y.is_nan() && (a % b).is_nan());
                        assert!(same, "{a:e} % {b:e} is {y:e}, expected {:e} at {level:?}", a % b);
                    }
                    let [a, b] = [&a, &b].map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
                    let mut out = vec![0f32; n];
                    let operands = [a.as_ptr().cast(), b.as_ptr().cast()];
                    // SAFETY: there are `n` elements of each.
                    at(level, || unsafe { singles(out.as_mut_ptr().cast(), operands, n) });
                    for ((a, b), y) in a.iter().zip(&b).zip(&out) {
                        let same = y.to_bits() == (a % b).to_bits() || (y.is_nan() && (a % b).is_nan());
                        assert!(same, "{a:e} % {b:e} is {y:e}, expected {:e} at {level:?}", a % b);
                    }
                }
            }
        }
    }

    #[test]
    fn dividends_next_to_multiples_have_exact_remainders() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for i in 1..4_000u32 {
            let divisor = f32::from_bits(0x3f80_0000 + i * 2_097);
            let multiple = divisor * (i * 17) as f32;
            for x in [multiple.next_down(), multiple, multiple.next_up(), -multiple.next_down()] {
                a.push(x);
                b.push(divisor);
            }
        }
        for level in levels() {
            let mut out = vec![0f32; a.len()];
            // SAFETY: there are as many elements of each.
            at(level, || unsafe {
                singles(out.as_mut_ptr().cast(), [a.as_ptr().cast(), b.as_ptr().cast()], a.len());
            });
            for ((a, b), y) in a.iter().zip(&b).zip(&out) {
                assert_eq!(y.to_bits(), (a % b).to_bits(), "{a:e} % {b:e} is {y:e} at {level:?}");
            }
        }
    }
}
