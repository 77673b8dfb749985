//! Samples a tensor between its elements, at computed positions.
//!
//! The elements around each position are found separately for each dimension and gathered in one operation. Their sum
//! is weighted by the products of the weights of all dimensions.

use super::movement::strides;
use crate::ext::{GridSampleOptions, Interpolation, SamplePadding, fail, math, open_results};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};

/// The interpolation between elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// The nearest element. If two are equally near, the element with the even index.
    Nearest,
    /// Linear interpolation.
    Linear,
    /// Keys' cubic convolution with the coefficient -0.75.
    Cubic,
}

impl Between {
    /// Returns the offsets of the elements that a value is computed from, relative to the element at or before its
    /// position.
    fn taps(self) -> &'static [f64] {
        match self {
            Between::Nearest => &[0.0],
            Between::Linear => &[0.0, 1.0],
            Between::Cubic => &[-1.0, 0.0, 1.0, 2.0],
        }
    }
}

/// The values outside the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// The values are zeros.
    Zeros,
    /// The values equal the element at the border. A position beyond the border is moved to it: to the outermost centre
    /// if `centres`, otherwise to the outermost edge. Cubic interpolation instead moves each element, as PyTorch and
    /// ONNX Runtime do.
    Border { centres: bool },
    /// The elements are mirrored at the border: at the outermost centres if `centres`, otherwise at the outermost
    /// edges.
    Mirror { centres: bool },
}

/// Returns the minimum and the maximum position that count as inside.
fn borders(extent: usize, centres: bool) -> (f64, f64) {
    if centres { (0.0, extent as f64 - 1.0) } else { (-0.5, extent as f64 - 0.5) }
}

/// Returns whether positions are within the bounds.
fn within(on: &Tracer, x: &TracedTensor, low: f64, high: f64) -> Result<TracedTensor, TraceStop> {
    let outside =
        on.or(&on.less(x, &on.scalar_like(x, low)?)?, &on.greater(x, &on.scalar_like(x, high)?)?)?;
    on.not(&outside)
}

/// Reflects positions at two borders until they are between them.
fn mirrored(on: &Tracer, x: &TracedTensor, low: f64, high: f64) -> Result<TracedTensor, TraceStop> {
    let start = on.scalar_like(x, low)?;
    let range = high - low;
    if range <= 0.0 {
        return on.add(&on.sub(x, x)?, &start);
    }
    let period = on.scalar_like(x, 2.0 * range)?;
    let along = on.modulo(&on.sub(x, &start)?, &period, false)?;
    let back = on.greater(&along, &on.scalar_like(x, range)?)?;
    let along = on.r#where(&back, &on.sub(&period, &along)?, &along)?;
    on.r#where(&within(on, x, low, high)?, x, &on.add(&along, &start)?)
}

/// Returns Keys' weights for elements at the distances `t + 1`, `t`, `1 - t` and `2 - t`.
fn cubic(on: &Tracer, t: &TracedTensor) -> Result<Vec<TracedTensor>, TraceStop> {
    const A: f64 = -0.75;
    let polynomial = |x: &TracedTensor, coefficients: [f64; 4]| -> Result<TracedTensor, TraceStop> {
        let [first, rest @ ..] = coefficients;
        let mut sum = on.scalar_like(x, first)?;
        for c in rest {
            sum = on.add(&on.mul(&sum, x)?, &on.scalar_like(x, c)?)?;
        }
        Ok(sum)
    };
    let (near, far) = ([A + 2.0, -(A + 3.0), 0.0, 1.0], [A, -5.0 * A, 8.0 * A, -4.0 * A]);
    let one = on.scalar_like(t, 1.0)?;
    let rest = on.sub(&one, t)?;
    Ok(vec![
        polynomial(&on.add(t, &one)?, far)?,
        polynomial(t, near)?,
        polynomial(&rest, near)?,
        polynomial(&on.add(&rest, &one)?, far)?,
    ])
}

