//! Rules of operators on elements and along axes: quantisation, random numbers, reductions, extremes.

use bb_ir::DataType;
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{At, Types, tensor};
use bb_ir::infer::rule::{extent, known};

/// `dtype`, or else the operand's type.
pub(crate) fn cast_as_attribute(at: At<'_>) -> Option<Types> {
    at.one(at.type_attribute("dtype", at.dtype(0)), at.same())
}

pub(crate) fn cast_like(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.same())
}

pub(crate) fn dequantize(at: At<'_>) -> Option<Types> {
    // ONNX treats 0 like an absent attribute here.
    let given = at.type_attribute("output_dtype", None);
    at.one(given.or(at.dtype(1)), at.same())
}

pub(crate) fn quantize(at: At<'_>) -> Option<Types> {
    // ONNX treats 0 like an absent attribute here.
    let given = at.type_attribute("output_dtype", None);
    let zero_point = if at.has(2) { at.dtype(2) } else { Some(DataType::U8) };
    at.one(given.or(zero_point), at.same())
}

/// The extents are the first operand's, the type is the second one's.
pub(crate) fn scaled(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.same())
}

pub(crate) fn dynamic_quantize(at: At<'_>) -> Option<Types> {
    let scalar = |dtype| tensor(Some(dtype), Some(Vec::new()));
    Some(vec![tensor(Some(DataType::U8), at.same()), scalar(DataType::F32), scalar(DataType::U8)])
}

/// The mask is of the operand's type before version 10.
pub(crate) fn dropout(at: At<'_>) -> Option<Types> {
    let mask = if at.node.opset < 10 { at.dtype(0) } else { Some(DataType::Bool) };
    Some(vec![tensor(at.dtype(0), at.same()), tensor(mask, at.same())])
}

pub(crate) fn random(at: At<'_>) -> Option<Types> {
    let extents = at.ints("shape")?.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>()?;
    at.one(at.type_attribute("dtype", Some(DataType::F32)), Some(known(&extents)))
}

pub(crate) fn multinomial(at: At<'_>) -> Option<Types> {
    let [batch, _] = at.dims(0)? else { return None };
    let count = usize::try_from(at.int("sample_size", 1)?).ok()?;
    at.one(at.type_attribute("dtype", Some(DataType::I32)), Some(vec![batch.clone(), Dim::Known(count)]))
}

pub(crate) fn window(at: At<'_>) -> Option<Types> {
    at.one(at.type_attribute("output_datatype", Some(DataType::F32)), Some(vec![at.extent(0)]))
}

/// The reductions that are no primitives.
pub(crate) fn reduce(at: At<'_>) -> Option<Types> {
    let shape = at.dims(0).and_then(|x| at.reduced("reduce", x));
    at.one(at.dtype(0), shape)
}

/// `QLinearReduceMean`, whose axes are an attribute whatever the opset.
pub(crate) fn qlinear_reduce(at: At<'_>) -> Option<Types> {
    let reduced = |x: &[Dim]| {
        let kept = at.int("keepdims", 1)? != 0;
        let reduction = infer::reduce("reduce", x, at.ints("axes").unwrap_or_default(), kept);
        Some(reduction.ok()?.shape.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(reduced))
}

pub(crate) fn arg(at: At<'_>) -> Option<Types> {
    let reduced = |x: &[Dim]| {
        let reduction = infer::reduce("arg", x, &[at.int("axis", 0)?], at.int("keepdims", 1)? != 0);
        Some(reduction.ok()?.shape.into_vec())
    };
    at.one(Some(DataType::I64), at.dims(0).and_then(reduced))
}

pub(crate) fn top_k(at: At<'_>) -> Option<Types> {
    let count = match at.int("k", -1) {
        Some(k @ 0..) => extent(k),
        _ => at.extent(1),
    };
    let kept = |x: &[Dim]| at.with_axis(x, at.int("axis", -1)?, count);
    let shape = at.dims(0).and_then(kept);
    Some(vec![tensor(at.dtype(0), shape.clone()), tensor(Some(DataType::I64), shape)])
}
