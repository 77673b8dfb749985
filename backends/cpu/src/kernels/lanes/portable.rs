//! Vectors as arrays, for targets whose vectors this crate does not use directly.

use super::Lanes;
use crate::kernels::number::Number;
use half::{bf16, f16};

/// An array of lanes, which the compiler maps to the vectors of the target.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 8]);

impl Portable {
    #[inline(always)]
    fn with(mut self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        for (x, y) in self.0.iter_mut().zip(other.0) {
            *x = f(*x, y);
        }
        self
    }
}

impl Lanes for Portable {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: this function has the same contract.
        Self(unsafe { from.cast::<[f32; 8]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: this function has the same contract.
        unsafe { to.cast::<[f32; 8]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn load_some(from: *const f32, n: usize) -> Self {
        let mut lanes = [0.0; 8];
        for (i, lane) in lanes.iter_mut().enumerate().take(n) {
            // SAFETY: this function has the same contract.
            *lane = unsafe { *from.add(i) };
        }
        Self(lanes)
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, n: usize) {
        for (i, lane) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: this function has the same contract.
            unsafe { to.add(i).write(lane) };
        }
    }
    #[inline(always)]
    unsafe fn max_number(self, other: Self) -> Self {
        self.with(other, Number::max)
    }
    #[inline(always)]
    unsafe fn min_number(self, other: Self) -> Self {
        self.with(other, Number::min)
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.with(other, Number::add)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.with(other, Number::sub)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.with(other, Number::mul)
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.with(other, Number::div)
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.with(other, Number::max)
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.with(other, Number::min)
    }
    #[inline(always)]
    unsafe fn neg(self) -> Self {
        self.with(self, |x, _| Number::neg(x))
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        self.with(self, |x, _| Number::abs(x))
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        self.with(self, |x, _| x.sqrt())
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0.0; 8])
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 8])
    }
    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> (Self, Self) {
        let [a, b, c, d, e, f, g, h] = self.0;
        let [i, j, k, l, m, n, o, p] = other.0;
        (Self([a, c, e, g, i, k, m, o]), Self([b, d, f, h, j, l, n, p]))
    }
    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        let [a, b, c, d, e, f, g, h] = self.0;
        let [i, j, k, l, m, n, o, p] = other.0;
        (Self([a, i, b, j, c, k, d, l]), Self([e, m, f, n, g, o, h, p]))
    }
    #[inline(always)]
    unsafe fn round_f16(self) -> Self {
        self.with(self, |x, _| f16::from_f32(x).to_f32())
    }
    #[inline(always)]
    unsafe fn round_bf16(self) -> Self {
        self.with(self, |x, _| bf16::from_f32(x).to_f32())
    }
}
