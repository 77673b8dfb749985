//! The functions that describe sessions: inputs, outputs, memory, and the metadata of the model.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use super::{OrtSession, SessionModel};
use crate::allocator::{Allocator, OrtAllocator, own};
use crate::arguments::{OutPlace, object};
use crate::error::CallError;
use crate::memory::OrtMemoryInfo;
use crate::metadata::OrtModelMetadata;
use crate::status::{Result, functions};
use crate::types::OrtTypeInfo;
use bb::Port;
use std::ffi::c_char;

/// A function that selects a list of ports of a session, for example the inputs.
type Ports = fn(&SessionModel) -> &[Port];

/// Returns a list of ports of a session.
///
/// # Safety
///
/// As [`object`].
unsafe fn ports<'a>(session: *const OrtSession, of: Ports) -> Result<&'a [Port]> {
    // SAFETY: the caller upholds the safety contract of this function.
    Ok(of(&unsafe { object(session, "a session") }?.shared))
}

/// Writes the length of a list of ports.
///
/// # Safety
///
/// As the functions of the table. This also holds for the functions below.
unsafe fn count(session: *const OrtSession, out: *mut usize, of: Ports) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (ports, out) = unsafe { (ports(session, of)?, OutPlace::at(out, "a place for a count")?) };
    out.put(ports.len());
    Ok(())
}

/// Returns a port by its index.
///
/// # Safety
///
/// As [`count`].
unsafe fn port<'a>(session: *const OrtSession, index: usize, of: Ports) -> Result<&'a Port> {
    // SAFETY: the caller upholds the safety contract of this function.
    let ports = unsafe { ports(session, of) }?;
    ports.get(index).ok_or(CallError::Index { what: "inputs or outputs", index, count: ports.len() })
}

/// Writes the type of a port.
///
/// # Safety
///
/// As [`count`].
unsafe fn ty(session: *const OrtSession, index: usize, out: *mut *mut OrtTypeInfo, of: Ports) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (port, out) = unsafe { (port(session, index, of)?, OutPlace::at(out, "a place for a type")?) };
    out.give(OrtTypeInfo::of(&port.ty)?);
    Ok(())
}

/// Writes the name of a port.
///
/// # Safety
///
/// As [`count`].
unsafe fn name(
    session: *const OrtSession,
    index: usize,
    allocator: *mut OrtAllocator,
    out: *mut *mut c_char,
    of: Ports,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (port, allocator, out) = unsafe {
        (port(session, index, of)?, Allocator::of(allocator)?, OutPlace::at(out, "a place for a name")?)
    };
    out.put(allocator.text(&port.name)?);
    Ok(())
}

/// Writes the memory types of the ports, which are always the host's memory.
///
/// # Safety
///
/// As [`count`].
unsafe fn memories(
    session: *const OrtSession,
    out: *mut *const OrtMemoryInfo,
    room: usize,
    of: Ports,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let needed = unsafe { ports(session, of) }?.len();
    if room != needed {
        return Err(CallError::Count { what: "places for kinds of memory", expected: needed, got: room });
    }
    for index in 0..needed {
        // SAFETY: `room` is the number of elements, and equals `needed`.
        unsafe { OutPlace::at(out.wrapping_add(index), "places for kinds of memory") }?
            .put(OrtMemoryInfo::host());
    }
    Ok(())
}

functions! {
    /// Returns the number of inputs that a run requires.
    SessionGetInputCount(session: *const OrtSession, out: *mut usize) {
        count(session, out, SessionModel::inputs)
    }

    /// Returns the number of outputs.
    SessionGetOutputCount(session: *const OrtSession, out: *mut usize) {
        count(session, out, SessionModel::outputs)
    }

    /// Returns the number of inputs that have a default value in the model.
    SessionGetOverridableInitializerCount(session: *const OrtSession, out: *mut usize) {
        count(session, out, SessionModel::initializers)
    }

    /// Returns the type of an input.
    SessionGetInputTypeInfo(session: *const OrtSession, index: usize, out: *mut *mut OrtTypeInfo) {
        ty(session, index, out, SessionModel::inputs)
    }

    /// Returns the type of an output.
    SessionGetOutputTypeInfo(session: *const OrtSession, index: usize, out: *mut *mut OrtTypeInfo) {
        ty(session, index, out, SessionModel::outputs)
    }

    /// Returns the type of an input with a default value.
    SessionGetOverridableInitializerTypeInfo(session: *const OrtSession, index: usize, out: *mut *mut OrtTypeInfo) {
        ty(session, index, out, SessionModel::initializers)
    }

    /// Returns the name of an input.
    SessionGetInputName(session: *const OrtSession, index: usize, allocator: *mut OrtAllocator, out: *mut *mut c_char) {
        name(session, index, allocator, out, SessionModel::inputs)
    }

    /// Returns the name of an output.
    SessionGetOutputName(session: *const OrtSession, index: usize, allocator: *mut OrtAllocator, out: *mut *mut c_char) {
        name(session, index, allocator, out, SessionModel::outputs)
    }

    /// Returns the name of an input with a default value.
    SessionGetOverridableInitializerName(
        session: *const OrtSession, index: usize, allocator: *mut OrtAllocator, out: *mut *mut c_char,
    ) {
        name(session, index, allocator, out, SessionModel::initializers)
    }

    /// Returns the memory types of the inputs.
    SessionGetMemoryInfoForInputs(session: *const OrtSession, out: *mut *const OrtMemoryInfo, count: usize) {
        memories(session, out, count, SessionModel::inputs)
    }

    /// Returns the memory types of the outputs.
    SessionGetMemoryInfoForOutputs(session: *const OrtSession, out: *mut *const OrtMemoryInfo, count: usize) {
        memories(session, out, count, SessionModel::outputs)
    }

    /// Returns 0 as the start time of profiling, because sessions are not profiled.
    SessionGetProfilingStartTimeNs(session: *const OrtSession, out: *mut u64) {
        object(session, "a session")?;
        OutPlace::at(out, "a place for a time")?.put(0);
        Ok(())
    }

    /// Returns the metadata of the model.
    SessionGetModelMetadata(session: *const OrtSession, out: *mut *mut OrtModelMetadata) {
        let facts = object(session, "a session")?.shared.facts.clone();
        OutPlace::at(out, "a place for metadata")?.give(OrtModelMetadata(facts));
        Ok(())
    }

    /// Returns an allocator for a session, which is always the library's own.
    CreateAllocator(session: *const OrtSession, info: *const OrtMemoryInfo, out: *mut *mut OrtAllocator) {
        object(session, "a session")?;
        object(info, "a kind of memory")?.check_host()?;
        OutPlace::at(out, "a place for an allocator")?.put(own());
        Ok(())
    }
}
