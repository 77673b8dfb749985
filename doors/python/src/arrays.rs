//! Converts NumPy arrays and DLPack structures to tensors, and tensors to NumPy arrays.
//!
//! A tensor borrows the memory of a large array and keeps the array alive. A program must not write to the array while a run reads it, as
//! with any binding that does not copy. An array created from a tensor is always writable: it takes over memory that has no other owner, or
//! else is a copy.

use crate::convert::Problem;
use crate::dtypes::{Elements, descriptor, elements};
use bb::ir::convert::unpacked_size;
use bb::{DataType, TensorData};
use bb_cpu::SoleElements;
use bb_dlpack::{DLManagedTensor, Managed};
use bb_ir::StringsBuilder;
use bytes::Bytes;
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString};
use smallvec::SmallVec;
use std::ffi::{CStr, c_int};
use std::ptr;

/// The maximum size in bytes of elements that are copied, because a small copy is faster than creating an owner.
const FEW: usize = 1024;

/// The memory of an array or of a `bytes` object, which this keeps alive.
struct ArrayMemory {
    first: *const u8,
    length: usize,
    /// The owner of the memory. Its reference is released under the interpreter's lock, whichever thread drops this.
    _array: Py<PyAny>,
}

// SAFETY: the memory belongs to an array that is kept alive, and that is not resized while there are references to it; any thread may read
// it.
unsafe impl Send for ArrayMemory {}

impl AsRef<[u8]> for ArrayMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the array is contiguous and has `length` bytes, and the caller of a run does not write to it during the run.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// Returns the bytes of an immutable object without copying them.
pub(crate) fn lent(bytes: &Bound<'_, PyBytes>) -> Bytes {
    let all = bytes.as_bytes();
    Bytes::from_owner(ArrayMemory {
        first: all.as_ptr(),
        length: all.len(),
        _array: bytes.as_any().clone().unbind(),
    })
}

/// Returns the object as a NumPy array, if it is one.
#[inline]
pub(crate) fn as_array<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    // SAFETY: the check only reads the type of a live object.
    let is = unsafe { npyffi::PyArray_Check(object.py(), object.as_ptr()) } != 0;
    // SAFETY: the object is an array.
    is.then(|| unsafe { object.cast_unchecked() })
}

/// Makes an array read-only, so that a method cannot change a tensor that other nodes read.
pub(crate) fn freeze(array: &Bound<'_, PyUntypedArray>) {
    // SAFETY: the array is live, the interpreter's lock is held, and NumPy allows to clear this flag at any time.
    unsafe { (*array.as_array_ptr()).fields.flags &= !npyffi::NPY_ARRAY_WRITEABLE }
}

/// Creates a tensor from an array of numbers, booleans or strings.
///
/// # Errors
///
/// [`Problem::ElementType`] and [`Problem::Text`]; the errors of [`TensorData::adopt`].
pub(crate) fn tensor(array: &Bound<'_, PyUntypedArray>) -> Result<TensorData, Problem> {
    let descr = array.dtype();
    match elements(&descr) {
        Elements::Of(dtype) => {
            if array.is_c_contiguous() && descr.is_native_byteorder() != Some(false) {
                return numbers(array, dtype);
            }
            let py = array.py();
            let native = descr.call_method1(intern!(py, "newbyteorder"), (intern!(py, "="),))?;
            let numpy = py.import(intern!(py, "numpy"))?;
            let dense = numpy.call_method1(intern!(py, "ascontiguousarray"), (array, native))?;
            // `ascontiguousarray` converts arrays of rank 0 to rank 1, so the shape is restored.
            let dense =
                dense.call_method1(intern!(py, "reshape"), (array.getattr(intern!(py, "shape"))?,))?;
            numbers(dense.cast::<PyUntypedArray>().map_err(PyErr::from)?, dtype)
        }
        Elements::Objects | Elements::Text => strings(array),
        Elements::Other => Err(Problem::ElementType { dtype: descr.to_string() }),
    }
}

