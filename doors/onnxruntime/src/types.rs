//! The types of inputs, outputs and values.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::{OutPlace, list, object, text};
use crate::elements::{number, of_number};
use crate::error::CallError;
use crate::release::releases;
use crate::status::{Result, functions};
use bb::ir::graph::{Dim, ValueType};
use std::ffi::{CString, c_char, c_int};
use std::ptr::null;

/// `ONNXType`, the kinds of values.
pub(crate) mod kinds {
    use std::ffi::c_int;

    /// A tensor.
    pub(crate) const TENSOR: c_int = 1;
    /// A sequence.
    pub(crate) const SEQUENCE: c_int = 2;
    /// A map.
    pub(crate) const MAP: c_int = 3;
    /// An optional.
    pub(crate) const OPTIONAL: c_int = 6;
}

/// `OrtTensorTypeAndShapeInfo`: an element type and a shape.
#[derive(Debug, Clone)]
pub(crate) struct OrtTensorTypeAndShapeInfo {
    element: c_int,
    /// The extents, with -1 for unknown extents.
    extents: Vec<i64>,
    /// The names of symbolic dimensions. Other dimensions have an empty name.
    names: Vec<CString>,
    has_shape: bool,
}

/// `OrtSequenceTypeInfo`.
#[derive(Debug, Clone)]
pub(crate) struct OrtSequenceTypeInfo(Box<OrtTypeInfo>);

/// `OrtMapTypeInfo`.
#[derive(Debug, Clone)]
pub(crate) struct OrtMapTypeInfo {
    key: c_int,
    of: Box<OrtTypeInfo>,
}

/// `OrtOptionalTypeInfo`.
#[derive(Debug, Clone)]
pub(crate) struct OrtOptionalTypeInfo(Box<OrtTypeInfo>);

/// `OrtTypeInfo`.
#[derive(Debug, Clone)]
pub(crate) enum OrtTypeInfo {
    /// A tensor.
    Tensor(OrtTensorTypeAndShapeInfo),
    /// A sequence.
    Sequence(OrtSequenceTypeInfo),
    /// A map.
    Map(OrtMapTypeInfo),
    /// A value that may be absent.
    Optional(OrtOptionalTypeInfo),
}

impl OrtTensorTypeAndShapeInfo {
    /// Creates the type of an existing tensor.
    pub(crate) fn of(element: c_int, extents: Vec<i64>) -> OrtTensorTypeAndShapeInfo {
        let names = vec![CString::default(); extents.len()];
        OrtTensorTypeAndShapeInfo { element, extents, names, has_shape: true }
    }

    /// Creates the type of a tensor that a model declares.
    fn of_dims(element: c_int, dims: Option<&[Dim]>) -> OrtTensorTypeAndShapeInfo {
        let extent = |dim: &Dim| match dim {
            Dim::Known(extent) => i64::try_from(*extent).unwrap_or(i64::MAX),
            _ => -1,
        };
        let name = |dim: &Dim| match dim {
            Dim::Symbol(_) | Dim::Computed(_) => CString::new(dim.to_string()).unwrap_or_default(),
            Dim::Known(_) | Dim::Unknown => CString::default(),
        };
        let known = dims.unwrap_or_default();
        OrtTensorTypeAndShapeInfo {
            element,
            extents: known.iter().map(extent).collect(),
            names: known.iter().map(name).collect(),
            has_shape: dims.is_some(),
        }
    }
}

impl OrtTypeInfo {
    /// Creates the type of a value. An unknown type becomes a tensor without an element type.
    ///
    /// # Errors
    ///
    /// [`CallError::NoNumber`].
    pub(crate) fn of(ty: &ValueType) -> Result<OrtTypeInfo> {
        Ok(match ty {
            ValueType::Unknown => OrtTypeInfo::Tensor(OrtTensorTypeAndShapeInfo::of_dims(0, None)),
            ValueType::Tensor { dtype, shape } => {
                OrtTypeInfo::Tensor(OrtTensorTypeAndShapeInfo::of_dims(number(*dtype)?, shape.as_deref()))
            }
            ValueType::Sequence(of) => {
                OrtTypeInfo::Sequence(OrtSequenceTypeInfo(Box::new(OrtTypeInfo::of(of)?)))
            }
            ValueType::Map(key, of) => {
                OrtTypeInfo::Map(OrtMapTypeInfo { key: number(*key)?, of: Box::new(OrtTypeInfo::of(of)?) })
            }
            ValueType::Optional(of) => {
                OrtTypeInfo::Optional(OrtOptionalTypeInfo(Box::new(OrtTypeInfo::of(of)?)))
            }
        })
    }
}

