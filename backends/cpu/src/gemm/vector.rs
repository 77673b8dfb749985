//! Vectors of the instruction sets, with the operations that matrix products need.

use crate::kernels::number::Number;

/// The maximum number of lanes of a vector.
const MOST: usize = 16;

/// A vector register.
///
/// # Safety
///
/// Every function needs the vector's instruction set, and must be inlined into code that is compiled for it.
pub(crate) trait Vector: Copy {
    /// The type of the lanes.
    type Item: Number;
    /// A mask that selects the lanes of a partial vector.
    type Mask: Copy;
    /// The number of lanes.
    const LANES: usize;
    /// Whether reading a partial vector costs more than reading a whole one, because it branches or its mask occupies a
    /// register that sums need. Loops then read whole vectors where possible, and unroll several steps.
    const BRANCHES: bool = false;
    /// Whether loops prefetch the rows of the left operand that the next tile reads.
    const FETCHES: bool = false;
    /// The number of elements of a left row that are loaded together and multiplied without being broadcast. It is 2 or
    /// 4, or 0 if the instruction set cannot multiply by one lane of a register.
    const AT_ONCE: usize = 0;
    /// Whether tiles can have an [`End`](super::end::End), which only products of `f32` use.
    const ENDS: bool = size_of::<Self::Item>() == size_of::<f32>();

    /// Returns zeros.
    unsafe fn zero() -> Self;
    /// Reads one element into every lane.
    unsafe fn splat(from: *const Self::Item) -> Self;
    /// Reads a whole vector.
    unsafe fn load(from: *const Self::Item) -> Self;
    /// Writes a whole vector.
    unsafe fn store(self, to: *mut Self::Item);
    /// Returns the mask of the first `n` lanes, `n <= LANES`.
    unsafe fn mask(n: usize) -> Self::Mask;
    /// Reads the lanes that the mask selects; the other lanes are zero.
    unsafe fn load_some(from: *const Self::Item, mask: Self::Mask) -> Self;
    /// Writes the lanes that the mask selects.
    unsafe fn store_some(self, to: *mut Self::Item, mask: Self::Mask);
    /// Returns `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// Returns `self + a * b`.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;

    /// Reads [`AT_ONCE`](Self::AT_ONCE) elements for [`mul_add_one`](Self::mul_add_one).
    #[inline(always)]
    unsafe fn some(from: *const Self::Item) -> Self {
        // SAFETY: this function has the same contract.
        unsafe { Self::splat(from) }
    }
    /// Returns `self + x * b`, where `x` is element `AT` of `some`.
    #[inline(always)]
    unsafe fn mul_add_one<const AT: usize>(self, some: Self, b: Self) -> Self {
        // SAFETY: this function has the same contract; vectors without such products have one element.
        unsafe { self.mul_add(some, b) }
    }

    /// Adds the products of the first elements of contiguous left rows and whole vectors of the right operand to the
    /// sums, in an assembly loop that is faster than compiled code. Returns the number of elements used from each row,
    /// which is 0 if there is no loop for this tile. Distances are in elements.
    #[inline(always)]
    unsafe fn first_products<const ROWS: usize, const VECTORS: usize>(
        _k: usize,
        _a: (*const Self::Item, isize),
        _b: (*const Self::Item, isize),
        _sums: &mut [[Self; VECTORS]; ROWS],
    ) -> usize {
        0
    }

    /// Returns `self * other`, rounded.
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        let [mut lanes, mut others] = [[Self::Item::default(); MOST]; 2];
        // SAFETY: the arrays have room for a vector.
        unsafe {
            self.store(lanes.as_mut_ptr());
            other.store(others.as_mut_ptr());
        }
        for (lane, other) in lanes.iter_mut().zip(others).take(Self::LANES) {
            *lane = lane.mul(other);
        }
        // SAFETY: the array has a vector.
        unsafe { Self::load(lanes.as_ptr()) }
    }
    /// Clamps the lanes to the bounds; NaN stays NaN. No lane of the bounds is NaN.
    #[inline(always)]
    unsafe fn within(self, [low, high]: [Self; 2]) -> Self {
        let [mut lanes, mut lows, mut highs] = [[Self::Item::default(); MOST]; 3];
        // SAFETY: the arrays have room for a vector.
        unsafe {
            self.store(lanes.as_mut_ptr());
            low.store(lows.as_mut_ptr());
            high.store(highs.as_mut_ptr());
        }
        for ((lane, low), high) in lanes.iter_mut().zip(lows).zip(highs).take(Self::LANES) {
            *lane = lane.max(low).min(high);
        }
        // SAFETY: the array has a vector.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    /// Returns the sum of the lanes. Repeatedly adds the upper half of the lanes to the lower half.
    #[inline(always)]
    unsafe fn total(self) -> Self::Item {
        let mut lanes = [Self::Item::default(); MOST];
        // SAFETY: the array has room for a vector.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut width = Self::LANES;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                let (low, high) = lanes.split_at_mut(width);
                if let (Some(x), Some(&y)) = (low.get_mut(i), high.get(i)) {
                    *x = x.add(y);
                }
            }
        }
        let [sum, ..] = lanes;
        sum
    }
}

