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
    let scalar = on.cast(&on.constant(&TensorData::scalar(value))?, dtype, true, RoundMode::Up)?;
    let mut x = on.reshape(&scalar, &vec![1; shape.len()])?;
    // One axis at a time: the indices are as many as the extents' sum, not their product.
    for (axis, &extent) in shape.iter().enumerate() {
        if extent > MOST_PER_AXIS {
            return crate::ext::fail::<B, _>(bb_ir::Error::TooLarge {
                dtype,
                shape: shape.into(),
                limit: MOST_PER_AXIS,
            });
        }
        if extent != 1 {
            let zeros = TensorData::new(&[extent], &vec![0i32; extent]).map_err(crate::Error::from)?;
            x = on.gather(&x, &on.constant(&zeros)?, axis as i64)?;
        }
    }
    Ok(x)
}

/// The largest extent that [`full`] makes: what 32-bit indices count.
const MOST_PER_AXIS: usize = 1 << 31;
