//! `Nn`: neural-network operations.

use crate::ext::{Ops, math};
use crate::{DataType, Tensor};

pub use super::conv_transpose::conv_transpose;
pub use super::movement::{gather_elements, gather_nd, pad};
pub use super::normalize::{batch_normalization, layer_normalization, log_softmax, softmax};
pub use super::window::{average_pool, conv, max_pool};

crate::ext::family::family! { [
    /// Neural-network operations.
    Nn, NnOp, nn]

    /// `max(x, 0)`; NaN stays NaN.
    ///
    /// Source: ONNX `Relu`, opset 14.
    Relu 14 = relu(x: Tensor) -> Tensor;

    /// `x` where positive, `alpha * x` elsewhere.
    ///
    /// Source: ONNX `LeakyRelu`, opset 16.
    LeakyRelu 16 = leaky_relu(x: Tensor; alpha: Float = 0.01) -> Tensor;

    /// `x` where positive, `alpha * (exp(x) - 1)` elsewhere.
    ///
    /// Source: ONNX `Elu`, opset 22.
    Elu 22 = elu(x: Tensor; alpha: Float = 1.0) -> Tensor;

    /// `x` times the normal distribution's function of `x`; or its approximation by `tanh`.
    ///
    /// Source: ONNX `Gelu`, opset 20.
    Gelu 20 = gelu(x: Tensor; tanh: Bool = false) -> Tensor;

    /// `x / (1 + exp(-alpha * x))`.
    ///
    /// Source: ONNX `Swish`, opset 24.
    Swish 24 = swish(x: Tensor; alpha: Float = 1.0) -> Tensor;

    /// `alpha * x + beta` within 0 and 1.
    ///
    /// Source: ONNX `HardSigmoid`, opset 22.
    HardSigmoid 22 = hard_sigmoid(x: Tensor; alpha: Float = 0.2, beta: Float = 0.5) -> Tensor;

    /// `x` within two bounds, either of which may be left out; the upper one wins.
    ///
    /// Source: ONNX `Clip`, opset 13.
    Clip 13 = clip(x: Tensor, min: Optional, max: Optional) -> Tensor;

    /// Normalises `exp(x)` to sum to 1 along `axis`.
    ///
    /// Source: ONNX `Softmax`, opset 13.
    Softmax 13 = softmax(x: Tensor; axis: Int = -1) -> Tensor;

    /// The logarithm of [`softmax`](Self::softmax).
    ///
    /// Source: ONNX `LogSoftmax`, opset 13.
    LogSoftmax 13 = log_softmax(x: Tensor; axis: Int = -1) -> Tensor;

    /// Normalises to mean 0 and variance 1 over the dimensions from `axis` on, scales and shifts.
    ///
    /// Shapes: `scale` and `bias` broadcast to `x`.
    ///
    /// Source: ONNX `LayerNormalization`, opset 17.
    LayerNormalization 17 = layer_normalization(x: Tensor, scale: Tensor, bias: Optional; axis: Int = -1, epsilon: Float = 1e-5) -> Tensor;

    /// Normalises each channel by a given mean and variance, scales and shifts.
    ///
    /// Shapes: `x: [n, c, …]`, the others `[c]`.
    ///
    /// Source: ONNX `BatchNormalization`, opset 15.
    BatchNormalization 15 = batch_normalization(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor; epsilon: Float = 1e-5) -> Tensor;

    /// Correlates with filters.
    ///
    /// Shapes: `x: [n, c, s…]`, `w: [m, c / group, k…]`, `bias: [m]`, to `[n, m, o…]`. `strides` and `dilations`
    /// have one number for each spatial dimension, `pads` two: all starts, then all ends.
    ///
    /// Source: ONNX `Conv`, opset 22.
    Conv 22 = conv(x: Tensor, w: Tensor, bias: Optional; strides: Ints, pads: Ints, dilations: Ints, group: Int = 1) -> Tensor;

    /// The transpose of [`conv`](Self::conv) as a linear map.
    ///
    /// Shapes: `x: [n, c, s…]`, `w: [c, m / group, k…]`, `bias: [m]`, to `[n, m, o…]`. `output_padding` is added
    /// at the ends; negative `pads` enlarge.
    ///
    /// Source: ONNX `ConvTranspose`, opset 22.
    ConvTranspose 22 = conv_transpose(x: Tensor, w: Tensor, bias: Optional; strides: Ints, pads: Ints, dilations: Ints, output_padding: Ints, group: Int = 1) -> Tensor;

    /// The maximum of each window; padding never wins.
    ///
    /// Shapes: as [`conv`](Self::conv) with windows of `kernel`; with `ceil`, a window may begin in `x` and end
    /// beyond the padding.
    ///
    /// Source: ONNX `MaxPool`, opset 22.
    MaxPool 22 = max_pool(x: Tensor; kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil: Bool = false) -> Tensor;

    /// The mean of each window, padding counted only if `count_pad`.
    ///
    /// Shapes: as [`max_pool`](Self::max_pool).
    ///
    /// Source: ONNX `AveragePool`, opset 22.
    AveragePool 22 = average_pool(x: Tensor; kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil: Bool = false, count_pad: Bool = false) -> Tensor;

    /// Enlarges by `pads`, all starts and then all ends; negative ones cut.
    ///
    /// `mode` is `constant` (of `value`, a scalar, 0 if left out), `reflect`, `edge` or `wrap`. Types: all.
    ///
    /// Source: ONNX `Pad`, opset 25.
    Pad 25 = pad(x: Tensor, value: Optional; pads: Ints, mode: Text) -> Tensor;

    /// Takes, for each index, the element at its own position but along `axis`.
    ///
    /// Source: ONNX `GatherElements`, opset 13.
    GatherElements 13 = gather_elements(data: Tensor, indices: Tensor; axis: Int = 0) -> Tensor;

    /// Takes the slice at each index tuple, the last dimension of `indices`.
    ///
    /// Source: ONNX `GatherND`, opset 13.
    GatherNd 13 = gather_nd(data: Tensor, indices: Tensor; batch_dims: Int = 0) -> Tensor;
}

