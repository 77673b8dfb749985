//! The tensor of these backends, whose elements are in host memory.

use bb::{DataType, TensorData};

/// A tensor in host memory, which engines read without a copy.
#[derive(Debug, Clone)]
pub struct Host(TensorData);

impl Host {
    /// Returns the elements.
    pub fn data(&self) -> &TensorData {
        &self.0
    }

    /// Converts the tensor to its elements.
    pub fn into_data(self) -> TensorData {
        self.0
    }
}

impl From<TensorData> for Host {
    fn from(data: TensorData) -> Host {
        Host(data)
    }
}

impl bb::Tensor for Host {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}
