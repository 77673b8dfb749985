//! Elementary functions without branches, so that a loop over them is vectorised.
//!
//! Each reduces its argument to a short interval, where a Taylor or fitted polynomial is exact to
//! well below one unit in the last place. Tests state the errors measured.

use super::dispatch::{VectorLoop, dispatch};
use super::elementwise::{Run, slices};
use super::op::Unary;
use std::marker::PhantomData;

/// A function that is compiled with and without fused multiply-add.
pub(super) trait Function<T> {
    /// Returns the value at `x`.
    fn at<const FMA: bool>(x: T) -> T;
}

/// Elements that are computed at once; a shorter end is padded to as many.
const BLOCK: usize = 64;

struct Apply<'a, T, F> {
    out: &'a mut [T],
    x: &'a [T],
    function: PhantomData<F>,
}

impl<T: Copy, F: Function<T>> VectorLoop for Apply<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = F::at::<FMA>(x);
        }
    }
}

fn apply<T: Copy, F: Function<T>>(out: &mut [T], x: &[T]) {
    dispatch(Apply::<T, F> { out, x, function: PhantomData });
}

/// Writes the values of a function.
///
/// # Safety
///
/// As for [`Run`].
unsafe fn map<T: Copy + Default, F: Function<T>>(out: *mut u8, x: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices::<T, T, 1>(out, x, n) };
    let whole = if n % BLOCK < 4 { n } else { n / BLOCK * BLOCK };
    let ((out, out_end), (x, x_end)) = (out.split_at_mut(whole), x.split_at(whole));
    apply::<T, F>(out, x);
    if !x_end.is_empty() {
        let (mut from, mut to) = ([T::default(); BLOCK], [T::default(); BLOCK]);
        from.split_at_mut(x_end.len()).0.copy_from_slice(x_end);
        apply::<T, F>(&mut to, &from);
        out_end.copy_from_slice(to.split_at(x_end.len()).0);
    }
}

/// Declares a type for each function, by which loops over it are told apart.
macro_rules! functions {
    ($t:ident; $($name:ident<$fma:ident>: |$x:ident| $value:expr;)*) => {$(
        struct $name;
        impl Function<$t> for $name {
            #[inline(always)]
            fn at<const $fma: bool>($x: $t) -> $t {
                $value
            }
        }
    )*};
}

