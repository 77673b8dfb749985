//! The inner kernel: a tile of the result that is kept in registers over the whole inner dimension.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};

use super::dot::{self, Dots};
use super::end::{self, Around, EndKernel};
use super::stream::{self, StreamKernel};
use super::vector::{Portable, Vector, baseline};
use crate::kernels::number::Number;
use crate::level::Level;

/// The operands of one tile. Strides are in elements.
#[derive(Debug)]
pub(crate) struct Args<T> {
    pub(crate) k: usize,
    pub(crate) a: *const T,
    pub(crate) a_row: isize,
    pub(crate) a_col: isize,
    pub(crate) b: *const T,
    pub(crate) b_row: isize,
    /// The number of columns of the last vector.
    pub(crate) last: usize,
    /// Whether the right operand has elements for the full width of the last vector. Elements after its columns do not
    /// affect the result.
    pub(crate) filled: bool,
    pub(crate) c: *mut T,
    pub(crate) c_row: usize,
    /// Whether to add to `c` instead of overwriting it.
    pub(crate) accumulate: bool,
    /// The steps around the product. A tile adds only the initial values of the sums; [`Args::whole`] applies the
    /// epilogue.
    pub(crate) around: Around<T>,
    /// The distance from one panel to the next, for tiles of several panels.
    pub(crate) panel: usize,
}

/// A function that computes a tile of a fixed number of rows and vectors.
pub(crate) type Tile<T> = unsafe fn(&Args<T>);

/// The kernels of one element type for one instruction set level.
#[derive(Debug)]
pub(crate) struct TileKernels<T: 'static> {
    /// The number of elements of a vector.
    pub(crate) lanes: usize,
    /// The width of the tiles of large products, in vectors: 4, or 2 if there are few registers.
    pub(crate) large: usize,
    /// Tiles one vector wide. Index `i` has the tile of `i + 1` rows.
    pub(crate) narrow: &'static [Tile<T>],
    /// Tiles two vectors wide.
    pub(crate) wide: &'static [Tile<T>],
    /// Tiles four vectors wide.
    pub(crate) flat: &'static [Tile<T>],
    /// Tiles eight vectors wide.
    pub(crate) broad: &'static [Tile<T>],
    /// Tiles that cover several whole panels, each with the number of panels. Index `i` has the tile of `i + 1` rows.
    /// With a single panel, few rows have too few sums: each addition would wait for the previous one.
    pub(crate) across: &'static [(usize, Tile<T>)],
    /// Dot products. Index `i` has the kernel for `i + 1` rows with [`columns`](dot::columns) columns.
    pub(crate) dots: &'static [Dots<T>],
    /// Sums of multiples of rows. Index `i` has the kernel for `i + 1` rows.
    pub(crate) streams: &'static [StreamKernel<T>],
    /// Whether reading a partial vector is so slow that copying the last columns saves time if several tiles read them.
    pub(crate) copies_edges: bool,
    /// The epilogue of a tile.
    pub(crate) end: EndKernel<T>,
}

