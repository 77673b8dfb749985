//! Vectors of `f32` with the operations that sliding windows need in addition to the operations of matrix products.

use super::vector::{Portable, Vector};
use crate::kernels::number::Number;

/// A vector register of `f32`.
///
/// # Safety
///
/// As for [`Vector`].
pub(crate) trait Floats: Vector<Item = f32> {
    /// Returns the maximum of each lane, or NaN where either operand is NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// Returns `self / other`.
    unsafe fn div(self, other: Self) -> Self;
    /// Reads every second one of the `2 * LANES - 1` elements at `from`.
    unsafe fn alternate(from: *const f32) -> Self;
    /// Reads `2 * LANES` elements. Returns the elements at even places and those at odd places.
    #[inline(always)]
    unsafe fn halves(from: *const f32) -> [Self; 2] {
        // SAFETY: this function has the same contract.
        unsafe { [Self::alternate(from), Self::alternate(from.add(1))] }
    }
}

impl Floats for Portable<f32> {
    #[inline(always)]
    unsafe fn max(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(x, y)| *x = Number::max(*x, y));
        self
    }
    #[inline(always)]
    unsafe fn div(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(x, y)| *x /= y);
        self
    }
    #[inline(always)]
    unsafe fn alternate(from: *const f32) -> Self {
        // SAFETY: this function has the same contract.
        Self(std::array::from_fn(|i| unsafe { *from.add(2 * i) }))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::vector::{F32x8, F32x8Masked, F32x16};
    use super::Floats;
    use std::arch::x86_64::*;

    macro_rules! floats {
        ($($name:ident: |$x:ident, $y:ident| $max:expr, $div:ident, |$p:ident| $alternate:expr, $halves:expr;)*) => {$(
            impl Floats for $name {
                #[inline(always)]
                unsafe fn max(self, other: Self) -> Self {
                    let ($x, $y) = (self.0, other.0);
                    // SAFETY: the trait's callers guarantee that the instruction set is available.
                    Self(unsafe { $max })
                }
                #[inline(always)]
                unsafe fn div(self, other: Self) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available.
                    Self(unsafe { $div(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn alternate($p: *const f32) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the elements are valid.
                    Self(unsafe { $alternate })
                }
                #[inline(always)]
                unsafe fn halves($p: *const f32) -> [Self; 2] {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the elements are valid.
                    unsafe { $halves }.map(Self)
                }
            }
        )*};
    }

    /// # Safety
    ///
    /// The processor has AVX2, and `p` points to 15 elements.
    #[inline(always)]
    unsafe fn eight(p: *const f32) -> __m256 {
        // SAFETY: this function has the same contract: the vectors end at element 14. Each half is shuffled first, then
        // the quarters are put in order.
        unsafe {
            let pairs = _mm256_shuffle_ps::<0b11_01_10_00>(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(7)));
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(pairs)))
        }
    }

    /// # Safety
    ///
    /// The processor has AVX2, and `p` points to 16 elements.
    #[inline(always)]
    unsafe fn eights(p: *const f32) -> [__m256; 2] {
        // SAFETY: this function has the same contract. The halves are shuffled as in `eight`.
        unsafe {
            let (low, high) = (_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8)));
            [_mm256_shuffle_ps::<0b10_00_10_00>(low, high), _mm256_shuffle_ps::<0b11_01_11_01>(low, high)]
                .map(|pairs| {
                    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(pairs)))
                })
        }
    }

    // The instruction for maxima returns its second operand if either is NaN. Its mask leaves the lanes of `x` that are NaN.
    floats! {
        F32x16:
            |x, y| _mm512_mask_max_ps(x, _mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x), x, y),
            _mm512_div_ps,
            |p| _mm512_permutex2var_ps(
                _mm512_loadu_ps(p),
                _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31),
                _mm512_loadu_ps(p.add(15)),
            ),
            {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
                let (low, high) = (_mm512_loadu_ps(p), _mm512_loadu_ps(p.add(16)));
                [even, odd].map(|places| _mm512_permutex2var_ps(low, places, high))
            };
        F32x8:
            |x, y| _mm256_blendv_ps(_mm256_max_ps(x, y), x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)),
            _mm256_div_ps,
            |p| eight(p),
            eights(p);
        F32x8Masked:
            |x, y| _mm256_mask_max_ps(x, _mm256_cmp_ps_mask::<_CMP_ORD_Q>(x, x), x, y),
            _mm256_div_ps,
            |p| eight(p),
            eights(p);
    }
}
