//! The tensors of a backend, in typed and in type-erased form.

use bb_ir::DataType;
use std::any::Any;
use std::sync::Arc;

/// A tensor of any backend whose type is erased.
pub trait SlotValue: Any + Send + Sync {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the shape, outermost extent first.
    fn shape(&self) -> &[usize];
}

/// A tensor of a backend: a handle that is cheap to clone and knows its element type and shape.
///
/// The elements may be stored anywhere, for example on a device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor: `bb::Tensor` is not implemented for it",
    note = "write `impl bb::Tensor for {Self}` with `fn dtype(&self)` and `fn shape(&self)`; the type must also be `Clone + Send + Sync + 'static`"
)]
// Rustc shows the line of a bound that does not hold.
pub trait Tensor:
    Clone
    + Send // threads share tensors: use an `Arc` instead of an `Rc`
    + Sync // threads share tensors: what changes belongs into a `Mutex` or an atomic
    + 'static
{
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the shape, outermost extent first.
    fn shape(&self) -> &[usize];

    /// Returns the rank.
    ///
    /// Code that reads only the rank does not tie a trace to particular extents.
    fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Erases the type of the tensor.
    ///
    /// The default allocates. A tensor that consists of one `Arc` can avoid this: implement [`SlotValue`] for
    /// the type behind the `Arc`, return that `Arc` here, and override [`restore`](Self::restore)
    /// accordingly.
    fn erase(self) -> Arc<dyn SlotValue> {
        Arc::new(TensorSlot(self))
    }

    /// Restores the type that [`erase`](Self::erase) erased; `None` if the value is a tensor of another type.
    fn restore(value: &Arc<dyn SlotValue>) -> Option<Self> {
        let any: &dyn Any = value.as_ref();
        any.downcast_ref::<TensorSlot<Self>>().map(|slot| slot.0.clone())
    }
}

/// The default type-erased form of a tensor: an allocation that contains the tensor.
struct TensorSlot<T>(T);

impl<T: Tensor> SlotValue for TensorSlot<T> {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}
