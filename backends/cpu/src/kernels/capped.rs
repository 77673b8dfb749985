//! Soft-capping of attention scores.

use super::dispatch::{VectorLoop, dispatch};
use super::math::single::tanh;

struct Capped<'a> {
    x: &'a mut [f32],
    cap: f32,
}

impl VectorLoop for Capped<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Capped { x, cap } = self;
        x.iter_mut().for_each(|x| *x = cap * tanh::<FMA>(*x / cap));
    }
}

/// Replaces each element by `cap * tanh(x / cap)`.
pub(crate) fn capped(x: &mut [f32], cap: f32) {
    dispatch(Capped { x, cap });
}
