//! Memory types. With every backend, values are in the host's memory.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::{OutPlace, bytes, object};
use crate::error::CallError;
use crate::release::releases;
use crate::status::{Result, functions};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};

/// `OrtMemoryInfoDeviceType_CPU`.
const CPU: c_int = 0;
/// `OrtMemoryInfoDeviceType_GPU`.
const GPU: c_int = 1;

/// The names of memory types on the host. Other names belong to devices, whose memory is not accessed here.
const HOST: [&CStr; 3] = [c"Cpu", c"OpenVINO_CPU", c"QnnHtpShared"];

/// `OrtMemoryInfo`: a memory type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrtMemoryInfo {
    name: Cow<'static, CStr>,
    id: c_int,
    memory_type: c_int,
    allocator_type: c_int,
    device_type: c_int,
    device_memory: c_int,
    vendor: u32,
}

impl OrtMemoryInfo {
    /// Returns the memory type of the host.
    pub(crate) fn host() -> &'static OrtMemoryInfo {
        static HOST: OrtMemoryInfo = OrtMemoryInfo {
            name: Cow::Borrowed(c"Cpu"),
            id: 0,
            memory_type: 0,
            allocator_type: 0,
            device_type: CPU,
            device_memory: 0,
            vendor: 0,
        };
        &HOST
    }

    /// Checks that the host can read and write the memory.
    ///
    /// # Errors
    ///
    /// [`CallError::Device`].
    pub(crate) fn check_host(&self) -> Result<()> {
        match self.device_type {
            CPU => Ok(()),
            _ => Err(CallError::Device { name: self.name.to_string_lossy().into_owned() }),
        }
    }
}

/// Checks that a number is in the range of an enumeration.
fn known(what: &'static str, number: c_int, range: std::ops::RangeInclusive<c_int>) -> Result<c_int> {
    match range.contains(&number) {
        true => Ok(number),
        false => Err(CallError::Number { expected: what, got: number.into() }),
    }
}

fn allocator_type(number: c_int) -> Result<c_int> {
    known("a type of allocators", number, 0..=2)
}

fn memory_type(number: c_int) -> Result<c_int> {
    known("a type of memory", number, -2..=0)
}

functions! {
    /// Creates a memory type from its name.
    CreateMemoryInfo(name: *const c_char, allocator: c_int, id: c_int, memory: c_int, out: *mut *mut OrtMemoryInfo) {
        let (name, out) = (bytes(name, "the name of a memory")?, OutPlace::at(out, "a place for a kind of memory")?);
        out.give(OrtMemoryInfo {
            name: Cow::Owned(name.to_owned()),
            id,
            memory_type: memory_type(memory)?,
            allocator_type: allocator_type(allocator)?,
            device_type: if HOST.contains(&name) { CPU } else { GPU },
            device_memory: 0,
            vendor: 0,
        });
        Ok(())
    }

    /// Creates the memory type of the host.
    CreateCpuMemoryInfo(allocator: c_int, memory: c_int, out: *mut *mut OrtMemoryInfo) {
        let out = OutPlace::at(out, "a place for a kind of memory")?;
        let (allocator_type, memory_type) = (allocator_type(allocator)?, memory_type(memory)?);
        out.give(OrtMemoryInfo { allocator_type, memory_type, ..OrtMemoryInfo::host().clone() });
        Ok(())
    }

    /// Creates a memory type with any name.
    CreateMemoryInfo_V2(
        name: *const c_char, device_type: c_int, vendor: u32, id: i32, device_memory: c_int, _alignment: usize, allocator: c_int,
        out: *mut *mut OrtMemoryInfo,
    ) {
        let (name, out) = (bytes(name, "the name of a memory")?, OutPlace::at(out, "a place for a kind of memory")?);
        out.give(OrtMemoryInfo {
            name: Cow::Owned(name.to_owned()),
            id,
            memory_type: 0,
            allocator_type: allocator_type(allocator)?,
            device_type: known("a type of devices", device_type, 0..=3)?,
            device_memory: known("a memory of devices", device_memory, 0..=5)?,
            vendor,
        });
        Ok(())
    }

    /// Compares two memory types. Writes 0 if they are equal.
    CompareMemoryInfo(one: *const OrtMemoryInfo, other: *const OrtMemoryInfo, out: *mut c_int) {
        let what = "a kind of memory";
        let same = object(one, what)? == object(other, what)?;
        OutPlace::at(out, "a place for the answer")?.put(if same { 0 } else { -1 });
        Ok(())
    }

    /// Returns the name, which lives as long as the memory type.
    MemoryInfoGetName(info: *const OrtMemoryInfo, out: *mut *const c_char) {
        let name = object(info, "a kind of memory")?.name.as_ptr();
        OutPlace::at(out, "a place for a name")?.put(name);
        Ok(())
    }

    /// Returns the id of the device.
    MemoryInfoGetId(info: *const OrtMemoryInfo, out: *mut c_int) {
        let id = object(info, "a kind of memory")?.id;
        OutPlace::at(out, "a place for a number")?.put(id);
        Ok(())
    }

    /// Returns the kind of the memory, `OrtMemType`.
    MemoryInfoGetMemType(info: *const OrtMemoryInfo, out: *mut c_int) {
        let memory_type = object(info, "a kind of memory")?.memory_type;
        OutPlace::at(out, "a place for a type")?.put(memory_type);
        Ok(())
    }

    /// Returns the type of allocators for the memory.
    MemoryInfoGetType(info: *const OrtMemoryInfo, out: *mut c_int) {
        let allocator_type = object(info, "a kind of memory")?.allocator_type;
        OutPlace::at(out, "a place for a type")?.put(allocator_type);
        Ok(())
    }
}

/// Returns the type of the device. Cannot fail: for null, it is the host.
///
/// # Safety
///
/// The pointers are null, or point to a memory type and to memory for a number.
pub(crate) unsafe extern "system" fn MemoryInfoGetDeviceType(info: *const OrtMemoryInfo, out: *mut c_int) {
    // SAFETY: the caller upholds the safety contract of this function.
    let (info, out) = unsafe { (info.as_ref(), OutPlace::at(out, "a place for a type")) };
    if let Ok(out) = out {
        out.put(info.map_or(CPU, |info| info.device_type));
    }
}

/// Returns the device memory type, which says whether the host can access the device's memory. 0 for the host itself.
///
/// # Safety
///
/// The pointer is null or points to a memory type.
pub(crate) unsafe extern "system" fn MemoryInfoGetDeviceMemType(info: *const OrtMemoryInfo) -> c_int {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { info.as_ref() }.map_or(0, |info| info.device_memory)
}

/// Returns the id of the device's vendor.
///
/// # Safety
///
/// The pointer is null or points to a memory type.
pub(crate) unsafe extern "system" fn MemoryInfoGetVendorId(info: *const OrtMemoryInfo) -> u32 {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { info.as_ref() }.map_or(0, |info| info.vendor)
}

releases! {
    ReleaseMemoryInfo(OrtMemoryInfo);
}
