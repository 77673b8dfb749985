//! The structures of `dlpack.h`, and the element types that DLPack and `bb` have in common.

use bb_ir::DataType;
use std::ffi::c_void;

/// The device of the elements.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind of device; 1 is the host (`kDLCPU`).
    pub device_type: i32,
    /// The index of the device among the devices of this kind.
    pub device_id: i32,
}

/// The element type of a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDataType {
    /// The kind of number, a `DLDataTypeCode`.
    pub code: u8,
    /// The number of bits of a lane.
    pub bits: u8,
    /// The number of lanes (vector components) of an element.
    pub lanes: u16,
}

/// A tensor that does not own its memory.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The start of the memory.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// A pointer to the extents.
    pub shape: *mut i64,
    /// A pointer to the strides, in elements; null for row-major order.
    pub strides: *mut i64,
    /// The offset in bytes from the start of the memory to the first element.
    pub byte_offset: u64,
}

/// A tensor and its deleter.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// Private data of the library that created the tensor.
    pub manager_ctx: *mut c_void,
    /// A function that releases the tensor, including this structure; null if nothing must be
    /// released.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The device type `kDLCPU`.
pub(crate) const HOST: i32 = 1;

/// The element types, each with its `DLDataTypeCode` and its number of bits.
const TYPES: &[(DataType, u8, u8)] = &[
    (DataType::I8, 0, 8),
    (DataType::I16, 0, 16),
    (DataType::I32, 0, 32),
    (DataType::I64, 0, 64),
    (DataType::U8, 1, 8),
    (DataType::U16, 1, 16),
    (DataType::U32, 1, 32),
    (DataType::U64, 1, 64),
    (DataType::F16, 2, 16),
    (DataType::F32, 2, 32),
    (DataType::F64, 2, 64),
    (DataType::BF16, 4, 16),
    (DataType::C64, 5, 64),
    (DataType::C128, 5, 128),
    (DataType::Bool, 6, 8),
    (DataType::F8E4M3FN, 10, 8),
    (DataType::F8E4M3FNUZ, 11, 8),
    (DataType::F8E5M2, 12, 8),
    (DataType::F8E5M2FNUZ, 13, 8),
];

/// Returns the DLPack type of an element type; `None` if DLPack has no matching type with whole
/// bytes.
pub(crate) fn to_dlpack(dtype: DataType) -> Option<DLDataType> {
    let (_, code, bits) = *TYPES.iter().find(|(known, ..)| *known == dtype)?;
    Some(DLDataType { code, bits, lanes: 1 })
}

/// Returns the element type of a DLPack type; `None` if there is none.
pub(crate) fn from_dlpack(dtype: DLDataType) -> Option<DataType> {
    let DLDataType { code, bits, lanes: 1 } = dtype else { return None };
    TYPES.iter().find(|(_, c, b)| (*c, *b) == (code, bits)).map(|(dtype, ..)| *dtype)
}
