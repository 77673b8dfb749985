//! The activation between the layers of an expert network.

use bb_core::operator::Call;
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Error, Tensor};

/// An activation function between the layers of an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Relu,
    /// The square of `Relu`.
    Relu2,
    Gelu,
    Silu,
    Identity,
    /// A gated product with the gate `x * sigmoid(alpha * x)`.
    Swiglu,
    /// A gated product with the gate `Gelu`.
    Geglu,
}

/// The layout of the gate and the gated values in the results of the first layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fusion {
    /// Alternating elements.
    Interleaved,
    /// All gates, then all gated values.
    Halves,
}

/// The activation between the layers of an expert, and its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    pub(super) activation: Activation,
    fusion: Fusion,
    alpha: f64,
    beta: f64,
    limit: Option<f64>,
    limits_after: bool,
}

impl Between {
    pub(super) fn read<T>(call: &Call<'_, T>) -> Result<Between, Error> {
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

    /// Returns whether the activation has a gate. Without a third layer, the first layer computes both the gate and the gated
    /// values.
    pub(super) fn gated(&self) -> bool {
        matches!(self.activation, Activation::Swiglu | Activation::Geglu)
    }

    /// Splits `[rows, 2 * size]` into a gate and the gated values.
    fn cut(&self, on: &Tracer, x: &TracedTensor) -> Result<[TracedTensor; 2], TraceStop> {
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

    /// Computes the input of the second layer from the results of the first layer and, if there is a third layer, from its results too.
    pub(super) fn apply(
        &self,
        on: &Tracer,
        first: &TracedTensor,
        third: Option<&TracedTensor>,
    ) -> Result<TracedTensor, TraceStop> {
        let [gate, linear] = match third {
            Some(third) => [first.clone(), third.clone()],
            None if self.gated() => self.cut(on, first)?,
            None => return self.alone(on, first),
        };
        if self.activation != Activation::Swiglu {
            return on.mul(&self.alone(on, &gate)?, &linear);
        }
        let limit =
            self.limit.map(|limit| Ok::<_, TraceStop>([-limit, limit].map(|x| on.scalar_like(first, x))));
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

    /// Applies the activation function to one tensor.
    fn alone(&self, on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
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
