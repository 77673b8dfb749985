//! Bodies of operations with sliding windows: convolution and pooling of any rank.
//!
//! Windows are selected one axis at a time, by a gather with `kernel * out` indices. Then a convolution is one matrix
//! product, and pooling is one reduction per axis.

use crate::ext::{
    AveragePoolOptions, Border, ConvOptions, FusedConvOptions, MaxPoolOptions, fail, math, nn::least, slide,
    types,
};
use crate::prelude::*;
use crate::trace::{Extent, Extents, TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::infer::{Padding, Step};
use bb_ir::{Shape, memory};

/// The maximum number of elements in all windows along a dimension.
const MOST: usize = 1 << 26;

/// The windows along one spatial dimension.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    pub extent: usize,
    pub kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) before: i64,
    /// The requested padding at the end.
    pub(crate) after: i64,
    /// The number of windows.
    pub out: usize,
}

impl Windows {
    /// Returns the number of positions that a window spans.
    fn span(&self) -> i64 {
        (self.kernel as i64 - 1) * self.dilation as i64 + 1
    }

    /// Returns the padding at the end that the last window needs.
    pub(crate) fn needed_after(&self) -> i64 {
        let reach = (self.out as i64 - 1) * self.stride as i64 + self.span();
        (reach - self.extent as i64 - self.before).max(self.after.min(0))
    }

    /// Returns the index in `x` of element `k` of window `o`. It may be in the padding.
    pub fn position(&self, k: usize, o: usize) -> i64 {
        (o * self.stride + k * self.dilation) as i64 - self.before
    }
}

/// Strides, dilations, paddings and extents of at least this number are refused, because no real model needs them.
pub const REACH: u64 = 1 << 31;

/// Computes the windows over the spatial extents, which are the dimensions from 2 on. For an empty list, the defaults
/// of [`ConvOptions`] are used.
pub fn windows(
    op: &'static str,
    shape: &[usize],
    kernel: &[usize],
    strides: &[i64],
    pads: &[i64],
    dilations: &[i64],
    ceil: bool,
) -> Result<Vec<Windows>, Error> {
    let wrong = |param, problem| bb_ir::Error::Param { op, param, problem, shape: shape.into() };
    let spatial = shape
        .get(2..)
        .filter(|s| s.len() == kernel.len())
        .ok_or_else(|| wrong("kernel", "has another rank"))?;
    let steps = Step::of(kernel, strides, pads, dilations).ok_or_else(|| {
        let problem =
            "and `dilations` must have a positive number for each spatial dimension, `pads` two, or be empty";
        wrong("strides", problem)
    })?;
    let in_reach = |param, v: i64| {
        let v = usize::try_from(v).ok().filter(|_| v.unsigned_abs() < REACH);
        v.ok_or_else(|| wrong(param, "are out of range"))
    };
    let mut all = Vec::with_capacity(kernel.len());
    for (&extent, step) in spatial.iter().zip(steps) {
        let Step { kernel, stride, dilation, before, after } = step;
        let (stride, dilation) = (in_reach("strides", stride)?, in_reach("dilations", dilation)?);
        let most = [kernel as u64, extent as u64, before.unsigned_abs(), after.unsigned_abs()];
        if kernel == 0 || most.into_iter().any(|v| v >= REACH) {
            return Err(wrong("kernel", "and `pads` are out of range").into());
        }
        let out = step.count(&extent, Padding::Given, ceil);
        let out = out.ok_or_else(|| wrong("kernel", "is larger than the padded extent"))?;
        let w = Windows { extent, kernel, stride, dilation, before, after, out };
        // An operand without elements may have large extents, but its windows are still listed, so their number is
        // limited.
        if w.kernel.checked_mul(w.out).is_none_or(|places| places > MOST) {
            return Err(wrong("kernel", "has more places in all windows than memory can hold").into());
        }
        all.push(w);
    }
    Ok(all)
}

/// Pads the spatial dimensions so that every window fits.
fn padded(
    on: &Tracer,
    x: &TracedTensor,
    value: Option<&TracedTensor>,
    all: &[Windows],
) -> Result<TracedTensor, TraceStop> {
    let starts = all.iter().map(|w| w.before);
    let ends = all.iter().map(Windows::needed_after);
    let pads: Vec<i64> = [0, 0].into_iter().chain(starts).chain([0, 0]).chain(ends).collect();
    on.pad(x, value, &pads, Border::Constant)
}

