//! Normalization and GELU, some fused with the operations before them.

use super::{alike, only, plus};
use bb_core::ext::{LayerNormalizationOptions, counted, math};
use bb_core::operator::{Call, OpOutputs, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, NodePart, Tensor};
use bb_ir::graph::{Dim, ValueType};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::normalize as n;
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        BiasGelu => Primitives(bias_gelu), infer: Broadcast;
        EmbedLayerNormalization => Primitives(embed_layer_normalization), infer: By(embed_layer_normalization_types);
        FastGelu => Primitives(fast_gelu), infer: Broadcast;
        Gelu => Primitives(gelu), infer: Same, becomes: NnOp::Gelu, halves: Once;
        LayerNormalization => Primitives(layer_normalization), infer: By(layer_normalization_types), becomes: NnOp::LayerNormalization, halves: Once;
        QEmbedLayerNormalization => Primitives(q_embed_layer_normalization), infer: By(embed_layer_normalization_types), halves: Once;
        QuickGelu => Primitives(quick_gelu), infer: Same, halves: Once;
        SimplifiedLayerNormalization => Primitives(simplified_layer_normalization), infer: By(simplified_layer_normalization_types), halves: Once;
        SkipLayerNormalization => Primitives(skip_layer_normalization), infer: By(skip_layer_normalization_types);
        SkipSimplifiedLayerNormalization => Primitives(skip_simplified_layer_normalization), infer: By(skip_layer_normalization_types);
    }
}

/// `Gelu`.
pub(super) fn gelu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    Ok(one(on.gelu(call.input(0)?, false)?))
}

/// `BiasGelu`: GELU of the sum of two operands.
pub(super) fn bias_gelu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    Ok(one(on.gelu(&on.add(call.input(0)?, call.input(1)?)?, false)?))
}

/// `FastGelu`: the `tanh` approximation of GELU, of a sum if there is a bias.
pub(super) fn fast_gelu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    Ok(one(on.gelu(&plus(on, call.input(0)?, call.optional(1))?, true)?))
}

/// `QuickGelu`: `x * sigmoid(alpha * x)`.
pub(super) fn quick_gelu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["alpha"])?;
    let alpha = call.float_or("alpha", f64::from(1.702f32))?;
    Ok(one(math::widened(on, call.input(0)?, DataType::F32, |x| on.swish(x, alpha))?))
}

fn layer_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    n::layer_normalization_types(at)
}

/// `LayerNormalization`.
pub(super) fn layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axis", "epsilon", "stash_type"])?;
    n::layer_normalization(on, call)
}

/// Infers the types of normalization by the root mean square: the normalized tensor, and the reciprocal of the root
/// mean square.
fn simplified_layer_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    let [_, moments, _] = <[_; 3]>::try_from(layer_normalization_types(at)?).ok()?;
    let wide = if at.dtype(0) == Some(DataType::F64) { DataType::F64 } else { DataType::F32 };
    let moments = match moments {
        ValueType::Tensor { shape, .. } => rule::tensor(Some(wide), shape),
        other => other,
    };
    Some(vec![rule::tensor(at.dtype(1), at.same()), moments])
}

/// `SimplifiedLayerNormalization`: divides by the root mean square. The second result is its reciprocal.
pub(super) fn simplified_layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axis", "epsilon", "stash_type"])?;
    let x = call.input(0)?;
    let (axis, epsilon) = (call.int_or("axis", -1)?, call.float_or("epsilon", 1e-5)?);
    let y = on.rms_normalization(x, call.input(1)?, axis, epsilon)?;
    let inverse = call.wants(1).then(|| inverse_root(on, x, axis, epsilon)).transpose()?;
    Ok(smallvec![Some(y), inverse])
}

/// Returns the reciprocal of the root mean square over the dimensions from `axis` on, at least in `f32`.
fn inverse_root(on: &Tracer, x: &TracedTensor, axis: i64, epsilon: f64) -> Result<TracedTensor, TraceStop> {
    let axes = bb_core::ext::normalize::axes_from(x, axis)?;
    let x = if x.dtype() == DataType::F64 { x.clone() } else { math::to(on, x, DataType::F32)? };
    let mean = on.reduce_mean(&on.mul(&x, &x)?, &axes, true)?;
    on.reciprocal(&on.sqrt(&on.add(&mean, &on.scalar_like(&mean, epsilon)?)?)?)
}

/// Infers the types of normalization of a sum over the last dimension: the normalized tensor, the mean, the inverse
/// standard deviation, and the sum.
fn skip_layer_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = at.broadcast_of(&[0, 1]);
    let moments = shape.clone().and_then(|mut dims| {
        *dims.last_mut()? = Dim::Known(1);
        Some(dims)
    });
    let (sum, moments) = (rule::tensor(at.dtype(0), shape), rule::tensor(Some(DataType::F32), moments));
    Some(vec![sum.clone(), moments.clone(), moments, sum])
}

