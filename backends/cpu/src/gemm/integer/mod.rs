//! Products of matrices of bytes, whose sums are `i32` and wrap.
//!
//! One instruction multiplies four bytes along the inner dimension, so the right operand is packed: for each four rows,
//! a panel has the four bytes of each of its columns. Without this instruction, a step multiplies two bytes, and a
//! panel has the first two bytes of each column before the other two; or it multiplies one byte, and a panel has one
//! row after another. Instructions that multiply matrices take eight bytes.
//! One operand has unsigned bytes and the other signed bytes, except for the dot products of ARM, where both have the
//! same sign. A byte of the other kind is flipped, which shifts its value and its zero point by 128. Zero points are
//! not subtracted before the product. Instead, the product is corrected by sums of rows and columns.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod in_place;
mod left;
mod pack;
pub(super) mod quads;
#[cfg(test)]
mod tests;

pub(crate) use left::{Bytes, Ints, Left};
pub(crate) use pack::{Packed, Right};
pub(crate) use quads::PANEL;
use quads::{MOST, QuadArgs, QuadKernels, kernels};

use super::Dims;
use super::pack::{Slot, scratch};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::{Shared, walk};
use crate::threads;

/// Returns the conversion of the right operand's bytes. `left_signed` is whether the left operand is read as signed
/// bytes; `signed` is whether the right operand has signed bytes.
pub(crate) fn right_bytes(left_signed: bool, signed: bool) -> Bytes {
    let wanted = left_signed == kernels().alike;
    Bytes { signed: wanted, flipped: signed != wanted }
}

/// A tile of sums.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    /// The first row and column.
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// The number of columns.
    pub(crate) cols: usize,
    /// The distance between rows, in sums.
    pub(crate) stride: usize,
    /// Rows of sums, one after another.
    pub(crate) all: &'a [i32],
}

impl Sums<'_> {
    /// Returns the rows, each with its index.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let rows = self.all.chunks(self.stride.max(1)).filter_map(|row| row.get(..self.cols));
        (self.row..).zip(rows)
    }

    /// Returns the length of a row of sums up to the end of its last vector, which may be more than the number of
    /// columns.
    pub(crate) fn width(&self) -> usize {
        self.cols.next_multiple_of(16).min(self.stride)
    }
}

/// The corrections of sums for zero points. A list is empty if all its elements are 0.
#[derive(Debug, Default)]
pub(crate) struct Zeros<'a> {
    /// One number for each row, which is added to all sums of the row.
    pub(crate) added: &'a [i32],
    /// The zero point of each row of the left operand.
    pub(crate) rows: &'a [i32],
    /// The zero point of each column of the right operand.
    pub(crate) cols: &'a [i32],
}

/// A loop that corrects a tile by the zero points.
struct Correct<'a> {
    all: &'a mut [i32],
    stride: usize,
    row: usize,
    zeros: &'a Zeros<'a>,
    /// The sums of the left operand's rows.
    sums: &'a [i32],
    /// For each column of the tile, the number that is multiplied by a row's zero point and subtracted.
    below: &'a [i32],
    /// The zero points of the tile's columns.
    cols: &'a [i32],
}

impl VectorLoop for Correct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (i, line) in (self.row..).zip(self.all.chunks_mut(self.stride.max(1))) {
            let at = |list: &[i32]| list.get(i).copied().unwrap_or(0);
            let added = at(self.zeros.added);
            if added != 0 {
                line.iter_mut().for_each(|sum| *sum = sum.wrapping_add(added));
            }
            for (factor, list) in [(at(self.zeros.rows), self.below), (at(self.sums), self.cols)] {
                if factor != 0 {
                    for (sum, &by) in line.iter_mut().zip(list) {
                        *sum = sum.wrapping_sub(factor.wrapping_mul(by));
                    }
                }
            }
        }
    }
}

