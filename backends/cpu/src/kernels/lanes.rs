//! Vectors of `f32` with the functions that kernels compute in registers.

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) mod simd128;

/// A vector register of `f32`.
///
/// # Safety
///
/// Every function needs the vector's instruction set, and must be inlined into code that is compiled for it.
pub(crate) trait Lanes: Copy {
    /// The number of lanes.
    const LANES: usize;

    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Reads the first `n` lanes, `n <= LANES`; the other lanes are zero.
    unsafe fn load_some(from: *const f32, n: usize) -> Self;
    /// Writes the first `n` lanes, `n <= LANES`.
    unsafe fn store_some(self, to: *mut f32, n: usize);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// Returns the maximum, or NaN if either is NaN. If both are equal, returns `self`.
    unsafe fn max(self, other: Self) -> Self;
    /// Returns the minimum, or NaN if either is NaN. If both are equal, returns `self`.
    unsafe fn min(self, other: Self) -> Self;
    /// Returns the same as [`max`](Self::max), provided that no lane of `other` is NaN.
    unsafe fn max_number(self, other: Self) -> Self;
    /// Returns the same as [`min`](Self::min), provided that no lane of `other` is NaN.
    unsafe fn min_number(self, other: Self) -> Self;
    unsafe fn neg(self) -> Self;
    unsafe fn abs(self) -> Self;
    unsafe fn sqrt(self) -> Self;
    unsafe fn zero() -> Self;
    /// Returns a vector with `x` in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// Returns the elements of two vectors at even indices, and their elements at odd indices.
    unsafe fn unzip(self, other: Self) -> (Self, Self);
    /// Interleaves the elements of `self` and `other` into two vectors.
    unsafe fn zip(self, other: Self) -> (Self, Self);
    unsafe fn round_f16(self) -> Self;
    unsafe fn round_bf16(self) -> Self;
}