/// Creates a tensor from a contiguous array in the processor's byte order.
fn numbers(array: &Bound<'_, PyUntypedArray>, dtype: DataType) -> Result<TensorData, Problem> {
    let shape = array.shape();
    let length = array.len() * unpacked_size(dtype);
    // SAFETY: the array is alive, and its fields are read under the interpreter's lock.
    let first = unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).data };
    let first = first.cast_const().cast::<u8>();
    // SAFETY: the array is contiguous and has `length` bytes. No other code runs under the interpreter's lock while the slice is used.
    let now = || if length == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(first, length) } };
    if dtype.is_sub_byte() {
        return Ok(TensorData::pack(dtype, shape, now())?);
    }
    let bytes = if length <= FEW {
        Bytes::copy_from_slice(now())
    } else {
        Bytes::from_owner(ArrayMemory { first, length, _array: array.as_any().clone().unbind() })
    };
    Ok(TensorData::adopt(dtype, shape, bytes)?)
}

/// Creates a tensor from an array of strings, or of objects that are strings.
fn strings(array: &Bound<'_, PyUntypedArray>) -> Result<TensorData, Problem> {
    let py = array.py();
    let list = array.call_method0(intern!(py, "ravel"))?.call_method0(intern!(py, "tolist"))?;
    let list = list.cast::<PyList>().map_err(PyErr::from)?;
    let mut strings = StringsBuilder::with_room("strings", list.len())?;
    for (index, object) in list.iter().enumerate() {
        if let Ok(text) = object.cast::<PyString>() {
            strings.push(text.to_cow()?.as_bytes())?;
        } else if let Ok(bytes) = object.cast::<PyBytes>() {
            strings.push(bytes.as_bytes())?;
        } else {
            return Err(Problem::Text { index, got: crate::convert::type_name(&object) });
        }
    }
    Ok(strings.finish(array.shape())?)
}

/// The name of a capsule that contains a DLPack tensor, and its name after a consumer took the tensor.
const FULL: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";

/// Creates a tensor from an object that supports DLPack.
///
/// # Errors
///
/// [`Problem::Device`] if its elements are not on the host; exceptions that the object raises; the errors of [`Managed::into_tensor`].
pub(crate) fn from_dlpack(object: &Bound<'_, PyAny>) -> Result<TensorData, Problem> {
    let py = object.py();
    let device = object.call_method0(intern!(py, "__dlpack_device__"))?.get_item(0)?;
    // In some libraries, the device is an enum, which must be converted to an integer.
    let device: i64 = device.call_method0(intern!(py, "__int__"))?.extract()?;
    if device != 1 {
        return Err(Problem::Device(device));
    }
    let capsule = object.call_method0(intern!(py, "__dlpack__"))?;
    let capsule = capsule.cast::<PyCapsule>().map_err(PyErr::from)?.as_ptr();
    // SAFETY: it is a capsule; the pointer is null, with an exception, if its name is another.
    let managed = unsafe { ffi::PyCapsule_GetPointer(capsule, FULL.as_ptr()) };
    if managed.is_null() {
        return Err(PyErr::fetch(py).into());
    }
    // SAFETY: as above; the name lives as long as the program. No other consumer takes a tensor from a capsule with this name.
    if unsafe { ffi::PyCapsule_SetName(capsule, USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py).into());
    }
    // SAFETY: by DLPack's protocol for Python, the capsule contains a valid structure, whose owner is now the consumer that renamed the
    // capsule.
    let managed = unsafe { Managed::from_raw(managed.cast::<DLManagedTensor>()) }?;
    Ok(managed.into_tensor()?)
}

/// A Python object that keeps the memory of an array alive if NumPy does not own it.
#[pyclass(frozen, module = "bb")]
struct Memory {
    _elements: Box<dyn Send + Sync>,
}

