//! Kinds of memory. Values are in the host's memory with every backend.
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

/// The names of memories of the host. Any other name is one of a device, whose memory is not read or written here.
const HOST: [&CStr; 3] = [c"Cpu", c"OpenVINO_CPU", c"QnnHtpShared"];

/// `OrtMemoryInfo`: a kind of memory.
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
    /// The host's memory.
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

    /// Checks that a program can read and write the memory.
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

/// Checks a number that is one of an enumeration.
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
    /// Makes a kind of memory by its name.
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

    /// Makes the kind of the host's memory.
    CreateCpuMemoryInfo(allocator: c_int, memory: c_int, out: *mut *mut OrtMemoryInfo) {
        let out = OutPlace::at(out, "a place for a kind of memory")?;
        let (allocator_type, memory_type) = (allocator_type(allocator)?, memory_type(memory)?);
        out.give(OrtMemoryInfo { allocator_type, memory_type, ..OrtMemoryInfo::host().clone() });
        Ok(())
    }

    /// Makes a kind of memory of any name.
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

    /// Compares two kinds: 0 if they are the same.
    CompareMemoryInfo(one: *const OrtMemoryInfo, other: *const OrtMemoryInfo, out: *mut c_int) {
        let what = "a kind of memory";
        let same = object(one, what)? == object(other, what)?;
        OutPlace::at(out, "a place for the answer")?.put(if same { 0 } else { -1 });
        Ok(())
    }

    /// Returns the name, which lives as long as the kind.
    MemoryInfoGetName(info: *const OrtMemoryInfo, out: *mut *const c_char) {
        let name = object(info, "a kind of memory")?.name.as_ptr();
        OutPlace::at(out, "a place for a name")?.put(name);
        Ok(())
    }

    /// Returns the number of the device.
    MemoryInfoGetId(info: *const OrtMemoryInfo, out: *mut c_int) {
        let id = object(info, "a kind of memory")?.id;
        OutPlace::at(out, "a place for a number")?.put(id);
        Ok(())
    }

    /// Returns the type of the memory.
    MemoryInfoGetMemType(info: *const OrtMemoryInfo, out: *mut c_int) {
        let memory_type = object(info, "a kind of memory")?.memory_type;
        OutPlace::at(out, "a place for a type")?.put(memory_type);
        Ok(())
    }

    /// Returns the type of its allocators.
    MemoryInfoGetType(info: *const OrtMemoryInfo, out: *mut c_int) {
        let allocator_type = object(info, "a kind of memory")?.allocator_type;
        OutPlace::at(out, "a place for a type")?.put(allocator_type);
        Ok(())
    }
}

/// Returns the type of the device. It cannot fail: null is the host.
///
/// # Safety
///
/// The pointers are null, or to a kind of memory and to a place for a number.
pub(crate) unsafe extern "system" fn MemoryInfoGetDeviceType(info: *const OrtMemoryInfo, out: *mut c_int) {
    // SAFETY: the caller says so.
    let (info, out) = unsafe { (info.as_ref(), OutPlace::at(out, "a place for a type")) };
    if let Ok(out) = out {
        out.put(info.map_or(CPU, |info| info.device_type));
    }
}

/// Returns whether the host can use the memory of the device; 0 for the host itself.
///
/// # Safety
///
/// The pointer is null or to a kind of memory.
pub(crate) unsafe extern "system" fn MemoryInfoGetDeviceMemType(info: *const OrtMemoryInfo) -> c_int {
    // SAFETY: the caller says so.
    unsafe { info.as_ref() }.map_or(0, |info| info.device_memory)
}

/// Returns the number of the device's vendor.
///
/// # Safety
///
/// The pointer is null or to a kind of memory.
pub(crate) unsafe extern "system" fn MemoryInfoGetVendorId(info: *const OrtMemoryInfo) -> u32 {
    // SAFETY: the caller says so.
    unsafe { info.as_ref() }.map_or(0, |info| info.vendor)
}

releases! {
    ReleaseMemoryInfo(OrtMemoryInfo);
}
