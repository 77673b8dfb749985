//! Tensors of a backend, and the same with their type erased.

use bb_ir::DataType;
use std::any::Any;
use std::sync::Arc;

/// A tensor of some backend, its type erased.
pub trait SlotValue: Any + Send + Sync {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the extents, outermost first.
    fn shape(&self) -> &[usize];
}

/// A tensor that a backend computes with: a handle, cheap to clone, that knows its type and extents.
///
/// Nothing is assumed of where the elements are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor: `bb::Tensor` is not implemented for it",
    note = "write `impl bb::Tensor for {Self}` with `fn dtype(&self)` and `fn shape(&self)`; the type must also be `Clone + Send + Sync + 'static`"
)]
pub trait Tensor: Clone + Send + Sync + 'static {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the extents, outermost first.
    fn shape(&self) -> &[usize];

    /// Returns the number of extents.
    ///
    /// While tracing, asking for the rank alone keeps a trace valid for other extents.
    fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Erases the type.
    ///
    /// The default allocates. A tensor that is one `Arc` inside implements [`SlotValue`] for what that
    /// points to, and hands it over here and in [`restore`](Self::restore).
    fn erase(self) -> Arc<dyn SlotValue> {
        Arc::new(Slot(self))
    }

    /// Restores the type that [`erase`](Self::erase) erased; `None` if the value is another backend's.
    fn restore(value: &Arc<dyn SlotValue>) -> Option<Self> {
        let any: &dyn Any = value.as_ref();
        any.downcast_ref::<Slot<Self>>().map(|slot| slot.0.clone())
    }
}

/// A tensor in an allocation of its own.
struct Slot<T>(T);

impl<T: Tensor> SlotValue for Slot<T> {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}
