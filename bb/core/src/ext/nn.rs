//! `Nn`: neural-network operations.

use crate::ext::{gate, math, types};
pub use crate::family::nn::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};

pub use super::conv_transpose::conv_transpose;
pub use super::cumulate::cum_sum;
pub use super::movement::{gather_elements, gather_nd, pad};
pub use super::normalize::{batch_normalization, layer_normalization, log_softmax, softmax};
pub use super::product::reduce_prod;
pub use super::recurrent::{gru, lstm, rnn};
pub use super::window::{average_pool, conv, fused_conv, max_pool};

bb_ir::for_each_nn!(crate::ext::bodies::bodies, Nn, NnOp, nn);

/// The body of [`Nn::relu`].
pub fn relu(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("relu", x, types::NUMBERS)?;
    let zero = on.scalar_like(x, 0.0)?;
    on.r#where(&on.less(x, &zero)?, &zero, x)
}

/// The body of [`Nn::leaky_relu`].
pub fn leaky_relu(on: &Tracer, x: &TracedTensor, alpha: f64) -> Result<TracedTensor, TraceStop> {
    types::take("leaky_relu", x, types::FLOATS)?;
    // The factor may have more digits than a 16-bit float, so the product is computed in `f32`.
    math::once(on, x, |x| {
        let negative = on.less(x, &on.scalar_like(x, 0.0)?)?;
        on.r#where(&negative, &on.mul(x, &on.scalar_like(x, alpha)?)?, x)
    })
}

/// The body of [`Nn::elu`].
pub fn elu(on: &Tracer, x: &TracedTensor, alpha: f64) -> Result<TracedTensor, TraceStop> {
    math::floats(on, "elu", x, DataType::F32, |x| {
        let negative = on.less(x, &on.scalar_like(x, 0.0)?)?;
        on.r#where(&negative, &on.mul(&on.expm1(x)?, &on.scalar_like(x, alpha)?)?, x)
    })
}

/// The body of [`Nn::gelu`].
pub fn gelu(on: &Tracer, x: &TracedTensor, tanh: bool) -> Result<TracedTensor, TraceStop> {
    math::floats(on, "gelu", x, DataType::F32, |x| {
        // `(1 + tanh(u)) / 2` equals the logistic function of `2u`, which is computed without cancellation.
        if tanh { gate::times_tanh(on, x) } else { gate::times_normal(on, x) }
    })
}

/// The body of [`Nn::swish`].
pub fn swish(on: &Tracer, x: &TracedTensor, alpha: f64) -> Result<TracedTensor, TraceStop> {
    math::floats(on, "swish", x, DataType::F32, |x| {
        let scaled = if alpha == 1.0 { on.identity(x)? } else { on.mul(x, &on.scalar_like(x, alpha)?)? };
        let negative = on.less(&scaled, &on.scalar_like(x, 0.0)?)?;
        gate::times_logistic(on, x, &negative, &on.abs(&scaled)?, None)
    })
}

/// The body of [`Nn::hard_sigmoid`].
pub fn hard_sigmoid(on: &Tracer, x: &TracedTensor, alpha: f64, beta: f64) -> Result<TracedTensor, TraceStop> {
    math::floats(on, "hard_sigmoid", x, DataType::F32, |x| {
        let line = on.add(&on.mul(x, &on.scalar_like(x, alpha)?)?, &on.scalar_like(x, beta)?)?;
        on.clip(&line, Some(&on.scalar_like(x, 0.0)?), Some(&on.scalar_like(x, 1.0)?))
    })
}

/// The body of [`Nn::thresholded_relu`].
pub fn thresholded_relu(on: &Tracer, x: &TracedTensor, alpha: f64) -> Result<TracedTensor, TraceStop> {
    math::once(on, x, |x| {
        let above = on.greater(x, &on.scalar_like(x, alpha)?)?;
        on.r#where(&above, x, &on.scalar_like(x, 0.0)?)
    })
}

/// The body of [`Nn::clip`].
pub fn clip(
    on: &Tracer,
    x: &TracedTensor,
    min: Option<&TracedTensor>,
    max: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    types::take("clip", x, types::NUMBERS)?;
    let mut y = x.clone();
    if let Some(min) = min {
        y = on.maximum(&y, min)?;
    }
    match max {
        Some(max) => on.minimum(&y, max),
        None => on.identity(&y),
    }
}

/// Returns the minimum value of the type of `x`: minus infinity, or the least integer.
pub(crate) fn least(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let value = match x.dtype() {
        dtype if dtype.is_float() => f64::NEG_INFINITY,
        dtype if dtype.is_signed_integer() => -(2f64.powi(dtype.bits() as i32 - 1)),
        _ => 0.0,
    };
    on.scalar_like(x, value)
}
