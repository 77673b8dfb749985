//! `Index`: sorting, and writing to indexed positions. The bodies run on the host.

use super::{HostKernel, Ops, scatter, sort};
use crate::{DataType, Error, Tensor};
use bb_ir::op::Param;

crate::ext::family::family! { [
    /// Sorting, and writing to indexed positions.
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
    ScatterElements 18 = scatter_elements(data: Tensor, indices: Tensor, updates: Tensor) with options: ScatterElementsOptions<'a> {
        /// The dimension that `indices` indexes. If it is negative, it counts from the end.
        axis: Int = 0,
        /// How an update is combined with the element that it meets: `none` (it replaces the element), `add`, `mul`,
        /// `max` or `min`.
        reduction: Text = "none",
    } -> Tensor;

    /// Writes slices to the positions of `data` that tuples of indices give.
    ///
    /// Shapes: each tuple of `indices: [.., n]` indexes the first `n` dimensions of `data`. `updates` has the extents
    /// of `indices` without the last, then those of `data` after the first `n`. Types, reductions and errors are those
    /// of [`scatter_elements`](Self::scatter_elements).
    ///
    /// Source: ONNX `ScatterND`, opset 18.
    ScatterNd 18 = scatter_nd(data: Tensor, indices: Tensor, updates: Tensor; reduction: Text) -> Tensor;
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
    let mut shape = bb_ir::Shape::from_slice(x.shape());
    if let Some(extent) = shape.get_mut(at) {
        let taken = usize::try_from(k).ok().filter(|k| k <= extent);
        *extent = taken.ok_or_else(|| Error::Operator {
            op: "top_k".to_owned(),
            part: "k".into(),
            problem: format!("is {k}, expected 0 to {extent}"),
        })?;
    }
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
    ScatterElementsOptions { axis, reduction }: ScatterElementsOptions<'_>,
) -> Result<B::Tensor, B::Error> {
    let at = bb_ir::Axis::new(axis, data.rank()).map_err(Error::from)?.get();
    let params = [Param::Text(reduction.into()), Param::Int(at as i64)];
    scattered(on, &SCATTER_ELEMENTS, [data, indices, updates], &params)
}

/// The body of [`Index::scatter_nd`].
pub fn scatter_nd<B: Ops + ?Sized>(
    on: &B,
    data: &B::Tensor,
    indices: &B::Tensor,
    updates: &B::Tensor,
    reduction: &str,
) -> Result<B::Tensor, B::Error> {
    scattered(on, &SCATTER_ND, [data, indices, updates], &[Param::Text(reduction.into())])
}

/// Scatters on the host.
fn scattered<B: Ops + ?Sized>(
    on: &B,
    body: &'static HostKernel,
    operands: [&B::Tensor; 3],
    params: &[Param<'_>],
) -> Result<B::Tensor, B::Error> {
    let [data, ..] = operands;
    let result = [(data.dtype(), data.shape().into())];
    let outputs = on.on_host(body, &operands.map(Some), params, &result)?;
    let missing = || Error::Results { op: body.name.to_owned(), expected: 1, got: 0 };
    Ok(outputs.into_iter().next().ok_or_else(missing)?)
}
