//! Pooling over windows, and global pooling.

use super::attributes::{Movement, Sliding, sliding};
use crate::attributes::Attributes;
use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::window::{Windows, max_pool_positions, windows};
use bb_core::ext::{AveragePoolOptions, Extent, MaxPoolOptions, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::memory;
use smallvec::smallvec;

operators! {
    "" {
        AveragePool => Primitives(average_pool), infer: By(pool_types), becomes: NnOp::AveragePool, halves: Once;
        GlobalAveragePool => Primitives(global_average_pool), infer: By(global_pool_types), halves: Once;
        GlobalLpPool => Primitives(global_lp_pool), infer: By(global_pool_types);
        GlobalMaxPool => Primitives(global_max_pool), infer: By(global_pool_types), halves: Moves;
        LpPool => Primitives(lp_pool), infer: By(pool_types);
        MaxPool => Primitives(max_pool), infer: By(pool_types), becomes: NnOp::MaxPool, halves: Moves;
    }
}

/// The attributes of pooling, as a node states them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooling<'a> {
    pub(crate) kernel: Option<&'a [i64]>,
    pub(crate) movement: Movement<'a>,
    ceil: bool,
}

impl<'a> Pooling<'a> {
    /// Reads the attributes of a node.
    pub(crate) fn of<A: Attributes<'a>>(node: &A) -> Result<Pooling<'a>, A::Error> {
        let (kernel, ceil) = (node.ints("kernel_shape")?, node.flag("ceil_mode", false)?);
        Ok(Pooling { kernel, movement: Movement::of(node)?, ceil })
    }

    /// Returns the extents of the kernel, if the attribute is present.
    pub(crate) fn told_kernel(&self) -> Option<Vec<Dim>> {
        Some(self.kernel?.iter().map(|&k| rule::extent(k)).collect())
    }

    /// Fills in omitted attributes.
    fn sliding<T>(&self, call: &Call<'_, T>, x: &[Extent]) -> Result<Sliding, Error> {
        let missing = || call.wrong("kernel_shape", "is missing; the operator needs it");
        sliding(call, &self.movement, x, self.kernel.ok_or_else(missing)?.to_vec())
    }
}

impl Sliding {
    /// Returns the options of average pooling over the windows.
    fn averaging(&self, ceil: bool, count_pad: bool) -> AveragePoolOptions<'_> {
        let Sliding { strides, pads, dilations, .. } = self;
        AveragePoolOptions { strides, pads, dilations, ceil, count_pad }
    }
}

/// Infers the shape after pooling. The channels are the second dimension.
pub fn pool_shape(at: NodeFacts<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let [n, c, spatial @ ..] = x else { return None };
    let pooling = Pooling::of(&at).ok()?;
    let counts = pooling.movement.counts(spatial, &pooling.told_kernel()?, pooling.ceil)?;
    Some([&[n.clone(), c.clone()], counts.as_slice()].concat())
}

/// Infers the types of pooling: the pooled tensor, and the indices of the maxima.
pub fn pool_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = at.dims(0).and_then(|x| pool_shape(at, x));
    Some(vec![rule::tensor(at.dtype(0), shape.clone()), rule::tensor(Some(DataType::I64), shape)])
}

/// `MaxPool`, with the indices of the maxima if requested.
pub(crate) fn max_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let y = plain_max_pool(on, call, x)?;
    if !call.wants(1) {
        return Ok(one(y));
    }
    let pooling = Pooling::of(call)?;
    let s = pooling.sliding(call, &on.extents(x))?;
    let windows = resolved(call, x, &s, pooling.ceil)?;
    let positions = max_pool_positions(on, x, &windows, call.flag("storage_order", false)?)?;
    Ok(smallvec![Some(y), Some(positions)])
}

/// Computes max pooling of a tensor other than the call's operand, with the call's attributes.
pub fn plain_max_pool(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let pooling = Pooling::of(call)?;
    let Sliding { kernel, strides, pads, dilations } = &pooling.sliding(call, &on.extents(x))?;
    let options = MaxPoolOptions { strides, pads, dilations, ceil: pooling.ceil };
    on.max_pool(x, kernel, options)
}

fn resolved<T: Tensor>(call: &Call<'_, T>, x: &T, s: &Sliding, ceil: bool) -> Result<Vec<Windows>, Error> {
    let kernel: Option<Vec<usize>> = s.kernel.iter().map(|&k| usize::try_from(k).ok()).collect();
    let kernel = kernel.ok_or_else(|| call.wrong("kernel_shape", "has a negative extent"))?;
    windows("pool", x.shape(), &kernel, &s.strides, &s.pads, &s.dilations, ceil)
}

