//! The layers of experts, applied to tokens.

use super::between::Between;
use crate::plus;
use bb_core::ext::{MatMulNBitsOptions, math, n_bits::unpacked};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};

/// The quantization of weights to few bits.
pub(super) struct Few {
    pub(super) bits: i64,
    pub(super) block: usize,
    /// The scales, `[experts, outer, blocks]`.
    pub(super) scales: TracedTensor,
    /// The zero points: packed bytes, `[experts, outer, bytes]`, or numbers of another type, one for each scale.
    pub(super) zeros: Option<TracedTensor>,
}

/// A layer of all experts.
pub(super) struct Layer {
    /// The weights, `[experts, outer, inner]`, or packed bytes.
    pub(super) weights: TracedTensor,
    /// The biases, `[experts, outer]`.
    pub(super) bias: Option<TracedTensor>,
    pub(super) few: Option<Few>,
    pub(super) inner: usize,
    pub(super) outer: usize,
}

impl Layer {
    /// Applies the layer of one expert to `[rows, inner]`.
    fn of_expert(&self, on: &Tracer, x: &TracedTensor, expert: usize) -> Result<TracedTensor, TraceStop> {
        let at = expert as i64;
        let part = |all: &TracedTensor| on.squeeze(&on.slice(all, &[at], &[at + 1], &[0], &[])?, &[0]);
        let bias = self.bias.as_ref().map(part).transpose()?;
        let weights = part(&self.weights)?;
        let Some(few) = &self.few else { return on.linear(x, &weights, bias.as_ref()) };
        let (blocks, bytes) = (self.inner / few.block, few.block * few.bits as usize / 8);
        let weights = on.reshape(&weights, &[self.outer, blocks, bytes])?;
        let zeros = few.zeros.as_ref().map(part).transpose()?;
        let options = MatMulNBitsOptions {
            inner: self.inner as i64,
            bits: few.bits,
            block: few.block as i64,
            integers: false,
        };
        let y = on.matmul_n_bits(x, &weights, &part(&few.scales)?, zeros.as_ref(), None, options)?;
        plus(on, &y, bias.as_ref())
    }

    /// Applies the layer of a separate expert to each row of `[rows, inner]`.
    fn of_rows(
        &self,
        on: &Tracer,
        x: &TracedTensor,
        experts: &TracedTensor,
    ) -> Result<TracedTensor, TraceStop> {
        let own = |all: &TracedTensor| on.gather(all, experts, 0);
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
        plus(on, &y, self.bias.as_ref().map(own).transpose()?.as_ref())
    }
}

/// The layers of all experts, and the activation between them.
pub(super) struct Experts {
    pub(super) count: usize,
    pub(super) first: Layer,
    pub(super) second: Layer,
    pub(super) third: Option<Layer>,
    pub(super) between: Between,
}

impl Experts {
    fn run(
        &self,
        on: &Tracer,
        x: &TracedTensor,
        layer: impl Fn(&Layer, &TracedTensor) -> Result<TracedTensor, TraceStop>,
    ) -> Result<TracedTensor, TraceStop> {
        let third = self.third.as_ref().map(|third| layer(third, x)).transpose()?;
        layer(&self.second, &self.between.apply(on, &layer(&self.first, x)?, third.as_ref())?)
    }

    /// Computes, for each row of `[tokens, size]`, the sum of the results of its experts, weighted by `[tokens,
    /// k]`.
    pub(super) fn mixed(
        &self,
        on: &Tracer,
        x: &TracedTensor,
        chosen: &TracedTensor,
        weights: &TracedTensor,
    ) -> Result<TracedTensor, TraceStop> {
        let (&[tokens, size], &[_, k]) = (x.shape(), chosen.shape()) else { return Ok(x.clone()) };
        if tokens.saturating_mul(k) < self.count {
            let each = on.expand(&on.unsqueeze(x, &[1])?, &[tokens, k, size])?;
            let (rows, flat) = (on.reshape(&each, &[tokens * k, size])?, on.reshape(chosen, &[tokens * k])?);
            let y = self.run(on, &rows, |layer, x| layer.of_rows(on, x, &flat))?;
            let y = on.reshape(&y, &[tokens, k, self.second.outer])?;
            return on.reduce_sum(&on.mul(&y, &on.unsqueeze(weights, &[2])?)?, &[1], false);
        }
        let nothing = on.scalar_like(x, 0.0)?;
        let mut sum: Option<TracedTensor> = None;
        for expert in 0..self.count {
            let chose = on.equal(chosen, &on.scalar_like(chosen, expert as f64)?)?;
            let weight = on.reduce_sum(&on.r#where(&chose, weights, &nothing)?, &[1], true)?;
            let any = on.greater(&weight, &nothing)?;
            let y = self.run(on, x, |layer, x| layer.of_expert(on, x, expert))?;
            // Select instead of multiplying by 0, because an expert may give NaN for tokens that did not choose
            // it.
            let y = on.r#where(&any, &on.mul(&y, &weight)?, &nothing)?;
            sum = Some(plus(on, &y, sum.as_ref())?);
        }
        Ok(match sum {
            Some(sum) => sum,
            None => on.mul(x, &nothing)?,
        })
    }
}
