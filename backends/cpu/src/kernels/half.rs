//! Conversions between 16-bit floats and `f32`, the type that kernels compute in.

use super::element_loop::{Run, map, slices};
use super::number::Number;
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use bb::DataType;
use half::{bf16, f16};
use std::any::TypeId;

/// The conversions of one type of 16-bit floats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half {
    /// Converts elements to `f32`.
    pub(crate) widen: Run<1>,
    /// Rounds `f32` to elements.
    pub(crate) narrow: Run<1>,
}

impl Half {
    /// Returns the conversions of a type, if it is a 16-bit float type.
    pub(crate) fn of(dtype: DataType) -> Option<&'static Half> {
        match dtype {
            DataType::F16 => Some(&Half { widen: widen_f16, narrow: narrow_f16 }),
            DataType::BF16 => Some(&Half { widen: widen::<bf16>, narrow: narrow::<bf16> }),
            _ => None,
        }
    }
}

/// Converts `n` elements to the type of sums.
///
/// # Safety
///
/// Both have `n` elements, and those at `out` are not shared.
pub(crate) unsafe fn widen_all<T: Number>(out: *mut T::Sum, x: *const T, n: usize) {
    let run = if TypeId::of::<T>() == TypeId::of::<f16>() { widen_f16 } else { widen::<T> };
    // SAFETY: this function has the same contract.
    unsafe { run(out.cast(), [x.cast()], n) }
}

/// Rounds `n` sums to elements.
///
/// # Safety
///
/// As for [`widen_all`].
pub(crate) unsafe fn narrow_all<T: Number>(out: *mut T, x: *const T::Sum, n: usize) {
    let run = if TypeId::of::<T>() == TypeId::of::<f16>() { narrow_f16 } else { narrow::<T> };
    // SAFETY: this function has the same contract.
    unsafe { run(out.cast(), [x.cast()], n) }
}

/// # Safety
///
/// As for [`Run`], of operands `T` and their type of sums.
unsafe fn widen<T: Number>(out: *mut u8, x: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices(out, x, n) };
    map(out, x, T::widen);
}

/// # Safety
///
/// As for [`Run`], of sums and results `T`.
unsafe fn narrow<T: Number>(out: *mut u8, x: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices(out, x, n) };
    map(out, x, T::narrow);
}

/// # Safety
///
/// As for [`Run`], with elements `f16` at `x` and `f32` at `out`.
unsafe fn widen_f16(out: *mut u8, [x]: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract; `level` returns only a level of this processor.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::widen_512(out.cast(), x.cast(), n),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 if n >= 8 => x86::widen_256(out.cast(), x.cast(), n),
            _ => widen::<f16>(out, [x], n),
        }
    }
}

/// # Safety
///
/// As for [`Run`], with elements `f32` at `x` and `f16` at `out`.
unsafe fn narrow_f16(out: *mut u8, [x]: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract; `level` returns only a level of this processor.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::narrow_512(out.cast(), x.cast(), n),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 if n >= 8 => x86::narrow_256(out.cast(), x.cast(), n),
            _ => narrow::<f16>(out, [x], n),
        }
    }
}

/// Vectorised conversions of `f16`. The compiler does not vectorise the scalar conversions.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    ///
    /// Both have room for `n` elements.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn widen_512(out: *mut f32, x: *const u16, n: usize) {
        // SAFETY: this function has the same contract; the last vector is masked.
        unsafe {
            for i in (0..n).step_by(16) {
                let mask = mask(n - i);
                let halves = _mm256_maskz_loadu_epi16(mask, x.add(i).cast());
                _mm512_mask_storeu_ps(out.add(i), mask, _mm512_cvtph_ps(halves));
            }
        }
    }

    /// # Safety
    ///
    /// Both have room for `n` elements.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn narrow_512(out: *mut u16, x: *const f32, n: usize) {
        // SAFETY: this function has the same contract; the last vector is masked.
        unsafe {
            for i in (0..n).step_by(16) {
                let mask = mask(n - i);
                let floats = _mm512_maskz_loadu_ps(mask, x.add(i));
                let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats);
                _mm256_mask_storeu_epi16(out.add(i).cast(), mask, halves);
            }
        }
    }

    /// Returns the mask of the first `n` lanes, or of all 16 lanes if `n` is larger.
    fn mask(n: usize) -> __mmask16 {
        u16::MAX >> (16 - n.min(16))
    }

    /// # Safety
    ///
    /// Both have room for `n` elements, which are at least 8.
    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn widen_256(out: *mut f32, x: *const u16, n: usize) {
        for i in (0..n).step_by(8) {
            // SAFETY: this function has the same contract. The last two vectors may overlap.
            unsafe {
                let at = i.min(n - 8);
                _mm256_storeu_ps(out.add(at), _mm256_cvtph_ps(_mm_loadu_si128(x.add(at).cast())));
            }
        }
    }

    /// # Safety
    ///
    /// Both have room for `n` elements, which are at least 8.
    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn narrow_256(out: *mut u16, x: *const f32, n: usize) {
        for i in (0..n).step_by(8) {
            // SAFETY: this function has the same contract. The last two vectors may overlap.
            unsafe {
                let at = i.min(n - 8);
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(x.add(at)));
                _mm_storeu_si128(out.add(at).cast(), halves);
            }
        }
    }
}
