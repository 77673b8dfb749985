//! Convolution and pooling of operands with symbolic extents.
//!
//! [`window`](super::window) computes the indices of the windows' elements on the host. Here the backend computes them
//! from extents, so that a plan is valid for all extents.

use super::{Border, fail};
use super::{Extent, Extents, product};
use crate::Error;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::DataType;
use bb_ir::infer::{Padding, Step};

/// A window along one spatial dimension.
pub(super) struct Slide {
    pub(super) kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
    pub(super) out: Extent,
}

/// Returns whether all extents are fixed, so that the host can compute the windows.
pub(super) fn is_fixed(extents: &[Extent]) -> bool {
    extents.iter().all(Extent::is_fixed)
}

/// Computes the windows of an operand.
///
/// # Errors
///
/// The errors of [`windows`](super::window::windows).
pub(super) fn slides(
    op: &'static str,
    x: &[Extent],
    kernel: &[usize],
    strides: &[i64],
    pads: &[i64],
    dilations: &[i64],
    ceil: bool,
) -> Result<Vec<Slide>, Error> {
    let present: Vec<usize> = x.iter().map(|e| usize::try_from(e.present()).unwrap_or(0)).collect();
    let all = super::window::windows(op, &present, kernel, strides, pads, dilations, ceil)?;
    let slide = |(w, extent): (&super::window::Windows, &Extent)| {
        let (kernel, stride, dilation) = (w.kernel as i64, w.stride as i64, w.dilation as i64);
        let step = Step { kernel: kernel.into(), stride, dilation, before: w.before, after: w.after };
        let overflow = || bb_ir::Error::Overflow { op, shape: present.as_slice().into() };
        let out = step.count(extent, Padding::Given, ceil).ok_or_else(overflow)?;
        // The last window begins before the padding at the end, so it exceeds the padding by less than a window.
        let beyond = (kernel - 1).saturating_mul(dilation).max(w.after);
        let after = if ceil { w.after.saturating_add(stride - 1).min(beyond) } else { w.after };
        Ok(Slide { kernel, stride, dilation, before: w.before, after, out })
    };
    all.iter().zip(x.get(2..).unwrap_or_default()).map(slide).collect()
}

/// Pads the operand, possibly by more than the last window needs. No window selects the excess.
pub(super) fn padded(
    on: &Tracer,
    x: &TracedTensor,
    value: Option<&TracedTensor>,
    all: &[Slide],
) -> Result<TracedTensor, TraceStop> {
    let (starts, ends) = (all.iter().map(|s| s.before), all.iter().map(|s| s.after));
    let pads: Vec<i64> = [0, 0].into_iter().chain(starts).chain([0, 0]).chain(ends).collect();
    on.pad(x, value, &pads, Border::Constant)
}

/// Selects the elements of all windows along spatial dimension `i`. Elements with the same offset in their windows are
/// adjacent in the result.
fn select(on: &Tracer, x: &TracedTensor, i: usize, s: &Slide) -> Result<TracedTensor, TraceStop> {
    let axis = 2 + i as i64;
    let (zero, one, stride) = (Extent::from(0i64), Extent::from(1i64), Extent::from(s.stride));
    if s.kernel == 1 {
        let end = s.out.minus(&one).times(&stride).plus(&one);
        return on.slice_to(x, &[zero], &[end], &[axis], &[s.stride]);
    }
    let places = on.unsqueeze(&on.iota(&zero, &stride, &s.out)?, &[0])?;
    let within = crate::ext::counted(on, &[usize::try_from(s.kernel).unwrap_or(0), 1], s.dilation)?;
    let indices = on.add(&places, &within)?;
    let flat = on.reshape_to(&indices, &[s.out.times(&Extent::from(s.kernel))])?;
    on.gather(x, &flat, axis)
}

/// Selects windows along all spatial dimensions. The dimensions of the result are batch, channels, kernel dimensions,
/// and window dimensions.
fn patches(on: &Tracer, x: &TracedTensor, all: &[Slide]) -> Result<TracedTensor, TraceStop> {
    let mut y = x.clone();
    for (i, s) in all.iter().enumerate() {
        y = select(on, &y, i, s)?;
    }
    let mut shape: Extents = on.extents(x).into_iter().take(2).collect();
    shape.extend(all.iter().flat_map(|s| [Extent::from(s.kernel), s.out.clone()]));
    let n = all.len() as i64;
    let perm: Vec<i64> =
        [0, 1].into_iter().chain((0..n).map(|i| 2 + 2 * i)).chain((0..n).map(|i| 3 + 2 * i)).collect();
    on.transpose(&on.reshape_to(&y, &shape)?, &perm)
}

/// Returns a placeholder for the result of a native convolution, if the trace needs only its type.
pub(super) fn convolved(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
    extents: &[Extent],
) -> Option<TracedTensor> {
    // The body refuses operands of other types.
    let dtype = x.dtype();
    let fits = (dtype.is_float() || dtype == DataType::I32)
        && w.dtype() == dtype
        && bias.is_none_or(|bias| bias.dtype() == dtype);
    if fits { super::unknown_result(on, x, extents) } else { None }
}

/// Computes [`conv`](super::window::conv) for symbolic extents. The arguments were checked with the traced extents.
pub(super) fn conv(
    on: &Tracer,
    [x, w]: [&TracedTensor; 2],
    bias: Option<&TracedTensor>,
    group: usize,
    all: &[Slide],
) -> Result<TracedTensor, TraceStop> {
    let (from, filters) = (on.extents(x), on.extents(w));
    let ([n, ..], [m, within @ ..]) = (from.as_slice(), filters.as_slice()) else {
        return fail(Error::Operand { op: "conv", index: 0, expected: "a batch" });
    };
    let shape: Extents = [n, m].into_iter().chain(all.iter().map(|s| &s.out)).cloned().collect();
    if let Some(y) = convolved(on, x, w, bias, &shape) {
        return Ok(y);
    }
    let (size, places) = (product(within), product(all.iter().map(|s| &s.out)));
    let x = padded(on, x, None, all)?;
    let pointwise = all.iter().all(|s| s.kernel == 1 && s.stride == 1);
    let columns = if pointwise { x } else { patches(on, &x, all)? };
    let product = if group == 1 {
        let filters = on.reshape_to(w, &[m.clone(), size.clone()])?;
        on.matmul(&filters, &on.reshape_to(&columns, &[n.clone(), size, places])?)?
    } else {
        let g = Extent::from(group);
        let filters = on.reshape_to(w, &[g.clone(), m.floor_div(&g), size.clone()])?;
        on.matmul(&filters, &on.reshape_to(&columns, &[n.clone(), g, size, places])?)?
    };
    let y = on.reshape_to(&product, &shape)?;
    match bias {
        Some(bias) => on.add(&y, &super::normalize::per_channel(on, bias, shape.len())?),
        None => Ok(y),
    }
}

/// Reduces the windows along spatial dimension `i`.
pub(super) fn pooled(
    on: &Tracer,
    x: &TracedTensor,
    i: usize,
    s: &Slide,
    reduce: impl Fn(&TracedTensor, &[i64]) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let chosen = select(on, x, i, s)?;
    if s.kernel == 1 {
        return Ok(chosen);
    }
    let shape = on.extents(&chosen);
    let (lead, rest) = shape.split_at((2 + i).min(shape.len()));
    let mut apart: Vec<Extent> = lead.to_vec();
    apart.extend([Extent::from(s.kernel), s.out.clone()]);
    apart.extend(rest.iter().skip(1).cloned());
    reduce(&on.reshape_to(&chosen, &apart)?, &[2 + i as i64])
}