/// The vector type that every processor of the target supports, or that the WebAssembly module is built for.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) use portable::Portable as Baseline;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use simd128::F32x4 as Baseline;

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(crate) struct F32x16(__m512);

    #[derive(Clone, Copy)]
    pub(crate) struct F32x8(__m256);

    /// Defines the vector functions that are single instructions.
    macro_rules! instructions {
        ($($name:ident ( $($x:ident),* ) = $result:expr;)*) => {
            $(
                #[inline(always)]
                unsafe fn $name(self $(, $x: Self)*) -> Self {
                    // SAFETY: the caller guarantees that the instruction set is available.
                    Self(unsafe { $result(self.0 $(, $x.0)*) })
                }
            )*
        };
    }

    /// Returns the mask of the first `n` of 16 lanes.
    #[inline(always)]
    const fn first(n: usize) -> __mmask16 {
        ((1u32 << n) - 1) as __mmask16
    }

    /// Eight lanes of ones, then eight lanes of zeros. The mask of the first `n` lanes starts at index `8 - n`.
    static WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Writes the first `count` lanes. Masked stores are slow on some processors, so 4, 2 and 1 lanes are written by
    /// stores of these widths.
    ///
    /// # Safety
    ///
    /// The processor has AVX; `to` has room for the lanes, which are at most 8.
    #[inline(always)]
    pub(crate) unsafe fn store_first(mut to: *mut f32, count: usize, lanes: __m256) {
        // SAFETY: this function has the same contract.
        unsafe {
            if count == 8 {
                return _mm256_storeu_ps(to, lanes);
            }
            let mut rest = _mm256_castps256_ps128(lanes);
            if count & 4 != 0 {
                _mm_storeu_ps(to, rest);
                (to, rest) = (to.add(4), _mm256_extractf128_ps::<1>(lanes));
            }
            if count & 2 != 0 {
                _mm_store_sd(to.cast(), _mm_castps_pd(rest));
                (to, rest) = (to.add(2), _mm_movehl_ps(rest, rest));
            }
            if count & 1 != 0 {
                _mm_store_ss(to, rest);
            }
        }
    }

    /// Returns the mask of the first `n` of 8 lanes.
    ///
    /// # Safety
    ///
    /// `n <= 8`, and the processor has AVX.
    #[inline(always)]
    pub(crate) unsafe fn window(n: usize) -> __m256i {
        // SAFETY: eight entries follow index `8 - n`.
        unsafe { _mm256_loadu_si256(WINDOW.as_ptr().add(8 - n).cast()) }
    }

    impl Lanes for F32x16 {
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: this function has the same contract.
            Self(unsafe { _mm512_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: this function has the same contract.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn load_some(from: *const f32, n: usize) -> Self {
            // SAFETY: this function has the same contract; lanes that are masked out are not read.
            Self(unsafe { _mm512_maskz_loadu_ps(first(n), from) })
        }
        #[inline(always)]
        unsafe fn store_some(self, to: *mut f32, n: usize) {
            // SAFETY: this function has the same contract; lanes that are masked out are not written.
            unsafe { _mm512_mask_storeu_ps(to, first(n), self.0) }
        }
        // The instruction returns its second operand if either is NaN or if they are equal, so `self` is passed second.
        #[inline(always)]
        unsafe fn max_number(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_max_ps(other.0, self.0) })
        }
        #[inline(always)]
        unsafe fn min_number(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_min_ps(other.0, self.0) })
        }
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_setzero_ps() })
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn unzip(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
                let of = |places| Self(_mm512_permutex2var_ps(self.0, places, other.0));
                (of(even), of(odd))
            }
        }
        #[inline(always)]
        unsafe fn zip(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
                let of = |places| Self(_mm512_permutex2var_ps(self.0, places, other.0));
                (of(low), of(high))
            }
        }
        #[inline(always)]
        unsafe fn neg(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_xor_ps(self.0, _mm512_set1_ps(-0.0)) })
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_andnot_ps(_mm512_set1_ps(-0.0), self.0) })
        }
        // The instruction returns its second operand if either is NaN or if they are equal, so `self` is passed second.
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0);
                Self(_mm512_mask_mov_ps(_mm512_max_ps(other.0, self.0), is_nan, other.0))
            }
        }
        #[inline(always)]
        unsafe fn min(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0);
                Self(_mm512_mask_mov_ps(_mm512_min_ps(other.0, self.0), is_nan, other.0))
            }
        }
        #[inline(always)]
        unsafe fn round_f16(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm512_cvtph_ps(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) })
        }
        #[inline(always)]
        unsafe fn round_bf16(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let bits = _mm512_castps_si512(self.0);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
                let rounded = _mm512_add_epi32(bits, half);
                // NaN stays NaN, and becomes a quiet NaN.
                let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
                let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
                let bits = _mm512_mask_mov_epi32(rounded, is_nan, quiet);
                let upper = _mm512_and_si512(bits, _mm512_set1_epi32(0xffff_0000_u32.cast_signed()));
                Self(_mm512_castsi512_ps(upper))
            }
        }
        instructions! {
            add(other) = _mm512_add_ps;
            sub(other) = _mm512_sub_ps;
            mul(other) = _mm512_mul_ps;
            div(other) = _mm512_div_ps;
            sqrt() = _mm512_sqrt_ps;
        }
    }

    impl Lanes for F32x8 {
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: this function has the same contract.
            Self(unsafe { _mm256_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: this function has the same contract.
            unsafe { _mm256_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn load_some(from: *const f32, n: usize) -> Self {
            // SAFETY: this function has the same contract; lanes that are masked out are not read.
            Self(unsafe { _mm256_maskload_ps(from, window(n)) })
        }
        #[inline(always)]
        unsafe fn store_some(self, to: *mut f32, n: usize) {
            // SAFETY: this function has the same contract.
            unsafe { store_first(to, n, self.0) }
        }
        // The instruction returns its second operand if either is NaN or if they are equal, so `self` is passed second.
        #[inline(always)]
        unsafe fn max_number(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_max_ps(other.0, self.0) })
        }
        #[inline(always)]
        unsafe fn min_number(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_min_ps(other.0, self.0) })
        }
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_setzero_ps() })
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn unzip(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                // Shuffles the halves of the vectors separately, and then puts the quarters in order.
                let even = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(self.0, other.0));
                let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(self.0, other.0));
                let ordered = |x| Self(_mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(x)));
                (ordered(even), ordered(odd))
            }
        }
        #[inline(always)]
        unsafe fn zip(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let low = _mm256_unpacklo_ps(self.0, other.0);
                let high = _mm256_unpackhi_ps(self.0, other.0);
                (
                    Self(_mm256_permute2f128_ps::<0x20>(low, high)),
                    Self(_mm256_permute2f128_ps::<0x31>(low, high)),
                )
            }
        }
        #[inline(always)]
        unsafe fn neg(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)) })
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(other.0, other.0);
                Self(_mm256_blendv_ps(_mm256_max_ps(other.0, self.0), other.0, is_nan))
            }
        }
        #[inline(always)]
        unsafe fn min(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(other.0, other.0);
                Self(_mm256_blendv_ps(_mm256_min_ps(other.0, self.0), other.0, is_nan))
            }
        }
        #[inline(always)]
        unsafe fn round_f16(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            Self(unsafe { _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) })
        }
        #[inline(always)]
        unsafe fn round_bf16(self) -> Self {
            // SAFETY: the caller guarantees that the instruction set is available.
            unsafe {
                let bits = _mm256_castps_si256(self.0);
                let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
                let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
                let rounded = _mm256_castsi256_ps(_mm256_add_epi32(bits, half));
                // NaN stays NaN, and becomes a quiet NaN.
                let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
                let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
                let bits = _mm256_blendv_ps(rounded, _mm256_castsi256_ps(quiet), is_nan);
                let upper = _mm256_set1_epi32(0xffff_0000_u32.cast_signed());
                Self(_mm256_and_ps(bits, _mm256_castsi256_ps(upper)))
            }
        }
        instructions! {
            add(other) = _mm256_add_ps;
            sub(other) = _mm256_sub_ps;
            mul(other) = _mm256_mul_ps;
            div(other) = _mm256_div_ps;
            sqrt() = _mm256_sqrt_ps;
        }
    }
}
