//! The tensor of backends without kernels: its elements are on the host.

use bb::ext::OpSet;
use bb::ir::op::Family;
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

/// Adds the operation with this index in its family to a list of native operations.
pub(crate) fn add_native(natives: &mut Vec<(Family, OpSet)>, family: Family, index: u16) {
    match natives.iter_mut().find(|(known, _)| *known == family) {
        Some((_, set)) => *set = set.with(index),
        None => natives.push((family, OpSet::default().with(index))),
    }
}
