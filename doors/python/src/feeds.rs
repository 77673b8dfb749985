//! Converts Python objects to values of a model.

use crate::arrays;
use crate::convert::{Problem, wrong_kind};
use crate::dtypes::{Elements, elements};
use bb::ir::graph::ValueType;
use bb::onnx::OnnxValue;
use bb::{DataType, TensorData};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

/// Converts an object to a value of the kind that an input declares.
///
/// # Errors
///
/// [`Problem::Kind`] if the object is of another kind; the errors of [`tensor`].
pub(crate) fn value(object: &Bound<'_, PyAny>, ty: &ValueType) -> Result<OnnxValue<TensorData>, Problem> {
    match ty {
        ValueType::Tensor { dtype, .. } => tensor(object, Some(*dtype)).map(OnnxValue::Tensor),
        ValueType::Unknown => tensor(object, None).map(OnnxValue::Tensor),
        ValueType::Optional(_) if object.is_none() => Ok(OnnxValue::Absent),
        ValueType::Optional(of) => value(object, of),
        ValueType::Sequence(of) => {
            if object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>() {
                return Err(wrong_kind("a list of values", object));
            }
            let items = object.try_iter().map_err(|_| wrong_kind("a list of values", object))?;
            let items = items.map(|item| value(&item?, of)).collect::<Result<_, Problem>>()?;
            Ok(OnnxValue::Sequence(items))
        }
        ValueType::Map(key, of) => {
            let of = match of.as_ref() {
                ValueType::Tensor { dtype, .. } => Some(*dtype),
                _ => None,
            };
            let map = object.cast::<PyMapping>().map_err(|_| wrong_kind("a dict", object))?;
            let keys = tensor(map.keys()?.as_any(), Some(*key))?;
            let values = tensor(map.values()?.as_any(), of)?;
            Ok(OnnxValue::Map { keys, values })
        }
    }
}

/// Converts an object to a tensor: an array, an object that supports DLPack or `__array__`, or numbers and lists of numbers. Numbers are
/// converted to the declared element type.
///
/// # Errors
///
/// The errors of [`arrays::tensor`] and [`arrays::from_dlpack`]; exceptions that the object raises.
pub(crate) fn tensor(object: &Bound<'_, PyAny>, declared: Option<DataType>) -> Result<TensorData, Problem> {
    if let Some(array) = arrays::as_array(object) {
        return numbers_unless_strings(array, declared);
    }
    let py = object.py();
    if object.hasattr(intern!(py, "__dlpack__"))? {
        match arrays::from_dlpack(object) {
            // Some libraries cannot export some of their tensors through DLPack, but can through `__array__`.
            Err(Problem::Python(error)) if declines(py, &error) => {}
            other => return other,
        }
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    let asarray = numpy.getattr(intern!(py, "asarray"))?;
    let plain = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    let plain = plain || !object.hasattr(intern!(py, "__array__"))?;
    let array = match declared {
        Some(DataType::String) if plain => asarray.call1((object, intern!(py, "O")))?,
        Some(dtype) if plain => return crate::numbers::tensor(object, dtype),
        _ => asarray.call1((object,))?,
    };
    let array = arrays::as_array(&array).ok_or_else(|| wrong_kind("an array", object))?;
    if declared.is_none() && holds_objects(array) {
        return Err(wrong_kind("an array of numbers", object));
    }
    numbers_unless_strings(array, declared)
}

/// Converts an array to a tensor. An array of Python objects is accepted only if strings or no type is declared.
fn numbers_unless_strings(
    array: &Bound<'_, PyUntypedArray>,
    declared: Option<DataType>,
) -> Result<TensorData, Problem> {
    if declared.is_some_and(|dtype| dtype != DataType::String) && holds_objects(array) {
        return Err(Problem::Objects);
    }
    arrays::tensor(array)
}

fn holds_objects(array: &Bound<'_, PyUntypedArray>) -> bool {
    matches!(elements(&array.dtype()), Elements::Objects)
}

/// Returns whether an exception says that the object cannot be exported through DLPack.
fn declines(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyBufferError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyAttributeError>(py)
}
