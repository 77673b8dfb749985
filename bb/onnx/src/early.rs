//! Operators of early opsets that ONNX called experimental and later removed. Models of the ONNX model zoo and of WinML contain
//! them, and ONNX Runtime runs them.
//!
//! Source: the schemas of ONNX 1.4, and those that ONNX Runtime kept. Newer versions of ONNX have no schemas that check the
//! attributes, so each function itself refuses unknown attributes.

use super::movement;
use super::rows::operators;
use super::served::only;
use bb_core::error::NodePart;
use bb_core::ext::{Extent, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::TensorData;
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        Affine => Primitives(affine), infer: Same;
        ConstantFill => Primitives(constant_fill), infer: By(constant_fill_types), halves: Moves;
        Crop => Primitives(crop), infer: By(crop_types), halves: Moves;
        DynamicSlice => Primitives(dynamic_slice), infer: By(dynamic_slice_types), halves: Moves;
        GivenTensorFill => Primitives(given_tensor_fill), infer: By(given_tensor_fill_types), halves: Moves;
        ImageScaler => Primitives(image_scaler), infer: Same;
        MemcpyFromHost => Primitives(copy), infer: Same, halves: Moves;
        MemcpyToHost => Primitives(copy), infer: Same, halves: Moves;
        ParametricSoftplus => Primitives(parametric_softplus), infer: Same;
        Scale => Primitives(scale), infer: Same;
        ScaledTanh => Primitives(scaled_tanh), infer: Same;
    }
}

/// `Affine`: `alpha * x + beta`.
pub(super) fn affine(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["alpha", "beta"])?;
    let scaled = math::times(on, call.input(0)?, call.float_or("alpha", 1.0)?)?;
    Ok(one(math::plus(on, &scaled, call.float_or("beta", 0.0)?)?))
}

/// `Scale`.
pub(super) fn scale(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["scale"])?;
    Ok(one(math::times(on, call.input(0)?, call.float_or("scale", 1.0)?)?))
}

/// `ScaledTanh`: `alpha * tanh(beta * x)`.
pub(super) fn scaled_tanh(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["alpha", "beta"])?;
    let (alpha, beta) = (call.float("alpha")?, call.float("beta")?);
    Ok(one(math::times(on, &on.tanh(&math::times(on, call.input(0)?, beta)?)?, alpha)?))
}

/// `ParametricSoftplus`: `alpha * ln(exp(beta * x) + 1)`.
pub(super) fn parametric_softplus(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["alpha", "beta"])?;
    let (alpha, beta) = (call.float("alpha")?, call.float("beta")?);
    Ok(one(math::times(on, &on.softplus(&math::times(on, call.input(0)?, beta)?)?, alpha)?))
}

/// `ImageScaler`: multiplies all pixels by a factor and adds a bias to each channel.
pub(super) fn image_scaler(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["bias", "scale"])?;
    let x = call.input(0)?;
    let y = math::times(on, x, call.float_or("scale", 1.0)?)?;
    let Some(bias) = call.floats("bias")? else { return Ok(one(y)) };
    if x.rank() < 2 || !on.extent(x, 1).equals(&Extent::from(bias.len())) {
        let problem = format!("has {} numbers; the operand has the shape {:?}", bias.len(), x.shape());
        return Err(call.wrong("bias", problem).into());
    }
    let mut shape = vec![1; x.rank() - 1];
    if let Some(channels) = shape.first_mut() {
        *channels = bias.len();
    }
    Ok(one(on.add(&y, &math::to(on, &on.host(&shape, bias)?, x.dtype())?)?))
}

/// Infers the type of `Crop`: the operand without its borders, or with the size in `scale`.
fn crop_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let ([n, c, height, width], [left, top, right, bottom]) = (at.dims(0)?, at.ints("border")?) else {
            return None;
        };
        let [rows, columns] = match at.ints("scale").unwrap_or_default() {
            [] => [
                rule::shifted(height, top.checked_add(*bottom)?.checked_neg()?),
                rule::shifted(width, left.checked_add(*right)?.checked_neg()?),
            ],
            [rows, columns] => [rule::extent(*rows), rule::extent(*columns)],
            _ => return None,
        };
        Some(vec![n.clone(), c.clone(), rows, columns])
    };
    at.one(at.dtype(0), shape())
}

