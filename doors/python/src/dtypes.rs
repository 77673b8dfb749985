//! Converts element types from and to NumPy's descriptors and ONNX Runtime's names.

use bb::DataType;
use numpy::npyffi::NPY_TYPES;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::c_long;

/// The element types that the package `ml_dtypes` adds to NumPy, with their names there.
const ADDED: [(DataType, &str); 13] = [
    (DataType::BF16, "bfloat16"),
    (DataType::F8E4M3FN, "float8_e4m3fn"),
    (DataType::F8E4M3FNUZ, "float8_e4m3fnuz"),
    (DataType::F8E5M2, "float8_e5m2"),
    (DataType::F8E5M2FNUZ, "float8_e5m2fnuz"),
    (DataType::U4, "uint4"),
    (DataType::I4, "int4"),
    (DataType::F4E2M1, "float4_e2m1fn"),
    (DataType::F8E8M0, "float8_e8m0fnu"),
    (DataType::U2, "uint2"),
    (DataType::I2, "int2"),
    (DataType::F6E2M3, "float6_e2m3fn"),
    (DataType::F6E3M2, "float6_e3m2fn"),
];

/// The element types that NumPy has, with their names there. Strings are NumPy objects.
const NAMES: [(DataType, &str); 15] = [
    (DataType::F32, "float32"),
    (DataType::F64, "float64"),
    (DataType::F16, "float16"),
    (DataType::I8, "int8"),
    (DataType::I16, "int16"),
    (DataType::I32, "int32"),
    (DataType::I64, "int64"),
    (DataType::U8, "uint8"),
    (DataType::U16, "uint16"),
    (DataType::U32, "uint32"),
    (DataType::U64, "uint64"),
    (DataType::Bool, "bool"),
    (DataType::C64, "complex64"),
    (DataType::C128, "complex128"),
    (DataType::String, "object"),
];

/// Returns the name of an element type in Python libraries.
pub(crate) fn python_name(dtype: DataType) -> &'static str {
    let known = NAMES.iter().chain(&ADDED).find(|(known, _)| *known == dtype);
    known.map_or(dtype.name(), |(_, name)| name)
}

/// Returns the element type with this name in Python libraries. Also accepts ONNX's name `string`.
pub(crate) fn of_name(name: &str) -> Option<DataType> {
    if matches!(name, "string" | "str") {
        return Some(DataType::String);
    }
    NAMES.iter().chain(&ADDED).find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
}

/// The descriptors of the types that the installed `ml_dtypes` adds. Not set while the package is not installed.
static FOUND: PyOnceLock<Vec<(DataType, Py<PyArrayDescr>)>> = PyOnceLock::new();

/// The kind of elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Elements of this type, in any byte order.
    Of(DataType),
    /// Python objects, which may be strings.
    Objects,
    /// Strings of NumPy.
    Text,
    /// Elements that have no element type here.
    Other,
}

/// Returns the types that `ml_dtypes` adds. If the package is missing, nothing is cached, because it may be installed later.
fn added(py: Python<'_>) -> &[(DataType, Py<PyArrayDescr>)] {
    if let Some(found) = FOUND.get(py) {
        return found;
    }
    let Ok(package) = py.import("ml_dtypes") else { return &[] };
    FOUND.get_or_init(py, || {
        let find = |&(dtype, name): &(DataType, &str)| {
            let descr = PyArrayDescr::new(py, package.getattr(name).ok()?).ok()?;
            Some((dtype, descr.unbind()))
        };
        ADDED.iter().filter_map(find).collect()
    })
}