/// An array of lanes, which the compiler maps to vectors of the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable<T>(pub(super) [T; 8]);

impl<T: Number> Vector for Portable<T> {
    type Item = T;
    type Mask = usize;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([T::default(); 8])
    }
    #[inline(always)]
    unsafe fn splat(from: *const T) -> Self {
        // SAFETY: this function has the same contract.
        Self([unsafe { *from }; 8])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: this function has the same contract.
        Self(unsafe { from.cast::<[T; 8]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: this function has the same contract.
        unsafe { to.cast::<[T; 8]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn mask(n: usize) -> usize {
        n
    }
    #[inline(always)]
    unsafe fn load_some(from: *const T, mask: usize) -> Self {
        if mask == Self::LANES {
            // SAFETY: this function has the same contract.
            return unsafe { Self::load(from) };
        }
        let mut lanes = [T::default(); 8];
        for (i, lane) in lanes.iter_mut().enumerate().take(mask) {
            // SAFETY: this function has the same contract.
            *lane = unsafe { *from.add(i) };
        }
        Self(lanes)
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut T, mask: usize) {
        if mask == Self::LANES {
            // SAFETY: this function has the same contract.
            return unsafe { self.store(to) };
        }
        for (i, lane) in self.0.into_iter().enumerate().take(mask) {
            // SAFETY: this function has the same contract.
            unsafe { to.add(i).write(lane) };
        }
    }
    #[inline(always)]
    unsafe fn add(mut self, other: Self) -> Self {
        for (x, y) in self.0.iter_mut().zip(other.0) {
            *x = x.add(y);
        }
        self
    }
    #[inline(always)]
    unsafe fn mul_add(mut self, a: Self, b: Self) -> Self {
        for ((x, a), b) in self.0.iter_mut().zip(a.0).zip(b.0) {
            *x = x.add(a.mul(b));
        }
        self
    }
    #[inline(always)]
    unsafe fn mul(mut self, other: Self) -> Self {
        for (x, y) in self.0.iter_mut().zip(other.0) {
            *x = x.mul(y);
        }
        self
    }
    #[inline(always)]
    unsafe fn within(mut self, [low, high]: [Self; 2]) -> Self {
        for ((x, low), high) in self.0.iter_mut().zip(low.0).zip(high.0) {
            *x = x.max(low).min(high);
        }
        self
    }
}

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;

/// The vectors of the instructions that every processor of the target has.
#[cfg(target_arch = "aarch64")]
pub(crate) mod baseline {
    pub(crate) use super::neon::{F32, F64, I32};
}

/// The vectors of the instructions that the module is compiled for.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) mod baseline {
    pub(crate) use super::simd128::{F32, F64, I32};
}

/// The vectors of the instructions that every processor of the target has.
#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
pub(crate) mod baseline {
    use super::Portable;

    pub(crate) type F32 = Portable<f32>;
    pub(crate) type F64 = Portable<f64>;
    pub(crate) type I32 = Portable<i32>;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Vector;
    use crate::kernels::lanes::x86::{store_first, window};

    macro_rules! vector {
        ($name:ident, $register:ty, $item:ty, $lanes:literal, $mask:ty, [$cast:ty],
         $zero:ident, $splat:ident, $load:ident, $store:ident, |$n:ident| $make:expr,
         |$p:ident, $m:ident| $load_some:expr, |$q:ident, $k:ident, $v:ident| $store_some:expr,
         $add:ident, |$s:ident, $a:ident, $b:ident| $mul_add:expr $(, $total:ident)? $(; branches $branches:literal)? $(; fetches $fetches:literal)?
         $(; ends $mul:ident $max:ident $min:ident)?) => {
            #[derive(Debug, Clone, Copy)]
            pub(crate) struct $name(pub(in crate::gemm) $register);

            // SAFETY of every body: the callers of the trait's functions guarantee that the instruction set is
            // available and pointers to all elements that are read or written are valid.
            impl Vector for $name {
                type Item = $item;
                type Mask = $mask;
                const LANES: usize = $lanes;
                $(const BRANCHES: bool = $branches;)?
                $(const FETCHES: bool = $fetches;)?

                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $zero() })
                }
                #[inline(always)]
                unsafe fn splat(from: *const $item) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $splat(*from) })
                }
                #[inline(always)]
                unsafe fn load(from: *const $item) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $load(from.cast::<$cast>()) })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $item) {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    unsafe { $store(to.cast::<$cast>(), self.0) }
                }
                #[inline(always)]
                unsafe fn mask($n: usize) -> $mask {
                    #[allow(unused_unsafe, reason = "some masks are plain arithmetic")]
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    unsafe {
                        $make
                    }
                }
                #[inline(always)]
                unsafe fn load_some($p: *const $item, $m: $mask) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $load_some })
                }
                #[inline(always)]
                unsafe fn store_some(self, $q: *mut $item, $k: $mask) {
                    let $v = self.0;
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    unsafe { $store_some }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $add(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                    let ($s, $a, $b) = (self.0, a.0, b.0);
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $mul_add })
                }
                $(#[inline(always)]
                unsafe fn mul(self, other: Self) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $mul(self.0, other.0) })
                }
                // The instructions return their second operand if either is NaN or if they are equal, so NaN lanes stay
                // NaN.
                #[inline(always)]
                unsafe fn within(self, [low, high]: [Self; 2]) -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    Self(unsafe { $min(high.0, $max(low.0, self.0)) })
                })?
                $(#[inline(always)]
                unsafe fn total(self) -> $item {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the pointers are valid.
                    unsafe { $total(self.0) }
                })?
            }
        };
    }

    /// The lanes of a partial vector: their count and their mask.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Lanes {
        count: usize,
        mask: __m256i,
    }

    impl Lanes {
        /// Selects the first `count` lanes, each as wide as `width` floats.
        #[inline(always)]
        unsafe fn first(count: usize, width: usize) -> Lanes {
            let count = count * width;
            // SAFETY: this function has the same contract.
            Lanes { count, mask: unsafe { window(count) } }
        }
    }

    vector!(
        F32x16,
        __m512,
        f32,
        16,
        __mmask16,
        [f32],
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        |n| ((1u32 << n) - 1) as __mmask16,
        |p, m| _mm512_maskz_loadu_ps(m, p),
        |q, k, v| _mm512_mask_storeu_ps(q, k, v),
        _mm512_add_ps,
        |s, a, b| _mm512_fmadd_ps(a, b, s),
        _mm512_reduce_add_ps;
        fetches true;
        ends _mm512_mul_ps _mm512_max_ps _mm512_min_ps
    );
    vector!(
        F64x8,
        __m512d,
        f64,
        8,
        __mmask8,
        [f64],
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        |n| ((1u32 << n) - 1) as __mmask8,
        |p, m| _mm512_maskz_loadu_pd(m, p),
        |q, k, v| _mm512_mask_storeu_pd(q, k, v),
        _mm512_add_pd,
        |s, a, b| _mm512_fmadd_pd(a, b, s),
        _mm512_reduce_add_pd;
        fetches true
    );
    vector!(
        I32x16,
        __m512i,
        i32,
        16,
        __mmask16,
        [__m512i],
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        |n| ((1u32 << n) - 1) as __mmask16,
        |p, m| _mm512_maskz_loadu_epi32(m, p),
        |q, k, v| _mm512_mask_storeu_epi32(q, k, v),
        _mm512_add_epi32,
        |s, a, b| _mm512_add_epi32(s, _mm512_mullo_epi32(a, b)),
        _mm512_reduce_add_epi32
    );
    vector!(
        I64x8,
        __m512i,
        i64,
        8,
        __mmask8,
        [__m512i],
        _mm512_setzero_si512,
        _mm512_set1_epi64,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        |n| ((1u32 << n) - 1) as __mmask8,
        |p, m| _mm512_maskz_loadu_epi64(m, p),
        |q, k, v| _mm512_mask_storeu_epi64(q, k, v),
        _mm512_add_epi64,
        |s, a, b| _mm512_add_epi64(s, _mm512_mullo_epi64(a, b)),
        _mm512_reduce_add_epi64
    );
    vector!(
        F32x8,
        __m256,
        f32,
        8,
        Lanes,
        [f32],
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        |n| Lanes::first(n, 1),
        |p, m| _mm256_maskload_ps(p, m.mask),
        |q, k, v| store_first(q, k.count, v),
        _mm256_add_ps,
        |s, a, b| _mm256_fmadd_ps(a, b, s);
        branches true;
        ends _mm256_mul_ps _mm256_max_ps _mm256_min_ps
    );
    // Eight lanes with mask registers, which are much faster than AVX2's masks on some processors.
    vector!(
        F32x8Masked,
        __m256,
        f32,
        8,
        __mmask8,
        [f32],
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        |n| ((1u32 << n) - 1) as __mmask8,
        |p, m| _mm256_maskz_loadu_ps(m, p),
        |q, k, v| _mm256_mask_storeu_ps(q, k, v),
        _mm256_add_ps,
        |s, a, b| _mm256_fmadd_ps(a, b, s);
        ends _mm256_mul_ps _mm256_max_ps _mm256_min_ps
    );
    vector!(
        F64x4,
        __m256d,
        f64,
        4,
        Lanes,
        [f64],
        _mm256_setzero_pd,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        |n| Lanes::first(n, 2),
        |p, m| _mm256_maskload_pd(p, m.mask),
        |q, k, v| store_first(q.cast(), k.count, _mm256_castpd_ps(v)),
        _mm256_add_pd,
        |s, a, b| _mm256_fmadd_pd(a, b, s);
        branches true
    );
    vector!(
        I32x8,
        __m256i,
        i32,
        8,
        Lanes,
        [__m256i],
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        |n| Lanes::first(n, 1),
        |p, m| _mm256_maskload_epi32(p, m.mask),
        |q, k, v| store_first(q.cast(), k.count, _mm256_castsi256_ps(v)),
        _mm256_add_epi32,
        |s, a, b| _mm256_add_epi32(s, _mm256_mullo_epi32(a, b));
        branches true
    );
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;
