//! Tensors of backends that compute nothing: their elements are on the host.

use bb::{DataType, Tensor, TensorData};

/// A tensor whose elements are on the host.
#[derive(Debug, Clone)]
pub struct HostTensor(pub(crate) TensorData);

impl Tensor for HostTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}
