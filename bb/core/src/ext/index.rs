//! `Index`: sorting, scattering to indexed positions, and the indices of extrema. The bodies run on the host, except
//! those that find extrema.

use super::{HostKernel, math, open_results, scatter, sort};
pub use crate::family::index::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::op::Param;

pub use bb_ir::op::ScatterReduction;

bb_ir::for_each_index!(crate::ext::bodies::bodies, Index, IndexOp, index);

static TOP_K: HostKernel = HostKernel { name: "top_k", random: false, run: sort::top_k };
static SCATTER_ELEMENTS: HostKernel =
    HostKernel { name: "scatter_elements", random: false, run: scatter::elements };
static SCATTER_ND: HostKernel = HostKernel { name: "scatter_nd", random: false, run: scatter::slices };

/// The body of [`Index::top_k`].
pub fn top_k(
    on: &Tracer,
    x: &TracedTensor,
    k: i64,
    TopKOptions { axis, largest, sorted: _ }: TopKOptions,
) -> Result<Vec<TracedTensor>, TraceStop> {
    let at = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let mut extents = on.extents(x);
    if let Some(extent) = extents.get_mut(at) {
        if k < 0 || !extent.at_least(&k.into()) {
            return super::fail(Error::Operator {
                op: "top_k".to_owned(),
                part: "k".into(),
                problem: format!("is {k}, expected 0 to {}", extent.present()),
            });
        }
        *extent = k.into();
    }
    if let Some(results) = open_results(on, &[(x.dtype(), &extents), (DataType::I64, &extents)]) {
        return Ok(results);
    }
    let shape: bb_ir::Shape =
        extents.iter().map(|extent| usize::try_from(extent.number()).unwrap_or(0)).collect();
    let params = [Param::Int(k), Param::Int(at as i64), Param::Bool(largest)];
    let results = [(x.dtype(), shape.clone()), (DataType::I64, shape)];
    Ok(on.on_host(&TOP_K, &[Some(x)], &params, &results)?.into_iter().collect())
}

/// The body of [`Index::scatter_elements`].
pub fn scatter_elements(
    on: &Tracer,
    data: &TracedTensor,
    indices: &TracedTensor,
    updates: &TracedTensor,
    ScatterElementsOptions { axis, reduction }: ScatterElementsOptions,
) -> Result<TracedTensor, TraceStop> {
    let at = bb_ir::Axis::new(axis, data.rank()).map_err(Error::from)?.get();
    let params = [Param::Text(reduction.name().into()), Param::Int(at as i64)];
    scattered(on, &SCATTER_ELEMENTS, [data, indices, updates], &params)
}

/// The body of [`Index::scatter_nd`].
pub fn scatter_nd(
    on: &Tracer,
    data: &TracedTensor,
    indices: &TracedTensor,
    updates: &TracedTensor,
    reduction: ScatterReduction,
) -> Result<TracedTensor, TraceStop> {
    scattered(on, &SCATTER_ND, [data, indices, updates], &[Param::Text(reduction.name().into())])
}

/// Scatters on the host.
fn scattered(
    on: &Tracer,
    body: &'static HostKernel,
    operands: [&TracedTensor; 3],
    params: &[Param<'_>],
) -> Result<TracedTensor, TraceStop> {
    let [data, ..] = operands;
    let extents = on.extents(data);
    if let Some(result) = open_results(on, &[(data.dtype(), &extents)]).and_then(|all| all.into_iter().next())
    {
        return Ok(result);
    }
    let result = [(data.dtype(), data.shape().into())];
    let outputs = on.on_host(body, &operands.map(Some), params, &result)?;
    let missing = || Error::Results { op: body.name.to_owned(), expected: 1, got: 0 };
    Ok(outputs.into_iter().next().ok_or_else(missing)?)
}

/// The index to return if several elements are extreme.
#[derive(Debug, Clone, Copy)]
struct Extremum {
    /// Whether to find the minimum instead of the maximum.
    least: bool,
    /// Whether the last of several equal elements is returned instead of the first.
    last: bool,
}

/// The body of [`Index::arg_max`].
pub fn arg_max(
    on: &Tracer,
    x: &TracedTensor,
    axis: i64,
    select_last_index: bool,
) -> Result<TracedTensor, TraceStop> {
    arg_extremum(on, x, axis, Extremum { least: false, last: select_last_index })
}

/// The body of [`Index::arg_min`].
pub fn arg_min(
    on: &Tracer,
    x: &TracedTensor,
    axis: i64,
    select_last_index: bool,
) -> Result<TracedTensor, TraceStop> {
    arg_extremum(on, x, axis, Extremum { least: true, last: select_last_index })
}

/// Returns the index of an extremum along `axis`.
fn arg_extremum(
    on: &Tracer,
    x: &TracedTensor,
    axis: i64,
    which: Extremum,
) -> Result<TracedTensor, TraceStop> {
    let at = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    // Not all reductions support 16-bit integers, so they are converted.
    let x = match x.dtype() {
        DataType::I16 | DataType::U16 => &math::to(on, x, DataType::I32)?,
        _ => x,
    };
    let best = if which.least { on.reduce_min(x, &[axis], true)? } else { on.reduce_max(x, &[axis], true)? };
    let mut found = on.equal(x, &best)?;
    if x.dtype().is_float() {
        found = on.or(&found, &on.is_nan(x)?)?;
    }
    let extent = on.extent(x, at);
    let behind: Vec<i64> = (1..(x.rank() - at) as i64).collect();
    let mut steps = on.iota(&0i64.into(), &1i64.into(), &extent)?;
    if !behind.is_empty() {
        steps = on.unsqueeze(&steps, &behind)?;
    }
    if which.last {
        on.reduce_max(&on.r#where(&found, &steps, &on.host(&[], &[-1i64])?)?, &[axis], true)
    } else {
        on.reduce_min(&on.r#where(&found, &steps, &on.ints_of(&[], &[extent])?)?, &[axis], true)
    }
}
