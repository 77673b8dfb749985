//! Batches: joins tensors along a new dimension, and splits them again.

use crate::error::NodePart;
use crate::ext::{Border, Extent, fail};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::{Axis, memory};

fn wrong(op: &'static str, part: impl Into<NodePart>, problem: String) -> Error {
    Error::Operator { op: op.to_owned(), part: part.into(), problem }
}

/// Checks that all tensors have the same rank and type, and returns the first one.
fn alike<'a>(op: &'static str, xs: &[&'a TracedTensor]) -> Result<&'a TracedTensor, TraceStop> {
    let Some(&first) = xs.first() else {
        return fail(Error::Operand { op, index: 0, expected: "a tensor" });
    };
    for (index, x) in xs.iter().enumerate() {
        if x.dtype() != first.dtype() {
            let problem =
                format!("has the element type {}, expected {} as the first", x.dtype(), first.dtype());
            return fail(wrong(op, NodePart::Operand(index), problem));
        }
        if x.rank() != first.rank() {
            let problem = format!("has rank {}, expected {} as the first", x.rank(), first.rank());
            return fail(wrong(op, NodePart::Operand(index), problem));
        }
    }
    Ok(first)
}

/// Joins tensors of the same shape along a new dimension.
fn joined(on: &Tracer, xs: &[&TracedTensor], axis: i64) -> Result<TracedTensor, TraceStop> {
    let mut parts = memory::room("stack", xs.len()).map_err(Error::from)?;
    for x in xs {
        parts.push(on.unsqueeze(x, &[axis])?);
    }
    let parts: Vec<&TracedTensor> = parts.iter().collect();
    on.concat(&parts, axis)
}

/// The body of [`Create::stack`](crate::ext::Create::stack).
pub fn stack(on: &Tracer, xs: &[&TracedTensor], axis: i64) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "stack";
    let first = alike(OP, xs)?;
    let axis = Axis::new(axis, first.rank() + 1).map_err(Error::from)?.get() as i64;
    let extents = on.extents(first);
    for x in xs {
        if !on.extents(x).iter().zip(&extents).all(|(own, first)| own.equals(first)) {
            let (left, right) = (first.shape().into(), x.shape().into());
            return fail(bb_ir::Error::Shapes { op: OP, left, right });
        }
    }
    joined(on, xs, axis)
}

/// The body of [`Create::unstack`](crate::ext::Create::unstack).
pub fn unstack(on: &Tracer, x: &TracedTensor, axis: i64) -> Result<Vec<TracedTensor>, TraceStop> {
    const OP: &str = "unstack";
    let at = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let count = usize::try_from(on.extent(x, at).number()).unwrap_or(0);
    if count == 0 {
        return Ok(Vec::new());
    }
    let sizes = memory::filled(OP, 1usize, count).map_err(Error::from)?;
    let mut results = memory::room(OP, count).map_err(Error::from)?;
    for part in on.split(x, at as i64, &sizes)? {
        results.push(on.squeeze(&part, &[at as i64])?);
    }
    Ok(results)
}

/// The body of [`Create::pad_batch`](crate::ext::Create::pad_batch).
pub fn pad_batch(
    on: &Tracer,
    xs: &[&TracedTensor],
    axis: i64,
    value: f64,
) -> Result<Vec<TracedTensor>, TraceStop> {
    const OP: &str = "pad_batch";
    let first = alike(OP, xs)?;
    if first.dtype() == DataType::String {
        return fail(bb_ir::Error::Unsupported { op: OP, dtype: DataType::String });
    }
    let at = Axis::new(axis, first.rank()).map_err(Error::from)?.get();
    let number = |extent: &Extent| extent.number();
    let shapes: Vec<Vec<i64>> = xs.iter().map(|x| on.extents(x).iter().map(number).collect()).collect();
    let mut greatest = vec![0; first.rank()];
    for shape in &shapes {
        greatest.iter_mut().zip(shape).for_each(|(most, own)| *most = (*most).max(*own));
    }
    let filler = on.scalar_like(first, value)?;
    let mut padded = memory::room(OP, xs.len()).map_err(Error::from)?;
    for (x, shape) in xs.iter().zip(&shapes) {
        let ends = greatest.iter().zip(shape).map(|(most, own)| most - own);
        let pads: Vec<i64> = std::iter::repeat_n(0, shape.len()).chain(ends).collect();
        padded.push(on.pad(x, Some(&filler), &pads, Border::Constant)?);
    }
    let padded: Vec<&TracedTensor> = padded.iter().collect();
    let batch = joined(on, &padded, 0)?;
    let lengths: Vec<i64> = shapes.iter().map(|shape| shape.get(at).copied().unwrap_or(0)).collect();
    Ok(vec![batch, on.host(&[xs.len()], &lengths)?])
}
