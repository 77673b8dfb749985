//! Bodies of operations that normalize: softmax, and normalization by mean and variance.

use crate::ext::{Extent, LayerNormalizationOptions, math, product, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::Axis;

/// The maximum number of terms that a softmax sums in 16-bit floats. `f16` has 11 significant bits.
const FEW: usize = 1 << 11;

/// Returns whether there are at most [`FEW`] elements along these axes.
fn has_few_terms(on: &Tracer, x: &TracedTensor, axes: &[i64]) -> bool {
    let rank = x.rank() as i64;
    let extent = |&axis: &i64| {
        let axis = if axis < 0 { axis + rank } else { axis };
        on.extent(x, usize::try_from(axis).unwrap_or(usize::MAX))
    };
    let extents: Vec<Extent> = axes.iter().map(extent).collect();
    Extent::from(FEW as i64).at_least(&product(&extents))
}

/// The body of [`Nn::softmax`](super::Nn::softmax).
pub fn softmax(on: &Tracer, x: &TracedTensor, axis: i64) -> Result<TracedTensor, TraceStop> {
    types::take("softmax", x, types::FLOATS)?;
    softmax_over(on, x, &[axis])
}

/// The body of [`Nn::log_softmax`](super::Nn::log_softmax).
pub fn log_softmax(on: &Tracer, x: &TracedTensor, axis: i64) -> Result<TracedTensor, TraceStop> {
    types::take("log_softmax", x, types::FLOATS)?;
    log_softmax_over(on, x, &[axis])
}

/// Computes a softmax over several axes. The maximum is subtracted first to prevent overflow.
///
/// Each step rounds to the type of `x`, also for `f16`, as in ONNX's function body of Softmax, because ONNX's test
/// cases expect exactly these results. Sums of more than `FEW` terms would lose small addends or overflow, so they are
/// computed in `f32` and the quotient is rounded once.
pub fn softmax_over(on: &Tracer, x: &TracedTensor, axes: &[i64]) -> Result<TracedTensor, TraceStop> {
    let shares = |x: &TracedTensor| {
        let e = on.exp(&on.sub(x, &on.reduce_max(x, axes, true)?)?)?;
        on.div(&e, &on.reduce_sum(&e, axes, true)?)
    };
    if math::is_half(x.dtype()) && !has_few_terms(on, x, axes) {
        math::once(on, x, shares)
    } else {
        shares(x)
    }
}

/// Computes the logarithm of [`softmax_over`] without losing precision for small values.
pub fn log_softmax_over(on: &Tracer, x: &TracedTensor, axes: &[i64]) -> Result<TracedTensor, TraceStop> {
    math::widened(on, x, DataType::F32, |x| {
        let less = on.sub(x, &on.reduce_max(x, axes, true)?)?;
        on.sub(&less, &on.log(&on.reduce_sum(&on.exp(&less)?, axes, true)?)?)
    })
}

/// Returns the axes from `axis` to the last.
pub fn axes_from(x: &TracedTensor, axis: i64) -> Result<Vec<i64>, Error> {
    let from = Axis::new(axis, x.rank())?.get();
    Ok((from..x.rank()).map(|a| a as i64).collect())
}

/// The results of a normalization by mean and variance.
pub struct Moments {
    /// `(x - mean) / sqrt(variance + epsilon)`.
    pub normal: TracedTensor,
    /// The mean over the axes. The reduced axes are kept with extent 1.
    pub mean: TracedTensor,
    /// `1 / sqrt(variance + epsilon)`.
    pub inverse: TracedTensor,
}

/// Normalizes to mean 0 and variance 1 over `axes`.
pub fn moments(on: &Tracer, x: &TracedTensor, axes: &[i64], epsilon: f64) -> Result<Moments, TraceStop> {
    let mean = on.reduce_mean(x, axes, true)?;
    // The rounding error of a large mean may exceed the deviations. Subtracting the mean of the deviations corrects it.
    let apart = on.sub(x, &mean)?;
    let apart = on.sub(&apart, &on.reduce_mean(&apart, axes, true)?)?;
    let variance = on.reduce_mean(&on.mul(&apart, &apart)?, axes, true)?;
    let root = on.sqrt(&on.add(&variance, &on.scalar_like(&variance, epsilon)?)?)?;
    let inverse = on.reciprocal(&root)?;
    Ok(Moments { normal: on.div(&apart, &root)?, mean, inverse })
}

/// Returns a power of two for each maximum magnitude. It scales the numbers so that their squares neither overflow nor
/// underflow. It is 1 unless the numbers are very large or very small.
///
/// Source: the thresholds of Blue's algorithm, in Anderson: Algorithm 978, Safe Scaling in the Level 1 BLAS, 2017.
pub(crate) fn scale(on: &Tracer, greatest: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let [great, down, small, up] = match greatest.dtype() {
        DataType::F64 => [400, -600, -400, 700],
        _ => [50, -80, -50, 100],
    }
    .map(|power| on.scalar_like(greatest, 2f64.powi(power)));
    let (down, up, one) = (down?, up?, on.scalar_like(greatest, 1.0)?);
    let rest = on.r#where(&on.less(greatest, &small?)?, &up, &one)?;
    on.r#where(&on.greater(greatest, &great?)?, &down, &rest)
}

/// Multiplies the floats `x` with the `scale` of their maximum magnitude along `axes`. Returns the product and the
/// scale, whose reduced axes are kept with extent 1.
pub fn in_range(
    on: &Tracer,
    x: &TracedTensor,
    axes: &[i64],
) -> Result<(TracedTensor, TracedTensor), TraceStop> {
    let scale = scale(on, &on.reduce_max(&on.abs(x)?, axes, true)?)?;
    Ok((on.mul(x, &scale)?, scale))
}

/// The body of [`Nn::layer_normalization`](super::Nn::layer_normalization). 16-bit floats are computed in `f32` and
/// rounded once.
pub fn layer_normalization(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    bias: Option<&TracedTensor>,
    LayerNormalizationOptions { axis, epsilon }: LayerNormalizationOptions,
) -> Result<TracedTensor, TraceStop> {
    types::take("layer_normalization", x, types::FLOATS)?;
    for operand in std::iter::once(scale).chain(bias) {
        types::fits(on, "layer_normalization", operand, x)?;
    }
    let axes = axes_from(x, axis)?;
    let dtype = x.dtype();
    math::widened(on, x, DataType::F32, |x| {
        // Other types are not converted, so that the operations refuse them.
        let alike =
            |v: &TracedTensor| if v.dtype() == dtype { math::to(on, v, x.dtype()) } else { Ok(v.clone()) };
        let scaled = on.mul(&moments(on, x, &axes, epsilon)?.normal, &alike(scale)?)?;
        bias.map_or_else(|| Ok(scaled.clone()), |bias| on.add(&scaled, &alike(bias)?))
    })
}

/// Reshapes a vector with one number per channel so that it broadcasts to a tensor of rank `rank` whose axis 1 is the
/// channel.
pub fn per_channel(on: &Tracer, v: &TracedTensor, rank: usize) -> Result<TracedTensor, TraceStop> {
    if rank <= 2 || v.rank() != 1 {
        return on.identity(v);
    }
    let trailing: Vec<i64> = (1..rank as i64 - 1).collect();
    on.unsqueeze(v, &trailing)
}

/// The body of [`Nn::batch_normalization`](super::Nn::batch_normalization).
pub fn batch_normalization(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    bias: &TracedTensor,
    mean: &TracedTensor,
    variance: &TracedTensor,
    epsilon: f64,
) -> Result<TracedTensor, TraceStop> {
    types::take("batch_normalization", x, types::FLOATS)?;
    types::take("batch_normalization", variance, types::FLOATS)?;
    if x.rank() >= 2 {
        let channels = on.extent(x, 1);
        for (index, operand) in
            (1..).zip([scale, bias, mean, variance]).filter(|(_, operand)| operand.rank() == 1)
        {
            types::vector(on, "batch_normalization", (index, operand), &channels)?;
        }
    }
    // The quotient of a scale and a small deviation may exceed the range of 16-bit floats, even if the results do not.
    let wide = math::common(math::common(x.dtype(), variance.dtype()), DataType::F32);
    let variance = math::to(on, variance, wide)?;
    let root = on.sqrt(&on.add(&variance, &on.scalar_like(&variance, epsilon)?)?)?;
    let factor = on.div(&math::to(on, scale, wide)?, &root)?;
    let shift = on.sub(&math::to(on, bias, wide)?, &on.mul(&math::to(on, mean, wide)?, &factor)?)?;
    let (factor, shift) = (per_channel(on, &factor, x.rank())?, per_channel(on, &shift, x.rank())?);
    for operand in [&factor, &shift] {
        types::fits(on, "batch_normalization", operand, x)?;
    }
    let y = on.add(&on.mul(&math::to(on, x, wide)?, &factor)?, &shift)?;
    math::to(on, &y, x.dtype())
}