/// The elements that are needed for the positions along one dimension: their indices, whether they exist, and their
/// weights.
struct Around {
    /// The indices along the dimension, of shape `[b, taps, p]`.
    index: TracedTensor,
    /// Whether each element exists, of shape `[b, taps, p]`; `None` if all exist.
    exists: Option<TracedTensor>,
    /// The weights, of shape `[b, taps, p]`; `None` if each position needs only one element.
    weights: Option<TracedTensor>,
}

/// Finds the elements around positions `[b, p]` along a dimension.
fn around(
    on: &Tracer,
    positions: &TracedTensor,
    extent: usize,
    between: Between,
    beyond: Beyond,
) -> Result<Around, TraceStop> {
    let last = extent as f64 - 1.0;
    let mut at = if between == Between::Nearest { on.round(positions)? } else { positions.clone() };
    match beyond {
        Beyond::Zeros => {}
        Beyond::Border { .. } if between == Between::Cubic => {}
        Beyond::Border { centres } => {
            let (low, high) = borders(extent, centres);
            at = on.r#where(&within(on, &at, low, high)?, &at, &clamped(on, &at, last)?)?;
        }
        Beyond::Mirror { centres } => {
            let (low, high) = borders(extent, centres);
            at = mirrored(on, &at, low, high)?;
        }
    }
    let base = if between == Between::Nearest { at.clone() } else { on.floor(&at)? };
    let t = on.sub(&at, &base)?;
    let weights = match between {
        Between::Nearest => None,
        Between::Linear => Some(vec![on.sub(&on.scalar_like(&t, 1.0)?, &t)?, t]),
        Between::Cubic => Some(cubic(on, &t)?),
    };
    let weights = match weights {
        Some(each) => {
            let each: Vec<TracedTensor> =
                each.iter().map(|w| on.unsqueeze(w, &[1])).collect::<Result<_, _>>()?;
            Some(on.concat(&each.iter().collect::<Vec<_>>(), 1)?)
        }
        None => None,
    };
    let taps = between.taps();
    let offsets = math::to(on, &on.host(&[1, taps.len(), 1], taps)?, positions.dtype())?;
    let mut places = on.add(&on.unsqueeze(&base, &[1])?, &offsets)?;
    let exists = match beyond {
        Beyond::Zeros => Some(within(on, &places, 0.0, last)?),
        Beyond::Border { .. } => None,
        Beyond::Mirror { centres } => {
            let (low, high) = borders(extent, centres);
            places = mirrored(on, &places, low, high)?;
            None
        }
    };
    // Infinite and NaN positions must also yield a valid index.
    let index = math::to(on, &clamped(on, &places, last)?, math::index(on))?;
    let [least, most] = [on.scalar_like(&index, 0.0)?, on.scalar_like(&index, last)?];
    let index = math::narrowed(on, on.minimum(&on.maximum(&index, &least)?, &most)?, DataType::I64)?;
    Ok(Around { index, exists, weights })
}

/// Clamps positions to the range from 0 to `last`.
fn clamped(on: &Tracer, x: &TracedTensor, last: f64) -> Result<TracedTensor, TraceStop> {
    on.minimum(&on.maximum(x, &on.scalar_like(x, 0.0)?)?, &on.scalar_like(x, last)?)
}

/// Moves the taps of dimension `i` of `n` to their own dimension: `[b, taps, p]` becomes `[b, 1…, taps, …1, p]`.
fn apart(on: &Tracer, x: &TracedTensor, i: usize, n: usize) -> Result<TracedTensor, TraceStop> {
    let new: Vec<i64> = (1..=n as i64).filter(|&axis| axis != i as i64 + 1).collect();
    if new.is_empty() { Ok(x.clone()) } else { on.unsqueeze(x, &new) }
}

