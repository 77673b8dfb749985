//! Padded copies of planes, laid out so that consecutive windows read consecutive memory.

use super::tile::Fill;
use crate::ext::window::{Line, Plane};
use smallvec::SmallVec;

/// The maximum stride of windows whose columns are reordered.
const FARTHEST: usize = 64;

/// The layout of padded planes in a buffer. If the stride is more than one column, columns with the same remainder by the
/// stride are contiguous.
#[derive(Debug)]
pub(in crate::ext) struct Padded<'a> {
    pub(in crate::ext) plane: &'a Plane,
    /// The number of planes.
    pub(in crate::ext) depth: usize,
    /// The number of elements for each remainder by the stride, of a row, and the number of rows of a plane.
    pub(in crate::ext) pitch: usize,
    pub(in crate::ext) row: usize,
    pub(in crate::ext) rows: usize,
    /// The result of [`phases`], in the order of the operand.
    phases: SmallVec<[(usize, usize, usize); 2]>,
}

impl<'a> Padded<'a> {
    /// Lays out the windows of `band` result rows for vectors that read up to `covered` columns. Returns `None` if the
    /// stride is too large.
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
        let mut phases: SmallVec<[_; 2]> = phases(cols, pitch).collect();
        phases.sort_unstable_by_key(|&(_, column, _)| column);
        Some(Padded { plane, depth, pitch, row, rows: height, phases })
    }

    /// Returns the number of elements of all planes; `None` if it overflows.
    pub(in crate::ext) fn len(&self) -> Option<usize> {
        self.rows.checked_mul(self.row)?.checked_mul(self.depth)
    }

    /// Returns the offset in a row of the first window's element for each column of weights.
    pub(in crate::ext) fn columns(&self) -> SmallVec<[usize; 16]> {
        let cols = &self.plane.cols;
        let column =
            |k: usize| k * cols.dilation % cols.stride * self.pitch + k * cols.dilation / cols.stride;
        (0..cols.kernel).map(column).collect()
    }

    /// Copies the rows that the windows of `height` result rows read, from result row `top` on, to the buffer. Padding
    /// columns are not written.
    ///
    /// # Safety
    ///
    /// `x` has the planes of a group. `to` is a buffer that was zeroed and may contain rows of earlier planes.
    pub(in crate::ext) unsafe fn pad(&self, x: *const f32, to: *mut f32, top: usize, height: usize) {
        let Plane { rows, cols, .. } = self.plane;
        let used = ((height - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1).min(self.rows);
        // The rows of the buffer that come from the operand; the others are padding.
        let above = top * rows.stride;
        let first = rows.before.saturating_sub(above).min(used);
        let end = (rows.extent + rows.before).saturating_sub(above).clamp(first, used);
        for c in 0..self.depth {
            // SAFETY: the plane has its rows in the buffer.
            let to = unsafe { to.add(c * self.rows * self.row) };
            if height < rows.out {
                // Earlier bands may have written operand rows here, so clear the padding rows.
                for padding in [0..first, end..used] {
                    // SAFETY: these rows are in the buffer.
                    unsafe { to.add(padding.start * self.row).write_bytes(0, padding.len() * self.row) };
                }
            }
            // If the stride is two columns, one pass separates both phases.
            let together = if cols.stride == 2 { 2 } else { 1 };
            for phases in self.phases.chunks(together).filter(|_| first < end) {
                let Some((&(to_column, column, n), others)) = phases.split_first() else { continue };
                let at = (c * rows.extent + first + above - rows.before) * cols.extent + column;
                // SAFETY: the rows are in the buffer, and their columns from `column` on are in the operand.
                unsafe {
                    let (to, from) = (to.add(first * self.row), x.add(at));
                    let others = others.first().map(|&(to_column, _, n)| (to.add(to_column), n));
                    let (to, rows, step) = (to.add(to_column), end - first, cols.stride);
                    Fill { to, to_row: self.row, from, from_row: cols.extent, rows, step, n, others }.run();
                }
            }
        }
    }
}

/// Describes the columns of each remainder by the stride: the index of the first one in a buffer row with `pitch` columns
/// for each remainder, its index in the operand, and the number of columns.
pub(in crate::ext) fn phases(cols: &Line, pitch: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let &Line { extent, stride, before, .. } = cols;
    (0..stride).filter_map(move |remainder| {
        let first = before.saturating_sub(remainder).div_ceil(stride);
        let end = (extent + before).saturating_sub(remainder).div_ceil(stride).min(pitch);
        let n = end.checked_sub(first).filter(|&n| n > 0)?;
        Some((remainder * pitch + first, first * stride + remainder - before, n))
    })
}