/// Returns the kind of elements of an array.
pub(crate) fn elements(descr: &Bound<'_, PyArrayDescr>) -> Elements {
    const LONG: DataType = if size_of::<c_long>() == 8 { DataType::I64 } else { DataType::I32 };
    const ULONG: DataType = if size_of::<c_long>() == 8 { DataType::U64 } else { DataType::U32 };
    let number = descr.num();
    let known = |ty: NPY_TYPES| ty as std::ffi::c_int;
    // The numbers are compared one by one, because they are discriminants of an enum, which a `match` on integers cannot use.
    for (ty, dtype) in [
        (NPY_TYPES::NPY_FLOAT, DataType::F32),
        (NPY_TYPES::NPY_LONG, LONG),
        (NPY_TYPES::NPY_BOOL, DataType::Bool),
        (NPY_TYPES::NPY_BYTE, DataType::I8),
        (NPY_TYPES::NPY_UBYTE, DataType::U8),
        (NPY_TYPES::NPY_SHORT, DataType::I16),
        (NPY_TYPES::NPY_USHORT, DataType::U16),
        (NPY_TYPES::NPY_INT, DataType::I32),
        (NPY_TYPES::NPY_UINT, DataType::U32),
        (NPY_TYPES::NPY_ULONG, ULONG),
        (NPY_TYPES::NPY_LONGLONG, DataType::I64),
        (NPY_TYPES::NPY_ULONGLONG, DataType::U64),
        (NPY_TYPES::NPY_DOUBLE, DataType::F64),
        (NPY_TYPES::NPY_HALF, DataType::F16),
        (NPY_TYPES::NPY_CFLOAT, DataType::C64),
        (NPY_TYPES::NPY_CDOUBLE, DataType::C128),
    ] {
        if number == known(ty) {
            return Elements::Of(dtype);
        }
    }
    if number == known(NPY_TYPES::NPY_OBJECT) {
        return Elements::Objects;
    }
    // 2056 is the type number of NumPy's `StringDType`.
    if [known(NPY_TYPES::NPY_UNICODE), known(NPY_TYPES::NPY_STRING), 2056].contains(&number) {
        return Elements::Text;
    }
    let same = |(_, known): &&(DataType, Py<PyArrayDescr>)| known.bind(descr.py()).is_equiv_to(descr);
    match added(descr.py()).iter().find(same) {
        Some((dtype, _)) => Elements::Of(*dtype),
        None => Elements::Other,
    }
}

/// Returns NumPy's descriptor of an element type. Returns `None` for strings, and for types that neither NumPy nor the installed
/// `ml_dtypes` has.
pub(crate) fn descriptor(py: Python<'_>, dtype: DataType) -> Option<Bound<'_, PyArrayDescr>> {
    use numpy::dtype as of;
    Some(match dtype {
        DataType::F32 => of::<f32>(py),
        DataType::F64 => of::<f64>(py),
        DataType::I64 => of::<i64>(py),
        DataType::I32 => of::<i32>(py),
        DataType::I16 => of::<i16>(py),
        DataType::I8 => of::<i8>(py),
        DataType::U64 => of::<u64>(py),
        DataType::U32 => of::<u32>(py),
        DataType::U16 => of::<u16>(py),
        DataType::U8 => of::<u8>(py),
        DataType::Bool => of::<bool>(py),
        DataType::C64 => of::<numpy::Complex32>(py),
        DataType::C128 => of::<numpy::Complex64>(py),
        DataType::F16 => of::<bb::f16>(py),
        other => {
            let (_, descr) = added(py).iter().find(|(known, _)| *known == other)?;
            descr.bind(py).clone()
        }
    })
}

/// Returns the name of an element type in the package `ml_dtypes`, or `None` if NumPy itself has the type.
pub(crate) fn added_name(dtype: DataType) -> Option<&'static str> {
    ADDED.iter().find(|(known, _)| *known == dtype).map(|(_, name)| *name)
}

/// Returns ONNX Runtime's name of an element type, as in `float` of `tensor(float)`.
pub(crate) const fn word(dtype: DataType) -> &'static str {
    match dtype {
        DataType::F32 => "float",
        DataType::F64 => "double",
        DataType::F16 => "float16",
        DataType::BF16 => "bfloat16",
        DataType::I8 => "int8",
        DataType::I16 => "int16",
        DataType::I32 => "int32",
        DataType::I64 => "int64",
        DataType::U8 => "uint8",
        DataType::U16 => "uint16",
        DataType::U32 => "uint32",
        DataType::U64 => "uint64",
        DataType::C64 => "complex64",
        DataType::C128 => "complex128",
        DataType::F8E4M3FN => "float8e4m3fn",
        DataType::F8E4M3FNUZ => "float8e4m3fnuz",
        DataType::F8E5M2 => "float8e5m2",
        DataType::F8E5M2FNUZ => "float8e5m2fnuz",
        DataType::F8E8M0 => "float8e8m0",
        DataType::F6E2M3 => "float6e2m3",
        DataType::F6E3M2 => "float6e3m2",
        DataType::F4E2M1 => "float4e2m1",
        DataType::U4 => "uint4",
        DataType::I4 => "int4",
        DataType::U2 => "uint2",
        DataType::I2 => "int2",
        // Bool, string, and types that ONNX adds later.
        other => other.name(),
    }
}