/// Returns the type of a tensor.
///
/// # Safety
///
/// As [`object`].
unsafe fn of<'a>(info: *const OrtTensorTypeAndShapeInfo) -> Result<&'a OrtTensorTypeAndShapeInfo> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { object(info, "the type of a tensor") }
}

/// Returns a mutable reference to the type of a tensor.
///
/// # Safety
///
/// The pointer is null or points to a type that no other code uses.
unsafe fn of_mut<'a>(info: *mut OrtTensorTypeAndShapeInfo) -> Result<&'a mut OrtTensorTypeAndShapeInfo> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { info.as_mut() }.ok_or(CallError::Null { what: "the type of a tensor" })
}

/// Writes a pointer to a component of a type, or null if the type is of another kind.
///
/// # Safety
///
/// As [`object`]; the output pointer is null or valid.
unsafe fn part<T>(
    info: *const OrtTypeInfo,
    out: *mut *const T,
    of: fn(&OrtTypeInfo) -> Option<&T>,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (info, out) = unsafe { (object(info, "a type")?, OutPlace::at(out, "a place for a type")?) };
    out.put(of(info).map_or(null(), std::ptr::from_ref));
    Ok(())
}

/// Copies a list to memory of the program. There must be enough room.
///
/// # Safety
///
/// The pointer is null or points to room for `room` items.
unsafe fn write<T: Copy>(
    items: impl ExactSizeIterator<Item = T>,
    to: *mut T,
    room: usize,
    what: &'static str,
) -> Result<()> {
    let count = items.len();
    if room < count {
        return Err(CallError::Count { what, expected: count, got: room });
    }
    if to.is_null() && count > 0 {
        return Err(CallError::Null { what });
    }
    for (index, item) in items.enumerate() {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { to.add(index).write(item) };
    }
    Ok(())
}

