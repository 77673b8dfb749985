//! Max pooling and average pooling.
//!
//! Some rows of results are reduced in two passes. The first pass reduces the rows of the windows of each to a single row, with
//! padding at its ends. The second pass reduces the columns of each window. It takes every second element from vectors if the
//! stride is two columns. If the stride is larger, columns with the same remainder by the stride are first moved together, so
//! that it reads contiguous elements.

mod row;

use super::sliding::phases;
use super::small_planes::SmallPlanes;
use super::window::{Line, Plane};
use super::{computed, floats, rounded, single};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::Shared;
use crate::ops::{made, unsupported};
use bb::ir::memory;
use bb::{DataType, Tensor};
use row::{MOST_LANES, Planes};

/// The maximum number of elements of a window along a dimension. Longer windows are reduced by the operations' bodies, whose
/// order of additions keeps long sums accurate.
const LONGEST: usize = 512;

/// The maximum number of elements of a row with its padding.
const WIDEST: usize = 1 << 24;

/// The maximum number of rows of all windows along a plane.
const TALLEST: usize = 1 << 24;

/// The number of elements of the rows that the first pass leaves for the second one. They stay in the first-level cache, and
/// are enough that no row is read immediately after it was written, which processors delay.
const BAND: usize = 1024;

/// The number of elements after a row that a vector with too few results may read.
const BEYOND: usize = 2 * MOST_LANES;

/// The reduction of a window.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pooling {
    /// The maximum.
    Greatest,
    /// The mean.
    Mean {
        /// Whether the padding counts as zeros.
        padding: bool,
    },
}

impl Pooling {
    /// Returns the number of elements of window `o` that the mean counts.
    fn count(self, line: &Line, o: usize) -> usize {
        let padded = line.before + line.extent + line.after;
        let counts = |k: usize| match self {
            Pooling::Mean { padding: true } => o * line.stride + k * line.dilation < padded,
            _ => line.position(k, o).is_some(),
        };
        (0..line.kernel).filter(|&k| counts(k)).count()
    }
}

/// The layout of the row buffer, and the positions of the elements of windows in it.
#[derive(Debug)]
struct RowLayout {
    /// The number of rows in the buffer, and the number of elements of each.
    band: usize,
    row: usize,
    cols: Vec<usize>,
    /// The result of [`phases`]; empty if columns are not moved.
    phases: Vec<(usize, usize, usize)>,
    /// The number of columns that the mean counts, for each window of a row.
    counts: Vec<usize>,
    rows: Vec<PoolingRows>,
}

/// The rows of a window.
#[derive(Debug)]
struct PoolingRows {
    /// The first row that is in the plane, and the number of rows that are in the plane.
    first: usize,
    n: usize,
    /// The number of rows that the mean counts.
    count: usize,
}

impl RowLayout {
    /// Lays out the windows.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::Memory`] if the system has no memory.
    fn new(Plane { rows, cols, .. }: &Plane, pooling: Pooling) -> Result<RowLayout> {
        let moved = if cols.stride > 2 { cols.stride } else { 1 };
        let span = (cols.kernel - 1) * cols.dilation;
        let pitch = if moved == 1 {
            (cols.before + cols.extent).max(cols.out.saturating_sub(1) * cols.stride + span + 1) + BEYOND
        } else {
            let reach = cols.before + cols.extent.max(span + 1);
            reach.div_ceil(moved).max(cols.out) + span / moved
        };
        let column = |k: usize| {
            let at = k * cols.dilation;
            at % moved * pitch + at / moved
        };
        let row = |o: usize| {
            let inside = |k: &usize| rows.position(*k, o).is_some();
            let first = (0..rows.kernel).find(inside).unwrap_or(0);
            let n = (0..rows.kernel).filter(inside).count();
            let first = rows.position(first, o).unwrap_or(0);
            PoolingRows { first, n, count: pooling.count(rows, o) }
        };
        Ok(RowLayout {
            band: (BAND / (pitch * moved)).clamp(1, rows.out.max(1)),
            row: pitch * moved,
            cols: memory::collected("pool", (0..cols.kernel).map(column))?,
            counts: match pooling {
                Pooling::Greatest => Vec::new(),
                Pooling::Mean { .. } => {
                    memory::collected("pool", (0..cols.out).map(|o| pooling.count(cols, o)))?
                }
            },
            phases: if moved == 1 { Vec::new() } else { memory::collected("pool", phases(cols, pitch))? },
            rows: memory::collected("pool", (0..rows.out).map(row))?,
        })
    }
}