/// # Safety
///
/// The operands cover the tile: `ROWS` rows of `VECTORS - 1` whole vectors and one vector of `last` columns. If
/// `filled`, the last vector is whole in the right operand. There is an initial value for the sums of each row.
#[inline(always)]
unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize>(args: &Args<V::Item>) {
    let &Args { a_col, last, filled, c, c_row, accumulate, .. } = args;
    let start = args.around.start();
    // SAFETY: the contract covers each access; pointers past the end are never read.
    unsafe {
        let mask = V::mask(last);
        #[cfg(target_arch = "x86_64")]
        if accumulate && args.k >= 128 {
            // Prefetches the cache lines of the result from a distant cache while the sums are computed.
            for i in 0..ROWS {
                for v in 0..VECTORS {
                    let line = c.wrapping_add(i * c_row + v * V::LANES);
                    _mm_prefetch::<_MM_HINT_T0>(line.cast());
                }
            }
        }
        let mut sums = [[V::zero(); VECTORS]; ROWS];
        if !start.is_null() {
            for (i, sums) in sums.iter_mut().enumerate() {
                *sums = [V::splat(start.add(i)); VECTORS];
            }
        }
        let whole = V::BRANCHES && (filled || last == V::LANES);
        // Several steps per iteration have constant offsets, so that their addresses need no arithmetic. But with numbers of 64
        // bits, or with fewer rows than vectors, the compiler keeps too many vectors at once, and writes sums to memory.
        let unrolls = V::AT_ONCE > 0 || size_of::<V::Item>() <= 4 && ROWS >= VECTORS;
        if V::BRANCHES && a_col == 1 && unrolls {
            if whole {
                products::<V, ROWS, VECTORS, true, 4>(args, &mut sums);
            } else {
                products::<V, ROWS, VECTORS, false, 4>(args, &mut sums);
            }
        } else if whole {
            products::<V, ROWS, VECTORS, true, 1>(args, &mut sums);
        } else {
            products::<V, ROWS, VECTORS, false, 1>(args, &mut sums);
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate() {
                let to = c.add(i * c_row + v * V::LANES);
                if v + 1 < VECTORS {
                    let sum = if accumulate { sum.add(V::load(to)) } else { sum };
                    sum.store(to);
                } else {
                    let sum = if accumulate { sum.add(V::load_some(to, mask)) } else { sum };
                    sum.store_some(to, mask);
                }
            }
        }
    }
}

/// Loads `AT_ONCE` elements of each row, and calls `$step` with them and the index of each element.
macro_rules! steps_of_some {
    ($vector:ident, $rows:ident, ($a:ident, $a_row:ident), $step:ident) => {
        let mut some = [$vector::zero(); $rows];
        for (i, some) in some.iter_mut().enumerate() {
            *some = $vector::some($a.offset(i.cast_signed() * $a_row));
        }
        $step!(some, 0);
        $step!(some, 1);
        if $vector::AT_ONCE == 4 {
            $step!(some, 2);
            $step!(some, 3);
        }
    };
}

/// Prefetches a part of the rows of the next tile, so that a left operand in a distant cache arrives in time:
/// processors do not detect a few rows that are read in parallel as streams. Called once for every element of a row.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch_below<T, const ROWS: usize>(a: *const T, a_row: isize, done: usize) {
    // While a line of each row is read, 16 rows of `f32` or 8 rows of `f64` are prefetched.
    let line = 64 / size_of::<T>();
    let row = done % line;
    let below = a.wrapping_offset((ROWS + row).cast_signed() * a_row).wrapping_add(done / line * line);
    // SAFETY: a prefetch never faults, so that any address is valid.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(below.cast()) }
}

/// Does nothing, because no other processor's vectors need it.
#[cfg(not(target_arch = "x86_64"))]
fn fetch_below<T, const ROWS: usize>(_: *const T, _: isize, _: usize) {}

/// Adds the products to the sums. If `WHOLE`, the last vector has all its columns. An iteration of the loop covers
/// `STEPS` elements of each row; if `STEPS` is above 1, the rows of the left operand are contiguous.
///
/// # Safety
///
/// As for [`tile`].
#[inline(always)]
unsafe fn products<
    V: Vector,
    const ROWS: usize,
    const VECTORS: usize,
    const WHOLE: bool,
    const STEPS: usize,