functions! {
    /// Returns the tensor component of a type, or null if the type is of another kind.
    CastTypeInfoToTensorInfo(info: *const OrtTypeInfo, out: *mut *const OrtTensorTypeAndShapeInfo) {
        part(info, out, |ty| if let OrtTypeInfo::Tensor(part) = ty { Some(part) } else { None })
    }

    /// Returns the sequence component of a type, or null if the type is of another kind.
    CastTypeInfoToSequenceTypeInfo(info: *const OrtTypeInfo, out: *mut *const OrtSequenceTypeInfo) {
        part(info, out, |ty| if let OrtTypeInfo::Sequence(part) = ty { Some(part) } else { None })
    }

    /// Returns the map component of a type, or null if the type is of another kind.
    CastTypeInfoToMapTypeInfo(info: *const OrtTypeInfo, out: *mut *const OrtMapTypeInfo) {
        part(info, out, |ty| if let OrtTypeInfo::Map(part) = ty { Some(part) } else { None })
    }

    /// Returns the optional component of a type, or null if the type is of another kind.
    CastTypeInfoToOptionalTypeInfo(info: *const OrtTypeInfo, out: *mut *const OrtOptionalTypeInfo) {
        part(info, out, |ty| if let OrtTypeInfo::Optional(part) = ty { Some(part) } else { None })
    }

    /// Returns the kind of a type.
    GetOnnxTypeFromTypeInfo(info: *const OrtTypeInfo, out: *mut c_int) {
        let kind = match object(info, "a type")? {
            OrtTypeInfo::Tensor(_) => kinds::TENSOR,
            OrtTypeInfo::Sequence(_) => kinds::SEQUENCE,
            OrtTypeInfo::Map(_) => kinds::MAP,
            OrtTypeInfo::Optional(_) => kinds::OPTIONAL,
        };
        OutPlace::at(out, "a place for a kind")?.put(kind);
        Ok(())
    }

    /// Returns the denotation of a value, which is always empty, because bb does not read denotations here.
    GetDenotationFromTypeInfo(info: *const OrtTypeInfo, out: *mut *const c_char, length: *mut usize) {
        object(info, "a type")?;
        let length = OutPlace::at(length, "a place for a length")?;
        OutPlace::at(out, "a place for a text")?.put(c"".as_ptr());
        length.put(0);
        Ok(())
    }

    /// Returns the type of a map's keys.
    GetMapKeyType(info: *const OrtMapTypeInfo, out: *mut c_int) {
        let key = object(info, "the type of a map")?.key;
        OutPlace::at(out, "a place for a type")?.put(key);
        Ok(())
    }

    /// Returns a copy of the type of a map's values.
    GetMapValueType(info: *const OrtMapTypeInfo, out: *mut *mut OrtTypeInfo) {
        let of = OrtTypeInfo::clone(&object(info, "the type of a map")?.of);
        OutPlace::at(out, "a place for a type")?.give(of);
        Ok(())
    }

    /// Returns a copy of the type of a sequence's values.
    GetSequenceElementType(info: *const OrtSequenceTypeInfo, out: *mut *mut OrtTypeInfo) {
        let of = OrtTypeInfo::clone(&object(info, "the type of a sequence")?.0);
        OutPlace::at(out, "a place for a type")?.give(of);
        Ok(())
    }

    /// Returns a copy of the type of an optional's content.
    GetOptionalContainedTypeInfo(info: *const OrtOptionalTypeInfo, out: *mut *mut OrtTypeInfo) {
        let of = OrtTypeInfo::clone(&object(info, "the type of an optional")?.0);
        OutPlace::at(out, "a place for a type")?.give(of);
        Ok(())
    }

    /// Creates the type of a tensor of rank 0 without an element type.
    CreateTensorTypeAndShapeInfo(out: *mut *mut OrtTensorTypeAndShapeInfo) {
        OutPlace::at(out, "a place for a type")?.give(OrtTensorTypeAndShapeInfo::of(0, Vec::new()));
        Ok(())
    }

    /// Sets the element type. 0 means none.
    SetTensorElementType(info: *mut OrtTensorTypeAndShapeInfo, element: c_int) {
        if element != 0 {
            of_number(element)?;
        }
        of_mut(info)?.element = element;
        Ok(())
    }

    /// Sets the extents. -1 means an unknown extent.
    SetDimensions(info: *mut OrtTensorTypeAndShapeInfo, extents: *const i64, rank: usize) {
        let (info, extents) = (of_mut(info)?, list(extents, rank, "extents")?);
        if let Some(&extent) = extents.iter().find(|extent| **extent < -1) {
            return Err(CallError::Extent { extent });
        }
        *info = OrtTensorTypeAndShapeInfo::of(info.element, extents.to_vec());
        Ok(())
    }

    /// Sets the names of symbolic dimensions.
    SetSymbolicDimensions(info: *mut OrtTensorTypeAndShapeInfo, names: *mut *const c_char, rank: usize) {
        let (info, names) = (of_mut(info)?, list(names.cast_const(), rank, "names of dimensions")?);
        if names.len() != info.extents.len() {
            return Err(CallError::Count { what: "names of dimensions", expected: info.extents.len(), got: names.len() });
        }
        let names = names.iter().map(|name| Ok(CString::new(text(*name, "the name of a dimension")?).unwrap_or_default()));
        info.names = names.collect::<Result<_>>()?;
        Ok(())
    }

    /// Returns the element type.
    GetTensorElementType(info: *const OrtTensorTypeAndShapeInfo, out: *mut c_int) {
        let element = of(info)?.element;
        OutPlace::at(out, "a place for a type")?.put(element);
        Ok(())
    }

    /// Returns the rank.
    GetDimensionsCount(info: *const OrtTensorTypeAndShapeInfo, out: *mut usize) {
        let rank = of(info)?.extents.len();
        OutPlace::at(out, "a place for a rank")?.put(rank);
        Ok(())
    }

    /// Copies the extents, with -1 for unknown ones.
    GetDimensions(info: *const OrtTensorTypeAndShapeInfo, to: *mut i64, room: usize) {
        write(of(info)?.extents.iter().copied(), to, room, "places for extents")
    }

    /// Returns the names of symbolic dimensions, which live as long as the type. Other dimensions have an empty name.
    GetSymbolicDimensions(info: *const OrtTensorTypeAndShapeInfo, to: *mut *const c_char, room: usize) {
        write(of(info)?.names.iter().map(|name| name.as_ptr()), to, room, "places for names of dimensions")
    }

    /// Returns the number of elements. Fails if an extent is unknown.
    GetTensorShapeElementCount(info: *const OrtTensorTypeAndShapeInfo, out: *mut usize) {
        let mut count = 1usize;
        for &extent in &of(info)?.extents {
            let known = usize::try_from(extent).map_err(|_| CallError::Extent { extent })?;
            count = count.saturating_mul(known);
        }
        OutPlace::at(out, "a place for a count")?.put(count);
        Ok(())
    }
}

/// Returns whether the rank is known.
///
/// # Safety
///
/// The pointer is null or points to the type of a tensor.
pub(crate) unsafe extern "system" fn TensorTypeAndShape_HasShape(
    info: *const OrtTensorTypeAndShapeInfo,
) -> bool {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { info.as_ref() }.is_some_and(|info| info.has_shape)
}

releases! {
    ReleaseTypeInfo(OrtTypeInfo);
    ReleaseTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo);
    ReleaseMapTypeInfo(OrtMapTypeInfo);
    ReleaseSequenceTypeInfo(OrtSequenceTypeInfo);
}
