//! Converts the values of a run to Python objects, like ONNX Runtime.

use crate::arrays;
use crate::convert::Problem;
use bb::onnx::OnnxValue;
use bb::{Backend, BackendHandle, DataType, Tensor, TensorData, Value};
use bb_cpu::{Array, Cpu, SoleElements};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A tensor of a run's result on the host, before it becomes an array.
pub(crate) enum Fetched {
    /// The elements, which have no other owner.
    Sole(SoleElements),
    /// The elements, which have other owners too.
    Shared(Array),
    /// A copy on the host, or strings.
    Host(TensorData),
}

/// Fetches a tensor from the backend. This may block on a device, so the caller releases the interpreter's lock.
///
/// # Errors
///
/// The backend's errors.
pub(crate) fn fetch(handle: &BackendHandle, value: Value) -> Result<Fetched, bb::Error> {
    if value.dtype() != DataType::String
        && let Some(cpu) = handle.typed::<Cpu>()
    {
        let array = cpu.restore(&value)?;
        // Releases the value's reference to the array, so that the array may be its sole owner.
        drop(value);
        return Ok(match array.into_sole() {
            Ok(sole) => Fetched::Sole(sole),
            Err(array) => Fetched::Shared(array),
        });
    }
    Ok(Fetched::Host(handle.to_host(&value)?))
}

/// Fetches all tensors of a value.
///
/// # Errors
///
/// The backend's errors.
pub(crate) fn fetch_all(
    handle: &BackendHandle,
    value: OnnxValue<Value>,
) -> Result<OnnxValue<Fetched>, bb::Error> {
    Ok(match value {
        OnnxValue::Tensor(x) => OnnxValue::Tensor(fetch(handle, x)?),
        OnnxValue::Sequence(items) => {
            let items = items.into_iter().map(|item| fetch_all(handle, item));
            OnnxValue::Sequence(items.collect::<Result<_, _>>()?)
        }
        OnnxValue::Absent => OnnxValue::Absent,
        OnnxValue::Map { keys, values } => OnnxValue::Map { keys, values: fetch(handle, values)? },
    })
}

/// Converts a tensor to a Python array, with objects as elements if they are strings.
///
/// # Errors
///
/// [`Problem::NoType`] if NumPy does not have the element type; the backend's errors.
pub(crate) fn array<'py>(
    py: Python<'py>,
    handle: &BackendHandle,
    fetched: Fetched,
) -> Result<Bound<'py, PyAny>, Problem> {
    match fetched {
        Fetched::Sole(elements) => arrays::of_sole(py, elements),
        Fetched::Host(data) if data.dtype() == DataType::String => arrays::of_strings(py, &data),
        Fetched::Host(data) => arrays::of_tensor(py, data),
        Fetched::Shared(array) => {
            let cpu = handle.typed::<Cpu>().ok_or_else(|| bb::Error::Gone { owner: handle.owner() })?;
            let failed = |source: bb_cpu::CpuError| bb::Error::Kernel {
                backend: handle.name(),
                op: "read_into",
                source: Box::new(source),
            };
            if array.dtype().is_sub_byte() {
                return arrays::of_tensor(py, cpu.to_host(&array).map_err(failed)?);
            }
            arrays::filled(py, array.dtype(), array.shape(), |out| {
                cpu.read_into(&array, out).map_err(failed)?;
                Ok(())
            })
        }
    }
}

/// Converts a value to a Python object: an array, a list, a dict, or `None`.
///
/// # Errors
///
/// As [`array`].
pub(crate) fn object<'py>(
    py: Python<'py>,
    handle: &BackendHandle,
    value: OnnxValue<Fetched>,
) -> Result<Bound<'py, PyAny>, Problem> {
    match value {
        OnnxValue::Tensor(x) => array(py, handle, x),
        OnnxValue::Sequence(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(object(py, handle, item)?)?;
            }
            Ok(list.into_any())
        }
        OnnxValue::Absent => Ok(py.None().into_bound(py)),
        OnnxValue::Map { keys, values } => {
            let keys = array(py, handle, Fetched::Host(keys))?.call_method0(intern!(py, "tolist"))?;
            let values = array(py, handle, values)?.call_method0(intern!(py, "tolist"))?;
            let dict = PyDict::new(py);
            for (key, value) in keys.try_iter()?.zip(values.try_iter()?) {
                dict.set_item(key?, value?)?;
            }
            Ok(dict.into_any())
        }
    }
}
