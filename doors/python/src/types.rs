//! Formats the types and shapes of inputs and outputs like ONNX Runtime.

use crate::dtypes::word;
use bb::ir::graph::{Dim, ValueType};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Formats a type like ONNX Runtime, as in `tensor(float)` or `seq(map(int64,tensor(float)))`.
pub(crate) fn name(ty: &ValueType) -> String {
    match ty {
        ValueType::Unknown => "unknown".to_owned(),
        ValueType::Tensor { dtype, .. } => format!("tensor({})", word(*dtype)),
        ValueType::Sequence(of) => format!("seq({})", name(of)),
        ValueType::Optional(of) => format!("optional({})", name(of)),
        ValueType::Map(key, of) => format!("map({},{})", word(*key), name(of)),
    }
}

/// Lists the extents of a tensor: numbers, names of symbolic dimensions, formulas, and `None` for unknown extents. The list is empty for
/// other values, as for a tensor of rank 0. Returns `None` if the rank is unknown.
pub(crate) fn shape<'py>(py: Python<'py>, ty: &ValueType) -> PyResult<Option<Bound<'py, PyList>>> {
    let dims: &[Dim] = match ty {
        ValueType::Tensor { shape: None, .. } | ValueType::Unknown => return Ok(None),
        ValueType::Tensor { shape: Some(dims), .. } => dims,
        ValueType::Optional(of) => return shape(py, of),
        ValueType::Sequence(_) | ValueType::Map(..) => &[],
    };
    let list = PyList::empty(py);
    for dim in dims {
        match dim {
            Dim::Known(extent) => list.append(extent)?,
            Dim::Symbol(name) => list.append(name)?,
            Dim::Computed(formula) => list.append(formula.to_string())?,
            Dim::Unknown => list.append(py.None())?,
        }
    }
    Ok(Some(list))
}