>(
    args: &Args<V::Item>,
    sums: &mut [[V; VECTORS]; ROWS],
) {
    let &Args { k, mut a, a_row, a_col, mut b, b_row, last, .. } = args;
    // SAFETY: the contract covers each access; pointers past the end are never read.
    unsafe {
        let mask = V::mask(last);
        // This is a macro because a closure might be compiled as a function without the instruction set.
        macro_rules! step {
            ($at:expr) => {
                // The operand with fewer vectors is kept in registers, so that enough registers are left for the sums.
                if ROWS < VECTORS {
                    let mut left = [V::zero(); ROWS];
                    for (i, left) in left.iter_mut().enumerate() {
                        *left = V::splat(a.offset(i.cast_signed() * a_row).add($at));
                    }
                    for v in 0..VECTORS {
                        let from = b.add(v * V::LANES);
                        let right =
                            if WHOLE || v + 1 < VECTORS { V::load(from) } else { V::load_some(from, mask) };
                        for (sums, &left) in sums.iter_mut().zip(&left) {
                            if let Some(sum) = sums.get_mut(v) {
                                *sum = sum.mul_add(left, right);
                            }
                        }
                    }
                } else {
                    let mut right = [V::zero(); VECTORS];
                    for (v, right) in right.iter_mut().enumerate() {
                        let from = b.add(v * V::LANES);
                        *right = if WHOLE || v + 1 < VECTORS { V::load(from) } else { V::load_some(from, mask) };
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let left = V::splat(a.offset(i.cast_signed() * a_row).add($at));
                        for (sum, right) in sums.iter_mut().zip(right) {
                            *sum = sum.mul_add(left, right);
                        }
                    }
                }
                b = b.wrapping_offset(b_row);
            };
        }
        let mut done = 0;
        if STEPS > 1 && WHOLE {
            done = V::first_products(k, (a, a_row), (b, b_row), sums);
            (a, b) = (a.wrapping_add(done), b.wrapping_offset(b_row * done.cast_signed()));
        }
        if STEPS > 1 && V::AT_ONCE > 0 {
            // Keeps only one row of the right operand in registers at a time, together with several elements of each
            // row of the left operand.
            macro_rules! step_of_some {
                ($some:ident, $at:literal) => {
                    for v in 0..VECTORS {
                        let from = b.add(v * V::LANES);
                        let right =
                            if WHOLE || v + 1 < VECTORS { V::load(from) } else { V::load_some(from, mask) };
                        for (sums, &some) in sums.iter_mut().zip(&$some) {
                            if let Some(sum) = sums.get_mut(v) {
                                *sum = sum.mul_add_one::<$at>(some, right);
                            }
                        }
                    }
                    b = b.wrapping_offset(b_row);
                };
            }
            while done + V::AT_ONCE <= k {
                steps_of_some!(V, ROWS, (a, a_row), step_of_some);
                a = a.wrapping_add(V::AT_ONCE);
                done += V::AT_ONCE;
            }
        } else if STEPS > 1 {
            while done + STEPS <= k {
                for at in 0..STEPS {
                    step!(at);
                }
                a = a.wrapping_add(STEPS);
                done += STEPS;
            }
        }
        // With 512-bit vectors, a loop of several steps would have all elements of the left operand in registers at once.
        // There are not enough registers for them in a tile of 24 vectors.
        for done in done..k {
            if V::FETCHES && ROWS * VECTORS >= 16 && a_col == 1 {
                fetch_below::<V::Item, ROWS>(a.wrapping_sub(done), a_row, done);
            }
            step!(0);
            a = a.wrapping_offset(a_col);
        }
    }
}

