//! The activation functions of the gates of recurrent cells, for blocks of elements.

use crate::kernels::math::{double, single};
use bb::DataType;
use bb::ext::Activation;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A number that recurrent cells compute with.
pub(crate) trait Real:
    Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The element type of arrays of these numbers.
    const DTYPE: DataType;
    /// The number 1.
    const ONE: Self;

    /// Converts from `f64`, rounding to nearest.
    fn of(x: f64) -> Self;
    fn abs(self) -> Self;
    /// Returns whether all arguments are near, so that a faster exponential applies.
    fn near(block: &[Self; BLOCK]) -> bool;
    /// Returns the logistic function. If `NEAR`, the argument must be near; the value is the same in both cases.
    fn sigmoid<const FMA: bool, const NEAR: bool>(self) -> Self;
    fn tanh<const FMA: bool>(self) -> Self;
    /// Returns `exp(x) - 1`.
    fn expm1<const FMA: bool>(self) -> Self;
    /// Returns `log(1 + exp(x))`.
    fn softplus<const FMA: bool>(self) -> Self;
}

macro_rules! reals {
    ($($t:ident, $module:ident, $dtype:ident;)*) => {$(
        impl Real for $t {
            const DTYPE: DataType = DataType::$dtype;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn near(block: &[$t; BLOCK]) -> bool {
                // As integers, the bits of absolute values are ordered like the values, and NaN is the largest. The
                // compiler vectorises a maximum of integers, but not a conjunction of comparisons.
                let bits = |x: &$t| x.abs().to_bits();
                block.iter().fold(0, |most, x| bits(x).max(most)) <= $module::NORMAL.to_bits()
            }

            #[inline(always)]
            fn sigmoid<const FMA: bool, const NEAR: bool>(self) -> Self {
                $module::sigmoid::<FMA, NEAR>(self)
            }

            #[inline(always)]
            fn tanh<const FMA: bool>(self) -> Self {
                $module::tanh::<FMA>(self)
            }

            #[inline(always)]
            fn expm1<const FMA: bool>(self) -> Self {
                $module::expm1::<FMA>(self)
            }

            #[inline(always)]
            fn softplus<const FMA: bool>(self) -> Self {
                $module::softplus::<FMA, false>(self)
            }
        }
    )*};
}

reals! {
    f32, single, F32;
    f64, double, F64;
}

/// The number of elements of a block. Blocks are copied to arrays, so that the compiler knows that operands do not
/// overlap, and vectorises the loops over them.
pub(super) const BLOCK: usize = 32;

/// Replaces each element by the value of a function. NaN gives the same results as the comparisons in the operation's
/// body.
#[inline(always)]
pub(super) fn apply<const FMA: bool, T: Real>(function: Activation, block: &mut [T; BLOCK]) {
    // This is a macro because a closure might be compiled as a function without the instruction set.
    macro_rules! each {
        (|$x:ident| $value:expr) => {
            for slot in block.iter_mut() {
                let $x = *slot;
                *slot = $value;
            }
        };
    }
    let zero = T::default();
    match function {
        Activation::Affine { alpha, beta } => {
            let [alpha, beta] = [alpha, beta].map(T::of);
            each!(|x| x * alpha + beta);
        }
        Activation::Elu { alpha } => {
            let alpha = T::of(alpha);
            each!(|x| if x < zero { x.expm1::<FMA>() * alpha } else { x });
        }
        Activation::HardSigmoid { alpha, beta } => {
            let [alpha, beta] = [alpha, beta].map(T::of);
            each!(|x| {
                let line = x * alpha + beta;
                let line = if line < zero { zero } else { line };
                if line > T::ONE { T::ONE } else { line }
            });
        }
        Activation::LeakyRelu { alpha } => {
            let alpha = T::of(alpha);
            each!(|x| if x < zero { x * alpha } else { x });
        }
        Activation::Relu => each!(|x| if x < zero { zero } else { x }),
        Activation::ScaledTanh { alpha, beta } => {
            let [alpha, beta] = [alpha, beta].map(T::of);
            each!(|x| (x * beta).tanh::<FMA>() * alpha);
        }
        Activation::Sigmoid if T::near(block) => each!(|x| x.sigmoid::<FMA, true>()),
        Activation::Sigmoid => each!(|x| x.sigmoid::<FMA, false>()),
        Activation::Softplus => each!(|x| x.softplus::<FMA>()),
        Activation::Softsign => each!(|x| x / (x.abs() + T::ONE)),
        Activation::Tanh => each!(|x| x.tanh::<FMA>()),
        Activation::ThresholdedRelu { alpha } => {
            let alpha = T::of(alpha);
            each!(|x| if x >= alpha { x } else { zero });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::{VectorLoop, dispatch};
    use crate::level::{at, levels};

    struct Sigmoid<'a>(&'a mut [f32; BLOCK]);

    impl VectorLoop for Sigmoid<'_> {
        type Output = ();

        #[inline(always)]
        fn run<const FMA: bool>(self) {
            apply::<FMA, f32>(Activation::Sigmoid, self.0);
        }
    }

    /// A block with an argument that is not near is computed differently from other blocks.
    #[test]
    fn gates_of_blocks_with_any_argument_are_logistic() {
        for first in [0.0, 86.9, -87.5, 88.0, -100.0, -104.5, 1e9, -1e9, f32::INFINITY, f32::NEG_INFINITY] {
            let x: [f32; BLOCK] = std::array::from_fn(|i| if i == 0 { first } else { 0.7 * i as f32 - 11.0 });
            for level in levels() {
                let mut block = x;
                at(level, || dispatch(Sigmoid(&mut block)));
                for (got, x) in block.into_iter().zip(x) {
                    let want = 1.0 / (1.0 + (-f64::from(x)).exp());
                    let least = f64::from(f32::from_bits(1));
                    assert!(
                        (f64::from(got) - want).abs() <= 3e-7 * want + least,
                        "{level:?} {x}: {got} {want}"
                    );
                }
            }
        }
        let mut block = [f32::NAN; BLOCK];
        dispatch(Sigmoid(&mut block));
        assert!(block.iter().all(|x| x.is_nan()));
    }
}