/// The elements that an array takes over.
struct Taken(SoleElements);

// SAFETY: only the array reads or writes the elements.
unsafe impl Sync for Taken {}

/// Creates an array of this shape over memory. If the pointer is null, NumPy allocates the memory.
///
/// # Safety
///
/// The memory has room for the elements, is aligned for them, and may be read as long as `owner` lives. It may also be written, unless
/// the array is `read_only`.
unsafe fn make<'py>(
    py: Python<'py>,
    dtype: DataType,
    shape: &[usize],
    memory: *mut u8,
    owner: Option<Memory>,
    read_only: bool,
) -> Result<Bound<'py, PyUntypedArray>, Problem> {
    let Some(descr) = descriptor(py, dtype) else { return Err(Problem::no_type(dtype)) };
    let mut extents: SmallVec<[npyffi::npy_intp; 8]> = SmallVec::with_capacity(shape.len());
    for &extent in shape {
        let extent = npyffi::npy_intp::try_from(extent);
        extents.push(extent.map_err(|_| PyValueError::new_err("an extent is larger than NumPy's"))?);
    }
    let rank = c_int::try_from(shape.len()).map_err(|_| PyValueError::new_err("too many dimensions"))?;
    // SAFETY: NumPy's function takes over the descriptor and copies the extents; the caller guarantees that the memory is valid.
    let array = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_dtype_ptr(),
            rank,
            extents.as_mut_ptr(),
            ptr::null_mut(),
            memory.cast(),
            match (memory.is_null(), read_only) {
                (true, _) => 0,
                (false, true) => npyffi::NPY_ARRAY_CARRAY_RO,
                (false, false) => npyffi::NPY_ARRAY_CARRAY,
            },
            ptr::null_mut(),
        )
    };
    // SAFETY: a new reference, or null with an exception.
    let array = unsafe { Bound::from_owned_ptr_or_err(py, array) }?;
    // SAFETY: NumPy made an array.
    let array: Bound<'py, PyUntypedArray> = unsafe { array.cast_into_unchecked() };
    if let Some(owner) = owner {
        let owner = Bound::new(py, owner)?;
        // SAFETY: the array is new and has no base; the function takes over the reference to the owner.
        let set = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), owner.into_ptr()) };
        if set != 0 {
            return Err(PyErr::fetch(py).into());
        }
    }
    Ok(array)
}

/// Creates an array that takes over elements. Few elements are copied instead.
///
/// # Errors
///
/// [`Problem::NoType`] if NumPy does not have the element type.
pub(crate) fn of_sole<'py>(py: Python<'py>, elements: SoleElements) -> Result<Bound<'py, PyAny>, Problem> {
    let (dtype, length) = (elements.dtype(), elements.byte_len());
    let mut taken = Box::new(Taken(elements));
    let first = taken.0.as_mut_ptr();
    if length <= FEW {
        return copied(py, dtype, taken.0.shape(), first, length);
    }
    let shape: SmallVec<[usize; 8]> = SmallVec::from_slice(taken.0.shape());
    // SAFETY: the elements live as long as their owner, and no other reference to them exists.
    Ok(unsafe { make(py, dtype, &shape, first, Some(Memory { _elements: taken }), false) }?.into_any())
}

/// Creates an array that contains a copy of `length` bytes.
fn copied<'py>(
    py: Python<'py>,
    dtype: DataType,
    shape: &[usize],
    first: *const u8,
    length: usize,
) -> Result<Bound<'py, PyAny>, Problem> {
    // SAFETY: NumPy allocates.
    let array = unsafe { make(py, dtype, shape, ptr::null_mut(), None, false) }?;
    if length > 0 {
        // SAFETY: the new array has `length` bytes, because it has the same number and type of elements. It does not overlap the source.
        unsafe { ptr::copy_nonoverlapping(first, place(&array), length) };
    }
    Ok(array.into_any())
}