/// `SkipLayerNormalization`: normalizes a sum. The fourth result is the sum.
pub(super) fn skip_layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["epsilon"])?;
    let epsilon = call.float_or("epsilon", f64::from(1e-12f32))?;
    alike(call, 2)?;
    let sum = plus(on, &on.add(call.input(0)?, call.input(1)?)?, call.optional(4))?;
    let options = LayerNormalizationOptions { epsilon, ..Default::default() };
    let y = on.layer_normalization(&sum, call.input(2)?, call.optional(3), options)?;
    let (mut mean, mut inverse) = (None, None);
    if call.wants(1) || call.wants(2) {
        let moments =
            bb_core::ext::normalize::moments(on, &math::to(on, &sum, DataType::F32)?, &[-1], epsilon)?;
        (mean, inverse) = (Some(moments.mean), Some(moments.inverse));
    }
    Ok(smallvec![Some(y), mean, inverse, Some(on.identity(&sum)?)])
}

/// `SkipSimplifiedLayerNormalization`: normalizes a sum by its root mean square.
pub(super) fn skip_simplified_layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["epsilon"])?;
    let epsilon = call.float_or("epsilon", f64::from(1e-12f32))?;
    alike(call, 2)?;
    let results =
        on.skip_rms_norm(call.input(0)?, call.input(1)?, call.input(2)?, call.optional(3), epsilon)?;
    let [y, sum] = <[TracedTensor; 2]>::try_from(results).map_err(|results| Error::Results {
        op: "skip_rms_norm".to_owned(),
        expected: 2,
        got: results.len(),
    })?;
    let (mut mean, mut inverse) = (None, None);
    if call.wants(1) || call.wants(2) {
        let root = inverse_root(on, &sum, -1, epsilon)?;
        // This normalization subtracts no mean. ONNX Runtime returns 0 as the mean.
        (mean, inverse) = (Some(on.full_like(&root, 0.0, None)?), Some(root));
    }
    Ok(smallvec![Some(y), mean, inverse, Some(on.identity(&sum)?)])
}

/// Infers the types of `EmbedLayerNormalization`: a vector for each token, the length of each sequence without padding,
/// and the sum of embeddings.
fn embed_layer_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let ([batch, length], [_, width]) = (at.dims(0)?, at.dims(2)?) else { return None };
        Some(vec![batch.clone(), length.clone(), width.clone()])
    };
    let numbers = if at.node.op_type == "QEmbedLayerNormalization" { at.dtype(8) } else { at.dtype(2) };
    let y = rule::tensor(numbers, shape());
    let counts = at.dims(0).and_then(|ids| Some(vec![ids.first()?.clone()]));
    let lengths = rule::tensor(if at.has(7) { at.dtype(7) } else { at.dtype(0) }, counts);
    Some(vec![y.clone(), lengths, y])
}

/// `EmbedLayerNormalization`: normalizes the sum of the embeddings of words, positions and segments.
pub(super) fn embed_layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["epsilon", "mask_index_type"])?;
    let rows = |index: usize, ids: &TracedTensor| on.gather(call.input(index)?, ids, 0);
    let scales = (call.input(5)?, call.input(6)?);
    embedded(on, call, rows, scales, call.optional(8), call.input(2)?.dtype())
}

/// `QEmbedLayerNormalization`: `EmbedLayerNormalization` with quantized tables.
pub(super) fn q_embed_layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["epsilon"])?;
    // Dequantizes `x` by the scale and the zero point of the operand `index`.
    let numbers = |index: usize, x: &TracedTensor| {
        bb_core::ext::quant::numbers(on, x, call.input(index + 6)?, call.optional(index + 11))
    };
    let rows = |index: usize, ids: &TracedTensor| numbers(index, &on.gather(call.input(index)?, ids, 0)?);
    let (gamma, beta) = (numbers(5, call.input(5)?)?, numbers(6, call.input(6)?)?);
    embedded(on, call, rows, (&gamma, &beta), None, DataType::F32)
}

/// Normalizes the sum of the rows that `rows` gathers from the tables, which are the operands 2 to 4.
fn embedded(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    rows: impl Fn(usize, &TracedTensor) -> Result<TracedTensor, TraceStop>,
    (gamma, beta): (&TracedTensor, &TracedTensor),
    positions: Option<&TracedTensor>,
    dtype: DataType,
) -> OpResult {
    let words = call.input(0)?;
    let &[batch, length] = words.shape() else {
        return Err(call
            .wrong(NodePart::Operand(0), format!("has rank {}, expected 2", words.rank()))
            .into());
    };
    let positions = match positions {
        Some(ids) => rows(3, ids)?,
        None => rows(3, &counted(on, &[length], 1)?)?,
    };
    let mut sum = on.add(&rows(2, words)?, &positions)?;
    match (call.optional(1), call.optional(4)) {
        (Some(ids), Some(_)) => sum = on.add(&sum, &rows(4, ids)?)?,
        // Without segment ids, all words belong to segment 0, as in ONNX Runtime.
        (None, Some(_)) => sum = on.add(&sum, &rows(4, &on.zeros(&[1, 1], words.dtype())?)?)?,
        (_, None) => {}
    }
    let epsilon = call.float_or("epsilon", f64::from(1e-12f32))?;
    let options = LayerNormalizationOptions { epsilon, ..Default::default() };
    let y = math::to(on, &on.layer_normalization(&sum, gamma, Some(beta), options)?, dtype)?;
    let lengths = match call.optional(7) {
        Some(mask) => on.reduce_sum(mask, &[1], false)?,
        None => on.zeros(&[batch], words.dtype())?,
    };
    let results: OpOutputs<TracedTensor> = smallvec![Some(y), Some(lengths), Some(on.identity(&sum)?)];
    Ok(results)
}
