//! Optimizers: rules that update tensors by their gradients. `bb::ext::Train` implements the rules.

use bb_core::Error;
use bb_core::error::NodePart;
use bb_core::ext::{AdagradOptions, AdamEpsilon, AdamOptions, MomentumOptions};
use bb_core::operator::{Call, OpOutputs, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "ai.onnx.preview.training" {
        Adagrad => Primitives(adagrad), infer: By(optimizer_types), becomes: TrainOp::Adagrad, halves: Once;
        Adam => Primitives(adam), infer: By(optimizer_types), becomes: TrainOp::Adam, halves: Once;
        Momentum => Primitives(momentum), infer: By(optimizer_types), becomes: TrainOp::Momentum, halves: Once;
    }
}

/// A tensor to update, and the other inputs of the update rule.
struct Moved<'a> {
    x: &'a TracedTensor,
    gradient: &'a TracedTensor,
    /// The averages or sums that the rule stores from step to step, in order.
    kept: Vec<&'a TracedTensor>,
    rate: &'a TracedTensor,
    count: &'a TracedTensor,
}

impl Moved<'_> {
    /// Returns the stored state at `index`.
    fn kept(&self, index: usize) -> Result<&TracedTensor, TraceStop> {
        let got = self.kept.len();
        let missing = || bb_ir::Error::Arity { op: "optimizer", expected: "what the last update kept", got };
        Ok(*self.kept.get(index).ok_or_else(missing).map_err(Error::from)?)
    }
}

/// Applies `rule` to each tensor of a call. The operands are the rate, the count, all tensors, all gradients, and `kept`
/// lists of states. A rule returns the updated tensor and its states.
fn optimize(
    call: &Call<'_, TracedTensor>,
    kept: usize,
    rule: impl Fn(&Moved<'_>) -> Result<Vec<TracedTensor>, TraceStop>,
) -> OpResult {
    let lists = 2 + kept;
    let tensors = call.len().saturating_sub(2);
    if tensors == 0 || !tensors.is_multiple_of(lists) {
        let problem = format!("are {}, expected 2 and a multiple of {lists}", call.len());
        return Err(call.wrong(NodePart::other("the operands"), problem).into());
    }
    let count = tensors / lists;
    let mut columns: Vec<Vec<TracedTensor>> = Vec::with_capacity(count);
    for at in 0..count {
        let operand = |list: usize| call.input(2 + list * count + at);
        let kept = (0..kept).map(|i| operand(2 + i)).collect::<Result<_, _>>()?;
        let (rate, updates) = (call.input(0)?, call.input(1)?);
        columns.push(rule(&Moved { x: operand(0)?, gradient: operand(1)?, kept, rate, count: updates })?);
    }
    let mut results: OpOutputs<TracedTensor> = OpOutputs::new();
    for row in 0..=kept {
        results.extend(columns.iter().map(|column| column.get(row).cloned()));
    }
    Ok(results)
}

/// Infers the types of an optimizer. The results are the updated tensors and their states, and have the types of the
/// corresponding operands.
fn optimizer_types(at: NodeFacts<'_>) -> Option<Types> {
    let kept = if at.node.op_type == "Adam" { 2 } else { 1 };
    let count = at.node.inputs.len().checked_sub(2)? / (2 + kept);
    let moved = (0..count).map(|i| 2 + i);
    let states = (0..count * kept).map(|i| 2 + 2 * count + i);
    Some(moved.chain(states).map(|input| at.ty(input).clone()).collect())
}

/// `Adagrad`: the step size decreases with the sum of squared gradients.
pub(crate) fn adagrad(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let options = AdagradOptions {
        decay: call.float_or("decay_factor", 0.0)?,
        epsilon: call.float_or("epsilon", 1e-6)?,
        penalty: call.float_or("norm_coefficient", 0.0)?,
    };
    optimize(call, 1, |m| on.adagrad(m.x, m.gradient, m.kept(0)?, m.rate, m.count, options))
}

/// `Adam`: the step is an average of gradients, divided by the root of an average of their squares.
pub(crate) fn adam(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let options = AdamOptions {
        decay: call.float_or("alpha", 0.9)?,
        decay_squares: call.float_or("beta", 0.999)?,
        epsilon: call.float_or("epsilon", 1e-6)?,
        epsilon_at: AdamEpsilon::Onnx,
        penalty: call.float_or("norm_coefficient", 0.0)?,
        shrink: call.float_or("norm_coefficient_post", 0.0)?,
    };
    optimize(call, 2, |m| on.adam(m.x, m.gradient, m.kept(0)?, m.kept(1)?, m.rate, m.count, options))
}

/// `Momentum`, either standard or Nesterov.
pub(crate) fn momentum(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let nesterov = match call.text_or("mode", "standard")? {
        "standard" => false,
        "nesterov" => true,
        other => {
            let problem = format!("is `{other}`, expected `standard` or `nesterov`");
            return Err(call.wrong("mode", problem).into());
        }
    };
    let options = MomentumOptions {
        decay: call.float("alpha")?,
        share: call.float("beta")?,
        nesterov,
        penalty: call.float_or("norm_coefficient", 0.0)?,
    };
    optimize(call, 1, |m| on.momentum(m.x, m.gradient, m.kept(0)?, m.rate, m.count, options))
}
