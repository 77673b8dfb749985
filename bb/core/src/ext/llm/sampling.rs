//! Samples tokens from their logits.

use crate::ext::{HostKernel, Mersenne, SampleTokenOptions, fail, integers, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Shape, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};

const OP: &str = "sample_token";

fn wrong(part: &'static str, problem: String) -> Error {
    Error::Operator { op: OP.to_owned(), part: part.into(), problem }
}

static DRAWN: HostKernel = HostKernel { name: "sample_token", random: true, run: sampled };
static DRAWN_OF_SEED: HostKernel = HostKernel { name: "sample_seeded_token", random: false, run: sampled };

/// The body of [`Llm::sample_token`](crate::ext::Llm::sample_token).
pub fn sample_token(
    on: &Tracer,
    logits: &TracedTensor,
    previous: Option<&TracedTensor>,
    SampleTokenOptions {
        temperature,
        top_k,
        top_p,
        repetition_penalty,
        frequency_penalty,
        presence_penalty,
        seed,
    }: SampleTokenOptions,
) -> Result<TracedTensor, TraceStop> {
    types::take(OP, logits, types::FLOATS)?;
    let Some((_, rows)) = logits.shape().split_last() else {
        return fail(wrong("logits", "has rank 0, expected 1 or more".to_owned()));
    };
    let rows = Shape::from_slice(rows);
    if let Some(previous) = previous {
        types::take(OP, previous, types::INDICES)?;
        let own = previous.shape();
        if own.split_last().is_none_or(|(_, own)| own != rows.as_slice()) {
            let (left, right) = (logits.shape().into(), own.into());
            return fail(bb_ir::Error::Shapes { op: OP, left, right });
        }
    }
    let at_least_0 = |x: f64| x.is_finite() && x >= 0.0;
    if !at_least_0(temperature) {
        return fail(wrong("temperature", format!("is {temperature}, expected 0 or more")));
    }
    if top_k < 0 {
        return fail(wrong("top_k", format!("is {top_k}, expected 0 or more")));
    }
    if !(0.0..=1.0).contains(&top_p) {
        return fail(wrong("top_p", format!("is {top_p}, expected 0 to 1")));
    }
    if !at_least_0(repetition_penalty) || repetition_penalty == 0.0 {
        let problem = format!("is {repetition_penalty}, expected more than 0");
        return fail(wrong("repetition_penalty", problem));
    }
    for (part, penalty) in [("frequency_penalty", frequency_penalty), ("presence_penalty", presence_penalty)]
    {
        if !penalty.is_finite() {
            return fail(wrong(part, format!("is {penalty}, expected a finite number")));
        }
    }
    let numbers = vec![temperature, top_p, repetition_penalty, frequency_penalty, presence_penalty];
    let params = [Param::Floats(numbers.into()), Param::Int(top_k), Param::OptInt(seed)];
    // With temperature 0 the choice is greedy, and does not depend on a seed.
    let body = if seed.is_some() || temperature == 0.0 { &DRAWN_OF_SEED } else { &DRAWN };
    let drawn = on.on_host(body, &[Some(logits), previous], &params, &[(DataType::I64, rows)])?;
    let missing = || Error::Results { op: body.name.to_owned(), expected: 1, got: 0 };
    Ok(drawn.into_iter().next().ok_or_else(missing)?)
}

/// The parameters of sampling.
struct Sampling {
    temperature: f64,
    top_p: f64,
    /// The repetition penalty: the factor that divides positive and multiplies negative logits of tokens that
    /// have occurred.
    repetition: f64,
    /// The frequency penalty: the number that is subtracted from a token's logit for each occurrence.
    frequency: f64,
    /// The presence penalty: the number that is subtracted once from the logit of a token that has occurred.
    presence: f64,
    top_k: usize,
}

/// The host kernel of the operation: samples a token for each row.
fn sampled(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let Some(logits) = inputs.first().copied().flatten() else {
        return Err(Error::Operand { op: OP, index: 0, expected: "a tensor" });
    };
    let &[temperature, top_p, repetition, frequency, presence] = take::Floats(OP, params.first())? else {
        return Err(Error::excluded("five numbers as a parameter of a draw"));
    };
    let top_k = usize::try_from(take::Int(OP, params.get(1))?).unwrap_or(usize::MAX);
    let top_k = if top_k == 0 { usize::MAX } else { top_k };
    let how = Sampling { temperature, top_p, repetition, frequency, presence, top_k };
    let mut random = Mersenne::of(take::OptInt(OP, params.get(2))?);
    let (&count, rows) = logits.shape().split_last().unwrap_or((&0, &[]));
    let previous = inputs.get(1).copied().flatten();
    let each = previous.and_then(|x| x.shape().last().copied()).unwrap_or(0);
    let previous = previous.map(integers).transpose()?.unwrap_or_default();
    let wide = cast(logits, DataType::F64, Rounding::default())?;
    let numbers = wide.as_slice::<f64>()?;
    let total = bb_ir::element_count(rows).unwrap_or(0);
    if count == 0 && total > 0 {
        return Err(wrong("logits", "has no tokens".to_owned()));
    }
    let (mut tokens, mut pace): (Vec<i64>, _) = (memory::room(OP, total)?, Pace::new());
    for row in 0..total {
        let logits = numbers.get(row * count..(row + 1) * count).unwrap_or_default();
        let before = previous.get(row * each..(row + 1) * each).unwrap_or_default();
        pace.step(count.saturating_mul(4));
        tokens.push(token(logits, before, &how, random.unit(), row)?);
    }
    Ok(vec![TensorData::new(rows, &tokens)?])
}

