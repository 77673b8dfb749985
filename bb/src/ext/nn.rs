//! `Nn`: neural-network operations.

use crate::ext::Ops;

crate::ext::family::family! { [
    /// Neural-network operations.
    Nn, NnOp, nn]

    /// `max(x, 0)`; NaN stays NaN.
    ///
    /// Source: ONNX `Relu`, opset 14.
    Relu 14 = relu(x: Tensor) -> Tensor;

    /// Normalises `exp(x)` to sum to 1 along `axis`.
    ///
    /// Source: ONNX `Softmax`, opset 13.
    Softmax 13 = softmax(x: Tensor; axis: Int = -1) -> Tensor;
}

/// The body of [`Nn::relu`].
pub fn relu<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    let zero = on.scalar_like(x, 0.0)?;
    on.r#where(&on.less(x, &zero)?, &zero, x)
}

/// The body of [`Nn::softmax`]; the maximum is subtracted first, so that nothing overflows.
pub fn softmax<B: Ops + ?Sized>(on: &B, x: &B::Tensor, axis: i64) -> Result<B::Tensor, B::Error> {
    let e = on.exp(&on.sub(x, &on.reduce_max(x, &[axis], true)?)?)?;
    on.div(&e, &on.reduce_sum(&e, &[axis], true)?)
}
