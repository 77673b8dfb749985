//! `Index`: sorting, writing to indexed positions, and the positions of extrema. The bodies run on the host, but for the last.

use super::{HostKernel, Ops, math, open_results, scatter, sort};
use crate::{DataType, Error, Tensor};
use bb_ir::op::Param;

pub use bb_ir::op::ScatterReduction;

crate::ext::family::family! { [
    /// Sorting, writing to indexed positions, and the positions of extrema.
    Index, IndexOp, index]

    /// Returns the `k` greatest (or least) elements along `axis`, and their positions.
    ///
    /// Shapes: those of `x`, with `k` along `axis`, for both results; the positions are `i64`. Types: all numbers. The
    /// results are ordered by size; NaN counts as greater than all numbers, and of equal elements the first comes
    /// first.
    ///
    /// Errors: `k` is negative or exceeds the extent.
    ///
    /// Source: ONNX `TopK`, opset 24.
    TopK 24 = top_k(x: Tensor; k: Int) with options: TopKOptions {
        /// The dimension whose elements are compared. If it is negative, it counts from the end.
        axis: Int = -1,
        /// Whether the greatest elements are returned, and not the least.
        largest: Bool = true,
        /// Whether the results are ordered. Otherwise the order is implementation-defined.
        sorted: Bool = true,
    } -> Tensors;

    /// Writes `updates` to the positions of `data` that `indices` gives along `axis`.
    ///
    /// Shapes: `indices` and `updates` have the same shape, and the rank of `data`. Types: all types of whole bytes,
    /// and strings; for a reduction, the compute types. If several
    /// updates go to one position, the last one wins; with a reduction they are applied in order.
    ///
    /// Errors: an index is out of range.
    ///
    /// Source: ONNX `ScatterElements`, opset 18.
    ScatterElements 18 = scatter_elements(data: Tensor, indices: Tensor, updates: Tensor) with options: ScatterElementsOptions {
        /// The dimension that `indices` indexes. If it is negative, it counts from the end.
        axis: Int = 0,
        /// How an update is combined with the element that it meets.
        reduction: ScatterReduction = ScatterReduction::None,
    } -> Tensor;

    /// Writes slices to the positions of `data` that tuples of indices give.
    ///
    /// Shapes: each tuple of `indices: [.., n]` indexes the first `n` dimensions of `data`. `updates` has the extents
    /// of `indices` without the last, then those of `data` after the first `n`. Types, reductions and errors are those
    /// of [`scatter_elements`](Self::scatter_elements).
    ///
    /// Source: ONNX `ScatterND`, opset 18.
    ScatterNd 18 = scatter_nd(data: Tensor, indices: Tensor, updates: Tensor; reduction: ScatterReduction) -> Tensor;

    /// Returns the position of the greatest element along `axis`.
    ///
    /// Shapes: that of `x`, with 1 along `axis`; the positions are `i64`. Types: all numbers. NaN counts as greater than
    /// all numbers. Of equal elements the first counts, or the last if `select_last_index`.
    ///
    /// Source: ONNX `ArgMax`, opset 13.
    ArgMax 13 = arg_max(x: Tensor; axis: Int, select_last_index: Bool) -> Tensor;

    /// Returns the position of the least element along `axis`.
    ///
    /// Shapes: that of `x`, with 1 along `axis`; the positions are `i64`. Types: all numbers. NaN counts as less than all
    /// numbers. Of equal elements the first counts, or the last if `select_last_index`.
    ///
    /// Source: ONNX `ArgMin`, opset 13.
    ArgMin 13 = arg_min(x: Tensor; axis: Int, select_last_index: Bool) -> Tensor;
}

static TOP_K: HostKernel = HostKernel { name: "top_k", random: false, run: sort::top_k };
static SCATTER_ELEMENTS: HostKernel =
    HostKernel { name: "scatter_elements", random: false, run: scatter::elements };
static SCATTER_ND: HostKernel = HostKernel { name: "scatter_nd", random: false, run: scatter::slices };

/// The body of [`Index::top_k`].
pub fn top_k<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    k: i64,
    TopKOptions { axis, largest, sorted: _ }: TopKOptions,
) -> Result<Vec<B::Tensor>, B::Error> {
    let at = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let mut extents = on.extents(x);
    if let Some(extent) = extents.get_mut(at) {
        if k < 0 || !extent.at_least(&k.into()) {
            return super::fail::<B, _>(Error::Operator {
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
pub fn scatter_elements<B: Ops + ?Sized>(
    on: &B,
    data: &B::Tensor,
    indices: &B::Tensor,
    updates: &B::Tensor,
    ScatterElementsOptions { axis, reduction }: ScatterElementsOptions,
) -> Result<B::Tensor, B::Error> {
    let at = bb_ir::Axis::new(axis, data.rank()).map_err(Error::from)?.get();
    let params = [Param::Text(reduction.name().into()), Param::Int(at as i64)];
    scattered(on, &SCATTER_ELEMENTS, [data, indices, updates], &params)
}

/// The body of [`Index::scatter_nd`].
pub fn scatter_nd<B: Ops + ?Sized>(
    on: &B,
    data: &B::Tensor,
    indices: &B::Tensor,
    updates: &B::Tensor,
    reduction: ScatterReduction,
) -> Result<B::Tensor, B::Error> {
    scattered(on, &SCATTER_ND, [data, indices, updates], &[Param::Text(reduction.name().into())])
}

/// Scatters on the host.
fn scattered<B: Ops + ?Sized>(
    on: &B,
    body: &'static HostKernel,
    operands: [&B::Tensor; 3],
    params: &[Param<'_>],
) -> Result<B::Tensor, B::Error> {
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

/// Which position an extremum has.
#[derive(Debug, Clone, Copy)]
struct Extremum {
    /// Whether the least is asked for, and not the greatest.
    least: bool,
    /// Whether the last of equal elements counts, and not the first.
    last: bool,
}

/// The body of [`Index::arg_max`].
pub fn arg_max<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    axis: i64,
    select_last_index: bool,
) -> Result<B::Tensor, B::Error> {
    arg_extremum(on, x, axis, Extremum { least: false, last: select_last_index })
}

/// The body of [`Index::arg_min`].
pub fn arg_min<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    axis: i64,
    select_last_index: bool,
) -> Result<B::Tensor, B::Error> {
    arg_extremum(on, x, axis, Extremum { least: true, last: select_last_index })
}

/// The position of an extremum along `axis`.
fn arg_extremum<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    axis: i64,
    which: Extremum,
) -> Result<B::Tensor, B::Error> {
    let at = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    // Reductions take no 8- and 16-bit integers but those of `reduce_max`.
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
