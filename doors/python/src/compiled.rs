//! A model that is compiled for a backend and for a list of outputs.

use crate::failure::{Phase, raise};
use crate::interrupt;
use bb::ir::graph::ValueType;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, ErasedExecutable, InputSpec, Module, TensorData};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::ffi::CString;
use std::sync::Arc;

/// An input or an output.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) name: Py<PyString>,
    pub(crate) text: String,
    pub(crate) ty: ValueType,
    /// Whether a caller may omit it.
    pub(crate) optional: bool,
}

/// A model that is compiled for a backend and for a list of outputs.
pub(crate) struct Compiled {
    pub(crate) executable: Arc<dyn ErasedExecutable>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// Whether all inputs and outputs are tensors.
    pub(crate) tensors: bool,
    /// The inputs as the model declares them.
    spec: InputSpec,
}

impl Compiled {
    /// Compiles a module.
    ///
    /// # Errors
    ///
    /// The backend's own errors, and the errors of [`bb::Error`] for unsupported nodes.
    pub(crate) fn new(
        py: Python<'_>,
        handle: &BackendHandle,
        module: &Module,
        options: &CompileOptions,
    ) -> PyResult<Compiled> {
        let executable = interrupt::detached(py, None, || handle.compile(module.clone(), options))?;
        let executable = executable.map_err(|error| raise(py, Phase::Compile(handle), &error, None))?;
        let port = |port: &bb::Port| Port {
            name: PyString::intern(py, &port.name).unbind(),
            text: port.name.clone(),
            ty: port.ty.clone(),
            optional: port.optional,
        };
        let inputs: Vec<Port> = executable.inputs().iter().map(port).collect();
        let outputs: Vec<Port> = executable.outputs().iter().map(port).collect();
        let tensor = |port: &Port| matches!(port.ty, ValueType::Tensor { .. });
        let tensors = inputs.iter().all(tensor) && outputs.iter().all(tensor);
        let spec = InputSpec::new(module.graph());
        Ok(Compiled { executable, inputs, outputs, tensors, spec })
    }

    /// Warns if inputs have different extents where the model declares the same symbolic dimension.
    ///
    /// # Errors
    ///
    /// The warning as an exception, if the program turns warnings into errors.
    pub(crate) fn warn(&self, py: Python<'_>, inputs: &[Option<OnnxValue<TensorData>>]) -> PyResult<()> {
        let given = |index: usize| {
            let x = inputs.get(index)?.as_ref()?.tensor()?;
            Some((x.dtype(), x.shape()))
        };
        for contradiction in self.spec.contradictions(&given) {
            let text = CString::new(contradiction.to_string())?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        Ok(())
    }
}