/// Returns a pointer to the elements of an array.
fn place(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the array is alive.
    unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).data.cast() }
}

/// Creates an array from a tensor that is not text. The array takes over the elements if they have no other owner.
///
/// # Errors
///
/// [`Problem::NoType`] if NumPy does not have the element type.
pub(crate) fn of_tensor<'py>(py: Python<'py>, data: TensorData) -> Result<Bound<'py, PyAny>, Problem> {
    let dtype = data.dtype();
    if dtype.is_sub_byte() {
        let elements = data.unpacked()?;
        return copied(py, dtype, data.shape(), elements.as_ptr(), elements.len());
    }
    let bytes = data.unaligned_bytes()?;
    copied(py, dtype, data.shape(), bytes.as_ptr(), bytes.len())
}

/// Creates a read-only array that shares the tensor's memory. The elements are copied only if NumPy represents them differently, or if
/// there are none.
///
/// # Errors
///
/// [`Problem::NoType`] if NumPy does not have the element type; the errors of [`TensorData::bytes`].
pub(crate) fn read_only<'py>(py: Python<'py>, data: &TensorData) -> Result<Bound<'py, PyAny>, Problem> {
    let dtype = data.dtype();
    if dtype == DataType::String {
        return of_strings(py, data);
    }
    if dtype.is_sub_byte() || data.is_empty() {
        return of_tensor(py, data.clone());
    }
    let bytes = data.bytes()?;
    let owner = Memory { _elements: Box::new(bytes.clone()) };
    // SAFETY: the bytes belong to the tensor, are aligned for its elements, and live as long as their owner; no code writes to them.
    let array = unsafe { make(py, dtype, data.shape(), bytes.as_ptr().cast_mut(), Some(owner), true) };
    Ok(array?.into_any())
}

/// Returns the object itself if it is an array, otherwise the result of `numpy.asarray`.
///
/// # Errors
///
/// Exceptions that NumPy raises.
pub(crate) fn as_array_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Some(array) = as_array(object) {
        return Ok(array.clone());
    }
    let py = object.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    Ok(numpy.call_method1(intern!(py, "asarray"), (object,))?.cast_into()?)
}

/// Creates an array, and calls `fill` to write the elements into its memory.
///
/// # Errors
///
/// [`Problem::NoType`] if NumPy does not have the element type; the error of `fill`.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    dtype: DataType,
    shape: &[usize],
    fill: impl FnOnce(&mut [u8]) -> Result<(), Problem>,
) -> Result<Bound<'py, PyAny>, Problem> {
    // SAFETY: NumPy allocates.
    let array = unsafe { make(py, dtype, shape, ptr::null_mut(), None, false) }?;
    let length = array.len() * unpacked_size(dtype);
    if length > 0 {
        let first = place(&array);
        // SAFETY: the new array has `length` bytes, which are initialized before they become a slice. No other code has a reference to it.
        let out = unsafe {
            first.write_bytes(0, length);
            std::slice::from_raw_parts_mut(first, length)
        };
        fill(out)?;
    }
    Ok(array.into_any())
}

/// Creates an array of objects from a tensor of strings. The objects are `str`, or `bytes` for strings that are not UTF-8.
///
/// # Errors
///
/// Exceptions that NumPy raises.
pub(crate) fn of_strings<'py>(py: Python<'py>, data: &TensorData) -> Result<Bound<'py, PyAny>, Problem> {
    data.prepare()?;
    let object = |text: &[u8]| match std::str::from_utf8(text) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, text).into_any(),
    };
    let list = PyList::new(py, data.iter_bytes().map(object))?;
    let numpy = py.import(intern!(py, "numpy"))?;
    let flat = numpy.call_method1(intern!(py, "array"), (list, intern!(py, "O")))?;
    Ok(flat.call_method1(intern!(py, "reshape"), (data.shape().to_vec(),))?)
}
