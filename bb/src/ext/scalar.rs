//! `Scalar`: functions of single elements.

use crate::ext::Ops;

crate::ext::family::family! { [
    /// Functions of single elements.
    Scalar, ScalarOp, scalar]

    /// The greater of two elements; NaN wins.
    ///
    /// Source: ONNX `Max`, opset 13.
    Maximum 13 = maximum(a: Tensor, b: Tensor) -> Tensor;
}

/// The body of [`Scalar::maximum`].
pub fn maximum<B: Ops + ?Sized>(on: &B, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
    // `a + b` is NaN where either is, and is not looked at where they compare.
    let larger = on.r#where(&on.less(a, b)?, b, a)?;
    if !crate::Tensor::dtype(a).is_float() {
        return Ok(larger);
    }
    on.r#where(&on.equal(b, b)?, &larger, b)
}