/// Computes a product and passes each of its tiles to `finish` once.
///
/// # Safety
///
/// The operands have the extents `dims`. `finish` may be called on any thread for any tile.
pub(crate) unsafe fn product(
    dims: Dims,
    left: &Left,
    right: &Right<'_>,
    zeros: &Zeros<'_>,
    finish: &(dyn Fn(&Sums<'_>) + Sync),
) {
    let Dims { m, k, n } = dims;
    if m == 0 || n == 0 {
        return;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let &Right::Strided(b, bytes) = right
        && in_place::suits(dims, b)
        && let Some(kernels) = in_place::kernels()
    {
        // SAFETY: this function has the same contract.
        return unsafe { in_place::product(kernels, dims, left, (b, bytes), zeros, finish) };
    }
    let kernels = kernels();
    let width = kernels.panel();
    let panels = n.div_ceil(width);
    let size = pack::distance(kernels, k);
    let shares = if threads::count() > 1 { panels.div_ceil(2 * threads::count()) } else { panels };
    // The sums of several narrow panels are finished in one call, because each call has a fixed cost and few sums do
    // not fill vectors.
    let together = (PANEL / width).clamp(1, shares);
    let wide = together * width;
    // Adjacent panels are packed together, because their columns are contiguous in each row of the operand.
    let group = (PACKED / size.max(1)).clamp(1, (TOGETHER / width).max(1)).min(shares);
    let group = group.next_multiple_of(together).min(panels);
    // If there are few panels, the rows are also divided among the threads.
    let parts = if threads::count() > 1 && panels < 8 { (m / 64).clamp(1, 8) } else { 1 };
    let height = m.div_ceil(parts).next_multiple_of(kernels.rows);
    let parts = m.div_ceil(height);
    let shared = Shared((left, right, zeros));
    let units = panels.div_ceil(group) * parts;
    walk::split(units, height.min(m) * group * width * (k / 4 + 1), 1 << 18, |from, to| {
        let (left, right, zeros) = shared.get();
        let mut tile = Room([0; MOST]);
        scratch(Slot::Right, |room| {
            for unit in from..to {
                let (part, first) = (unit % parts, unit / parts * group);
                let cols = first * width..n.min((first + group) * width);
                let rows = part * height..m.min((part + 1) * height);
                // SAFETY: this function's contract; `room` has memory for a group of panels.
                unsafe {
                    let packed = right.panels(kernels, k, cols.clone(), || room.room(group * size));
                    for (i, col) in cols.clone().step_by(wide).enumerate() {
                        let panel = packed.add(i * together * size);
                        let (known, cols) = (right.sums(col), wide.min(cols.end - col));
                        let unit = Unit { kernels, k, left, panel, size, known, zeros, col, cols };
                        unit.run(rows.clone(), &mut tile, finish);
                    }
                }
            }
        });
    });
}

/// A product of few rows with a packed operand, whose sums are written one row after another.
#[derive(Debug)]
pub(crate) struct Few<'a> {
    /// The number of rows, which is at most [`most`](Few::most), and the number of columns.
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) left: &'a Left,
    pub(crate) right: &'a Packed,
}

impl Few<'_> {
    /// Returns the maximum number of rows.
    pub(crate) fn most() -> usize {
        kernels().rows
    }

    /// Returns the distance between rows of sums of `cols` columns.
    pub(crate) fn stride(cols: usize) -> usize {
        cols.next_multiple_of(kernels().panel())
    }

    /// Writes the sums. The elements between the rows get meaningless numbers.
    ///
    /// # Safety
    ///
    /// The operands have `rows` rows, `cols` columns and the inner dimension `k`. `sums` has room for the rows.
    pub(crate) unsafe fn sums(&self, k: usize, sums: *mut i32) {
        let &Few { rows, cols, left, right } = self;
        let (kernels, stride) = (kernels(), Few::stride(cols));
        let width = kernels.panel();
        let shared = Shared((left, right, sums));
        walk::split(cols.div_ceil(width), rows * width * (k / 4 + 1), 1 << 18, |from, to| {
            let (left, right, sums) = shared.get();
            for panel in from..to {
                let col = panel * width;
                let args = QuadArgs {
                    quads: kernels.depth(k) / 4,
                    rows,
                    left: left.row(0),
                    left_row: left.stride(),
                    right: right.panel(panel),
                    right_row: width * 4,
                    sums: sums.wrapping_add(col),
                    sums_row: stride,
                };
                if let Some(tile) = kernels.tile(left.signed(), rows, width.min(cols - col)) {
                    // SAFETY: this function's contract; no other call writes the panel's columns of the sums.
                    unsafe { tile(&args) };
                }
            }
        });
    }

    /// Corrects sums by the zero points. For each column, `below` has the number that is multiplied by a row's zero
    /// point and subtracted.
    pub(crate) fn correct(&self, sums: &mut [i32], zeros: &Zeros<'_>, below: &[i32]) {
        if !(zeros.added.is_empty() && zeros.rows.is_empty() && zeros.cols.is_empty()) {
            dispatch(Correct {
                all: sums,
                stride: Few::stride(self.cols),
                row: 0,
                zeros,
                sums: self.left.sums(),
                below,
                cols: zeros.cols,
            });
        }
    }
}

