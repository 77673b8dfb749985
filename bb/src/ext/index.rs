//! `Index`: sorting, and writing to places by number. Bodies compute on the host.

use super::{HostKernel, Ops, scatter, sort};
use crate::{DataType, Error, Tensor};
use bb_ir::op::Param;

crate::ext::family::family! { [
    /// Sorting, and writing to places by number.
    Index, IndexOp, index]

    /// Takes the `k` greatest elements along `axis`, or the least, and their positions.
    ///
    /// Shapes: as `x`, with `k` along `axis`, for both results; the positions are `i64`. Types: all numbers. The order
    /// is that of size, where NaN is greater than all; of equal elements the first comes first. Unless `sorted`, the
    /// order is the implementation's choice.
    ///
    /// Errors: a `k` that is negative or exceeds the extent.
    ///
    /// Source: ONNX `TopK`, opset 24.
    TopK 24 = top_k(x: Tensor; k: Int, axis: Int, largest: Bool, sorted: Bool) -> Tensors;

    /// Writes `updates` to the places of `data` that `indices` names along `axis`.
    ///
    /// Shapes: `indices` and `updates` are of one shape, of the rank of `data`. Types: all of whole bytes and strings;
    /// for a `reduction` other than `none` (`add`, `mul`, `max`, `min`) the compute types. Of several updates to one
    /// place the last stays, or they are applied in order.
    ///
    /// Errors: an index out of range.
    ///
    /// Source: ONNX `ScatterElements`, opset 18.
    ScatterElements 18 = scatter_elements(data: Tensor, indices: Tensor, updates: Tensor; axis: Int, reduction: Text) -> Tensor;

    /// Writes slices to the places of `data` that tuples of indices name.
    ///
    /// Shapes: `indices: [.., n]` names the first `n` dimensions of `data`; `updates` has the extents before the last of
    /// `indices`, then those of `data` after the first `n`. Otherwise as
    /// [`scatter_elements`](Self::scatter_elements).
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
    axis: i64,
    largest: bool,
    _sorted: bool,
) -> Result<Vec<B::Tensor>, B::Error> {
    let at = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let mut shape = bb_ir::Shape::from_slice(x.shape());
    if let Some(extent) = shape.get_mut(at) {
        let taken = usize::try_from(k).ok().filter(|k| k <= extent);
        *extent = taken.ok_or_else(|| Error::Operator {
            op: "top_k".to_owned(),
            what: "k".to_owned(),
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
    axis: i64,
    reduction: &str,
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