/// Samples `x: [b, c, d…]` at `positions`, which has a float tensor `[b, p]` for each of the dimensions `d…`. The
/// result is `[b, c, p]`.
///
/// The result has the type of the positions, except that `Between::Nearest` keeps the type of `x`.
pub(crate) fn sample(
    on: &Tracer,
    x: &TracedTensor,
    positions: &[TracedTensor],
    between: Between,
    beyond: Beyond,
) -> Result<TracedTensor, TraceStop> {
    let [batch, channels, dims @ ..] = x.shape() else { return on.identity(x) };
    let (batch, channels, n) = (*batch, *channels, dims.len());
    let count = positions.first().and_then(|p| p.shape().get(1)).copied().unwrap_or(0);
    let size: usize = dims.iter().product();
    let (mut flat, mut exists, mut weights) = (None, None, None);
    for (i, ((position, &extent), &step)) in positions.iter().zip(dims).zip(&strides(dims)).enumerate() {
        let found = around(on, position, extent, between, beyond)?;
        let index = apart(on, &on.mul(&found.index, &on.host(&[], &[step])?)?, i, n)?;
        flat = Some(match flat {
            Some(sum) => on.add(&sum, &index)?,
            None => index,
        });
        if let Some(these) = found.exists {
            let these = apart(on, &these, i, n)?;
            exists = Some(match exists {
                Some(others) => on.and(&others, &these)?,
                None => these,
            });
        }
        if let Some(these) = found.weights {
            let these = apart(on, &these, i, n)?;
            weights = Some(match weights {
                Some(others) => on.mul(&others, &these)?,
                None => these,
            });
        }
    }
    let Some(flat) = flat else { return on.identity(x) };
    let taps = between.taps().len().pow(n as u32);
    // The channels of each position of each batch entry form a row. If positions may be outside, a row of zeros is
    // appended for them.
    let perm: Vec<i64> = std::iter::once(0).chain(2..2 + n as i64).chain([1]).collect();
    let mut rows = on.reshape(&on.transpose(x, &perm)?, &[batch * size, channels])?;
    let mut flat = on.reshape(&flat, &[batch, taps, count])?;
    flat = on.add(&flat, &crate::ext::counted(on, &[batch, 1, 1], size as i64)?)?;
    if let Some(exists) = exists {
        let zeros = on.constant(&blank(x.dtype(), &[1, channels])?)?;
        rows = on.concat(&[&rows, &zeros], 0)?;
        let exists = on.reshape(&exists, &[batch, taps, count])?;
        flat = on.r#where(&exists, &flat, &on.host(&[], &[(batch * size) as i64])?)?;
    }
    let read = on.gather(&rows, &flat, 0)?;
    let read = match weights {
        Some(weights) => {
            let weights = on.reshape(&weights, &[batch, taps, count, 1])?;
            let read = math::to(on, &read, weights.dtype())?;
            on.reduce_sum(&on.mul(&read, &weights)?, &[1], false)?
        }
        None => on.reshape(&read, &[batch, count, channels])?,
    };
    on.transpose(&read, &[0, 2, 1])
}

/// Returns zeros of any element type. For strings they are empty strings.
pub fn blank(dtype: DataType, shape: &[usize]) -> Result<bb_ir::TensorData, crate::Error> {
    Ok(bb_ir::TensorData::zeros(dtype, shape, 1 << 30)?)
}

/// Returns the scalar that fills unwritten elements of a tensor like `x`: zero, false, or the empty string.
pub fn blank_like(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.constant(&blank(x.dtype(), &[])?)
}

/// Returns the type for computing positions and weighted sums of operands with these types.
pub(super) fn wide(types: [DataType; 2]) -> DataType {
    let exact =
        |t| matches!(t, DataType::F64 | DataType::I32 | DataType::U32 | DataType::I64 | DataType::U64);
    if types.into_iter().any(exact) { DataType::F64 } else { DataType::F32 }
}

/// The maximum distance of a position from the first element. Farther positions, also infinite ones, are clamped to it.
const FARTHEST: f64 = 1e30;

