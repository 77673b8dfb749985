//! Operators that read or change shapes, and operators that create tensors only from shapes.

pub(crate) mod elements;

pub use elements::{gather_nd, gather_nd_types, pad, pad_types, trilu};

use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{Extent, math, product};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::{Dim, DimExpr};
use bb_ir::infer;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::{Axis, TensorData};
use smallvec::SmallVec;

operators! {
    "" {
        ConstantOfShape => Primitives(constant_of_shape), infer: By(constant_of_shape_types), halves: Moves;
        Expand => Primitives(expand), infer: By(expand_types), becomes: CreateOp::Expand, halves: Moves;
        EyeLike => Primitives(eye_like), infer: By(eye_like_types), halves: Moves;
        Flatten => Primitives(flatten), infer: By(flatten_types), halves: Moves;
        Range => Primitives(range), infer: By(range_types), becomes: CreateOp::Range, halves: Once, ignores: { "stash_type": "elements are computed in `f64`, and rounded once" };
        Shape => Primitives(shape), infer: By(shape_types), halves: Moves;
        Size => Primitives(size), infer: By(size_types), halves: Moves;
    }
}

fn shape_types(at: NodeFacts<'_>) -> Option<Types> {
    let count = at.listed().map_or(Dim::Unknown, |dims| Dim::Known(dims.len()));
    at.one(Some(DataType::I64), Some(vec![count]))
}

/// `Shape`: the extents from `start` up to, but not including, `end`.
pub(crate) fn shape(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let bound = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank) as usize;
    let (start, end) = (bound(call.int_or("start", 0)?), bound(call.int_or("end", rank)?));
    let extents = on.extents(x);
    let extents = extents.get(start..end).unwrap_or_default();
    Ok(one(on.ints_of(&[extents.len()], extents)?))
}

fn size_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

/// `Size`: the number of elements.
pub(crate) fn size(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let count = product(&on.extents(call.input(0)?));
    Ok(one(on.ints_of(&[], &[count])?))
}

/// Reads a shape from the elements of a tensor.
pub(crate) fn extents(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
) -> Result<Vec<Extent>, TraceStop> {
    let list = on.extents_of(call.input(index)?)?;
    if list.iter().all(|extent| extent.at_least(&Extent::from(0i64))) {
        return Ok(list);
    }
    let list: Vec<i64> = list.iter().map(Extent::present).collect();
    Err(call.wrong("shape", format!("is {list:?}; extents are not negative")).into())
}

/// Reads a shape from the elements of a tensor, as numbers that are fixed in the plan.
pub(crate) fn sizes(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
) -> Result<Vec<usize>, TraceStop> {
    let list = extents(on, call, index)?;
    Ok(list.iter().map(|extent| usize::try_from(extent.number()).unwrap_or(0)).collect())
}