/// Returns whether these kernels can pool windows over an operand of this shape.
pub(super) fn serves(plane: &Plane, shape: &[usize]) -> bool {
    let (Plane { rows, cols, .. }, &[n, c, ..]) = (plane, shape) else { return false };
    let span = cols.kernel.saturating_mul(cols.dilation);
    let widest = cols.before.max(cols.extent).max(cols.out.saturating_mul(cols.stride)).max(span);
    let short = rows.kernel <= LONGEST && cols.kernel <= LONGEST;
    let tall = rows.out.saturating_mul(rows.kernel) > TALLEST;
    short && !tall && widest.saturating_mul(cols.stride) <= WIDEST && plane.is_countable(n, c)
}

/// Returns whether these kernels compute the maxima of windows over an operand. They support floats, and bytes, which are exact
/// as floats. But a window that contains only padding has the maximum minus infinity, which is not a byte.
pub(super) fn takes_greatest(plane: &Plane, x: &Array) -> bool {
    let meets = |line: &Line| (0..line.out).all(|o| (0..line.kernel).any(|k| line.position(k, o).is_some()));
    computed(x) || is_byte(x.dtype()) && meets(&plane.rows) && meets(&plane.cols)
}

fn is_byte(dtype: DataType) -> bool {
    matches!(dtype, DataType::U8 | DataType::I8)
}

/// Reduces each window to one element.
pub(super) fn pool(cpu: &Cpu, plane: &Plane, x: &Array, pooling: Pooling) -> Result<Array> {
    let pool = cpu.pool();
    let widened =
        if is_byte(x.dtype()) { Some(rounded(pool, x.clone(), DataType::F32)?) } else { single(pool, x)? };
    let (Some(from), &[n, c, ..]) = (widened, x.shape()) else {
        return Err(unsupported("pooling", x.dtype()));
    };
    let Plane { rows, cols, .. } = plane;
    let (size, results) = plane.sizes();
    let mut done = Ok(());
    if let Some(planes) = SmallPlanes::new(plane, c, |line, o| pooling.count(line, o)) {
        let out = made(pool, DataType::F32, plane.shape(n, c), |out| {
            // SAFETY: the operand has these planes, and `out` has room for their results.
            done = unsafe {
                match pooling {
                    Pooling::Greatest => planes.pool::<false>(pool, [n, c], floats(&from), out.cast()),
                    Pooling::Mean { .. } => planes.pool::<true>(pool, [n, c], floats(&from), out.cast()),
                }
            };
        })?;
        done?;
        return rounded(pool, out, x.dtype());
    }
    let layout = RowLayout::new(plane, pooling)?;
    let length = layout.band * layout.row + cols.extent + cols.out;
    let work = results * (rows.kernel + cols.kernel);
    let out = made(pool, DataType::F32, plane.shape(n, c), |out| {
        let shared = Shared((floats(&from), out.cast::<f32>()));
        let layout = &layout;
        done = super::conv::with_buffers(pool, length, n * c, work, |buffer, start, end| {
            let (x, out) = shared.get();
            // SAFETY: these planes are in the operand, `out` has room for their results, and the buffer has this length.
            unsafe {
                let (x, out, count) = (x.add(start * size), out.add(start * results), end - start);
                match pooling {
                    Pooling::Greatest => Planes::<false> { plane, layout, buffer, x, out, count }.run(),
                    Pooling::Mean { .. } => Planes::<true> { plane, layout, buffer, x, out, count }.run(),
                }
            }
        });
    })?;
    done?;
    rounded(pool, out, x.dtype())
}
