//! Converts plain Python numbers, which have no element type, to tensors of the declared element type, if no digits are lost.

use crate::arrays;
use crate::convert::{Problem, wrong_kind};
use crate::dtypes::{Elements, descriptor, elements};
use bb::ir::convert::{Rounding, cast};
use bb::{DataType, TensorData};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList};

/// Converts numbers, or nested lists of numbers, to a tensor of the declared element type.
///
/// Integers are converted to any type that represents them exactly; 0 and 1 are also converted to booleans. Floats are rounded to the
/// nearest value of the declared type, but neither to infinity nor to 0. Other combinations (floats for a declared integer type, booleans
/// for a declared number type) keep the type of the Python value, so that the model refuses them.
///
/// # Errors
///
/// [`Problem::Digits`] for the first number that the declared type cannot represent; [`Problem::Kind`] for objects that are not
/// numbers; the exception that NumPy raises for lists of different lengths.
pub(crate) fn tensor(object: &Bound<'_, PyAny>, declared: DataType) -> Result<TensorData, Problem> {
    let py = object.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    let asarray = numpy.getattr(intern!(py, "asarray"))?;
    let natural = asarray.call1((object,))?;
    let array = arrays::as_array(&natural).ok_or_else(|| wrong_kind("an array", object))?;
    if matches!(elements(&array.dtype()), Elements::Objects) {
        return Err(wrong_kind("an array of numbers", object));
    }
    let x = arrays::tensor(array)?;
    let from = x.dtype();
    let is_complex = |dtype| matches!(dtype, DataType::C64 | DataType::C128);
    if x.is_empty() && from != DataType::String && declared != DataType::String {
        return Ok(TensorData::zeros(declared, x.shape(), usize::MAX)?);
    }
    if from.is_integer() && declared == DataType::Bool {
        return truths(&x);
    }
    if from.is_integer() && declared.is_integer() {
        return whole(&x, declared);
    }
    if (from.is_integer() || from.is_float()) && declared.is_float() {
        return floats(object, array, &x, declared);
    }
    if is_complex(declared) && (from.is_integer() || from.is_float()) {
        let part = if declared == DataType::C64 { DataType::F32 } else { DataType::F64 };
        floats(object, array, &x, part)?;
    }
    match descriptor(py, declared) {
        Some(wanted) if is_complex(declared) && from != DataType::Bool && from != DataType::String => {
            let made = asarray.call1((object, wanted))?;
            arrays::tensor(arrays::as_array(&made).ok_or_else(|| wrong_kind("an array", object))?)
        }
        _ => Ok(x),
    }
}

/// Reads the elements of any integer type.
fn integers(x: &TensorData) -> Result<Vec<i128>, Problem> {
    macro_rules! by_type {
        ($($dtype:ident: $ty:ty),*) => {
            match x.dtype() {
                $(DataType::$dtype => x.as_slice::<$ty>()?.iter().map(|&v| i128::from(v)).collect(),)*
                got => return Err(bb_ir::Error::DataType { expected: DataType::I64, got }.into()),
            }
        };
    }
    Ok(by_type!(I64: i64, U64: u64, I32: i32, U32: u32, I16: i16, U16: u16, I8: i8, U8: u8))
}

fn lost(index: usize, value: impl std::fmt::Display, dtype: DataType) -> Problem {
    Problem::Digits { index, value: value.to_string(), dtype }
}

/// Converts 0 and 1 to booleans.
fn truths(x: &TensorData) -> Result<TensorData, Problem> {
    let truth = |(index, value): (usize, i128)| match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(lost(index, other, DataType::Bool)),
    };
    let truths = integers(x)?.into_iter().enumerate().map(truth).collect::<Result<Vec<_>, _>>()?;
    Ok(TensorData::bools(x.shape(), &truths)?)
}

/// Converts integers to another integer type. All elements must be in the range of the new type.
fn whole(x: &TensorData, to: DataType) -> Result<TensorData, Problem> {
    let signed = to.is_signed_integer();
    let most = (1i128 << (to.bits() - usize::from(signed))) - 1;
    let range = if signed { -most - 1..=most } else { 0..=most };
    match integers(x)?.into_iter().enumerate().find(|(_, value)| !range.contains(value)) {
        Some((index, value)) => Err(lost(index, value, to)),
        None => Ok(cast(x, to, Rounding::default())?),
    }
}

/// Converts integers and floats to a float type. Integers must be representable exactly; floats are rounded.
fn floats(
    object: &Bound<'_, PyAny>,
    natural: &Bound<'_, PyUntypedArray>,
    x: &TensorData,
    to: DataType,
) -> Result<TensorData, Problem> {
    let made = cast(x, to, Rounding::default())?;
    // f64 represents every value of every float type.
    let got = cast(&made, DataType::F64, Rounding::default())?;
    let got = got.as_slice::<f64>()?;
    if x.dtype().is_integer() {
        // An `i128` represents every integer of at most 64 bits, and `as` saturates for larger floats.
        let differs = |(index, (&got, value)): (usize, (&f64, i128))| {
            (got.fract() != 0.0 || !got.is_finite() || got as i128 != value).then_some((index, value))
        };
        return match got.iter().zip(integers(x)?).enumerate().find_map(differs) {
            Some((index, value)) => Err(lost(index, value, to)),
            None => Ok(made),
        };
    }
    let given = cast(x, DataType::F64, Rounding::default())?;
    for (index, (got, given)) in got.iter().zip(given.as_slice::<f64>()?).enumerate() {
        let overflows = given.is_finite() && !got.is_finite();
        if overflows || (*given != 0.0 && *got == 0.0) {
            return Err(lost(index, given, to));
        }
    }
    // NumPy has already converted the integers in a list with floats, so the original objects are read again.
    let py = object.py();
    let asarray = py.import(intern!(py, "numpy"))?.getattr(intern!(py, "asarray"))?;
    let objects = asarray.call1((object, intern!(py, "O")))?;
    let same = objects.getattr(intern!(py, "size"))?.extract::<usize>()? == natural.len();
    let list = objects.call_method0(intern!(py, "ravel"))?.call_method0(intern!(py, "tolist"))?;
    let list = list.cast::<PyList>().map_err(PyErr::from)?;
    for (index, (item, got)) in list.iter().zip(got).enumerate().filter(|_| same) {
        if item.is_instance_of::<PyFloat>() || !item.hasattr(intern!(py, "__index__"))? {
            continue;
        }
        // Python compares an integer with a float exactly.
        if !item.call_method0(intern!(py, "__index__"))?.eq(PyFloat::new(py, *got))? {
            return Err(lost(index, item.str()?, to));
        }
    }
    Ok(made)
}
