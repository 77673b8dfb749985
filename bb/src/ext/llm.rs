//! `Llm`: what language models are made of.

use crate::ext::Ops;

crate::ext::family::family! { [
    /// What language models are made of.
    Llm, LlmOp, llm]

    /// Divides by the root of the mean square over the dimensions from `axis` on, and scales.
    ///
    /// Shapes: `scale` broadcasts to `x`.
    ///
    /// Source: ONNX `RMSNormalization`, opset 23.
    RmsNormalization 23 = rms_normalization(x: Tensor, scale: Tensor; axis: Int = -1, epsilon: Float = 1e-5) -> Tensor;
}

/// The body of [`Llm::rms_normalization`].
pub fn rms_normalization<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    scale: &B::Tensor,
    axis: i64,
    epsilon: f64,
) -> Result<B::Tensor, B::Error> {
    let rank = crate::Tensor::rank(x);
    let from = bb_ir::Axis::new(axis, rank).map_err(crate::Error::from)?.get();
    let axes: Vec<i64> = (from..rank).map(|a| a as i64).collect();
    let mean = on.reduce_mean(&on.mul(x, x)?, &axes, true)?;
    let root = on.sqrt(&on.add(&mean, &on.scalar_like(&mean, epsilon)?)?)?;
    on.mul(&on.div(x, &root)?, scale)
}
