//! The tensor: a handle that is cheap to clone and knows its element type and shape.

use bb::{DataType, TensorData};

/// A tensor. It lies in the host's memory until you give it another place.
#[derive(Debug, Clone)]
pub struct Tensor(pub(crate) TensorData);

impl bb::Tensor for Tensor {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}