/// `Crop`: removes the borders; with `scale`, takes a part of that size that begins after the left and top borders.
pub(super) fn crop(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["border", "scale"])?;
    let x = call.input(0)?;
    let extents = on.extents(x);
    let [_, _, height, width] = extents.as_slice() else {
        return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 4", x.rank())).into());
    };
    let scale = call.ints("scale")?.filter(|scale| !scale.is_empty());
    let &[left, top, right, bottom] = call.ints("border")?.unwrap_or(&[]) else {
        let count = call.ints("border")?.map_or(0, <[i64]>::len);
        return Err(call.wrong("border", format!("has {count} numbers, expected 4")).into());
    };
    let (end, name) = match scale {
        None => ([height, width].map(Extent::clone), "border"),
        Some(&[rows, columns]) => {
            ([rows.saturating_add(top), columns.saturating_add(left)].map(Extent::from), "scale")
        }
        Some(scale) => {
            return Err(call.wrong("scale", format!("has {} numbers, expected 2", scale.len())).into());
        }
    };
    let [below, beside] = end;
    let ends = match scale {
        None => [below.minus(&Extent::from(bottom)), beside.minus(&Extent::from(right))],
        Some(_) => [below, beside],
    };
    let starts = [top, left].map(Extent::from);
    for ((start, end), extent) in starts.iter().zip(&ends).zip([height, width]) {
        if start.present() < 0 || !end.at_least(start) || !extent.at_least(end) {
            let problem = format!("asks for {start} to {end} of an extent of {extent}");
            return Err(call.wrong(name, problem).into());
        }
    }
    Ok(one(on.slice_to(x, &starts, &ends, &[2, 3], &[])?))
}

/// Infers the type of `DynamicSlice`, with the extents that follow from the bounds if these are known.
fn dynamic_slice_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let lists = (at.list("starts", 1), at.list("ends", 2), at.list("axes", 3));
        let (Some(starts), Some(ends), Some(axes)) = lists else {
            return Some(vec![Dim::Unknown; x.len()]);
        };
        let bounds = |list: Vec<i64>| list.into_iter().map(|n| Some(infer::Bound::of(n))).collect::<Vec<_>>();
        Some(infer::slice_by(x, &bounds(starts), &bounds(ends), &axes, &[]).ok()?.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `DynamicSlice`: an early `Slice` whose bounds are operands.
pub(super) fn dynamic_slice(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    movement::slice(on, call)
}

/// `MemcpyFromHost` and `MemcpyToHost`, which ONNX Runtime inserts between devices.
pub(super) fn copy(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    Ok(one(on.identity(call.input(0)?)?))
}

/// Returns the shape that `GivenTensorFill` and `ConstantFill` fill, followed by `extra_shape`. The shape comes from an
/// attribute, or is the operand's shape, or consists of the operand's elements.
fn filled(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<Vec<Extent>, TraceStop> {
    let mut shape = match call.optional(0) {
        Some(x) if call.flag("input_as_shape", false)? => on.extents_of(x)?,
        Some(x) => on.extents(x).into_vec(),
        None => {
            let list = call.ints("shape")?.unwrap_or_default();
            list.iter().map(|&extent| Extent::from(extent)).collect()
        }
    };
    shape.extend(call.ints("extra_shape")?.unwrap_or_default().iter().map(|&extent| Extent::from(extent)));
    match shape.iter().find(|extent| extent.present() < 0) {
        Some(extent) => {
            Err(call.wrong("shape", format!("has an extent of {extent}; extents are not negative")).into())
        }
        None => Ok(shape),
    }
}

/// Infers the type of `GivenTensorFill`. The element type is unknown: only the graph declares whether it is a float type other
/// than `f32`.
fn given_tensor_fill_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(None, filled_shape(at))
}

/// `GivenTensorFill`: a tensor whose elements are an attribute.
pub(super) fn given_tensor_fill(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["extra_shape", "input_as_shape", "shape", "values"])?;
    let shape = filled(on, call)?;
    let values = call.floats("values")?.unwrap_or_default();
    let count = bb_core::ext::product(&shape);
    if !count.equals(&Extent::from(values.len())) {
        let problem = format!("has {} elements; the shape has {count}", values.len());
        return Err(call.wrong("values", problem).into());
    }
    let x = on.reshape_to(&on.host(&[values.len()], values)?, &shape)?;
    Ok(one(math::to(on, &x, call.declared(0).filter(|d| d.is_float()).unwrap_or(DataType::F32))?))
}

/// Infers the shape that is filled.
fn filled_shape(at: NodeFacts<'_>) -> Option<Vec<Dim>> {
    let listed = |name| at.ints(name).unwrap_or_default().iter().map(|&n| rule::extent(n));
    let mut shape: Vec<Dim> = match (at.has(0), at.int("input_as_shape", 0)? != 0) {
        (false, _) => listed("shape").collect(),
        (true, false) => at.dims(0)?.to_vec(),
        (true, true) => at.extents(0).or_else(|| at.open_extents(0))?,
    };
    shape.extend(listed("extra_shape"));
    Some(shape)
}

/// `ConstantFill`.
fn constant_fill_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.type_attribute("dtype", Some(DataType::F32)), filled_shape(at))
}

/// `ConstantFill`: a tensor whose elements all have one value.
pub(super) fn constant_fill(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["dtype", "extra_shape", "input_as_shape", "shape", "value"])?;
    let shape = filled(on, call)?;
    let dtype = call.dtype("dtype")?.unwrap_or(DataType::F32);
    let value = TensorData::scalar(call.float_or("value", 0.0)? as f32);
    let value = cast(&value, dtype, Rounding::default()).map_err(Error::from)?;
    Ok(one(on.expand_to(&on.constant(&value)?, &shape)?))
}
