//! Padded copies of planes, laid out so that consecutive windows read consecutive memory.

use super::tile::Fill;
use crate::ext::window::{Line, Plane};
use smallvec::SmallVec;

/// The greatest distance between windows whose columns are reordered.
const FARTHEST: usize = 64;

/// How planes are laid out in a buffer. If windows are more than a column apart, columns of the same remainder follow each
/// other.
#[derive(Debug)]
pub(in crate::ext) struct Padded<'a> {
    pub(in crate::ext) plane: &'a Plane,
    /// The number of planes.
    pub(in crate::ext) depth: usize,
    /// The elements of the columns of one remainder, the elements of a row, and the rows of a plane.
    pub(in crate::ext) pitch: usize,
    pub(in crate::ext) row: usize,
    pub(in crate::ext) rows: usize,
    /// See [`phases`].
    phases: SmallVec<[(usize, usize, usize); 2]>,
}

impl<'a> Padded<'a> {
    /// Lays out the windows of `band` rows of results, with vectors that read up to `covered` columns. Returns `None` for
    /// windows that are far from each other.
    pub(in crate::ext) fn new(
        plane: &'a Plane,
        depth: usize,
        band: usize,
        covered: usize,
    ) -> Option<Padded<'a>> {
        let Plane { rows, cols, .. } = plane;
        if cols.stride > FARTHEST {
            return None;
        }
        let pitch = covered + (cols.kernel - 1) * cols.dilation / cols.stride;
        let height = band.saturating_sub(1).checked_mul(rows.stride)? + (rows.kernel - 1) * rows.dilation + 1;
        let row = pitch.checked_mul(cols.stride)?;
        let phases = phases(cols, pitch).collect();
        Some(Padded { plane, depth, pitch, row, rows: height, phases })
    }

    /// Returns the number of elements of all planes, if it can be counted.
    pub(in crate::ext) fn len(&self) -> Option<usize> {
        self.rows.checked_mul(self.row)?.checked_mul(self.depth)
    }

    /// Returns where windows have the elements of each column of weights.
    pub(in crate::ext) fn columns(&self) -> SmallVec<[usize; 16]> {
        let cols = &self.plane.cols;
        let column =
            |k: usize| k * cols.dilation % cols.stride * self.pitch + k * cols.dilation / cols.stride;
        (0..cols.kernel).map(column).collect()
    }

    /// Copies the rows that are in the windows of `height` rows of results, from row `top` on, to the buffer. Columns of
    /// padding are not written.
    ///
    /// # Safety
    ///
    /// `x` has the planes of a group, and `to` is a zeroed buffer, perhaps with rows of other planes.
    pub(in crate::ext) unsafe fn pad(&self, x: *const f32, to: *mut f32, top: usize, height: usize) {
        let Plane { rows, cols, .. } = self.plane;
        let used = ((height - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1).min(self.rows);
        // The rows of the buffer that have rows of the operand.
        let above = top * rows.stride;
        let first = rows.before.saturating_sub(above).min(used);
        let end = (rows.extent + rows.before).saturating_sub(above).clamp(first, used);
        for c in 0..self.depth {
            // SAFETY: the plane has its rows in the buffer.
            let to = unsafe { to.add(c * self.rows * self.row) };
            if height < rows.out {
                // Other rows of the planes were here.
                for padding in [0..first, end..used] {
                    // SAFETY: these rows are in the buffer.
                    unsafe { to.add(padding.start * self.row).write_bytes(0, padding.len() * self.row) };
                }
            }
            for &(to_column, column, n) in self.phases.iter().filter(|_| first < end) {
                let at = (c * rows.extent + first + above - rows.before) * cols.extent + column;
                // SAFETY: the rows are in the buffer, and their columns from `column` on are in the operand.
                unsafe {
                    let (to, from) = (to.add(first * self.row + to_column), x.add(at));
                    let rows = end - first;
                    Fill { to, to_row: self.row, from, from_row: cols.extent, rows, step: cols.stride, n }
                        .run();
                }
            }
        }
    }
}

/// Returns, for the columns of each remainder: the position of the first one in a row of a buffer with `pitch` columns of
/// each, which column it is, and their number.
pub(in crate::ext) fn phases(cols: &Line, pitch: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let &Line { extent, stride, before, .. } = cols;
    (0..stride).filter_map(move |remainder| {
        let first = before.saturating_sub(remainder).div_ceil(stride);
        let end = (extent + before).saturating_sub(remainder).div_ceil(stride).min(pitch);
        let n = end.checked_sub(first).filter(|&n| n > 0)?;
        Some((remainder * pitch + first, first * stride + remainder - before, n))
    })
}