/// Selects the windows along spatial dimension `i`. The dimension `2 + i` gets the extent `kernel * out`.
fn select(on: &Tracer, x: &TracedTensor, i: usize, w: &Windows) -> Result<TracedTensor, TraceStop> {
    let axis = 2 + i as i64;
    if w.kernel == 1 {
        let end = (w.out as i64 - 1) * w.stride as i64 + 1;
        return on.slice(x, &[0], &[end], &[axis], &[w.stride as i64]);
    }
    let mut indices: Vec<i64> = memory::room("windows", w.kernel * w.out).map_err(Error::from)?;
    indices
        .extend((0..w.kernel).flat_map(|k| (0..w.out).map(move |o| (o * w.stride + k * w.dilation) as i64)));
    on.gather(x, &on.host(&[indices.len()], &indices)?, axis)
}

/// Returns the windows of a padded operand, as `[n, c, k…, o…]`.
fn patches(on: &Tracer, x: &TracedTensor, all: &[Windows]) -> Result<TracedTensor, TraceStop> {
    let mut y = x.clone();
    for (i, w) in all.iter().enumerate() {
        y = select(on, &y, i, w)?;
    }
    let mut shape: Shape = x.shape().iter().take(2).copied().collect();
    shape.extend(all.iter().flat_map(|w| [w.kernel, w.out]));
    let n = all.len() as i64;
    let perm: Vec<i64> =
        [0, 1].into_iter().chain((0..n).map(|i| 2 + 2 * i)).chain((0..n).map(|i| 3 + 2 * i)).collect();
    on.transpose(&on.reshape(&y, &shape)?, &perm)
}

/// The body of [`Nn::conv`](super::Nn::conv).
pub fn conv(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
    ConvOptions { strides, pads, dilations, group }: ConvOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let shapes = || bb_ir::Error::Shapes { op: "conv", left: x.shape().into(), right: w.shape().into() };
    if let Some(bias) = bias.filter(|_| math::is_half(x.dtype())) {
        // The sum of the product and the bias must be rounded only once, so 16-bit floats are computed in `f32`.
        types::alike(w, x)?;
        types::alike(bias, x)?;
        let options = ConvOptions { strides, pads, dilations, group };
        let [wide, w, bias] = [x, w, bias].map(|x| math::to(on, x, DataType::F32));
        return math::to(on, &on.conv(&wide?, &w?, Some(&bias?), options)?, x.dtype());
    }
    let from = on.extents(x);
    let ([_, c, ..], [m, depth, kernel @ ..]) = (from.as_slice(), w.shape()) else {
        return fail(shapes());
    };
    let c = &usize::try_from(c.number()).unwrap_or(0);
    let g = usize::try_from(group)
        .ok()
        .filter(|&g| g > 0 && m.is_multiple_of(g) && g.checked_mul(*depth) == Some(*c));
    let Some(g) = g else { return fail(shapes()) };
    if let Some(bias) = bias {
        types::vector(on, "conv", (2, bias), &super::Extent::from(*m))?;
    }
    if !slide::is_fixed(&from) {
        let all = slide::slides("conv", &from, kernel, strides, pads, dilations, false)?;
        return slide::conv(on, [x, w], bias, g, &all);
    }
    let n = &x.shape().first().copied().unwrap_or(0);
    let all = windows("conv", x.shape(), kernel, strides, pads, dilations, false)?;
    let result: Extents = [*n, *m].into_iter().chain(all.iter().map(|w| w.out)).map(Extent::from).collect();
    if let Some(y) = slide::convolved(on, x, w, bias, &result) {
        return Ok(y);
    }
    let size: usize = kernel.iter().product::<usize>() * depth;
    let places: usize = all.iter().map(|w| w.out).product();
    let x = padded(on, x, None, &all)?;
    let pointwise = all.iter().all(|w| w.kernel == 1 && w.stride == 1);
    let columns = if pointwise { x } else { patches(on, &x, &all)? };
    let product = if g == 1 {
        on.matmul(&on.reshape(w, &[*m, size])?, &on.reshape(&columns, &[*n, size, places])?)?
    } else {
        let filters = on.reshape(w, &[g, m / g, size])?;
        on.matmul(&filters, &on.reshape(&columns, &[*n, g, size, places])?)?
    };
    let shape: Vec<usize> = [*n, *m].into_iter().chain(all.iter().map(|w| w.out)).collect();
    let y = on.reshape(&product, &shape)?;
    match bias {
        Some(bias) => on.add(&y, &super::normalize::per_channel(on, bias, shape.len())?),
        None => Ok(y),
    }
}

impl<'a> FusedConvOptions<'a> {
    /// Returns the options of the convolution.
    pub const fn conv(self) -> ConvOptions<'a> {
        let FusedConvOptions { strides, pads, dilations, group } = self;
        ConvOptions { strides, pads, dilations, group }
    }
}

