//! The units of x86-64: two with an instruction for products of four bytes, for vectors of 64 and of 32 bytes, and one
//! with an instruction for products of two bytes.

use super::tile::{Unit, kernels, tiles};
use std::arch::x86_64::*;

/// Declares a unit with an instruction that multiplies four bytes and adds the products to 32 bits. The instruction
/// multiplies unsigned bytes of a column by signed bytes of the left operand.
macro_rules! vnni {
    ($name:ident, $lanes:literal, $int:ty, $float:ty, $load:ident, $and:ident, $shift:ident, $byte:ident, $add:ident, $ints:ident,
     $converted:ident, $floats:ident, $singles:ident, $halves:ident, $read_half:ident, $widened:ident, $read_bytes:ident, $mul:ident,
     $mul_add:ident, $store:ident) => {
        struct $name;

        impl Unit for $name {
            const LANES: usize = $lanes;
            const SIGNED: bool = false;
            type Bytes = $int;
            type Numbers = $int;
            type Left = *const u8;
            type Open = $int;
            type Ints = $int;
            type Floats = $float;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> $int {
                // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
                unsafe { $load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn prefetch(from: *const u8) {
                // SAFETY: a prefetch never faults, so that any address is valid.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
            }
            #[inline(always)]
            unsafe fn part<const BITS: usize>(bytes: $int, above: usize) -> $int {
                // SAFETY: the trait's callers guarantee that the instruction set is available.
                unsafe { part!(BITS, bytes, above, $and, $shift, $byte) }
            }
            #[inline(always)]
            unsafe fn left(from: *const u8) -> *const u8 {
                from
            }
            #[inline(always)]
            unsafe fn open<const BITS: usize>(total: $int) -> $int {
                total
            }
            #[inline(always)]
            unsafe fn add<const BITS: usize, const AT: usize>(
                sums: $int,
                right: $int,
                left: *const u8,
            ) -> $int {
                // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
                unsafe { $add(sums, right, $ints(left.add(AT % 4 * 4).cast::<i32>().read_unaligned())) }
            }
            #[inline(always)]
            unsafe fn close<const BITS: usize>(sums: $int, _total: $int) -> $int {
                sums
            }

            floats!(
                $int,
                $float,
                $ints,
                $converted,
                $floats,
                $singles,
                $halves,
                $read_half,
                $widened,
                $read_bytes,
                $mul,
                $mul_add,
                $store
            );
        }
    };
}

/// Extracts numbers of 2, 4 or 8 bits from their bytes.
macro_rules! part {
    ($bits:ident, $bytes:ident, $above:ident, $and:ident, $shift:ident, $byte:ident) => {
        match ($bits, $above) {
            (8, _) => $bytes,
            (4, 0) => $and($bytes, $byte(15)),
            (4, _) => $and($shift::<4>($bytes), $byte(15)),
            (_, 0) => $and($bytes, $byte(3)),
            (_, 1) => $and($shift::<2>($bytes), $byte(3)),
            (_, 2) => $and($shift::<4>($bytes), $byte(3)),
            _ => $and($shift::<6>($bytes), $byte(3)),
        }
    };
}

/// Declares the functions of a unit for 32-bit elements.
macro_rules! floats {
    ($int:ty, $float:ty, $ints:ident, $converted:ident, $floats:ident, $singles:ident, $halves:ident, $read_half:ident, $widened:ident,
     $read_bytes:ident, $mul:ident, $mul_add:ident, $store:ident) => {
        #[inline(always)]
        unsafe fn ints(x: i32) -> $int {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { $ints(x) }
        }
        #[inline(always)]
        unsafe fn converted(x: $int) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { $converted(x) }
        }
        #[inline(always)]
        unsafe fn floats(x: f32) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { $floats(x) }
        }
        #[inline(always)]
        unsafe fn singles(from: *const u8) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe { $singles(from.cast()) }
        }
        #[inline(always)]
        unsafe fn halves(from: *const u8) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe { $halves($read_half(from.cast())) }
        }
        #[inline(always)]
        unsafe fn bytes(from: *const u8) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe { $converted($widened($read_bytes(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn mul(a: $float, b: $float) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { $mul(a, b) }
        }
        #[inline(always)]
        unsafe fn mul_add(a: $float, b: $float, c: $float) -> $float {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { $mul_add(a, b, c) }
        }
        #[inline(always)]
        unsafe fn store(x: $float, to: *mut f32) {
            // SAFETY: the trait's callers guarantee that the instruction set is available and there is room for the result.
            unsafe { $store(to, x) }
        }
    };
}

vnni!(
    Zmm,
    16,
    __m512i,
    __m512,
    _mm512_loadu_si512,
    _mm512_and_si512,
    _mm512_srli_epi16,
    _mm512_set1_epi8,
    _mm512_dpbusd_epi32,
    _mm512_set1_epi32,
    _mm512_cvtepi32_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_cvtph_ps,
    _mm256_loadu_si256,
    _mm512_cvtepu8_epi32,
    _mm_loadu_si128,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_storeu_ps
);
vnni!(
    Ymm,
    8,
    __m256i,
    __m256,
    _mm256_loadu_si256,
    _mm256_and_si256,
    _mm256_srli_epi16,
    _mm256_set1_epi8,
    _mm256_dpbusd_avx_epi32,
    _mm256_set1_epi32,
    _mm256_cvtepi32_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_cvtph_ps,
    _mm_loadu_si128,
    _mm256_cvtepu8_epi32,
    _mm_loadl_epi64,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_storeu_ps
);

/// A unit without the dot-product instruction. The instruction for products of two bytes adds them in 16 bits, with
/// saturation.
///
/// Sums of products of numbers of up to 4 bits stay below the limit, so several products are added in 16 bits before
/// they are widened. 8-bit numbers are stored minus 128: two products of an absolute value and a signed byte from -127
/// to 127 are at most `2 * 128 * 127`.
struct Pairs;

impl Unit for Pairs {
    const LANES: usize = 8;
    const SIGNED: bool = true;
    type Bytes = __m256i;
    type Numbers = __m256i;
    type Left = *const u8;
    type Open = __m256i;
    type Ints = __m256i;
    type Floats = __m256;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: a prefetch never faults, so that any address is valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn part<const BITS: usize>(bytes: __m256i, above: usize) -> __m256i {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        unsafe { part!(BITS, bytes, above, _mm256_and_si256, _mm256_srli_epi16, _mm256_set1_epi8) }
    }
    #[inline(always)]
    unsafe fn left(from: *const u8) -> *const u8 {
        from
    }
    #[inline(always)]
    unsafe fn open<const BITS: usize>(total: __m256i) -> __m256i {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        if BITS == 8 { total } else { unsafe { _mm256_setzero_si256() } }
    }
    #[inline(always)]
    unsafe fn add<const BITS: usize, const AT: usize>(
        sums: __m256i,
        right: __m256i,
        left: *const u8,
    ) -> __m256i {
        // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
        unsafe {
            let left = _mm256_set1_epi32(left.add(AT % 4 * 4).cast::<i32>().read_unaligned());
            if BITS == 8 {
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(right), _mm256_sign_epi8(left, right));
                _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            } else {
                _mm256_add_epi16(sums, _mm256_maddubs_epi16(right, left))
            }
        }
    }
    #[inline(always)]
    unsafe fn close<const BITS: usize>(sums: __m256i, total: __m256i) -> __m256i {
        if BITS == 8 {
            return sums;
        }
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        unsafe { _mm256_add_epi32(total, _mm256_madd_epi16(sums, _mm256_set1_epi16(1))) }
    }

    floats!(
        __m256i,
        __m256,
        _mm256_set1_epi32,
        _mm256_cvtepi32_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_cvtph_ps,
        _mm_loadu_si128,
        _mm256_cvtepu8_epi32,
        _mm_loadl_epi64,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_storeu_ps
    );
}

kernels!(
    AVX512_VNNI, vnni_512, round_512, Zmm,
    ["avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi1,bmi2"], 8, [8 4 2 1]
);
kernels!(AVX_VNNI, vnni_256, round_256, Ymm, ["avx2,fma,f16c,bmi1,bmi2,avxvnni"], 4, [4 2 1]);
kernels!(AVX2, pairs, round_pairs, Pairs, ["avx2,fma,f16c,bmi1,bmi2"], 4, [4 2 1]);
