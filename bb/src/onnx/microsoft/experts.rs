//! Mixtures of experts: a router chooses for each token a few of many networks of two layers.
//!
//! Few tokens gather the weights of the experts that are chosen for them. Where there are more choices than experts, each expert
//! computes all tokens, and those that chose others drop the result.

use super::only;
use crate::error::NodePart;
use crate::ext::{MatMulNBitsOptions, Ops, TopKOptions, counted, math, n_bits::unpacked};
use crate::onnx::call::{Call, OpResult, one};
use crate::onnx::rows::operators;
use crate::{DataType, Error, Tensor};

operators! {
    "com.microsoft" {
        MoE => Primitives(moe), infer: Same;
        QMoE => Primitives(q_moe), infer: Same;
    }
}

/// Between the layers of an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activation {
    Relu,
    /// The square of `Relu`.
    Relu2,
    Gelu,
    Silu,
    Identity,
    /// A gate of `x * sigmoid(alpha * x)`.
    Swiglu,
    /// A gate of `Gelu`.
    Geglu,
}

/// How a gate and what it opens lie in the results of the first layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fusion {
    /// In turn.
    Interleaved,
    /// One behind the other.
    Halves,
}

/// What an expert does between its layers.
#[derive(Debug, Clone, Copy)]
struct Between {
    activation: Activation,
    fusion: Fusion,
    alpha: f64,
    beta: f64,
    limit: Option<f64>,
    limits_after: bool,
}

impl Between {
    fn read<T>(call: &Call<'_, T>) -> Result<Between, Error> {
        let activation = match call.text_or("activation_type", "relu")? {
            "relu" => Activation::Relu,
            "relu2" => Activation::Relu2,
            "gelu" => Activation::Gelu,
            "silu" => Activation::Silu,
            "identity" => Activation::Identity,
            "swiglu" => Activation::Swiglu,
            "geglu" => Activation::Geglu,
            other => {
                let problem = format!(
                    "is `{other}`, expected `relu`, `relu2`, `gelu`, `silu`, `identity`, `swiglu` or `geglu`"
                );
                return Err(call.wrong("activation_type", problem));
            }
        };
        let fusion = match call.int_or("swiglu_fusion", 0)? {
            0 | 1 => Fusion::Interleaved,
            2 => Fusion::Halves,
            other => return Err(call.wrong("swiglu_fusion", format!("is {other}, expected 0, 1 or 2"))),
        };
        Ok(Between {
            activation,
            fusion,
            alpha: call.float_or("activation_alpha", 1.0)?,
            beta: call.float_or("activation_beta", 0.0)?,
            limit: call.float_if_given("swiglu_limit")?.map(f64::from).filter(|limit| limit.is_finite()),
            limits_after: call.flag("swiglu_limit_after_activation", false)?,
        })
    }

    /// Tells whether the first layer gives a gate and what it opens, if there is no third layer for one of them.
    fn gated(&self) -> bool {
        matches!(self.activation, Activation::Swiglu | Activation::Geglu)
    }

    /// Cuts `[rows, 2 * size]` into a gate and what it opens.
    fn cut<B: Ops + ?Sized>(&self, on: &B, x: &B::Tensor) -> Result<[B::Tensor; 2], B::Error> {
        let &[rows, width] = x.shape() else { return Ok([x.clone(), x.clone()]) };
        let half = (width / 2) as i64;
        if self.fusion == Fusion::Halves {
            let part = |from: i64, to: i64| on.slice(x, &[from], &[to], &[1], &[]);
            return Ok([part(0, half)?, part(half, 2 * half)?]);
        }
        let pairs = on.reshape(x, &[rows, width / 2, 2])?;
        let part = |at: i64| on.squeeze(&on.slice(&pairs, &[at], &[at + 1], &[2], &[])?, &[2]);
        Ok([part(0)?, part(1)?])
    }

