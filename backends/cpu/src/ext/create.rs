//! Implements `Create`: `expand` returns a view.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::layout::broadcast_strides;
use bb::ir::infer;
use bb::{DataType, Shape, Tensor};

#[bb::native]
impl bb::ext::Create for Cpu {
    fn scalar_like(&self, x: &Array, value: f64) -> Result<Array> {
        if x.dtype() != DataType::F32 {
            return self.body().scalar_like(x, value);
        }
        Ok(Array::dense(DataType::F32, Shape::new(), 1, crate::storage::Storage::of_f32(value as f32)))
    }

    fn expand(&self, x: &Array, shape: &[usize]) -> Result<Array> {
        let to = infer::broadcast("expand", &[x.shape(), shape])?;
        if to[..] != *shape {
            return self.body().expand(x, shape);
        }
        let strides = broadcast_strides(x.shape(), &x.strides(), shape);
        Ok(x.view(to, strides, 0))
    }
}
