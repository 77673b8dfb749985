//! Reductions of many elements to one.
//!
//! Many floats along one dimension are reduced with vectors: along rows, or across rows for several columns together.
//! All other cases are reduced by [`general`]. The order of additions of floats depends only on extents and strides,
//! never on the number of threads. The error of a sum grows with the logarithm of its length.

mod columns;
mod general;
mod rows;

use self::columns::{COLUMNS, by_columns};
use self::general::General;
pub(crate) use self::rows::sum_of_halves;
use self::rows::{by_rows, halves};
use super::element_loop::GRAIN;
use super::op::Reduction;
use super::{FEW, Shared, walk};
use crate::array::element_size;
use crate::layout::Dim;
use crate::threads;
use bb::DataType;
use half::{bf16, f16};

/// The dimensions of a reduction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extents<'a> {
    /// The dimensions of the result.
    pub(crate) kept: &'a [Dim<1>],
    /// The dimensions that are reduced.
    pub(crate) reduced: &'a [Dim<1>],
    /// The number of elements that are reduced to one.
    pub(crate) count: usize,
}

/// The kernel of a reduction for one element type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    op: Reduction,
    general: General,
    vector: Option<Vector>,
}

/// Vectorised loops over floats. Extents and strides are in elements.
#[derive(Debug, Clone, Copy)]
struct Vector {
    /// The size of an element in bytes.
    size: usize,
    /// Reduces rows, like [`by_rows`].
    rows: unsafe fn(Reduction, [usize; 2], *const u8, [isize; 2], *mut u8),
    /// Reduces columns, like [`by_columns`].
    columns: unsafe fn(Reduction, [usize; 2], *const u8, isize, *mut u8),
}

/// Returns the kernel of a reduction, or `None` if it does not support the element type.
pub(crate) fn kernel(op: Reduction, dtype: DataType) -> Option<Kernel> {
    let size = element_size(dtype);
    // SAFETY of both: `halves` has the contract of `by_rows`, and columns are rows with other strides.
    let vector = match dtype {
        DataType::F32 => Some(Vector { size, rows: by_rows::<f32>, columns: by_columns::<f32> }),
        DataType::F64 => Some(Vector { size, rows: by_rows::<f64>, columns: by_columns::<f64> }),
        DataType::F16 => Some(Vector {
            size,
            rows: halves::<f16>,
            columns: |op, [len, width], x, row, out| unsafe {
                halves::<f16>(op, [width, len], x, [1, row], out)
            },
        }),
        DataType::BF16 => Some(Vector {
            size,
            rows: halves::<bf16>,
            columns: |op, [len, width], x, row, out| unsafe {
                halves::<bf16>(op, [width, len], x, [1, row], out)
            },
        }),
        _ => None,
    };
    Some(Kernel { op, general: general::general(op, dtype)?, vector })
}

/// Returns the kernel of products, or `None` if it does not support the element type.
pub(crate) fn product(dtype: DataType) -> Option<Kernel> {
    // The kernel of products ignores `op`.
    Some(Kernel { op: Reduction::Sum, general: general::product(dtype)?, vector: None })
}

impl Kernel {
    /// Reduces `x`, and writes the results one after another.
    ///
    /// # Safety
    ///
    /// `x` has elements of the type that the kernel was selected for at every index of the extents, and `out` has room
    /// for one result for each index of the kept dimensions. They do not overlap.
    pub(crate) unsafe fn run(&self, extents: &Extents<'_>, x: *const u8, out: *mut u8) {
        if extents.count >= FEW
            && let Some(vector) = &self.vector
            && let [Dim { extent: len, strides: [middle] }] = *extents.reduced
            && let Some((dims, strides)) = around(extents.kept, len, middle)
        {
            // SAFETY: these are the extents and strides of `x`, and the caller guarantees the rest.
            return unsafe { vector.reduce(self.op, dims, x, strides, out) };
        }
        // SAFETY: this function has the same contract.
        unsafe { (self.general)(self.op, extents, x, out) }
    }
}

/// Returns the extents and strides of the outer, the reduced and the inner dimension, or `None` if there are more
/// dimensions.
fn around(kept: &[Dim<1>], len: usize, middle: isize) -> Option<([usize; 3], [isize; 3])> {
    match *kept {
        [] => Some(([1, len, 1], [0, middle, 0])),
        [Dim { extent, strides: [s] }] if s.unsigned_abs() < middle.unsigned_abs() => {
            Some(([1, len, extent], [0, middle, s]))
        }
        [Dim { extent, strides: [s] }] => Some(([extent, len, 1], [s, middle, 0])),
        [Dim { extent: outer, strides: [so] }, Dim { extent: inner, strides: [si] }] => {
            Some(([outer, len, inner], [so, middle, si]))
        }
        _ => None,
    }
}

impl Vector {
    /// Reduces the middle of three dimensions: `out[o, i] = op over l of x[o, l, i]`. `out` is contiguous.
    ///
    /// # Safety
    ///
    /// `x` covers the dimensions, and `out` has room for `outer * inner` results.
    unsafe fn reduce(
        &self,
        op: Reduction,
        [outer, len, inner]: [usize; 3],
        x: *const u8,
        [so, sl, si]: [isize; 3],
        out: *mut u8,
    ) {
        let shared = Shared((out, x));
        let size = self.size;
        let bytes = |elements: isize| elements * size.cast_signed();
        if inner > 1 && si == 1 && len > 0 {
            // Each thread gets at least one block. Blocks are wide enough for fast reads of memory.
            let width = inner.div_ceil(threads::count()).next_multiple_of(64).min(COLUMNS);
            let blocks = inner.div_ceil(width);
            return walk::split(outer * blocks, len.saturating_mul(width), GRAIN, |from, to| {
                let (out, x) = shared.get();
                for at in from..to {
                    let (o, first) = (at / blocks, at % blocks * width);
                    // SAFETY: the caller guarantees that the elements are valid; the columns are below `inner`.
                    unsafe {
                        let x = x.offset(bytes(o.cast_signed() * so)).add(first * size);
                        let out = out.add((o * inner + first) * size);
                        (self.columns)(op, [len, width.min(inner - first)], x, sl, out);
                    }
                }
            });
        }
        // Rows at a constant distance from each other are reduced together.
        let (rows, row) = if inner == 1 { (outer, so) } else { (inner, si) };
        walk::split(outer * inner, len.max(1), GRAIN, |from, to| {
            let (out, x) = shared.get();
            let mut at = from;
            while at < to {
                let (run, first) = (at / rows, at % rows);
                let count = (rows - first).min(to - at);
                // SAFETY: the caller guarantees that the elements are valid and there is enough room.
                unsafe {
                    let x = x.offset(bytes(run.cast_signed() * so + first.cast_signed() * row));
                    (self.rows)(op, [count, len], x, [row, sl], out.add(at * size));
                }
                at += count;
            }
        });
    }
}

#[cfg(test)]
mod tests;