/// Selects a token with a random number `drawn` from 0 to 1.
fn token(logits: &[f64], before: &[i64], how: &Sampling, drawn: f64, row: usize) -> Result<i64, Error> {
    if let Some(at) = logits.iter().position(|logit| logit.is_nan()) {
        return Err(wrong("logits", format!("has NaN for the token {at} of row {row}")));
    }
    let mut order: Vec<(f64, i64)> = memory::collected(OP, logits.iter().copied().zip(0i64..))?;
    if how.repetition != 1.0 || how.frequency != 0.0 || how.presence != 0.0 {
        let mut seen = memory::copied(OP, before)?;
        let mut pace = Pace::new();
        seen.sort_unstable_by(|a, b| {
            pace.step(1);
            a.cmp(b)
        });
        for same in seen.chunk_by(|a, b| a == b) {
            let Some(&token) = same.first().filter(|token| **token >= 0) else { continue };
            let slot = usize::try_from(token).ok().and_then(|token| order.get_mut(token));
            let Some((logit, _)) = slot else { return Err(unknown(token, logits.len(), row)) };
            if how.repetition != 1.0 {
                *logit = if *logit > 0.0 { *logit / how.repetition } else { *logit * how.repetition };
            }
            *logit -= how.frequency * same.len() as f64 + how.presence;
        }
    } else if let Some(&token) = before.iter().find(|&&t| usize::try_from(t).is_ok_and(|t| t >= logits.len()))
    {
        return Err(unknown(token, logits.len(), row));
    }
    // Tokens are ordered by decreasing logit. If logits are equal, the token with the lower index comes
    // first.
    let mut pace = Pace::new();
    let mut compare = |a: &(f64, i64), b: &(f64, i64)| {
        pace.step(1);
        b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
    };
    // Adding 0 converts -0 to +0, so that both zeros compare equal.
    order.iter_mut().for_each(|(logit, _)| *logit += 0.0);
    let kept = if how.temperature == 0.0 { 1 } else { how.top_k.min(order.len()) };
    if kept < order.len() {
        order.select_nth_unstable_by(kept - 1, &mut compare);
        order.truncate(kept);
    }
    order.sort_unstable_by(&mut compare);
    let Some(&(most, best)) = order.first().filter(|(logit, _)| *logit > f64::NEG_INFINITY) else {
        return Err(wrong(
            "logits",
            format!("leaves no token possible in row {row}: all are minus infinity"),
        ));
    };
    if how.temperature == 0.0 {
        return Ok(best);
    }
    // If there are infinite logits, they share the whole probability.
    let weight = |logit: f64| match most == f64::INFINITY {
        true => f64::from(u8::from(logit == most)),
        false => ((logit - most) / how.temperature).exp(),
    };
    order.iter_mut().for_each(|(logit, _)| *logit = weight(*logit));
    let total: f64 = order.iter().map(|(weight, _)| weight).sum();
    let mut sum = 0.0;
    // The smallest number of tokens whose probabilities add up to `top_p`, but at least one.
    let reach = order.iter().position(|(weight, _)| {
        sum += weight;
        sum >= how.top_p * total
    });
    if how.top_p < 1.0 {
        order.truncate(reach.map_or(order.len(), |last| last + 1));
    }
    let total: f64 = order.iter().map(|(weight, _)| weight).sum();
    let mut sum = 0.0;
    let chosen = order.iter().find(|(weight, _)| {
        sum += weight;
        *weight > 0.0 && sum > drawn * total
    });
    // Sums are rounded, so possibly no sum exceeds the product. Then the last token with a positive weight is
    // used.
    let last = order.iter().rev().find(|(weight, _)| *weight > 0.0);
    Ok(chosen.or(last).map_or(best, |&(_, token)| token))
}

fn unknown(token: i64, count: usize, row: usize) -> Error {
    wrong("previous", format!("has the token {token} in row {row}, of {count} tokens"))
}
