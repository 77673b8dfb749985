//! `Create`: tensors from nothing but a shape, a range or a seed.

use crate::Backend;
use bb_ir::op::RoundMode;
use bb_ir::{DataType, TensorData};

crate::ext::family::family! { [
    /// Makes tensors: constants, zeros, ones, ranges, random numbers.
    Create, CreateOp, create]

    /// Makes a rank-0 tensor of `value` with the element type of `x`.
    ScalarLike 1 = scalar_like(x: Tensor; value: Float) -> Tensor;

    /// Makes a tensor whose elements are all `value`.
    ///
    /// Source: ONNX `ConstantOfShape`, opset 25.
    Full 1 = full(; shape: Extents, value: Float, dtype: Type) -> Tensor;
}

/// The body of [`Create::scalar_like`].
pub fn scalar_like<B: Backend + ?Sized>(on: &B, x: &B::Tensor, value: f64) -> Result<B::Tensor, B::Error> {
    full(on, &[], value, crate::Tensor::dtype(x))
}

/// The body of [`Create::full`]: a scalar, repeated by a gather of its only element.
pub fn full<B: Backend + ?Sized>(on: &B, shape: &[usize], value: f64, dtype: DataType) -> Result<B::Tensor, B::Error> {
    let one = bb_ir::convert::cast(&TensorData::scalar(value), dtype, true, RoundMode::Up).map_err(crate::Error::from)?;
    let scalar = on.constant(&one)?;
    if shape.is_empty() {
        return Ok(scalar);
    }
    let zeros = TensorData::zeros(DataType::I32, shape).map_err(crate::Error::from)?;
    on.gather(&on.unsqueeze(&scalar, &[0])?, &on.constant(&zeros)?, 0)
}