    /// Computes what the second layer gets, of what the first gives, and the third if there is one.
    fn apply<B: Ops + ?Sized>(
        &self,
        on: &B,
        first: &B::Tensor,
        third: Option<&B::Tensor>,
    ) -> Result<B::Tensor, B::Error> {
        let [gate, linear] = match third {
            Some(third) => [first.clone(), third.clone()],
            None if self.gated() => self.cut(on, first)?,
            None => return self.alone(on, first),
        };
        if self.activation != Activation::Swiglu {
            return on.mul(&self.alone(on, &gate)?, &linear);
        }
        let limit =
            self.limit.map(|limit| Ok::<_, B::Error>([-limit, limit].map(|x| on.scalar_like(first, x))));
        let (mut gate, mut linear, mut least) = (gate, linear, None);
        if let Some(limit) = limit.transpose()? {
            let [low, high] = limit;
            let (low, high) = (low?, high?);
            linear = on.clip(&linear, Some(&low), Some(&high))?;
            if self.limits_after {
                least = Some(high);
            } else {
                gate = on.minimum(&gate, &high)?;
            }
        }
        let mut opened = on.swish(&gate, self.alpha)?;
        if let Some(high) = least {
            opened = on.minimum(&opened, &high)?;
        }
        let linear =
            if self.beta == 0.0 { linear } else { on.add(&linear, &on.scalar_like(first, self.beta)?)? };
        on.mul(&opened, &linear)
    }

    /// Applies the activation to one operand.
    fn alone<B: Ops + ?Sized>(&self, on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        match self.activation {
            Activation::Relu => on.relu(x),
            Activation::Relu2 => {
                let y = on.relu(x)?;
                on.mul(&y, &y)
            }
            Activation::Gelu | Activation::Geglu => on.gelu(x, true),
            Activation::Silu | Activation::Swiglu => on.swish(x, 1.0),
            Activation::Identity => Ok(x.clone()),
        }
    }
}

/// Numbers of few bits.
struct Few<T> {
    bits: i64,
    block: usize,
    /// `[experts, outer, blocks]`.
    scales: T,
    /// `[experts, outer, bytes]`, or of another type than bytes one for each scale.
    zeros: Option<T>,
}

/// A layer of all experts.
struct Layer<T> {
    /// `[experts, outer, inner]`, or bytes.
    weights: T,
    /// `[experts, outer]`.
    bias: Option<T>,
    few: Option<Few<T>>,
    inner: usize,
    outer: usize,
}

impl<T: Tensor> Layer<T> {
    /// Applies the layer of one expert to `[rows, inner]`.
    fn of_expert<B: Ops<Tensor = T> + ?Sized>(&self, on: &B, x: &T, expert: usize) -> Result<T, B::Error> {
        let at = expert as i64;
        let part = |all: &T| on.squeeze(&on.slice(all, &[at], &[at + 1], &[0], &[])?, &[0]);
        let bias = self.bias.as_ref().map(part).transpose()?;
        let weights = part(&self.weights)?;
        let Some(few) = &self.few else { return on.linear(x, &weights, bias.as_ref()) };
        let (blocks, bytes) = (self.inner / few.block, few.block * few.bits as usize / 8);
        let weights = on.reshape(&weights, &[self.outer, blocks, bytes])?;
        let zeros = few.zeros.as_ref().map(part).transpose()?;
        let options =
            MatMulNBitsOptions { inner: self.inner as i64, bits: few.bits, block: few.block as i64 };
        let y = on.matmul_n_bits(x, &weights, &part(&few.scales)?, zeros.as_ref(), None, options)?;
        super::plus(on, &y, bias.as_ref())
    }

