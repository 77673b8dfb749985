//! Right operands that are packed once and used in many products.

use super::blocked::{Block, DEPTH, Large, Right, UNPACKED, Wide};
use super::end::Around;
use super::pack::{Slot, panel, scratch};
use super::tile::{Args, Compute, TileKernels};
use super::{DEEP_BLOCKED, Dims, Matrix, Number, Strided, panel_width};
use crate::error::Result;
use crate::kernels::half::narrow_all;
use crate::kernels::{Shared, walk};
use crate::level::level;
use crate::pool::{Block as Memory, Pool};
use bb::DataType;
use half::{bf16, f16};
use std::ops::Range;
use std::sync::Arc;

/// A right operand of floats, stored in panels of [`panel_width`] columns. Each panel has `k` contiguous rows, whose
/// elements have the type of the sums.
#[derive(Debug)]
pub(crate) struct Panels {
    memory: Memory,
    bytes: usize,
    dtype: DataType,
    k: usize,
    n: usize,
}

// SAFETY: nothing writes the panels after they are packed.
unsafe impl Send for Panels {}
// SAFETY: nothing writes the panels after they are packed.
unsafe impl Sync for Panels {}

impl Panels {
    /// Packs an operand of `k` rows and `n` columns. Returns `None` if packing does not make products faster: for types
    /// without panels, for small operands that tiles read in place, for too few columns to fill panels, and if `k` is
    /// so long that sums are split into halves.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory left.
    ///
    /// # Safety
    ///
    /// The operand has elements of type `dtype` at all indices of `[k, n]`.
    pub(crate) unsafe fn new(
        pool: &Arc<Pool>,
        dtype: DataType,
        [k, n]: [usize; 2],
        b: Matrix,
    ) -> Result<Option<Panels>> {
        // SAFETY: this function has the same contract.
        unsafe {
            match dtype {
                DataType::F32 => Panels::of::<f32>(pool, dtype, [k, n], b.cast()),
                DataType::F64 => Panels::of::<f64>(pool, dtype, [k, n], b.cast()),
                DataType::F16 => Panels::of::<f16>(pool, dtype, [k, n], b.cast()),
                DataType::BF16 => Panels::of::<bf16>(pool, dtype, [k, n], b.cast()),
                _ => Ok(None),
            }
        }
    }

    /// # Safety
    ///
    /// The operand has `k` rows and `n` columns.
    unsafe fn of<T: Number>(
        pool: &Arc<Pool>,
        dtype: DataType,
        [k, n]: [usize; 2],
        b: Strided<T>,
    ) -> Result<Option<Panels>>
    where
        T::Sum: Compute,
    {
        let width = panel_width::<T::Sum>();
        let panels = n.div_ceil(width);
        let is_small = size_of::<T>() == size_of::<T::Sum>() && b.col == 1 && k.saturating_mul(n) <= UNPACKED;
        if k == 0 || n == 0 || k > DEEP_BLOCKED || panels * width > 2 * n || is_small {
            return Ok(None);
        }
        let size = k * width;
        let bytes = panels.saturating_mul(size).saturating_mul(size_of::<T::Sum>());
        let memory = pool.take(bytes)?;
        let shared = Shared((b, memory.ptr().cast::<T::Sum>()));
        pool.run(|| {
            walk::split(panels, size, 1 << 18, |from, to| {
                let (b, memory) = shared.get();
                for j in from..to {
                    let first = j * width;
                    // SAFETY: the panel's columns are in the operand, and each panel has its own memory.
                    unsafe {
                        let b = Strided { ptr: b.ptr.offset(first.cast_signed() * b.col), ..b };
                        panel(k, width.min(n - first), width, b, memory.add(j * size));
                    }
                }
            });
        })?;
        Ok(Some(Panels { memory, bytes, dtype, k, n }))
    }

    /// Returns the element type of the operand that was packed.
    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the number of rows and the number of columns.
    pub(crate) fn extents(&self) -> [usize; 2] {
        [self.k, self.n]
    }

