//! The functions with which the gates of recurrent cells end, for blocks of elements.

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

    /// Converts, rounding to nearest.
    fn of(x: f64) -> Self;
    fn abs(self) -> Self;
    fn sigmoid<const FMA: bool>(self) -> Self;
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
            fn sigmoid<const FMA: bool>(self) -> Self {
                $module::sigmoid::<FMA, false>(self)
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

/// The number of elements that are computed at once. They are copied to arrays, so that the compiler knows that no operand
/// overlaps another, and vectorises the loops over them.
pub(super) const BLOCK: usize = 32;

/// Replaces each element by the value of a function. NaN becomes what comparisons with it give in the operation's body.
#[inline(always)]
pub(super) fn apply<const FMA: bool, T: Real>(function: Activation, block: &mut [T; BLOCK]) {
    // A closure might be compiled on its own, without the instruction set.
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
        Activation::Sigmoid => each!(|x| x.sigmoid::<FMA>()),
        Activation::Softplus => each!(|x| x.softplus::<FMA>()),
        Activation::Softsign => each!(|x| x / (x.abs() + T::ONE)),
        Activation::Tanh => each!(|x| x.tanh::<FMA>()),
        Activation::ThresholdedRelu { alpha } => {
            let alpha = T::of(alpha);
            each!(|x| if x >= alpha { x } else { zero });
        }
    }
}