    /// Applies to each row of `[rows, inner]` the layer of its own expert.
    fn of_rows<B: Ops<Tensor = T> + ?Sized>(&self, on: &B, x: &T, experts: &T) -> Result<T, B::Error> {
        let own = |all: &T| on.gather(all, experts, 0);
        let mut weights = own(&self.weights)?;
        if let Some(few) = &self.few {
            let rows = x.shape().first().copied().unwrap_or(0);
            let blocks = self.inner / few.block;
            let numbers = math::to(on, &unpacked(on, &weights, few.bits)?, DataType::F32)?;
            let numbers = on.reshape(&numbers, &[rows, self.outer, blocks, few.block])?;
            let zeros = match &few.zeros {
                None => on.scalar_like(&numbers, 2f64.powi(few.bits as i32 - 1))?,
                Some(zeros) => {
                    let zeros = own(zeros)?;
                    let zeros = match zeros.dtype() {
                        DataType::U8 => {
                            on.slice(&unpacked(on, &zeros, few.bits)?, &[0], &[blocks as i64], &[2], &[])?
                        }
                        _ => zeros,
                    };
                    on.unsqueeze(&math::to(on, &zeros, DataType::F32)?, &[3])?
                }
            };
            let scales = on.unsqueeze(&math::to(on, &own(&few.scales)?, DataType::F32)?, &[3])?;
            let numbers = on.mul(&on.sub(&numbers, &zeros)?, &scales)?;
            weights = on.reshape(&numbers, &[rows, self.outer, self.inner])?;
        }
        let y = on.squeeze(&on.matmul(&weights, &on.unsqueeze(x, &[2])?)?, &[2])?;
        super::plus(on, &y, self.bias.as_ref().map(own).transpose()?.as_ref())
    }
}

/// The layers of all experts, and what is between them.
struct Experts<T> {
    count: usize,
    first: Layer<T>,
    second: Layer<T>,
    third: Option<Layer<T>>,
    between: Between,
}

impl<T: Tensor> Experts<T> {
    fn run<B: Ops<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        x: &T,
        layer: impl Fn(&Layer<T>, &T) -> Result<T, B::Error>,
    ) -> Result<T, B::Error> {
        let third = self.third.as_ref().map(|third| layer(third, x)).transpose()?;
        layer(&self.second, &self.between.apply(on, &layer(&self.first, x)?, third.as_ref())?)
    }

    /// Computes for each row of `[tokens, size]` the sum of what its experts give, by their weights `[tokens, k]`.
    fn mixed<B: Ops<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        x: &T,
        chosen: &T,
        weights: &T,
    ) -> Result<T, B::Error> {
        let (&[tokens, size], &[_, k]) = (x.shape(), chosen.shape()) else { return Ok(x.clone()) };
        if tokens.saturating_mul(k) < self.count {
            let each = on.expand(&on.unsqueeze(x, &[1])?, &[tokens, k, size])?;
            let (rows, flat) = (on.reshape(&each, &[tokens * k, size])?, on.reshape(chosen, &[tokens * k])?);
            let y = self.run(on, &rows, |layer, x| layer.of_rows(on, x, &flat))?;
            let y = on.reshape(&y, &[tokens, k, self.second.outer])?;
            return on.reduce_sum(&on.mul(&y, &on.unsqueeze(weights, &[2])?)?, &[1], false);
        }
        let nothing = on.scalar_like(x, 0.0)?;
        let mut sum: Option<T> = None;
        for expert in 0..self.count {
            let chose = on.equal(chosen, &on.scalar_like(chosen, expert as f64)?)?;
            let weight = on.reduce_sum(&on.r#where(&chose, weights, &nothing)?, &[1], true)?;
            let any = on.greater(&weight, &nothing)?;
            let y = self.run(on, x, |layer, x| layer.of_expert(on, x, expert))?;
            // What an expert gives for tokens of others may not be a number.
            let y = on.r#where(&any, &on.mul(&y, &weight)?, &nothing)?;
            sum = Some(super::plus(on, &y, sum.as_ref())?);
        }
        Ok(match sum {
            Some(sum) => sum,
            None => on.mul(x, &nothing)?,
        })
    }
}