    /// Unpacks an operand of `f32` to `to`, one column after another.
    pub(crate) fn columns(&self, to: &mut [f32]) {
        debug_assert_eq!(self.dtype, DataType::F32);
        let width = panel_width::<f32>();
        for (j, column) in to.chunks_exact_mut(self.k).take(self.n).enumerate() {
            for (i, slot) in column.iter_mut().enumerate() {
                let at = j / width * self.k * width + i * width + j % width;
                // SAFETY: the panels have `k` rows for each of these columns.
                *slot = unsafe { *self.memory.ptr().cast::<f32>().add(at) };
            }
        }
    }

    /// Returns the size of the panels in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes `batch` row-major products of `m` rows to `out`. `offsets(i)` returns the offset of left operand `i` from
    /// `a`, in elements.
    ///
    /// # Safety
    ///
    /// The left operands have elements of the panels' type, `m` rows and `k` columns; `out` has room for the products.
    pub(crate) unsafe fn products(
        &self,
        batch: usize,
        m: usize,
        a: Matrix,
        out: *mut u8,
        offsets: &(dyn Fn(usize) -> isize + Sync),
    ) {
        // SAFETY: this function has the same contract; the panels have the type of the sums.
        unsafe {
            match self.dtype {
                DataType::F64 => self.batched::<f64>(batch, m, a.cast(), out.cast(), offsets),
                DataType::F16 => self.batched::<f16>(batch, m, a.cast(), out.cast(), offsets),
                DataType::BF16 => self.batched::<bf16>(batch, m, a.cast(), out.cast(), offsets),
                _ => self.batched::<f32>(batch, m, a.cast(), out.cast(), offsets),
            }
        }
    }

    /// Returns the number of columns of a panel.
    pub(crate) fn width(&self) -> usize {
        panel_width::<f32>()
    }

    /// Writes some columns of a product of `m` rows of `f32` to `out`, whose rows are contiguous. The columns start at
    /// a panel boundary.
    ///
    /// # Safety
    ///
    /// The left operand has `m` rows and `k` columns, and the panels are of `f32` and have these columns; `out` has
    /// room for them.
    pub(crate) unsafe fn part(&self, columns: Range<usize>, m: usize, a: Strided<f32>, out: *mut f32) {
        debug_assert!(self.dtype == DataType::F32 && columns.start.is_multiple_of(self.width()));
        let dims = Dims { m, k: self.k, n: columns.len() };
        // SAFETY: this function's contract. All panels before these columns have their full width.
        unsafe { multiply(dims, out, a, self.memory.ptr().cast::<f32>().add(columns.start * self.k)) }
    }

    /// # Safety
    ///
    /// Same as for [`products`](Self::products), with elements of type `T`.
    unsafe fn batched<T: Number>(
        &self,
        batch: usize,
        m: usize,
        a: Strided<T>,
        out: *mut T,
        offsets: &(dyn Fn(usize) -> isize + Sync),
    ) where
        T::Sum: Compute,
    {
        let (shared, panels) = (Shared((a, out)), Shared(self.memory.ptr().cast::<T::Sum>().cast_const()));
        let dims = Dims { m, k: self.k, n: self.n };
        walk::split(batch, m.saturating_mul(self.k * self.n), 1 << 18, |from, to| {
            let (a, out) = shared.get();
            for i in from..to {
                // SAFETY: this function has the same contract. If `T` is as wide as the type of its sums, both are the
                // same type; otherwise the buffer has room for the sums, which the product initialises.
                unsafe {
                    let a = Strided { ptr: a.ptr.offset(offsets(i)), ..a };
                    let c = out.add(i * m * dims.n);
                    if size_of::<T>() == size_of::<T::Sum>() {
                        multiply(dims, c.cast(), a, panels.get());
                        continue;
                    }
                    scratch(Slot::Sums, |room| {
                        let sums = room.room::<T::Sum>(m * dims.n);
                        multiply(dims, sums, a, panels.get());
                        narrow_all::<T>(c, sums, m * dims.n);
                    });
                }
            }
        });
    }
}

