//! Options of runs.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::{OutPlace, bytes, object};
use crate::release::releases;
use crate::status::{Result, functions};
use bb::CancelToken;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `OrtRunOptions`. Other threads may cancel the runs that use them.
#[derive(Debug, Default)]
pub(crate) struct OrtRunOptions(Mutex<Settings>);

#[derive(Debug, Default)]
struct Settings {
    verbosity: c_int,
    severity: c_int,
    tag: CString,
    entries: BTreeMap<CString, CString>,
    token: CancelToken,
}

impl OrtRunOptions {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cancellation token of runs that begin now.
    pub(crate) fn token(&self) -> CancelToken {
        self.settings().token.clone()
    }
}

/// Returns the options behind a pointer.
///
/// # Safety
///
/// As [`object`].
unsafe fn of<'a>(options: *const OrtRunOptions) -> Result<&'a OrtRunOptions> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { object(options, "options of a run") }
}

functions! {
    /// Creates options.
    CreateRunOptions(out: *mut *mut OrtRunOptions) {
        OutPlace::at(out, "a place for options")?.give(OrtRunOptions::default());
        Ok(())
    }

    /// Stores a level. It has no effect, because runs log nothing.
    RunOptionsSetRunLogVerbosityLevel(options: *mut OrtRunOptions, level: c_int) {
        of(options)?.settings().verbosity = level;
        Ok(())
    }

    /// Stores a level. It has no effect, because runs log nothing.
    RunOptionsSetRunLogSeverityLevel(options: *mut OrtRunOptions, level: c_int) {
        of(options)?.settings().severity = level;
        Ok(())
    }

    /// Sets a string that identifies the run for the program.
    RunOptionsSetRunTag(options: *mut OrtRunOptions, tag: *const c_char) {
        of(options)?.settings().tag = bytes(tag, "a tag")?.to_owned();
        Ok(())
    }

    /// Returns the stored level.
    RunOptionsGetRunLogVerbosityLevel(options: *const OrtRunOptions, out: *mut c_int) {
        OutPlace::at(out, "a place for a level")?.put(of(options)?.settings().verbosity);
        Ok(())
    }

    /// Returns the stored level.
    RunOptionsGetRunLogSeverityLevel(options: *const OrtRunOptions, out: *mut c_int) {
        OutPlace::at(out, "a place for a level")?.put(of(options)?.settings().severity);
        Ok(())
    }

    /// Returns the tag, which is valid until it is set again.
    RunOptionsGetRunTag(options: *const OrtRunOptions, out: *mut *const c_char) {
        OutPlace::at(out, "a place for a tag")?.put(of(options)?.settings().tag.as_ptr());
        Ok(())
    }

    /// Cancels the runs that use the options, including runs that begin later.
    RunOptionsSetTerminate(options: *mut OrtRunOptions) {
        of(options)?.token().cancel();
        Ok(())
    }

    /// Allows new runs with the options. Cancelled runs stay cancelled.
    RunOptionsUnsetTerminate(options: *mut OrtRunOptions) {
        of(options)?.settings().token = CancelToken::new();
        Ok(())
    }

    /// Stores a setting. ONNX Runtime's own settings have no effect.
    AddRunConfigEntry(options: *mut OrtRunOptions, name: *const c_char, value: *const c_char) {
        let (name, value) = (bytes(name, "the name of a setting")?, bytes(value, "the value of a setting")?);
        of(options)?.settings().entries.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Does nothing, because runs are not profiled.
    RunOptionsDisableProfiling(options: *mut OrtRunOptions) {
        of(options).map(drop)
    }
}

/// Returns the value of a setting, which is valid until it is set again. Returns null if it is not set.
///
/// # Safety
///
/// The pointers are null, or point to options and to a zero-terminated string.
pub(crate) unsafe extern "system" fn GetRunConfigEntry(
    options: *const OrtRunOptions,
    name: *const c_char,
) -> *const c_char {
    // SAFETY: the caller upholds the safety contract of this function.
    let Some(options) = (unsafe { options.as_ref() }) else { return null() };
    if name.is_null() {
        return null();
    }
    // SAFETY: the caller upholds the safety contract of this function, and no pointer is null.
    let name = unsafe { CStr::from_ptr(name) };
    options.settings().entries.get(name).map_or(null(), |value| value.as_ptr())
}

releases! {
    ReleaseRunOptions(OrtRunOptions);
}
