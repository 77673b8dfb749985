//! The tensor type: a view of a buffer on the device. Cloning it copies no elements.

use crate::device::Gpu;
use crate::device::pool::Storage;
use crate::elem::Elem;
use crate::layout::{Strides, is_row_major, row_major};
use bb::{DataType, Shape, SlotValue, TensorData};
use std::any::Any;
use std::sync::Arc;

/// A tensor on a device. It is a cheap handle; several tensors may share the same elements.
#[derive(Debug, Clone)]
pub struct Tensor(pub(crate) Arc<View>);

/// The location of a tensor's elements.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) elem: Elem,
    pub(crate) shape: Shape,
    pub(crate) strides: Strides,
    /// The index of the first element in the buffer.
    pub(crate) offset: usize,
    /// `None` if there are no elements.
    pub(crate) storage: Option<Arc<Storage>>,
    /// The device, which is compared to reject tensors of other devices.
    pub(crate) gpu: Arc<Gpu>,
    /// A copy of the elements on the host, for small tensors that came from the host and were not
    /// rearranged.
    pub(crate) host: Option<TensorData>,
}

impl Tensor {
    /// Creates a tensor from a buffer whose elements are in row-major order.
    pub(crate) fn dense(gpu: &Arc<Gpu>, elem: Elem, shape: Shape, storage: Option<Arc<Storage>>) -> Tensor {
        let strides = row_major(&shape);
        Tensor(Arc::new(View { elem, shape, strides, offset: 0, storage, gpu: gpu.clone(), host: None }))
    }

    /// Creates a tensor of the same buffer with another shape, other strides and another offset.
    pub(crate) fn view(&self, shape: Shape, strides: Strides, offset: usize) -> Tensor {
        let View { elem, storage, gpu, .. } = &*self.0;
        let (storage, gpu) = (storage.clone(), gpu.clone());
        Tensor(Arc::new(View { elem: *elem, shape, strides, offset, storage, gpu, host: None }))
    }

    /// Creates a tensor of the same elements in the same order, with another shape.
    pub(crate) fn with_extents(&self, shape: Shape, strides: Strides) -> Tensor {
        let host = self.0.host.as_ref().and_then(|host| host.reshaped(&shape).ok());
        let View { elem, storage, gpu, offset, .. } = &*self.0;
        let (storage, gpu) = (storage.clone(), gpu.clone());
        Tensor(Arc::new(View { elem: *elem, shape, strides, offset: *offset, storage, gpu, host }))
    }

    pub(crate) fn elem(&self) -> Elem {
        self.0.elem
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.0.shape.iter().product()
    }

    /// Returns whether the elements are contiguous in row-major order.
    pub(crate) fn is_dense(&self) -> bool {
        is_row_major(&self.0.shape, &self.0.strides)
    }

    /// Returns the copy of the elements on the host, if there is one.
    pub(crate) fn host(&self) -> Option<&TensorData> {
        self.0.host.as_ref()
    }
}

impl bb::Tensor for Tensor {
    fn dtype(&self) -> DataType {
        self.0.elem.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn erase(self) -> Arc<dyn SlotValue> {
        self.0
    }

    fn restore(value: &Arc<dyn SlotValue>) -> Option<Tensor> {
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        any.downcast::<View>().ok().map(Tensor)
    }
}

impl SlotValue for View {
    fn dtype(&self) -> DataType {
        self.elem.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}
