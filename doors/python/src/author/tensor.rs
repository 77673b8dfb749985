//! An author's tensor: any Python object with a known element type and shape.

use bb::{DataType, Shape, SlotValue, Tensor};
use pyo3::prelude::*;
use std::any::Any;
use std::sync::Arc;

/// An author's tensor.
#[derive(Clone)]
pub(crate) struct PythonTensor(Arc<TypedObject>);

/// A Python object with its element type and shape. If a thread drops this without the interpreter's lock, the next thread that takes the
/// lock releases the object.
struct TypedObject {
    object: Py<PyAny>,
    dtype: DataType,
    shape: Shape,
}

impl PythonTensor {
    pub(super) fn new(object: Py<PyAny>, dtype: DataType, shape: Shape) -> PythonTensor {
        PythonTensor(Arc::new(TypedObject { object, dtype, shape }))
    }

    /// Returns the object.
    pub(super) fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.0.object.bind(py).clone()
    }
}

impl SlotValue for TypedObject {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for PythonTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn erase(self) -> Arc<dyn SlotValue> {
        self.0
    }

    fn restore(value: &Arc<dyn SlotValue>) -> Option<PythonTensor> {
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        any.downcast::<TypedObject>().ok().map(PythonTensor)
    }
}