/// The number of rows of a panel that stay in the first-level cache.
const CACHED: usize = 128;

/// Writes the product of `a` and the panels to `c`, whose rows are contiguous.
///
/// # Safety
///
/// The operands have the extents `dims`, and `c` has room for the product.
unsafe fn multiply<T: Number>(dims: Dims, c: *mut T::Sum, a: Strided<T>, panels: *const T::Sum)
where
    T::Sum: Compute,
{
    let kernels = T::Sum::kernels(level());
    // SAFETY: this function has the same contract.
    unsafe {
        if dims.m <= kernels.wide.len() {
            thin(kernels, dims, c, a, panels);
        } else {
            let (b, around) = (Wide::Panels(panels), Around::NONE);
            Large::<T> { kernels, dims, c, c_row: dims.n, a, b, around }.compute();
        }
    }
}

/// Computes a product with few rows. Memory bandwidth limits its speed, so the panels are read only once, one after
/// another. Threads divide the panels between them.
///
/// # Safety
///
/// Same as for [`multiply`].
unsafe fn thin<T: Number>(
    kernels: &'static TileKernels<T::Sum>,
    Dims { m, k, n }: Dims,
    c: *mut T::Sum,
    a: Strided<T>,
    panels: *const T::Sum,
) where
    T::Sum: Compute,
{
    let width = kernels.large * kernels.lanes;
    // If several tiles read a panel one after another, a pass is short enough for its part of the panel to stay in the
    // first-level cache.
    let tiles = if kernels.large == 4 { kernels.flat } else { kernels.wide };
    let passes = k.div_ceil(if m > tiles.len() { CACHED } else { DEPTH });
    let in_place = a.col == 1 && size_of::<T>() == size_of::<T::Sum>();
    let shared = Shared((c, a, panels));
    walk::split(n.div_ceil(width), k * width * m.div_ceil(2), 1 << 17, |from, to| {
        let (c, a, panels) = shared.get();
        let mut first = from;
        // A few rows have too few sums with one panel to hide the latency of additions, so a tile covers several
        // panels.
        if let Some(&(some, tile)) = kernels.across.get(m - 1).filter(|_| in_place) {
            while first + some <= to && (first + some) * width <= n {
                for pass in 0..passes {
                    let (top, end) = (k * pass / passes, k * (pass + 1) / passes);
                    // SAFETY: the pass and these panels are in the operands, and no other call writes their columns of
                    // the result. The left operand has the type of the sums.
                    unsafe {
                        tile(&Args {
                            k: end - top,
                            a: a.ptr.offset(top.cast_signed() * a.col).cast(),
                            a_row: a.row,
                            a_col: a.col,
                            b: panels.add((first * k + top) * width),
                            b_row: width.cast_signed(),
                            last: kernels.lanes,
                            filled: true,
                            c: c.add(first * width),
                            c_row: n,
                            accumulate: pass > 0,
                            around: Around::NONE,
                            panel: width * k,
                        });
                    }
                }
                first += some;
            }
        }
        for j in first..to {
            let columns = width.min(n - j * width);
            for pass in 0..passes {
                let (top, end) = (k * pass / passes, k * (pass + 1) / passes);
                let (accumulate, around) = (pass > 0, Around::NONE);
                let block = Block { kernels, rows: m, depth: end - top, columns, accumulate, around };
                // SAFETY: the pass is in the operands, and no other call writes the panel's columns of the result.
                unsafe {
                    let a = Strided { ptr: a.ptr.offset(top.cast_signed() * a.col), ..a };
                    let ptr = panels.add((j * k + top) * width);
                    let right =
                        Right { ptr, row: width.cast_signed(), width, panel: width * k, filled: true };
                    block.compute(a, right, c.add(j * width), n);
                }
            }
        }
    });
}