macro_rules! elementary {
    ($module:ident, $t:ident, $unsigned:ident, mantissa $bits:literal, bias $bias:literal,
     magic $magic:literal, exp $low:literal $high:literal, ln2 $ln2_high:expr, $ln2_low:expr,
     erf $erf:ident, taylor [$($taylor:expr),*], atanh [$($atanh:expr),*]) => {
        pub(super) mod $module {
            use super::{Function, Run, Unary, map};

            /// Adding it leaves the nearest integer in the low bits.
            const MAGIC: $t = $magic;

            #[inline(always)]
            pub(super) fn fma<const FMA: bool>(a: $t, b: $t, c: $t) -> $t {
                if FMA { a.mul_add(b, c) } else { a * b + c }
            }

            /// Returns 2 to the power `n`, an integer in the range of normal numbers.
            #[inline(always)]
            fn power_of_two(n: $t) -> $t {
                let bits = (n + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add($bias);
                $t::from_bits(bits << $bits)
            }

            /// Returns `n`, and `exp(r) - 1` for `x = n ln 2 + r`.
            #[inline(always)]
            fn reduced<const FMA: bool>(x: $t) -> ($t, $t) {
                let n = fma::<FMA>(x, std::$t::consts::LOG2_E, MAGIC) - MAGIC;
                let r = fma::<FMA>(n, -$ln2_low, fma::<FMA>(n, -$ln2_high, x));
                let mut q = 0.0;
                for c in [$($taylor),*] {
                    q = fma::<FMA>(q, r, 1.0 / c);
                }
                (n, fma::<FMA>(r * r, q, r))
            }

            #[inline(always)]
            pub(super) fn exp<const FMA: bool>(x: $t) -> $t {
                // Comparisons that NaN fails.
                let x = if x < $low { $low } else { x };
                let x = if x > $high { $high } else { x };
                let (n, p) = reduced::<FMA>(x);
                let half = fma::<FMA>(n, 0.5, MAGIC) - MAGIC;
                (1.0 + p) * power_of_two(half) * power_of_two(n - half)
            }

            /// `exp(x) - 1` for arguments of moderate size.
            #[inline(always)]
            fn exp_m1<const FMA: bool>(x: $t) -> $t {
                let (n, p) = reduced::<FMA>(x);
                let scale = power_of_two(n);
                fma::<FMA>(scale, p, scale - 1.0)
            }

            #[inline(always)]
            pub(super) fn log<const FMA: bool>(x: $t) -> $t {
                const SQRT_HALF: $unsigned = std::$t::consts::FRAC_1_SQRT_2.to_bits();
                const UNIT: $t = ((1 as $unsigned) << ($bits + 1)) as $t;
                let tiny = x < $t::MIN_POSITIVE;
                let scaled = if tiny { x * UNIT } else { x };
                // The exponent of a mantissa in [sqrt 0.5, sqrt 2).
                let shifted = scaled.to_bits().wrapping_sub(SQRT_HALF).wrapping_add($bias << $bits);
                let exponent = $t::from_bits((shifted >> $bits).wrapping_add(MAGIC.to_bits())) - MAGIC - $bias as $t;
                let exponent = if tiny { exponent - ($bits + 1) as $t } else { exponent };
                let mantissa = (shifted & ((1 << $bits) - 1)).wrapping_add(SQRT_HALF);
                let f = $t::from_bits(mantissa) - 1.0;
                // log(1 + f) = 2 atanh s = f - f^2/2 + s (f^2/2 + R(s^2)).
                let s = f / (2.0 + f);
                let z = s * s;
                let mut q = 0.0;
                for c in [$($atanh),*] {
                    q = fma::<FMA>(q, z, 2.0 / c);
                }
                let square = 0.5 * f * f;
                let tail = fma::<FMA>(s, fma::<FMA>(z, q, square), exponent * $ln2_low);
                let y = fma::<FMA>(exponent, $ln2_high, f - (square - tail));
                let y = if x < 0.0 || x.is_nan() { $t::NAN } else { y };
                let y = if x == 0.0 { $t::NEG_INFINITY } else { y };
                if x == $t::INFINITY { x } else { y }
            }

            #[inline(always)]
            pub(super) fn tanh<const FMA: bool>(x: $t) -> $t {
                let a = x.abs();
                let a = if a > 20.0 { 20.0 } else { a };
                let e = exp_m1::<FMA>(2.0 * a);
                (e / (e + 2.0)).copysign(x)
            }

            #[inline(always)]
            pub(super) fn sigmoid<const FMA: bool>(x: $t) -> $t {
                // Of the negative absolute value, so that nothing overflows or cancels.
                let e = exp::<FMA>(-x.abs());
                let low = e / (1.0 + e);
                let high = 1.0 / (1.0 + e);
                if x < 0.0 { low } else { high }
            }

            functions! { $t;
                Sqrt<FMA>: |x| x.sqrt();
                Exp<FMA>: |x| exp::<FMA>(x);
                Log<FMA>: |x| log::<FMA>(x);
                Tanh<FMA>: |x| tanh::<FMA>(x);
                Sigmoid<FMA>: |x| sigmoid::<FMA>(x);
                Silu<FMA>: |x| {
                    let y = x / (1.0 + exp::<FMA>(-x));
                    // The quotient would be infinity over infinity; this is its limit.
                    if x == $t::NEG_INFINITY { 0.0 } else { y }
                };
                Erf<FMA>: |x| super::$erf::<FMA>(x);
                Gelu<FMA>: |x| {
                    let half = 0.5 * x;
                    let e = super::$erf::<FMA>(x * std::$t::consts::FRAC_1_SQRT_2);
                    fma::<FMA>(half, e, half)
                };
            }

            /// Returns the loop of a function, if the operation is one.
            pub(in crate::kernels) fn function(op: Unary) -> Option<Run<1>> {
                Some(match op {
                    Unary::Neg | Unary::Abs | Unary::Relu => return None,
                    Unary::Sqrt => map::<$t, Sqrt>,
                    Unary::Exp => map::<$t, Exp>,
                    Unary::Log => map::<$t, Log>,
                    Unary::Tanh => map::<$t, Tanh>,
                    Unary::Sigmoid => map::<$t, Sigmoid>,
                    Unary::Erf => map::<$t, Erf>,
                    Unary::Gelu => map::<$t, Gelu>,
                    Unary::Silu => map::<$t, Silu>,
                })
            }
        }
    };
}

elementary!(single, f32, u32, mantissa 23, bias 127, magic 12_582_912.0, exp -104.0 89.0,
    ln2 0.693_145_75, 1.428_606_8e-6, erf erf_f32,
    taylor [5040.0, 720.0, 120.0, 24.0, 6.0, 2.0], atanh [9.0, 7.0, 5.0, 3.0]);

elementary!(double, f64, u64, mantissa 52, bias 1023, magic 6_755_399_441_055_744.0, exp -746.0 710.0,
    ln2 0.6931471805592082, 7.371002565167799e-13, erf erf_f64,
    taylor [6227020800.0, 479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0], atanh [23.0, 21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0]);

/// Polynomials fitted to `erf(x) / x` in `x * x` below 1, and to `log(erfc(x) exp(x * x) / t)` in
/// `t = 1 / (1 + x / 2)` up to 4.2, beyond which the result is 1.
#[inline(always)]
fn erf_f32<const FMA: bool>(x: f32) -> f32 {
    const SMALL: [f32; 8] = [
        -9.808_131e-6,
        1.131_276_2e-4,
        -8.490_152_5e-4,
        5.221_420_4e-3,
        -2.686_555_7e-2,
        0.112_837_84,
        -0.376_126_38,
        std::f32::consts::FRAC_2_SQRT_PI,
    ];
    const LARGE: [f32; 8] = [
        -0.277_418_6,
        1.081_063_3,
        -1.504_871_4,
        0.763_981_8,
        -0.236_750_48,
        0.448_174_27,
        0.990_599_7,
        -1.264_989_6,
    ];
    let a = x.abs();
    let a = if a > 4.2 { 4.2 } else { a };
    let square = a * a;
    let mut small = 0.0;
    for c in SMALL {
        small = single::fma::<FMA>(small, square, c);
    }
    let t = 1.0 / single::fma::<FMA>(0.5, a, 1.0);
    let mut large = 0.0;
    for c in LARGE {
        large = single::fma::<FMA>(large, t, c);
    }
    let large = 1.0 - t * single::exp::<FMA>(large - square);
    (if a < 1.0 { a * small } else { large }).copysign(x)
}

/// The series of positive terms near zero, the continued fraction of the complement beyond.
#[inline(always)]
fn erf_f64<const FMA: bool>(x: f64) -> f64 {
    let a = x.abs();
    let scale = (-a * a).exp();
    let y = if a < 2.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..64 {
            term *= 2.0 * a * a / f64::from(2 * n + 1);
            sum += term;
        }
        sum * scale * std::f64::consts::FRAC_2_SQRT_PI
    } else if a < 6.0 {
        let mut tail = 0.0;
        for n in (1..60).rev() {
            tail = 0.5 * f64::from(n) / (a + tail);
        }
        1.0 - scale / ((a + tail) * std::f64::consts::PI.sqrt())
    } else if a.is_nan() {
        a
    } else {
        1.0
    };
    y.copysign(x)
}

/// `x` to the power `y` in single precision, by way of double.
#[inline(always)]
pub(super) fn pow<const FMA: bool>(x: f32, y: f32) -> f32 {
    let (a, e) = (f64::from(x.abs()), f64::from(y));
    let r = double::exp::<FMA>(e * double::log::<FMA>(a)) as f32;
    let integer = y.trunc() == y;
    let half = 0.5 * y;
    let odd = integer && half.trunc() != half;
    let r = if odd && x.is_sign_negative() { -r } else { r };
    let r = if x < 0.0 && x.is_finite() && !integer { f32::NAN } else { r };
    if y == 0.0 || x == 1.0 || (x == -1.0 && y.is_infinite()) { 1.0 } else { r }
}

struct Powers<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    y: &'a [f32],
}

impl VectorLoop for Powers<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((out, &x), &y) in self.out.iter_mut().zip(self.x).zip(self.y) {
            *out = pow::<FMA>(x, y);
        }
    }
}

/// Writes powers.
///
/// # Safety
///
/// As for [`Run`].
pub(super) unsafe fn powers(out: *mut u8, operands: [*const u8; 2], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x, y]) = unsafe { slices::<f32, f32, 2>(out, operands, n) };
    dispatch(Powers { out, x, y });
}