/// Computes a tile of several whole panels of `VECTORS` vectors each. The order of each sum is the same as in a tile of
/// one panel.
///
/// # Safety
///
/// The operands cover the tile: `ROWS` rows, and `PANELS` panels.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
#[inline(always)]
unsafe fn across<V: Vector, const ROWS: usize, const PANELS: usize, const VECTORS: usize>(
    args: &Args<V::Item>,
) {
    /// The number of elements per iteration if the rows of the left operand are contiguous.
    const STEPS: usize = 4;
    let &Args { k, mut a, a_row, a_col, mut b, b_row, panel, c, c_row, accumulate, .. } = args;
    // SAFETY: the contract covers each access; pointers past the end are never read.
    unsafe {
        let mut sums = [[[V::zero(); VECTORS]; PANELS]; ROWS];
        let mut done = 0;
        if V::AT_ONCE > 0 && a_col == 1 {
            macro_rules! step_of_some {
                ($some:ident, $at:literal) => {
                    for q in 0..PANELS {
                        for v in 0..VECTORS {
                            // The rows of a panel are contiguous, so the offsets between them are compile-time
                            // constants.
                            let right = V::load(b.add(q * panel + ($at * VECTORS + v) * V::LANES));
                            for (sums, &some) in sums.iter_mut().zip(&$some) {
                                if let Some(sum) = sums.get_mut(q).and_then(|sums| sums.get_mut(v)) {
                                    *sum = sum.mul_add_one::<$at>(some, right);
                                }
                            }
                        }
                    }
                };
            }
            while done + V::AT_ONCE <= k {
                steps_of_some!(V, ROWS, (a, a_row), step_of_some);
                a = a.wrapping_add(V::AT_ONCE);
                b = b.wrapping_add(V::AT_ONCE * VECTORS * V::LANES);
                done += V::AT_ONCE;
            }
        }
        // This is a macro because a closure might be compiled as a function without the instruction set.
        macro_rules! step {
            ($at:expr) => {
                let mut left = [V::zero(); ROWS];
                for (i, left) in left.iter_mut().enumerate() {
                    *left = V::splat(a.offset(i.cast_signed() * a_row).add($at));
                }
                for q in 0..PANELS {
                    for v in 0..VECTORS {
                        let right = V::load(b.add(q * panel + v * V::LANES));
                        for (sums, &left) in sums.iter_mut().zip(&left) {
                            if let Some(sum) = sums.get_mut(q).and_then(|sums| sums.get_mut(v)) {
                                *sum = sum.mul_add(left, right);
                            }
                        }
                    }
                }
                b = b.wrapping_offset(b_row);
            };
        }
        while a_col == 1 && done + STEPS <= k {
            for at in 0..STEPS {
                step!(at);
            }
            a = a.wrapping_add(STEPS);
            done += STEPS;
        }
        for _ in done..k {
            step!(0);
            a = a.wrapping_offset(a_col);
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().flatten().enumerate() {
                let to = c.add(i * c_row + v * V::LANES);
                let sum = if accumulate { sum.add(V::load(to)) } else { sum };
                sum.store(to);
            }
        }
    }
}

/// # Safety
///
/// As for [`across`], and the processor has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn across_avx2<V: Vector, const ROWS: usize, const PANELS: usize>(args: &Args<V::Item>) {
    // SAFETY: this function has the same contract.
    unsafe { across::<V, ROWS, PANELS, 2>(args) }
}

/// # Safety
///
/// As for [`across`].
#[cfg(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128")))]
unsafe fn across_base<V: Vector, const ROWS: usize, const PANELS: usize>(args: &Args<V::Item>) {
    // SAFETY: this function has the same contract.
    unsafe { across::<V, ROWS, PANELS, 2>(args) }
}