/// `AveragePool`.
pub(crate) fn average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(plain_average_pool(on, call, call.input(0)?)?))
}

/// Computes average pooling of a tensor other than the call's operand, with the call's attributes.
pub fn plain_average_pool(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let pooling = Pooling::of(call)?;
    let s = pooling.sliding(call, &on.extents(x))?;
    on.average_pool(x, &s.kernel, s.averaging(pooling.ceil, call.flag("count_include_pad", false)?))
}

/// `LpPool`: the norm of each window.
pub(crate) fn lp_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let pooling = Pooling::of(call)?;
    let s = pooling.sliding(call, &on.extents(x))?;
    let p = norm_order(call)?;
    let powers = on.pow(&on.abs(x)?, &on.scalar_like(x, p)?)?;
    let mean = on.average_pool(&powers, &s.kernel, s.averaging(pooling.ceil, false))?;
    // The mean divides by the number of window elements inside the operand, so multiplying by that number gives the
    // sum.
    let (counts, filled) = window_counts(on, x, &resolved(call, x, &s, pooling.ceil)?)?;
    let mut sum = on.mul(&mean, &counts)?;
    if !filled {
        let zero = on.scalar_like(x, 0.0)?;
        sum = on.r#where(&on.equal(&counts, &zero)?, &zero, &sum)?;
    }
    Ok(one(on.pow(&sum, &on.scalar_like(x, 1.0 / p)?)?))
}

/// Returns how many elements of each window are inside the operand, and whether every window has at least one.
fn window_counts(on: &Tracer, x: &TracedTensor, all: &[Windows]) -> Result<(TracedTensor, bool), TraceStop> {
    let (mut product, mut filled) = (on.scalar_like(x, 1.0)?, true);
    for (i, w) in all.iter().enumerate() {
        let inside =
            |o: usize| (0..w.kernel).filter(|&k| (0..w.extent as i64).contains(&w.position(k, o))).count();
        let counts = (0..w.out).map(|o| inside(o) as f64);
        let counts = memory::collected("pool", counts).map_err(Error::from)?;
        filled &= !counts.contains(&0.0);
        let mut shape = vec![1; all.len() - i];
        if let Some(first) = shape.first_mut() {
            *first = w.out;
        }
        product = on.mul(&product, &math::to(on, &on.host(&shape, &counts)?, x.dtype())?)?;
    }
    Ok((product, filled))
}

/// Reads the order of the norm, `p`, which is a float in opset 1.
fn norm_order<T: Tensor>(call: &Call<'_, T>) -> Result<f64, Error> {
    if call.opset() < 2 { call.float_or("p", 2.0) } else { Ok(call.int_or("p", 2)? as f64) }
}

/// Reduces the spatial dimensions. If there are none, each channel is one element and nothing is reduced, because a
/// reduction without axes would reduce all dimensions.
///
/// # Errors
///
/// [`Error::Operator`] if `x` has fewer than two dimensions; the errors of the reduction.
pub fn over_space(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    reduce: impl Fn(&TracedTensor, &[i64]) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    match x.rank() {
        rank @ (0 | 1) => {
            let problem = format!("has rank {rank}, expected 2 or more: the batch and the channels first");
            Err(call.wrong(NodePart::Operand(0), problem).into())
        }
        2 => on.identity(x),
        rank => reduce(x, &(2..rank as i64).collect::<Vec<_>>()),
    }
}

/// Infers the shape of global pooling. The channels are the second dimension.
pub fn global_pool_shape(x: &[Dim]) -> Option<Vec<Dim>> {
    let [n, c, spatial @ ..] = x else { return None };
    Some([&[n.clone(), c.clone()], vec![Dim::Known(1); spatial.len()].as_slice()].concat())
}

/// Infers the type of global pooling.
pub fn global_pool_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(global_pool_shape))
}

/// `GlobalMaxPool`.
pub(crate) fn global_max_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    Ok(one(over_space(on, call, x, |x, axes| on.reduce_max(x, axes, true))?))
}

/// `GlobalAveragePool`.
pub(crate) fn global_average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    Ok(one(over_space(on, call, x, |x, axes| on.reduce_mean(x, axes, true))?))
}

/// `GlobalLpPool`.
pub(crate) fn global_lp_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let p = norm_order(call)?;
    let powers = on.pow(&on.abs(x)?, &on.scalar_like(x, p)?)?;
    let sum = over_space(on, call, &powers, |x, axes| on.reduce_sum(x, axes, true))?;
    Ok(one(on.pow(&sum, &on.scalar_like(x, 1.0 / p)?)?))
}
