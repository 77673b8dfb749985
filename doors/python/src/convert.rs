//! Conversion errors between Python objects and values of a model.

use crate::dtypes::added_name;
use bb::DataType;
use pyo3::prelude::*;

/// An error of converting a Python object to a value of a model, or a value to a Python object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The model was compiled, so its dimensions and constants cannot be changed.
    #[error("the model is compiled, so that neither `dims` nor tensors for its constants can change it")]
    Compiled,

    /// The caller passed a tensor for a constant that the model does not have.
    #[error("the model has no constant `{name}`, for which a tensor is given")]
    NoConstant { name: String },

    /// ONNX does not have the element type of an array.
    #[error("an array of {dtype} has no element type of ONNX")]
    ElementType { dtype: String },

    /// The elements are in the memory of a device.
    #[error(
        "the elements are on a device of DLPack's type {0}; expected 1, the host: move the tensor there first"
    )]
    Device(i64),

    /// An element of an array of objects is not a string.
    #[error("element {index} is of type `{got}`; expected `str`, or `bytes` in UTF-8")]
    Text { index: usize, got: String },

    /// The caller passed an array of objects for an input that declares numbers.
    #[error(
        "the array holds Python objects (its element type is `object`), expected numbers: convert it by `astype` first"
    )]
    Objects,

    /// NumPy does not have an element type, and no installed package adds it.
    #[error(
        "NumPy has no elements of {dtype}; the package `ml_dtypes` has them as `{name}`: pip install ml_dtypes"
    )]
    NoType { dtype: DataType, name: &'static str },

    /// An object cannot be converted to the kind of value that the input declares.
    #[error("expected {expected}, got `{got}`")]
    Kind { expected: &'static str, got: String },

    /// A Python number cannot be represented in the declared element type.
    #[error("element {index} is {value}, which {dtype} does not hold without losing digits")]
    Digits { index: usize, value: String, dtype: DataType },

    /// A tensor of another library is not valid.
    #[error(transparent)]
    Dlpack(#[from] bb_dlpack::DlpackError),

    /// A tensor is not valid, or no input has a dimension with the passed name.
    #[error(transparent)]
    Tensor(#[from] bb_ir::Error),

    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] bb::Error),

    /// Python code raised an exception.
    #[error("Python raised an exception")]
    Python(#[from] PyErr),
}

impl Problem {
    /// Returns the error for an element type that NumPy does not have.
    pub(crate) fn no_type(dtype: DataType) -> Problem {
        Problem::NoType { dtype, name: added_name(dtype).unwrap_or("object") }
    }
}

/// Returns the error for an object of a wrong kind.
pub(crate) fn wrong_kind(expected: &'static str, got: &Bound<'_, PyAny>) -> Problem {
    Problem::Kind { expected, got: type_name(got) }
}

/// Returns the name of an object's type.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
