//! Reading memory with vectors of each width.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vectors are read through pointers"))]

/// The elements of a step.
const STEP: usize = 128;

/// Combines all elements; a step is of several independent sums.
pub(crate) fn portable(x: &[f32]) -> f32 {
    let mut sums = [0u32; STEP / 4];
    for step in x.chunks_exact(STEP / 4) {
        for (sum, x) in sums.iter_mut().zip(step) {
            *sum |= x.to_bits();
        }
    }
    f32::from_bits(sums.into_iter().fold(0, |all, sum| all | sum))
}

#[cfg(target_arch = "x86_64")]
macro_rules! reads {
    ($($name:ident, $feature:literal, $lanes:literal, $zero:ident, $load:ident, $or:ident;)*) => {$(
        /// Combines all elements; a step is of several independent vectors.
        #[target_feature(enable = $feature)]
        pub(crate) fn $name(x: &[f32]) -> f32 {
            use std::arch::x86_64::*;
            const VECTORS: usize = 8;
            let mut sums = [$zero(); VECTORS];
            for step in x.chunks_exact(VECTORS * $lanes) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the step has so many vectors.
                    *sum = unsafe { $or(*sum, $load(step.as_ptr().add(i * $lanes).cast())) };
                }
            }
            std::hint::black_box(sums);
            0.0
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
reads! {
    avx2, "avx2", 8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_or_si256;
    avx512, "avx512f", 16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_or_si512;
}