/// Returns a placeholder for the result of a native operation, if its extents may differ in other runs.
fn open_result(on: &Tracer, x: &TracedTensor, grid: &TracedTensor) -> Option<TracedTensor> {
    let (images, places) = (on.extents(x), on.extents(grid));
    // Sampling needs at least one element along each dimension, unless there is nothing to sample.
    if images.iter().skip(2).any(|extent| !extent.at_least(&1i64.into())) {
        return None;
    }
    let out = places.get(1..places.len().saturating_sub(1)).unwrap_or_default();
    let extents: Vec<_> = images.iter().take(2).chain(out).cloned().collect();
    open_results(on, &[(x.dtype(), &extents)])?.into_iter().next()
}

/// The body of [`Image::grid_sample`](super::Image::grid_sample).
pub fn grid_sample(
    on: &Tracer,
    x: &TracedTensor,
    grid: &TracedTensor,
    GridSampleOptions { mode, padding, align_corners: centres }: GridSampleOptions,
) -> Result<TracedTensor, TraceStop> {
    let between = match mode {
        Interpolation::Nearest => Between::Nearest,
        Interpolation::Linear => Between::Linear,
        Interpolation::Cubic => Between::Cubic,
    };
    let beyond = match padding {
        SamplePadding::Zeros => Beyond::Zeros,
        SamplePadding::Border => Beyond::Border { centres },
        SamplePadding::Reflection => Beyond::Mirror { centres },
    };
    let shapes =
        || bb_ir::Error::Shapes { op: "grid_sample", left: x.shape().into(), right: grid.shape().into() };
    if x.rank() < 3 || grid.rank() != x.rank() {
        return fail(shapes());
    }
    let fits = on.extent(x, 0).equals(&on.extent(grid, 0))
        && on.extent(grid, x.rank() - 1).equals(&(x.rank() - 2).into());
    if !fits {
        return fail(shapes());
    }
    if between != Between::Nearest && !x.dtype().is_compute() {
        return fail(bb_ir::Error::Unsupported { op: "grid_sample", dtype: x.dtype() });
    }
    if !grid.dtype().is_float() || !grid.dtype().is_compute() {
        return fail(bb_ir::Error::Unsupported { op: "grid_sample", dtype: grid.dtype() });
    }
    if let Some(result) = open_result(on, x, grid) {
        return Ok(result);
    }
    let ([n, c, dims @ ..], [_, out @ .., r]) = (x.shape(), grid.shape()) else {
        return fail(shapes());
    };
    let shape: Vec<usize> = [*n, *c].into_iter().chain(out.iter().copied()).collect();
    let count: usize = out.iter().product();
    if shape.contains(&0) {
        return on.constant(&blank(x.dtype(), &shape)?);
    }
    if dims.contains(&0) {
        return fail(shapes());
    }
    let grid = math::to(on, grid, wide([x.dtype(), grid.dtype()]))?;
    let grid = on.r#where(&on.equal(&grid, &grid)?, &grid, &on.scalar_like(&grid, -1.0)?)?;
    let positions: Vec<TracedTensor> = dims
        .iter()
        .enumerate()
        .map(|(i, &extent)| {
            // The grid lists the innermost dimension first.
            let at = (r - 1 - i) as i64;
            let share = on.slice(&grid, &[at], &[at + 1], &[-1], &[])?;
            let share = on.add(&on.reshape(&share, &[*n, count])?, &on.scalar_like(&grid, 1.0)?)?;
            // The positions -1 and 1 are the outermost centres or the outermost edges, depending on `centres`.
            let (steps, shift) = if centres { (extent as f64 - 1.0, 0.0) } else { (extent as f64, -0.5) };
            let scaled = on.mul(&share, &on.scalar_like(&grid, steps / 2.0)?)?;
            let [least, most] = [on.scalar_like(&grid, -FARTHEST)?, on.scalar_like(&grid, FARTHEST)?];
            let place = on.add(&scaled, &on.scalar_like(&grid, shift)?)?;
            on.minimum(&on.maximum(&place, &least)?, &most)
        })
        .collect::<Result<_, _>>()?;
    let y = sample(on, x, &positions, between, beyond)?;
    math::to(on, &on.reshape(&y, &shape)?, x.dtype())
}