/// Reads how many experts each token has.
fn count<T>(call: &Call<'_, T>, experts: usize) -> Result<usize, Error> {
    let k = call.int_or("k", 1)?;
    let count = usize::try_from(k).ok().filter(|k| (1..=experts).contains(k));
    count.ok_or_else(|| call.wrong("k", format!("is {k}, expected 1 to {experts}, the number of experts")))
}

/// Returns the tokens as rows, and the probabilities of the router, whose extents fit.
fn rows<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Result<(B::Tensor, usize, usize), B::Error> {
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

/// Returns the `k` greatest of each row, and their positions.
fn greatest<B: Ops + ?Sized>(on: &B, x: &B::Tensor, k: usize) -> Result<[B::Tensor; 2], B::Error> {
    let options = TopKOptions { axis: 1, ..Default::default() };
    let results: Vec<B::Tensor> = on.top_k(x, k as i64, options)?.into_iter().collect();
    let got = results.len();
    Ok(<[B::Tensor; 2]>::try_from(results).map_err(|_| Error::Results {
        op: "top_k".to_owned(),
        expected: 2,
        got,
    })?)
}

/// Makes the numbers of each row sum up to 1.
fn normalised<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.div(x, &on.reduce_sum(x, &[1], true)?)
}

/// Chooses two experts for each token, and weighs each among those that are about as probable.
///
/// Source: Phi-3.5-MoE (SparseMixer), in evaluation.
fn sparse<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    logits: &B::Tensor,
    k: usize,
) -> Result<[B::Tensor; 2], B::Error> {
    /// How much less than the greatest a logit may be, relative to the greater magnitude of both.
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

/// Puts what the experts give in the place of the tokens.
fn placed<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>, y: &B::Tensor) -> OpResult<B> {
    Ok(one(on.reshape(y, call.input(0)?.shape())?))
}

/// `MoE`.
pub(in crate::onnx) fn moe<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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
    // Older models name the extents of a matrix in the other order; the elements lie the same way.
    let layer = |weights: usize, bias: usize, inner: usize| -> Result<Layer<B::Tensor>, B::Error> {
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

/// Returns the biases of a layer, if they are given, `[experts, outer]`.
fn biases<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    index: usize,
    expected: [usize; 2],
) -> Result<Option<B::Tensor>, B::Error> {
    let Some(bias) = call.optional(index) else { return Ok(None) };
    if *bias.shape() != expected {
        let problem = format!("has the extents {:?}, expected {expected:?}", bias.shape());
        return Err(call.wrong(NodePart::Operand(index), problem).into());
    }
    Ok(Some(math::to(on, bias, call.input(0)?.dtype())?))
}

/// Refuses layers that do not fit one another.
fn fits<T: Tensor>(call: &Call<'_, T>, all: &Experts<T>, size: usize) -> Result<(), Error> {
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

/// `QMoE`: the weights are integers of 2, 4 or 8 bits.
pub(in crate::onnx) fn q_moe<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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
    if quantised != "int" {
        return Err(call.wrong("quant_type", format!("is `{quantised}`, expected `int`")).into());
    }
    if call.int_or("weights_prepacked", -1)? == 1 {
        return Err(call.wrong("weights_prepacked", "is not served: the order is one device's own").into());
    }
    super::none_from(call, 15)?;
    let between = Between::read(call)?;
    let (x, size, experts) = rows(on, call)?;
    let k = count(call, experts)?;
    let second = call.input(5)?;
    let bytes: usize = second.shape().iter().product();
    let inner = bytes.saturating_mul(8)
        / bits(call, "fc2_expert_weight_bits")? as usize
        / experts.saturating_mul(size).max(1);
    let third = call.optional(8).is_some();
    let all = Experts {
        count: experts,
        first: few_bits(on, call, [2, 11], "fc1_expert_weight_bits", experts, size)?,
        second: few_bits(on, call, [5, 12], "fc2_expert_weight_bits", experts, inner)?,
        third: match third {
            true => Some(few_bits(on, call, [8, 13], "fc3_expert_weight_bits", experts, size)?),
            false => None,
        },
        between,
    };
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
        // Among those that were chosen.
        None => on.softmax(&weights, -1)?,
    };
    placed(on, call, &all.mixed(on, &x, &chosen, &weights)?)
}