/// The maximum number of columns that are packed together.
const TOGETHER: usize = 384;

/// The maximum number of bytes that are packed together. They stay in the second-level cache.
const PACKED: usize = 1 << 18;

/// The columns of some panels, which are computed together.
struct Unit<'a> {
    kernels: &'static QuadKernels,
    k: usize,
    left: &'a Left,
    /// The first panel, and the distance to the next one.
    panel: *const u8,
    size: usize,
    /// The sums of the columns from `col` on, if they are known.
    known: Option<&'a [i32]>,
    zeros: &'a Zeros<'a>,
    col: usize,
    cols: usize,
}

/// Memory for a tile of sums.
#[repr(align(64))]
struct Room([i32; MOST]);

impl Unit<'_> {
    /// Returns the distance between rows of sums.
    fn stride(&self) -> usize {
        self.cols.next_multiple_of(self.kernels.panel())
    }

    /// Computes the sums of `rows` rows.
    ///
    /// # Safety
    ///
    /// The left operand has these rows, which are not more than the rows of a tile, and the panels have their columns.
    unsafe fn tile(&self, left: *const u8, rows: usize, room: &mut Room) {
        let width = self.kernels.panel();
        for (i, first) in (0..self.cols).step_by(width).enumerate() {
            let args = QuadArgs {
                quads: self.kernels.depth(self.k) / 4,
                rows,
                left,
                left_row: self.left.stride(),
                right: self.panel.wrapping_add(i * self.size),
                right_row: width * 4,
                sums: room.0.as_mut_ptr().wrapping_add(first),
                sums_row: self.stride(),
            };
            if let Some(tile) = self.kernels.tile(self.left.signed(), rows, width.min(self.cols - first)) {
                // SAFETY: the caller guarantees that the operands are valid; the room holds the largest tile of any kernel.
                unsafe { tile(&args) };
            }
        }
    }

    /// # Safety
    ///
    /// The operands have these rows and the panels' columns.
    unsafe fn run(&self, rows: std::ops::Range<usize>, room: &mut Room, finish: &(dyn Fn(&Sums<'_>) + Sync)) {
        let stride = self.stride();
        let mut room_below = [0; PANEL];
        let cols = self.zeros.cols.get(self.col..).unwrap_or_default();
        let cols = cols.get(..self.cols).unwrap_or_default();
        let below = match self.known {
            _ if self.zeros.rows.is_empty() => &[],
            Some(known) if cols.is_empty() => known.get(..self.cols).unwrap_or_default(),
            known => {
                if known.is_none() {
                    // SAFETY: the row of ones is as long as every other row.
                    unsafe { self.tile(self.left.ones(), 1, room) };
                }
                let depth = i32::try_from(self.k).unwrap_or(i32::MAX);
                let sums = known.unwrap_or(room.0.as_slice());
                for (j, (below, &sum)) in room_below.iter_mut().zip(sums).take(self.cols).enumerate() {
                    *below = sum.wrapping_sub(depth.wrapping_mul(cols.get(j).copied().unwrap_or(0)));
                }
                room_below.get(..self.cols).unwrap_or_default()
            }
        };
        let plain = self.zeros.added.is_empty() && self.zeros.rows.is_empty() && cols.is_empty();
        // On ARM, tiles of one or two rows take nearly as long as tiles of four, so tiles get nearly equal heights.
        let tiles = rows.len().div_ceil(self.kernels.rows).max(1);
        let height =
            if cfg!(target_arch = "aarch64") { rows.len().div_ceil(tiles).max(1) } else { self.kernels.rows };
        for row in rows.clone().step_by(height) {
            let count = height.min(rows.end - row);
            // SAFETY: these rows are in the left operand.
            unsafe { self.tile(self.left.row(row), count, room) };
            let all = room.0.get_mut(..count * stride).unwrap_or_default();
            if !plain {
                let (zeros, sums) = (self.zeros, self.left.sums());
                dispatch(Correct { all, stride, row, zeros, sums, below, cols });
            }
            finish(&Sums { row, col: self.col, cols: self.cols, stride, all });
        }
    }
}
