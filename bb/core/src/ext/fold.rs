//! Sums overlapping windows. This is the inverse of selecting windows, and works one axis at a time.

use super::window::Windows;
use super::{Border, fail};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Shape, Tensor};

/// The maximum number of entries in the table of one axis.
const MOST: usize = 1 << 26;

/// Sums windows where they overlap. `all` describes the windows and the extents of the image.
///
/// Only elements of windows are added. An element of the image that no window covers is 0.
///
/// Shapes: `x: [lead, kernels, outs]` to `[lead, extent of the first axis, …]`, where `kernels` and `outs` are the
/// products over all axes.
///
/// # Errors
///
/// [`bb_ir::Error::TooLarge`] if the table of an axis would exceed memory; the errors of the backend.
pub fn fold(on: &Tracer, x: &TracedTensor, all: &[Windows]) -> Result<TracedTensor, TraceStop> {
    let lead = x.shape().first().copied().unwrap_or(1);
    let mut y = x.clone();
    // The dimensions are [lead, folded axes, other kernels, other outs].
    let mut done = 1;
    let mut kernels: usize = all.iter().map(|w| w.kernel).product();
    for (i, w) in all.iter().enumerate() {
        if w.extent.checked_mul(w.kernel).is_none_or(|places| places > MOST) {
            let (shape, limit) = ([w.extent, w.kernel].into(), MOST);
            return fail(bb_ir::Error::TooLarge { dtype: x.dtype(), shape, limit, name: None });
        }
        kernels /= w.kernel.max(1);
        let outs: usize = all.iter().skip(i + 1).map(|w| w.out).product();
        let apart = [lead, done, w.kernel, kernels, w.out, outs];
        let last = on.transpose(&on.reshape(&y, &apart)?, &[0, 1, 3, 5, 2, 4])?;
        let flat = on.reshape(&last, &[lead * done * kernels * outs, w.kernel * w.out])?;
        // A zero is appended. Table entries refer to it if fewer windows cover an element.
        let flat = on.pad(&flat, None, &[0, 0, 0, 1], Border::Constant)?;
        let table = on.host(&[w.extent, w.kernel], &overlaps(w).map_err(crate::Error::from)?)?;
        let sums = on.reduce_sum(&on.gather(&flat, &table, 1)?, &[2], false)?;
        let sums = on.reshape(&sums, &[lead, done, kernels, outs, w.extent])?;
        y = on.transpose(&sums, &[0, 1, 4, 2, 3])?;
        done *= w.extent;
    }
    let shape: Shape = std::iter::once(lead).chain(all.iter().map(|w| w.extent)).collect();
    on.reshape(&y, &shape)
}

/// Returns, for each element of an axis and each offset in a window, the index in `kernel * out` that falls on the
/// element; `kernel * out` if there is none.
fn overlaps(w: &Windows) -> Result<Vec<i64>, bb_ir::Error> {
    let mut table = bb_ir::memory::filled("fold", (w.kernel * w.out) as i64, w.extent * w.kernel)?;
    for k in 0..w.kernel {
        for o in 0..w.out {
            let at = usize::try_from(w.position(k, o)).ok().filter(|&at| at < w.extent);
            if let Some(slot) = at.and_then(|at| table.get_mut(at * w.kernel + k)) {
                *slot = (k * w.out + o) as i64;
            }
        }
    }
    Ok(table)
}
