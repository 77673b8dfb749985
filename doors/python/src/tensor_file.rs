//! Reads tensors from files in ONNX's format.

use crate::arrays;
use crate::failure::{Phase, raise_other, raise_problem};
use crate::interrupt;
use bb::{DataType, ErrorKind};
use bb_conformance::onnx;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Reads a file with a serialized `TensorProto`.
#[pyfunction]
pub(crate) fn read_tensor(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let read = interrupt::detached(py, None, || onnx::read_tensor(&path))?;
    let data = read.map_err(|failure| raise_other(py, "FileError", ErrorKind::Configuration, &failure))?;
    let array = match data.dtype() {
        DataType::String => arrays::of_strings(py, &data),
        _ => arrays::of_tensor(py, data),
    };
    array.map_err(|problem| raise_problem(py, Phase::Convert, problem, None))
}
