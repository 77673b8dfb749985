//! Mixture of experts: a router chooses, for each token, a few of many two-layer networks.
//!
//! If there are fewer choices than experts, the weights of the chosen experts are gathered. Otherwise each expert computes all
//! tokens, and its results for tokens that chose other experts are dropped.

mod between;
mod few_bits;
mod layers;
mod narrow_floats;

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{TopKOptions, counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_onnx::shared::operators;
use between::{Activation, Between};
use few_bits::{bits, few_bits};
use layers::{Experts, Layer};
use narrow_floats::narrow_floats;

operators! {
    "com.microsoft" {
        MoE => Primitives(moe), infer: Same;
        QMoE => Primitives(q_moe), infer: Same;
    }
}

/// Reads the number of experts that each token uses.
fn count<T>(call: &Call<'_, T>, experts: usize) -> Result<usize, Error> {
    let k = call.int_or("k", 1)?;
    let count = usize::try_from(k).ok().filter(|k| (1..=experts).contains(k));
    count.ok_or_else(|| call.wrong("k", format!("is {k}, expected 1 to {experts}, the number of experts")))
}

/// Returns the tokens as rows, after checking that the router's probabilities have a fitting shape.
fn rows(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<(TracedTensor, usize, usize), TraceStop> {
    let (x, router) = (call.input(0)?, call.input(1)?);
    let size = x.shape().last().copied().unwrap_or(0);
    let tokens: usize = x.shape().iter().rev().skip(1).product();
    if !matches!(x.rank(), 2 | 3) || size == 0 {
        let problem = format!("has the extents {:?}, expected 2 or 3, the last more than 0", x.shape());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let &[own, experts] = router.shape() else {
        return Err(call
            .wrong(NodePart::Operand(1), format!("has rank {}, expected 2", router.rank()))
            .into());
    };
    if own != tokens {
        let problem = format!("has {own} rows, expected one for each of {tokens} tokens");
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    Ok((on.reshape(x, &[tokens, size])?, size, experts))
}

/// Returns the `k` greatest elements of each row, and their indices.
fn greatest(on: &Tracer, x: &TracedTensor, k: usize) -> Result<[TracedTensor; 2], TraceStop> {
    let options = TopKOptions { axis: 1, ..Default::default() };
    let results: Vec<TracedTensor> = on.top_k(x, k as i64, options)?.into_iter().collect();
    let got = results.len();
    Ok(<[TracedTensor; 2]>::try_from(results).map_err(|_| Error::Results {
        op: "top_k".to_owned(),
        expected: 2,
        got,
    })?)
}

/// Normalizes each row to a sum of 1.
fn normalised(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.div(x, &on.reduce_sum(x, &[1], true)?)
}

/// Chooses two experts for each token. The weight of each is its softmax among the experts with a similar logit.
///
/// Source: Phi-3.5-MoE (SparseMixer), in evaluation.
fn sparse(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    logits: &TracedTensor,
    k: usize,
) -> Result<[TracedTensor; 2], TraceStop> {
    /// The maximum distance of a logit from the greatest one, relative to the greater magnitude of the two.
    const NEAR: f64 = 0.02;
    if k != 2 {
        return Err(call.wrong("k", format!("is {k}, expected 2 with `use_sparse_mixer`")).into());
    }
    let never = on.scalar_like(logits, f64::NEG_INFINITY)?;
    let places = counted(on, &[logits.shape().last().copied().unwrap_or(0)], 1)?;
    let (mut left, mut chosen, mut weights) = (logits.clone(), Vec::new(), Vec::new());
    for _ in 0..2 {
        let [most, at] = greatest(on, &left, 1)?;
        let scale = on.maximum(&on.abs(logits)?, &most)?;
        let far = on.greater(&on.div(&on.sub(&most, logits)?, &scale)?, &on.scalar_like(logits, NEAR)?)?;
        let near = on.softmax(&on.r#where(&far, &never, &left)?, -1)?;
        weights.push(on.gather_elements(&near, &at, 1)?);
        left = on.r#where(&on.equal(&places, &math::to(on, &at, places.dtype())?)?, &never, &left)?;
        chosen.push(at);
    }
    Ok([
        on.concat(&weights.iter().collect::<Vec<_>>(), 1)?,
        on.concat(&chosen.iter().collect::<Vec<_>>(), 1)?,
    ])
}

/// Reshapes the results of the experts to the shape of the tokens.
fn placed(on: &Tracer, call: &Call<'_, TracedTensor>, y: &TracedTensor) -> OpResult {
    Ok(one(on.reshape(y, call.input(0)?.shape())?))
}

/// `MoE`.
pub(crate) fn moe(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "activation_alpha",
            "activation_beta",
            "activation_type",
            "k",
            "normalize_routing_weights",
            "swiglu_fusion",
            "swiglu_limit",
            "swiglu_limit_after_activation",
            "use_sparse_mixer",
        ],
    )?;
    let between = Between::read(call)?;
    let (x, size, experts) = rows(on, call)?;
    let k = count(call, experts)?;
    // Older models list the extents of a matrix in the other order, but the memory layout is the same.
    let layer = |weights: usize, bias: usize, inner: usize| -> Result<Layer, TraceStop> {
        let all = call.input(weights)?;
        let elements: usize = all.shape().iter().product();
        let each = experts.saturating_mul(inner).max(1);
        if all.rank() != 3 || !elements.is_multiple_of(each) || elements == 0 {
            let problem =
                format!("has the extents {:?}, expected [{experts}, …, {inner}] of any", all.shape());
            return Err(call.wrong(NodePart::Operand(weights), problem).into());
        }
        let outer = elements / each;
        let weights = on.reshape(all, &[experts, outer, inner])?;
        Ok(Layer { weights, bias: biases(on, call, bias, [experts, outer])?, few: None, inner, outer })
    };
    let second_elements: usize = call.input(4)?.shape().iter().product();
    let inner = second_elements / experts.saturating_mul(size).max(1);
    let all = Experts {
        count: experts,
        first: layer(2, 3, size)?,
        second: layer(4, 5, inner)?,
        third: if call.optional(6).is_some() { Some(layer(6, 7, size)?) } else { None },
        between,
    };
    fits(call, &all, size)?;
    let router = call.input(1)?;
    let [weights, chosen] = if call.flag("use_sparse_mixer", false)? {
        sparse(on, call, router, k)?
    } else {
        greatest(on, &on.softmax(router, -1)?, k)?
    };
    let weights =
        if call.flag("normalize_routing_weights", false)? { normalised(on, &weights)? } else { weights };
    placed(on, call, &all.mixed(on, &x, &chosen, &weights)?)
}

/// Returns the biases of a layer, `[experts, outer]`, if the operand is present.
fn biases(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
    expected: [usize; 2],
) -> Result<Option<TracedTensor>, TraceStop> {
    let Some(bias) = call.optional(index) else { return Ok(None) };
    if *bias.shape() != expected {
        let problem = format!("has the extents {:?}, expected {expected:?}", bias.shape());
        return Err(call.wrong(NodePart::Operand(index), problem).into());
    }
    Ok(Some(math::to(on, bias, call.input(0)?.dtype())?))
}

/// Refuses layers whose sizes do not match each other.
fn fits<T: Tensor>(call: &Call<'_, T>, all: &Experts, size: usize) -> Result<(), Error> {
    let gate = if all.between.gated() && all.third.is_none() { 2 } else { 1 };
    if all.between.activation == Activation::Geglu && all.third.is_some() {
        return Err(call.wrong("activation_type", "is `geglu`, which takes no third layer"));
    }
    let expected = all.second.inner.saturating_mul(gate);
    let layers = [Some((&all.first, expected)), all.third.as_ref().map(|third| (third, all.second.inner))];
    for (layer, expected) in layers.into_iter().flatten() {
        if layer.outer != expected {
            let problem = format!(
                "makes {} numbers of a token, expected {expected}, because the second takes {}",
                layer.outer, all.second.inner
            );
            return Err(call.wrong(NodePart::other("the first or third layer"), problem));
        }
    }
    if all.second.outer != size {
        let problem = format!("makes {} numbers of a token, expected {size}", all.second.outer);
        return Err(call.wrong(NodePart::other("the second layer"), problem));
    }
    Ok(())
}

/// `QMoE`, whose weights are integers of 2, 4 or 8 bits, or 8-bit floats. If an operand has another float type than the tokens,
/// everything is computed in `f32`, and the result is rounded.
pub(crate) fn q_moe(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let own = call.input(0)?.dtype();
    let is_other =
        |x: &TracedTensor| x.dtype() != own && (math::is_half(x.dtype()) || x.dtype() == DataType::F32);
    if !(0..call.len()).filter_map(|i| call.optional(i)).any(is_other) {
        return q_moe_of_one_type(on, call);
    }
    let wide = |x: &TracedTensor| math::accumulated(on, x);
    let operands: Vec<Option<TracedTensor>> =
        (0..call.len()).map(|i| call.optional(i).map(wide).transpose()).collect::<Result<_, TraceStop>>()?;
    let results = q_moe_of_one_type(on, &call.with_operands(&operands))?;
    results.into_iter().map(|y| y.map(|y| math::narrowed(on, y, own)).transpose()).collect()
}

fn q_moe_of_one_type(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "accuracy_level",
            "activation_alpha",
            "activation_beta",
            "activation_type",
            "block_size",
            "expert_weight_bits",
            "fc1_expert_weight_bits",
            "fc2_expert_weight_bits",
            "fc3_expert_weight_bits",
            "k",
            "normalize_routing_weights",
            "quant_type",
            "swiglu_fusion",
            "swiglu_limit",
            "swiglu_limit_after_activation",
            "use_sparse_mixer",
            "weights_prepacked",
        ],
    )?;
    let quantised = call.text_or("quant_type", "int")?;
    let floats = match quantised {
        "int" => false,
        "fp8" => true,
        // 4-bit floats are refused, because the schema does not define the order of the two floats in a byte.
        _ => {
            return Err(call
                .wrong("quant_type", format!("is `{quantised}`, expected `int` or `fp8`"))
                .into());
        }
    };
    if !floats && call.int_or("weights_prepacked", -1)? == 1 {
        return Err(call.wrong("weights_prepacked", "is not served: the order is one device's own").into());
    }
    let by_expert = floats && narrow_floats::block(call)? == 0;
    super::none_from(call, if by_expert { 17 } else { 15 })?;
    let between = Between::read(call)?;
    let (x, size, experts) = rows(on, call)?;
    let k = count(call, experts)?;
    let third = call.optional(8).is_some();
    let (first, second, third) = if floats {
        if let Some(zeros) = (11..14).find(|&index| call.optional(index).is_some()) {
            return Err(call.wrong(NodePart::Operand(zeros), "is given; floats have no zero points").into());
        }
        let layer = |at: usize, global: Option<usize>| {
            narrow_floats(on, call, at, global.filter(|_| by_expert), experts)
        };
        (layer(2, Some(15))?, layer(5, Some(16))?, third.then(|| layer(8, None)).transpose()?)
    } else {
        let bytes: usize = call.input(5)?.shape().iter().product();
        let inner = bytes.saturating_mul(8)
            / bits(call, "fc2_expert_weight_bits")? as usize
            / experts.saturating_mul(size).max(1);
        let layer = |places: [usize; 2], own: &'static str, inner: usize| {
            few_bits(on, call, places, own, experts, inner)
        };
        (
            layer([2, 11], "fc1_expert_weight_bits", size)?,
            layer([5, 12], "fc2_expert_weight_bits", inner)?,
            third.then(|| layer([8, 13], "fc3_expert_weight_bits", size)).transpose()?,
        )
    };
    let all = Experts { count: experts, first, second, third, between };
    for layer in [Some(&all.first), all.third.as_ref()] {
        if let Some(layer) = layer.filter(|layer| layer.inner != size) {
            let problem = format!("takes {} numbers of a token, which has {size}", layer.inner);
            return Err(call.wrong(NodePart::other("the first or third layer"), problem).into());
        }
    }
    fits(call, &all, size)?;
    let router = call.input(1)?;
    let normalises = call.flag("normalize_routing_weights", false)?;
    let sparse_mixer = call.flag("use_sparse_mixer", false)?;
    let [weights, chosen] =
        if sparse_mixer { sparse(on, call, router, k)? } else { greatest(on, router, k)? };
    let weights = match call.optional(14) {
        Some(own) => {
            let weights = on.gather_elements(own, &chosen, 1)?;
            if normalises { normalised(on, &weights)? } else { weights }
        }
        None if sparse_mixer => weights,
        // Normalize over the chosen experts only.
        None => on.softmax(&weights, -1)?,
    };
    placed(on, call, &all.mixed(on, &x, &chosen, &weights)?)
}