macro_rules! levels {
    ($($name:ident, $dots:ident, $stream:ident, $end:ident, $table:ident, $(#[$feature:meta])? $large:literal
       [$($narrow:literal)*], [$($wide:literal)*], [$($flat:literal)*], [$($broad:literal)*],
       [$($more:literal)*], streams [$($streams:literal)*] $(, $across:ident [$($few:literal by $panels:literal)*])?;)*) => {$(
        $(#[$feature])?
        unsafe fn $name<V: Vector, const ROWS: usize, const VECTORS: usize>(args: &Args<V::Item>) {
            // SAFETY: this function has the same contract.
            unsafe { tile::<V, ROWS, VECTORS>(args) }
        }

        $(#[$feature])?
        unsafe fn $dots<V: Vector, const ROWS: usize, const COLUMNS: usize, const RUN: usize>(
            args: &dot::DotArgs<V::Item>,
        ) {
            // SAFETY: this function has the same contract.
            unsafe { dot::dots::<V, ROWS, COLUMNS, RUN>(args) }
        }

        $(#[$feature])?
        unsafe fn $stream<V: Vector, const ROWS: usize>(args: &stream::StreamArgs<V::Item>) {
            // SAFETY: this function has the same contract.
            unsafe { stream::stream::<V, ROWS>(args) }
        }

        $(#[$feature])?
        unsafe fn $end<V: Vector>(args: &Args<V::Item>, rows: usize, columns: usize) {
            // SAFETY: this function has the same contract.
            unsafe { end::end::<V>(args, rows, columns) }
        }

        const fn $table<V: Vector>() -> TileKernels<V::Item> {
            TileKernels {
                lanes: V::LANES,
                large: $large,
                narrow: &[$($name::<V, $narrow, 1>,)*],
                wide: &[$($name::<V, $wide, 2>,)*],
                flat: &[$($name::<V, $flat, 4>,)*],
                broad: &[$($name::<V, $broad, 8>,)*],
                across: &[$($(($panels, $across::<V, $few, $panels>),)*)?],
                dots: &[
                    $dots::<V, 1, { dot::columns(1) }, 4>,
                    $dots::<V, 2, { dot::columns(2) }, 2>,
                    $($dots::<V, $more, { dot::columns($more) }, 1>,)*
                ],
                streams: &[$($stream::<V, $streams>,)*],
                copies_edges: V::AT_ONCE > 0,
                end: $end::<V>,
            }
        }
    )*};
}

levels! {
    tile_portable, dots_portable, stream_portable, end_portable, portable, 2 [1 2 3 4], [1 2 3 4], [1], [], [], streams [1 2];
}

// Tiles for the 32 registers of an ARM processor. A register is half a vector.
#[cfg(target_arch = "aarch64")]
levels! {
    tile_neon, dots_neon, stream_neon, end_neon, base,
        2 [1 2 3 4 5 6], [1 2 3 4 5 6], [1 2 3], [1], [], streams [1 2 3 4], across_base [1 by 4 2 by 2 3 by 2];
}

// A tile of large products is 5 rows of 2 registers. The sums, a product in flight and the operands use all 16
// registers.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
levels! {
    tile_simd128, dots_simd128, stream_simd128, end_simd128, base,
        2 [1 2 3 4 5], [1 2 3 4 5], [1 2], [1], [], streams [1 2], across_base [1 by 4 2 by 2];
}

#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
use portable as base;

#[cfg(target_arch = "x86_64")]
levels! {
    tile_avx2, dots_avx2, stream_avx2, end_avx2, avx2, #[target_feature(enable = "avx2,fma")]
        2 [1 2 3 4 5 6], [1 2 3 4 5 6], [1 2 3], [1], [], streams [1 2], across_avx2 [1 by 4 2 by 2 3 by 2];
    tile_avx512, dots_avx512, stream_avx512, end_avx512, avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        4 [1 2 3 4 5 6 7 8 9 10 11 12], [1 2 3 4 5 6 7 8 9 10 11 12], [1 2 3 4 5 6], [1 2 3], [3 4], streams [1 2];
    // Multiplying integers takes several times as long as loading them, so small tiles are enough to keep the processor
    // busy.
    tile_integers, dots_integers, stream_integers, end_integers, integers,
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        2 [1 2 3 4 5 6], [1 2 3 4 5 6], [1 2 3], [1], [], streams [1 2];
}

/// An element type with tile kernels.
pub(crate) trait Compute: Number<Sum = Self> {
    /// Returns the kernels of an instruction set level that this processor supports.
    fn kernels(level: Level) -> &'static TileKernels<Self>;
}

macro_rules! compute {
    ($($t:ty: $wide:ident $avx512:ident, $narrow:ident $avx2:ty, $base:ident $vector:ty;)*) => {$(
        impl Compute for $t {
            fn kernels(level: Level) -> &'static TileKernels<$t> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => const { &$wide::<super::vector::$avx512>() },
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => const { &$narrow::<$avx2>() },
                    _ => const { &$base::<$vector>() },
                }
            }
        }
    )*};
}

compute! {
    f32: avx512 F32x16, avx2 super::vector::F32x8, base baseline::F32;
    f64: avx512 F64x8, avx2 super::vector::F64x4, base baseline::F64;
    i32: integers I32x16, avx2 super::vector::I32x8, base baseline::I32;
    i64: integers I64x8, portable Portable<i64>, portable Portable<i64>;
}