/// The body of [`Nn::fused_conv`](super::Nn::fused_conv): the convolution, then the other operations.
pub fn fused_conv(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
    xs: &[&TracedTensor],
    program: &[i64],
    options: FusedConvOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let y = on.conv(x, w, bias, options.conv())?;
    let all: Vec<&TracedTensor> = std::iter::once(&y).chain(xs.iter().copied()).collect();
    on.fused(&all, program)
}

/// Converts the extents of a kernel to `usize`.
pub(crate) fn extents(op: &'static str, kernel: &[i64]) -> Result<Vec<usize>, Error> {
    kernel
        .iter()
        .map(|&k| {
            usize::try_from(k).map_err(|_| {
                bb_ir::Error::Param {
                    op,
                    param: "kernel",
                    problem: "has a negative extent",
                    shape: Box::default(),
                }
                .into()
            })
        })
        .collect()
}

/// Selects the windows along one dimension and reduces them: `[…, kernel * out, …]` becomes `[…, out, …]`.
fn pooled(
    on: &Tracer,
    x: &TracedTensor,
    i: usize,
    w: &Windows,
    reduce: impl Fn(&TracedTensor, &[i64]) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let chosen = select(on, x, i, w)?;
    if w.kernel == 1 {
        return Ok(chosen);
    }
    let shape = chosen.shape();
    let (lead, rest) = shape.split_at((2 + i).min(shape.len()));
    let apart: Vec<usize> =
        lead.iter().copied().chain([w.kernel, w.out]).chain(rest.iter().skip(1).copied()).collect();
    reduce(&on.reshape(&chosen, &apart)?, &[2 + i as i64])
}

/// The body of [`Nn::max_pool`](super::Nn::max_pool). It takes the maximum along one axis at a time.
pub fn max_pool(
    on: &Tracer,
    x: &TracedTensor,
    kernel: &[i64],
    MaxPoolOptions { strides, pads, dilations, ceil }: MaxPoolOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let from = on.extents(x);
    if !slide::is_fixed(&from) {
        let kernel = extents("max_pool", kernel)?;
        let all = slide::slides("max_pool", &from, &kernel, strides, pads, dilations, ceil)?;
        let mut y = slide::padded(on, x, Some(&least(on, x)?), &all)?;
        for (i, s) in all.iter().enumerate() {
            y = slide::pooled(on, &y, i, s, |y, axes| on.reduce_max(y, axes, false))?;
        }
        return Ok(y);
    }
    let all = windows("max_pool", x.shape(), &extents("max_pool", kernel)?, strides, pads, dilations, ceil)?;
    let mut y = padded(on, x, Some(&least(on, x)?), &all)?;
    for (i, w) in all.iter().enumerate() {
        y = pooled(on, &y, i, w, |y, axes| on.reduce_max(y, axes, false))?;
    }
    Ok(y)
}

/// Returns, for each window of [`max_pool`], the offset of its maximum in `x`. If there are several equal maxima, the
/// first in row-major order is used, even if offsets are returned in column-major order.
pub fn max_pool_positions(
    on: &Tracer,
    x: &TracedTensor,
    all: &[Windows],
    column_major: bool,
) -> Result<TracedTensor, TraceStop> {
    let n = all.len();
    let columns = patches(on, &padded(on, x, Some(&least(on, x)?), all)?, all)?;
    let axes: Vec<i64> = (2..2 + n as i64).collect();
    let best = on.reduce_max(&columns, &axes, true)?;
    // The offset within one channel of every element of every window. In the padding it is greater than all valid
    // offsets.
    let beyond = on.host(&[], &[i64::MAX / 2])?;
    let spatial: Vec<usize> = all.iter().map(|w| w.extent).collect();
    let steps = super::movement::strides(&spatial);
    let mut position: Option<TracedTensor> = None;
    for (i, (w, &step)) in all.iter().zip(&steps).enumerate() {
        let places = (0..w.kernel)
            .flat_map(|k| (0..w.out).map(move |o| w.position(k, o)))
            .map(|p| if (0..w.extent as i64).contains(&p) { p * step } else { i64::MAX >> 8 });
        let places = memory::collected("max_pool", places).map_err(Error::from)?;
        let mut shape = vec![1; 2 + 2 * n];
        for (at, extent) in [(2 + i, w.kernel), (2 + n + i, w.out)] {
            if let Some(slot) = shape.get_mut(at) {
                *slot = extent;
            }
        }
        let places = on.host(&shape, &places)?;
        position = Some(match position {
            Some(sum) => on.add(&sum, &places)?,
            None => places,
        });
    }
    let position = match position {
        Some(position) => position,
        None => on.host(&[1, 1], &[0i64])?,
    };
    let mut is_best = on.equal(&columns, &best)?;
    if x.dtype().is_float() {
        // The maximum is NaN if any element is NaN.
        is_best = on.or(&is_best, &on.is_nan(&columns)?)?;
    }
    let found = on.r#where(&is_best, &position, &beyond)?;
    let found = on.reduce_min(&found, &axes, false)?;
    let size = spatial.iter().product::<usize>() as i64;
    let is_inside = on.less(&found, &on.host(&[], &[size])?)?;
    let found = if column_major { by_columns(on, &found, &spatial)? } else { found };
    // The offset of a channel in the whole tensor is its index times the size of a channel.
    let shape: Vec<usize> = x.shape().iter().take(2).copied().chain(std::iter::repeat_n(1, n)).collect();
    let of_all = on.add(&found, &crate::ext::counted(on, &shape, size)?)?;
    if all
        .iter()
        .all(|w| (0..w.out).all(|o| (0..w.kernel).any(|k| (0..w.extent as i64).contains(&w.position(k, o)))))
    {
        return Ok(of_all);
    }
    // A window that contains only padding has no maximum, so its offset is -1.
    on.r#where(&is_inside, &of_all, &on.host(&[], &[-1i64])?)
}