fn expand_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let to = at.extents(1).or_else(|| at.open_extents(1))?;
        Some(infer::broadcast("expand", &[x, &to]).ok()?.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Expand`: broadcasts the operand with the requested shape.
pub(crate) fn expand(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, to) = (call.input(0)?, extents(on, call, 1)?);
    let from = on.extents(x);
    let shape = bb_ir::infer::broadcast("expand", &[&from, &to]).map_err(Error::from)?;
    // The inference rule leaves comparisons of extents to kernels. Here one shape belongs to no operand, so compare its
    // extents now.
    let (long, short) = (shape.len(), to.len());
    for (asked, extent) in to.iter().zip(shape.iter().skip(long - short)) {
        if !asked.is_same(extent) && !asked.is(1) {
            asked.equals(extent);
        }
    }
    Ok(one(on.expand_to(x, &shape)?))
}

fn constant_of_shape_types(at: NodeFacts<'_>) -> Option<Types> {
    let dtype = at.node.attributes.tensor("value").ok()?.map_or(DataType::F32, TensorData::dtype);
    at.one(Some(dtype), at.extents(0).or_else(|| at.open_extents(0)))
}

/// `ConstantOfShape`.
pub(crate) fn constant_of_shape(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let to = extents(on, call, 0)?;
    let value = match call.tensor_attribute("value")? {
        Some(value) => value.reshaped(&[]).map_err(Error::from)?,
        None => TensorData::scalar(0f32),
    };
    // `full_to` creates small tensors on the host. A value that `f64` cannot represent is expanded from a constant instead.
    let number = cast(&value, DataType::F64, Rounding::default())
        .ok()
        .and_then(|v| v.as_slice().ok()?.first().copied());
    match number.filter(|_| value.dtype().is_compute() && value.dtype().bits() < 64) {
        Some(number) => Ok(one(on.full_to(&to, number, value.dtype())?)),
        None => Ok(one(on.expand_to(&on.constant(&value)?, &to)?)),
    }
}

/// Reads a tensor with a single element.
pub(crate) fn number(on: &Tracer, x: &TracedTensor) -> Result<f64, TraceStop> {
    let data = cast(&on.to_host(x)?, DataType::F64, Rounding::default()).map_err(Error::from)?;
    match data.as_slice::<f64>().map_err(Error::from)? {
        [number] => Ok(*number),
        several => {
            let wrong = bb_ir::Error::Arity { op: "to_host", expected: "one element", got: several.len() };
            Err(Error::from(wrong).into())
        }
    }
}

/// Infers the type of `Range`. The number of elements follows from the operands, if they are known.
pub fn range_types(at: NodeFacts<'_>) -> Option<Types> {
    let number = |input| at.contents(input)?.only()?.formula();
    let count = || infer::range_count(number(0)?, number(1)?, at.scalar(2)?);
    let real = || {
        let number = |input| match at.contents(input)?.only()? {
            rule::Entry::Real(value) => Some(*value),
            rule::Entry::Whole(_) | rule::Entry::Unknown => None,
        };
        let (start, limit, delta) = (number(0)?, number(1)?, number(2)?);
        let count = ((limit - start) / delta).ceil().max(0.0);
        // If the operands are `f32`, the quotient may be rounded to the other side of an integer. The count is inferred only
        // if both precisions agree.
        let single = ((limit as f32 - start as f32) / delta as f32).ceil().max(0.0);
        let sure = f64::from(single) == count && count < f64::from(i32::MAX);
        sure.then(|| DimExpr::from(count as i64))
    };
    let count = count().or_else(real);
    at.one(at.dtype(0), Some(vec![count.map_or(Dim::Unknown, Dim::from)]))
}

/// `Range`.
pub(crate) fn range(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    range_of(on, call, call.input(0)?, call.input(1)?, call.input(2)?)
}

/// Returns the numbers from `first` up to, but not including, `last`.
pub fn range_of(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    first: &TracedTensor,
    last: &TracedTensor,
    step: &TracedTensor,
) -> OpResult {
    let dtype = first.dtype();
    for (at, x) in [first, last, step].into_iter().enumerate() {
        if x.dtype() != dtype {
            let problem = format!("is of type {}, and the first number of type {dtype}", x.dtype());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
        if bb_ir::element_count(x.shape()) != Some(1) {
            let problem = format!("has the shape {:?}, expected a scalar", x.shape());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
    }
    if matches!(dtype, DataType::I64 | DataType::I32)
        && let Some(range) = symbolic_range(on, [first, last, step])?
    {
        return Ok(one(math::to(on, &range, dtype)?));
    }
    if dtype == DataType::I64 {
        // Compute in integers, because a float cannot represent all integers beyond 2^53.
        let value = |x| -> Result<i128, TraceStop> { Ok(on.ints(x)?.first().copied().unwrap_or(0).into()) };
        let (first, last, step) = (value(first)?, value(last)?, value(step)?);
        if step == 0 {
            return Err(call.wrong("delta", "is 0").into());
        }
        let count = ((last - first + step - step.signum()) / step).max(0);
        if count > MOST {
            return Err(call.wrong("limit", format!("makes {count} elements, more than {MOST}")).into());
        }
        call.bound(dtype, &[count as usize])?;
        let at = |i: usize| (first + i as i128 * step) as i64;
        let elements: Vec<i64> =
            bb_ir::memory::collected("range", (0..count as usize).map(at)).map_err(Error::from)?;
        return Ok(one(on.host(&[elements.len()], &elements)?));
    }
    let (first, last, step) = (number(on, first)?, number(on, last)?, number(on, step)?);
    let count = ((last - first) / step).ceil().max(0.0);
    if step == 0.0 || !count.is_finite() || count > MOST as f64 {
        return Err(call.wrong("delta", format!("is {step}, which makes {count} elements")).into());
    }
    call.bound(dtype, &[count as usize])?;
    Ok(one(on.range(first, step, count as i64, dtype)?))
}

/// Creates a range whose bounds depend on symbolic extents. Returns `None` if the bounds are fixed, or if the step is not a
/// known positive number.
fn symbolic_range(on: &Tracer, bounds: [&TracedTensor; 3]) -> Result<Option<TracedTensor>, TraceStop> {
    let mut numbers = SmallVec::<[Extent; 3]>::new();
    for bound in bounds {
        numbers.extend(on.extents_of(bound)?.into_iter().next());
    }
    let [first, last, step] = numbers.as_slice() else { return Ok(None) };
    if numbers.iter().all(Extent::is_fixed) || !step.is_fixed() || step.present() <= 0 {
        return Ok(None);
    }
    if !last.at_least(first) {
        return on.host::<i64>(&[0], &[]).map(Some);
    }
    on.iota(first, step, &last.minus(first).ceil_div(step)).map(Some)
}

/// The maximum number of elements of a range.
const MOST: i128 = 1 << 28;

fn flatten_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let from = at.int("axis", 1)?;
        let from = if from < 0 { from + x.len() as i64 } else { from };
        let (outer, inner) = x.split_at_checked(usize::try_from(from).ok()?)?;
        Some(vec![rule::product(outer), rule::product(inner)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Flatten`: reshapes to a matrix. The dimensions before `axis` become rows.
pub(crate) fn flatten(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let axis = call.int_or("axis", 1)?;
    // The axis may equal the rank. Then all dimensions become rows.
    let at = if axis == x.rank() as i64 {
        x.rank()
    } else {
        Axis::new(axis, x.rank()).map_err(Error::from)?.get()
    };
    let extents = on.extents(x);
    let (rows, columns) = extents.split_at(at);
    Ok(one(on.reshape_to(x, &[product(rows), product(columns)])?))
}

fn eye_like_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.type_attribute("dtype", at.dtype(0)), at.same())
}

/// `EyeLike`: ones on a diagonal, zeros elsewhere.
pub(crate) fn eye_like(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let extents = on.extents(x);
    let [rows, columns] = extents.as_slice() else {
        return Err(call.wrong(NodePart::Operand(0), "is no matrix").into());
    };
    let mask =
        bb_core::ext::create::diagonal(on, [rows, columns], call.int_or("k", 0)?, |j, i| on.equal(j, i))?;
    Ok(one(math::to(on, &mask, call.dtype("dtype")?.unwrap_or(x.dtype()))?))
}