/// Reads how many bits a weight has.
fn bits<T>(call: &Call<'_, T>, own: &'static str) -> Result<i64, Error> {
    let all = call.int_or("expert_weight_bits", 4)?;
    let bits = call.int_if_given(own)?.unwrap_or(all);
    if matches!(bits, 2 | 4 | 8) {
        return Ok(bits);
    }
    Err(call.wrong(own, format!("is {bits}, expected 2, 4 or 8")))
}

/// Reads a layer of few bits: weights, scales and biases behind one another, and zero points.
fn few_bits<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    [at, zeros_at]: [usize; 2],
    own: &'static str,
    experts: usize,
    inner: usize,
) -> Result<Layer<B::Tensor>, B::Error> {
    let bits = bits(call, own)?;
    let all = call.input(at)?;
    let row = inner.saturating_mul(bits as usize) / 8;
    let elements: usize = all.shape().iter().product();
    let each = experts.saturating_mul(row).max(1);
    let block = call.int_or("block_size", 0)?;
    let block = if block > 0 { usize::try_from(block).unwrap_or(usize::MAX) } else { inner };
    let whole = row * 8 == inner.saturating_mul(bits as usize) && (block * bits as usize).is_multiple_of(8);
    if all.dtype() != DataType::U8
        || all.rank() != 3
        || elements == 0
        || !elements.is_multiple_of(each)
        || !whole
    {
        let problem = format!(
            "has elements of {} and the extents {:?}, expected bytes of [{experts}, …, {row}] for {inner} numbers of {bits} bits",
            all.dtype(),
            all.shape()
        );
        return Err(call.wrong(NodePart::Operand(at), problem).into());
    }
    if block == 0 || !inner.is_multiple_of(block) {
        return Err(call.wrong("block_size", format!("is {block}; rows have {inner} numbers")).into());
    }
    let (outer, blocks) = (elements / each, inner / block);
    let shaped = |index: usize, expected: [usize; 3]| -> Result<Option<B::Tensor>, B::Error> {
        let Some(x) = call.optional(index) else { return Ok(None) };
        if x.shape().iter().product::<usize>() != expected.iter().product::<usize>() {
            let problem = format!("has the extents {:?}, expected {expected:?}", x.shape());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
        on.reshape(x, &expected).map(Some)
    };
    let scales = shaped(at + 1, [experts, outer, blocks])?;
    let scales = scales.ok_or_else(|| call.wrong(NodePart::Operand(at + 1), "is missing"))?;
    let blockwise = call.int_or("block_size", 0)? > 0;
    let zeros = if blockwise {
        shaped(zeros_at, [experts, outer, (blocks * bits as usize).div_ceil(8)])?
    } else {
        // One for each row, packed along the rows.
        match shaped(zeros_at, [experts, 1, (outer * bits as usize).div_ceil(8)])? {
            None => None,
            Some(packed) => {
                let single = on.slice(&unpacked(on, &packed, bits)?, &[0], &[outer as i64], &[2], &[])?;
                Some(math::to(on, &on.reshape(&single, &[experts, outer, 1])?, DataType::F32)?)
            }
        }
    };
    Ok(Layer {
        weights: on.reshape(all, &[experts, outer, row])?,
        bias: biases(on, call, at + 2, [experts, outer])?,
        few: Some(Few { bits, block, scales, zeros }),
        inner,
        outer,
    })
}
