//! Converts parameters of primitives to Python objects.

use crate::arrays;
use crate::convert::Problem;
use crate::dtypes::descriptor;
use bb::DataType;
use bb_ir::op::{OpSpec, Param};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};

/// Converts a parameter to a number, a boolean, a tuple, a NumPy element type, a string, or an array.
///
/// # Errors
///
/// [`Problem::NoType`] if NumPy does not have an element type.
pub(super) fn object<'py>(py: Python<'py>, param: &Param<'_>) -> Result<Bound<'py, PyAny>, Problem> {
    Ok(match param {
        Param::Int(n) => n.into_pyobject(py).map_err(PyErr::from)?.into_any(),
        Param::Bool(on) => PyBool::new(py, *on).to_owned().into_any(),
        Param::Ints(list) => PyTuple::new(py, list.iter())?.into_any(),
        Param::Extents(list) => PyTuple::new(py, list.iter())?.into_any(),
        Param::Type(dtype) => element_type(py, *dtype)?,
        Param::Round(mode) => mode.name().into_pyobject(py).map_err(PyErr::from)?.into_any(),
        Param::Data(data) => arrays::read_only(py, data)?,
        // Primitives have no other kinds of parameters.
        other => {
            let message = format!("a primitive has {} as a parameter", other.kind().name());
            return Err(PyTypeError::new_err(message).into());
        }
    })
}

/// Returns NumPy's element type. Strings are objects in NumPy.
fn element_type(py: Python<'_>, dtype: DataType) -> Result<Bound<'_, PyAny>, Problem> {
    if dtype == DataType::String {
        let numpy = py.import(intern!(py, "numpy"))?;
        return Ok(numpy.call_method1(intern!(py, "dtype"), (intern!(py, "O"),))?);
    }
    let found = descriptor(py, dtype).map(Bound::into_any);
    found.ok_or_else(|| Problem::no_type(dtype))
}

/// Lists the names of a primitive's operands and parameters, which are the arguments of its method.
pub(super) fn names(spec: &OpSpec) -> Vec<&'static str> {
    let operands = spec.inputs.iter().map(|(name, _)| *name);
    operands.chain(spec.params.iter().map(|param| param.name)).collect()
}

/// Formats the first line of a method's definition, as in `def reduce_sum(self, x, axes, keepdims)`.
pub(super) fn signature(spec: &OpSpec) -> String {
    format!("def {}(self, {})", spec.method, names(spec).join(", "))
}
