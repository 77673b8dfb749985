//! Optimizers: how tensors move along their gradients.

use super::call::{Call, OpOutputs, OpResult};
use super::infer;
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::{Ops, math};
use crate::{Error, Tensor};

operators! {
    "ai.onnx.preview.training" {
        Adagrad => Primitives(adagrad), infer: By(infer::ml::optimizer);
        Adam => Primitives(adam), infer: By(infer::ml::optimizer);
        Momentum => Primitives(momentum), infer: By(infer::ml::optimizer);
    }
}

/// One tensor to move, and what a rule knows of it.
struct Moved<'a, B: Ops + ?Sized> {
    on: &'a B,
    x: &'a B::Tensor,
    /// The gradient.
    g: &'a B::Tensor,
    /// The averages or sums that the rule keeps, in order.
    kept: Vec<&'a B::Tensor>,
    /// The learning rate, of rank 0 and the type of `x`.
    rate: B::Tensor,
    /// The number of updates before this one, likewise.
    count: B::Tensor,
}

impl<B: Ops + ?Sized> Moved<'_, B> {
    fn constant(&self, value: f64) -> Result<B::Tensor, B::Error> {
        self.on.scalar_like(self.x, value)
    }

    fn times(&self, x: &B::Tensor, factor: f64) -> Result<B::Tensor, B::Error> {
        self.on.mul(x, &self.constant(factor)?)
    }

    /// What the rule kept at `index`.
    fn kept(&self, index: usize) -> Result<&B::Tensor, B::Error> {
        let got = self.kept.len();
        let missing = || bb_ir::Error::Arity { op: "optimizer", expected: "what the last update kept", got };
        Ok(*self.kept.get(index).ok_or_else(missing).map_err(Error::from)?)
    }

    /// The gradient of the loss and of the penalty on large elements.
    fn regularized(&self, call: &Call<'_, B::Tensor>) -> Result<B::Tensor, B::Error> {
        let penalty = call.float_or("norm_coefficient", 0.0)?;
        self.on.add(&self.times(self.x, penalty)?, self.g)
    }

    /// `decay * old + share * new`.
    fn average(
        &self,
        old: &B::Tensor,
        decay: f64,
        new: &B::Tensor,
        share: f64,
    ) -> Result<B::Tensor, B::Error> {
        self.on.add(&self.times(old, decay)?, &self.times(new, share)?)
    }

    /// The root of `x`, and a little more.
    fn root(&self, call: &Call<'_, B::Tensor>, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.on.add(&self.on.sqrt(x)?, &self.constant(call.float_or("epsilon", 1e-6)?)?)
    }

    /// `value` after the first update, `first` in it.
    fn after_first(&self, value: &B::Tensor, first: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.on.r#where(&self.on.greater(&self.count, &self.constant(0.0)?)?, value, first)
    }
}

/// Applies `rule` to each tensor of a call whose operands are the rate, the count, all tensors, all gradients, and `kept`
/// lists of what the rule keeps. A rule returns the moved tensor and what it keeps.
fn optimize<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    kept: usize,
    rule: impl Fn(&Moved<'_, B>) -> Result<Vec<B::Tensor>, B::Error>,
) -> OpResult<B> {
    let lists = 2 + kept;
    let tensors = call.len().saturating_sub(2);
    if tensors == 0 || !tensors.is_multiple_of(lists) {
        let problem = format!("are {}, expected 2 and a multiple of {lists}", call.len());
        return Err(call.wrong(NodePart::other("the operands"), problem).into());
    }
    let count = tensors / lists;
    let mut columns: Vec<Vec<B::Tensor>> = Vec::with_capacity(count);
    for at in 0..count {
        let operand = |list: usize| call.input(2 + list * count + at);
        let (x, g) = (operand(0)?, operand(1)?);
        let scalar = |index| on.reshape(&math::to(on, call.input(index)?, x.dtype())?, &[]);
        let kept = (0..kept).map(|i| operand(2 + i)).collect::<Result<_, _>>()?;
        columns.push(rule(&Moved { on, x, g, kept, rate: scalar(0)?, count: scalar(1)? })?);
    }
    let mut results: OpOutputs<B::Tensor> = OpOutputs::new();
    for row in 0..=kept {
        results.extend(columns.iter().map(|column| column.get(row).cloned()));
    }
    Ok(results)
}

/// `Adagrad`: steps shrink with the sum of squared gradients.
pub(super) fn adagrad<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let decay = call.float_or("decay_factor", 0.0)?;
    optimize(on, call, 1, |m| {
        let rate = on.div(&m.rate, &on.add(&m.times(&m.count, decay)?, &m.constant(1.0)?)?)?;
        let g = m.regularized(call)?;
        let squares = on.add(m.kept(0)?, &on.mul(&g, &g)?)?;
        let step = on.div(&on.mul(&rate, &g)?, &m.root(call, &squares)?)?;
        Ok(vec![on.sub(m.x, &step)?, squares])
    })
}

/// `Adam`: steps along an average of gradients, divided by the root of an average of their squares.
pub(super) fn adam<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (alpha, beta) = (call.float_or("alpha", 0.9)?, call.float_or("beta", 0.999)?);
    let post = call.float_or("norm_coefficient_post", 0.0)?;
    optimize(on, call, 2, |m| {
        let g = m.regularized(call)?;
        let mean = m.average(m.kept(0)?, alpha, &g, 1.0 - alpha)?;
        let squares = m.average(m.kept(1)?, beta, &on.mul(&g, &g)?, 1.0 - beta)?;
        // What the averages lack as long as they are of few gradients.
        let lack = |share: f64| on.sub(&m.constant(1.0)?, &on.pow(&m.constant(share)?, &m.count)?);
        let adjusted = on.div(&on.mul(&m.rate, &on.sqrt(&lack(beta)?)?)?, &lack(alpha)?)?;
        let rate = m.after_first(&adjusted, &m.rate)?;
        let step = on.div(&on.mul(&rate, &mean)?, &m.root(call, &squares)?)?;
        Ok(vec![m.times(&on.sub(m.x, &step)?, 1.0 - post)?, mean, squares])
    })
}

/// `Momentum`, the standard one or Nesterov's.
pub(super) fn momentum<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (alpha, beta) = (call.float("alpha")?, call.float("beta")?);
    let nesterov = match call.text_or("mode", "standard")? {
        "standard" => false,
        "nesterov" => true,
        other => {
            let problem = format!("is `{other}`, expected `standard` or `nesterov`");
            return Err(call.wrong("mode", problem).into());
        }
    };
    optimize(on, call, 1, |m| {
        let g = m.regularized(call)?;
        let share = m.after_first(&m.constant(beta)?, &m.constant(1.0)?)?;
        let speed = on.add(&m.times(m.kept(0)?, alpha)?, &on.mul(&share, &g)?)?;
        let direction = if nesterov { on.add(&g, &m.times(&speed, alpha)?)? } else { speed.clone() };
        Ok(vec![on.sub(m.x, &on.mul(&m.rate, &direction)?)?, speed])
    })
}