/// Converts row-major offsets to column-major offsets.
fn by_columns(on: &Tracer, position: &TracedTensor, extents: &[usize]) -> Result<TracedTensor, TraceStop> {
    let (mut rest, mut found) = (position.clone(), on.zeros_like(position, None)?);
    let mut step = extents.iter().product::<usize>() as i64;
    for extent in extents.iter().rev().map(|&extent| extent.max(1) as i64) {
        // In column-major order, the last axis has the greatest stride.
        step /= extent;
        let extent = on.host(&[], &[extent])?;
        let above = on.div(&rest, &extent)?;
        let place = on.sub(&rest, &on.mul(&above, &extent)?)?;
        found = on.add(&found, &on.mul(&place, &on.host(&[], &[step])?)?)?;
        rest = above;
    }
    Ok(found)
}

/// The body of [`Nn::average_pool`](super::Nn::average_pool). It sums along one axis at a time and divides by the count
/// of each axis.
pub fn average_pool(
    on: &Tracer,
    x: &TracedTensor,
    kernel: &[i64],
    AveragePoolOptions { strides, pads, dilations, ceil, count_pad }: AveragePoolOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    types::take("average_pool", x, types::FLOATS)?;
    // Sums in 16-bit floats would lose digits and overflow.
    let (dtype, wide) = (x.dtype(), math::accumulated(on, x)?);
    let x = &wide;
    let from = on.extents(x);
    // If windows contain no positions that are excluded from the count, the counts do not depend on the extents.
    if !slide::is_fixed(&from) && !ceil && (count_pad || pads.iter().all(|&pad| pad == 0)) {
        let kernel = extents("average_pool", kernel)?;
        let all = slide::slides("average_pool", &from, &kernel, strides, pads, dilations, ceil)?;
        let mut y = slide::padded(on, x, None, &all)?;
        for (i, s) in all.iter().enumerate() {
            y = slide::pooled(on, &y, i, s, |y, axes| on.reduce_sum(y, axes, false))?;
            if s.kernel != 1 {
                y = on.div(&y, &on.scalar_like(&y, s.kernel as f64)?)?;
            }
        }
        return math::narrowed(on, y, dtype);
    }
    let all = windows(
        "average_pool",
        x.shape(),
        &extents("average_pool", kernel)?,
        strides,
        pads,
        dilations,
        ceil,
    )?;
    let mut y = padded(on, x, None, &all)?;
    for (i, w) in all.iter().enumerate() {
        y = pooled(on, &y, i, w, |y, axes| on.reduce_sum(y, axes, false))?;
        let counted = if count_pad { -w.before..w.extent as i64 + w.after } else { 0..w.extent as i64 };
        let counts =
            (0..w.out).map(|o| (0..w.kernel).filter(|&k| counted.contains(&w.position(k, o))).count() as f64);
        let counts = memory::collected("average_pool", counts).map_err(Error::from)?;
        if counts.iter().all(|&c| c == 1.0) {
            continue;
        }
        let mut shape = vec![1; all.len() - i];
        if let Some(first) = shape.first_mut() {
            *first = counts.len();
        }
        let counts = math::to(on, &on.host(&shape, &counts)?, x.dtype())?;
        y = on.div(&y, &counts)?;
    }
    math::narrowed(on, y, dtype)
}
