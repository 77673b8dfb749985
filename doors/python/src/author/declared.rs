//! Parses the element types and the primitives that an author's class declares.

use super::instance::element_type;
use crate::dtypes::{descriptor, python_name};
use bb::{DataType, DataTypes, Primitive};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Parses the element types that a class declares. `None` means all that NumPy and the installed `ml_dtypes` have.
pub(super) fn declared(types: &Bound<'_, PyAny>) -> PyResult<DataTypes> {
    if types.is_none() {
        let numpy = |dtype: &DataType| *dtype == DataType::String || descriptor(types.py(), *dtype).is_some();
        let all: Vec<DataType> = DataType::ALL.iter().copied().filter(numpy).collect();
        return Ok(DataTypes::of(&all));
    }
    const EXAMPLE: &str = "as in `types = [\"float32\", \"int32\", \"bool\"]`";
    if types.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!(
            "`types` is a text; expected a list of element types, {EXAMPLE}"
        )));
    }
    let mut all = Vec::new();
    for entry in types.try_iter()? {
        let entry = entry?;
        all.push(element_type(&entry)?.ok_or_else(|| no_element_type(&entry.to_string()))?);
    }
    let declared = DataTypes::of(&all);
    if bb_core::runtime::check_types("types", declared).is_err() {
        let got = all.iter().map(|dtype| python_name(*dtype)).collect::<Vec<_>>().join(", ");
        return Err(PyTypeError::new_err(format!(
            "`types` has {}; every backend has at least float32, bool, and int32 or int64, {EXAMPLE}",
            if got.is_empty() { "nothing" } else { &got }
        )));
    }
    Ok(declared)
}

/// Returns the error for a declared element type that does not exist. For `f32`, it suggests `float32`.
fn no_element_type(entry: &str) -> PyErr {
    let similar = DataType::ALL.iter().find(|dtype| dtype.name() == entry);
    let meant =
        similar.map_or_else(String::new, |dtype| format!("; did you mean `{}`?", python_name(*dtype)));
    let known: Vec<&str> = DataType::ALL.iter().map(|dtype| python_name(*dtype)).collect();
    let known = known.join(", ");
    PyTypeError::new_err(format!("`types` has {entry}, which is no element type{meant}; there are {known}"))
}

/// Formats the declaration of element types in a class.
pub(super) fn declaration(types: &[DataType]) -> String {
    let names: Vec<String> = types.iter().map(|dtype| format!("\"{}\"", python_name(*dtype))).collect();
    format!("in the class: `types = [{}]`", names.join(", "))
}

/// Parses the methods of the primitives that a class declares; `None` means all.
pub(super) fn primitives(names: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Primitive>>> {
    if names.is_none() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for name in names.try_iter()? {
        let name: String = name?.extract()?;
        let found = Primitive::ALL.iter().find(|op| op.spec().method == name);
        all.push(*found.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "`primitives` has `{name}`, which is no primitive; `bb.primitives()` lists them"
            ))
        })?);
    }
    Ok(Some(all))
}
