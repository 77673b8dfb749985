//! Tensors of every element type on a backend that lacks some types.

use super::range::Range;
use super::tensor::ErasedTensor;
use crate::Tensor;
use bb_ir::{DataType, TensorData};
use std::sync::Arc;

/// A tensor of a backend that lacks element types.
#[derive(Clone)]
pub struct NarrowTensor(Arc<NarrowParts>);

struct NarrowParts {
    dtype: DataType,
    place: TensorPlace,
    /// A range that contains all elements, if they are integers or booleans.
    range: Option<Range>,
}

/// The location of a tensor's elements.
#[derive(Debug, Clone)]
pub(crate) enum TensorPlace {
    /// On the backend, in an element type that the backend has.
    Device(ErasedTensor),
    /// On the host.
    Host(TensorData),
}

impl NarrowTensor {
    /// Creates a tensor whose elements are on the backend. `range` contains all elements, if they are integers and
    /// their range is known.
    pub(crate) fn device(dtype: DataType, x: ErasedTensor, range: Option<Range>) -> NarrowTensor {
        // Without a range, integers and booleans may have any value of their type.
        let range = range.or_else(|| Range::of(dtype));
        NarrowTensor(Arc::new(NarrowParts { dtype, place: TensorPlace::Device(x), range }))
    }

    /// Creates a tensor whose elements stay on the host.
    pub(crate) fn host(x: TensorData, range: Option<Range>) -> NarrowTensor {
        NarrowTensor(Arc::new(NarrowParts { dtype: x.dtype(), place: TensorPlace::Host(x), range }))
    }

    pub(crate) fn place(&self) -> &TensorPlace {
        &self.0.place
    }

    pub(crate) fn range(&self) -> Option<Range> {
        self.0.range
    }

    /// Converts to the backend's tensor. Returns this tensor unchanged if its elements are on the host or if it has
    /// other handles.
    pub(crate) fn into_device(self) -> Result<ErasedTensor, NarrowTensor> {
        match Arc::try_unwrap(self.0) {
            Ok(NarrowParts { place: TensorPlace::Device(x), .. }) => Ok(x),
            Ok(inner) => Err(NarrowTensor(Arc::new(inner))),
            Err(shared) => Err(NarrowTensor(shared)),
        }
    }

    /// Returns the backend's tensor, if the elements are on the backend.
    pub(crate) fn on_device(&self) -> Option<&ErasedTensor> {
        match &self.0.place {
            TensorPlace::Device(x) => Some(x),
            TensorPlace::Host(_) => None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for NarrowTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    fn shape(&self) -> &[usize] {
        match &self.0.place {
            TensorPlace::Device(x) => x.shape(),
            TensorPlace::Host(x) => x.shape(),
        }
    }
}

impl std::fmt::Debug for NarrowTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NarrowTensor({}{:?} as {:?})", self.0.dtype, self.shape(), self.0.place)
    }
}