/// The body of [`Nn::relu`].
pub fn relu<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    let zero = on.scalar_like(x, 0.0)?;
    on.r#where(&on.less(x, &zero)?, &zero, x)
}

/// The body of [`Nn::leaky_relu`].
pub fn leaky_relu<B: Ops + ?Sized>(on: &B, x: &B::Tensor, alpha: f64) -> Result<B::Tensor, B::Error> {
    let negative = on.less(x, &on.scalar_like(x, 0.0)?)?;
    on.r#where(&negative, &on.mul(x, &on.scalar_like(x, alpha)?)?, x)
}

/// The body of [`Nn::elu`].
pub fn elu<B: Ops + ?Sized>(on: &B, x: &B::Tensor, alpha: f64) -> Result<B::Tensor, B::Error> {
    let negative = on.less(x, &on.scalar_like(x, 0.0)?)?;
    on.r#where(&negative, &on.mul(&on.expm1(x)?, &on.scalar_like(x, alpha)?)?, x)
}

/// The body of [`Nn::gelu`].
pub fn gelu<B: Ops + ?Sized>(on: &B, x: &B::Tensor, tanh: bool) -> Result<B::Tensor, B::Error> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    math::widened(on, x, DataType::F32, |x| {
        let constant = |c| on.scalar_like(x, c);
        if tanh {
            // `(1 + tanh(u)) / 2` is the logistic function of `2u`, where nothing cancels.
            let cube = on.mul(&on.mul(x, x)?, &on.mul(x, &constant(0.044715)?)?)?;
            let twice = on.mul(&on.add(x, &cube)?, &constant(2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?)?;
            return on.mul(x, &on.sigmoid(&twice)?);
        }
        let share = on.erf(&on.mul(x, &constant(FRAC_1_SQRT_2)?)?)?;
        on.mul(&on.mul(x, &constant(0.5)?)?, &on.add(&share, &constant(1.0)?)?)
    })
}

/// The body of [`Nn::swish`].
pub fn swish<B: Ops + ?Sized>(on: &B, x: &B::Tensor, alpha: f64) -> Result<B::Tensor, B::Error> {
    math::widened(on, x, DataType::F32, |x| {
        let scaled = if alpha == 1.0 { on.identity(x)? } else { on.mul(x, &on.scalar_like(x, alpha)?)? };
        on.mul(x, &on.sigmoid(&scaled)?)
    })
}

/// The body of [`Nn::hard_sigmoid`].
pub fn hard_sigmoid<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    alpha: f64,
    beta: f64,
) -> Result<B::Tensor, B::Error> {
    let line = on.add(&on.mul(x, &on.scalar_like(x, alpha)?)?, &on.scalar_like(x, beta)?)?;
    on.clip(&line, Some(&on.scalar_like(x, 0.0)?), Some(&on.scalar_like(x, 1.0)?))
}

/// The body of [`Nn::clip`].
pub fn clip<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    min: Option<&B::Tensor>,
    max: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    let mut y = x.clone();
    if let Some(min) = min {
        y = on.maximum(&y, min)?;
    }
    match max {
        Some(max) => on.minimum(&y, max),
        None => on.identity(&y),
    }
}

/// The least value of the type of `x`: minus infinity, or the least integer.
pub(crate) fn least<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    let value = match x.dtype() {
        dtype if dtype.is_float() => f64::NEG_INFINITY,
        dtype if dtype.is_signed_integer() => -(2f64.powi(dtype.bits() as i32 - 1)),
        _ => 0.0,
    };
    on.scalar_like(x, value)
}
