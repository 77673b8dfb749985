//! Options of sessions.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::{OutPlace, bytes, list, object, text};
use crate::environment::threads;
use crate::error::CallError;
use crate::log::{Function, Logger};
use crate::pairs::OrtKeyValuePairs;
use crate::release::releases;
use crate::status::{Result, functions, guarded};
use crate::threads::{Create, Join, ThreadFunctions};
use crate::value::{HeldValue, OrtValue};
use bb::{CancelToken, TensorData};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `ORTCHAR_T`, a unit of a path.
#[cfg(windows)]
pub(crate) type PathChar = u16;
/// `ORTCHAR_T`, a unit of a path.
#[cfg(not(windows))]
pub(crate) type PathChar = c_char;

/// `OrtSessionOptions`. Another thread may stop the loading that uses them.
#[derive(Debug, Default)]
pub(crate) struct OrtSessionOptions {
    settings: Mutex<Settings>,
    stop: Mutex<CancelToken>,
}

/// The settings of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// How many threads compute; `None` for the number of processors.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Whether the environment's threads are used.
    pub(crate) shares_threads: bool,
    /// How the program makes threads.
    pub(crate) functions: ThreadFunctions,
    /// Extents by the name of a symbolic dimension.
    pub(crate) dims: Vec<(String, usize)>,
    /// Extents by the denotation of a dimension, for example `DATA_BATCH`.
    pub(crate) denotations: Vec<(String, usize)>,
    /// Settings by name. ONNX Runtime's own change nothing here.
    entries: BTreeMap<CString, CString>,
    /// Tensors that replace constants of the model, by name.
    pub(crate) initializers: Vec<(String, TensorData)>,
    /// Contents of files of external data, by the location that the model names.
    pub(crate) files: Vec<(String, Bytes)>,
    /// The receiver of messages, instead of the environment's.
    pub(crate) logger: Option<Logger>,
    /// The least severity of messages; `None` for the environment's.
    pub(crate) severity: Option<c_int>,
    /// The name that goes with messages; `None` for the environment's.
    pub(crate) name: Option<CString>,
    mode: c_int,
    no_pattern: bool,
}

impl OrtSessionOptions {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the settings.
    pub(crate) fn snapshot(&self) -> Settings {
        self.settings().clone()
    }

    /// Returns the token that stops loading.
    pub(crate) fn stop(&self) -> CancelToken {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Settings {
    /// Returns the value of a setting; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// [`CallError::Utf8`].
    pub(crate) fn entry(&self, name: &CStr) -> Result<Option<&str>> {
        let Some(value) = self.entries.get(name) else { return Ok(None) };
        value.to_str().map(Some).map_err(|_| CallError::Utf8 { what: "the value of a setting" })
    }

    /// Iterates over the settings whose names begin so, without the beginning.
    pub(crate) fn entries<'a>(&'a self, begin: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pair =
            |(name, value): (&'a CString, &'a CString)| Some((name.to_str().ok()?, value.to_str().ok()?));
        let all = self.entries.iter().filter_map(pair);
        all.filter_map(move |(name, value)| Some((name.strip_prefix(begin)?, value)))
    }
}

/// Returns options.
///
/// # Safety
///
/// As [`object`].
unsafe fn of<'a>(options: *const OrtSessionOptions) -> Result<&'a OrtSessionOptions> {
    // SAFETY: the caller says so.
    unsafe { object(options, "options of a session") }
}

/// Accepts a setting that concerns how ONNX Runtime works inside.
///
/// # Safety
///
/// As [`object`].
unsafe fn accept(options: *const OrtSessionOptions) -> Result<()> {
    // SAFETY: the caller says so.
    unsafe { of(options) }.map(drop)
}

fn extent(extent: i64) -> Result<usize> {
    usize::try_from(extent).map_err(|_| CallError::Extent { extent })
}

/// Adds tensors that replace constants of the model.
///
/// # Safety
///
/// As [`list`] for both lists, and as [`text`] and [`object`] for their items.
unsafe fn initializers(
    options: *const OrtSessionOptions,
    names: *const *const c_char,
    values: *const *const OrtValue,
    count: usize,
) -> Result<()> {
    // SAFETY: the caller says so.
    let (options, names, values) =
        unsafe { (of(options)?, list(names, count, "names")?, list(values, count, "values")?) };
    for (name, value) in names.iter().zip(values) {
        // SAFETY: the caller says so.
        let (name, value) = unsafe { (text(*name, "the name of a constant")?, object(*value, "a value")?) };
        let HeldValue::Tensor(tensor) = &*value.held else {
            return Err(CallError::Kind { expected: "a tensor", got: value.held.kind() });
        };
        let data = tensor.copied()?;
        let mut settings = options.settings();
        settings.initializers.retain(|(known, _)| known != name);
        settings.initializers.push((name.to_owned(), data));
    }
    Ok(())
}

/// Returns a path as a text, as models name files.
///
/// # Safety
///
/// The pointer is null or to units of a path that a zero ends.
#[cfg(not(windows))]
pub(crate) unsafe fn path<'a>(pointer: *const PathChar) -> Result<std::borrow::Cow<'a, std::path::Path>> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the caller says so.
    let path = unsafe { bytes(pointer, "a path") }?;
    Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())).into())
}

/// Returns a path as a text, as models name files.
///
/// # Safety
///
/// The pointer is null or to units of a path that a zero ends.
#[cfg(windows)]
pub(crate) unsafe fn path<'a>(pointer: *const PathChar) -> Result<std::borrow::Cow<'a, std::path::Path>> {
    use std::os::windows::ffi::OsStringExt;
    if pointer.is_null() {
        return Err(CallError::Null { what: "a path" });
    }
    let mut length = 0;
    // SAFETY: the caller says that a zero ends the path.
    while unsafe { *pointer.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: as many units were read.
    let units = unsafe { std::slice::from_raw_parts(pointer, length) };
    Ok(std::path::PathBuf::from(std::ffi::OsString::from_wide(units)).into())
}

functions! {
    /// Makes options.
    CreateSessionOptions(out: *mut *mut OrtSessionOptions) {
        OutPlace::at(out, "a place for options")?.give(OrtSessionOptions::default());
        Ok(())
    }

    /// Copies options.
    CloneSessionOptions(options: *const OrtSessionOptions, out: *mut *mut OrtSessionOptions) {
        let (options, out) = (of(options)?, OutPlace::at(out, "a place for options")?);
        out.give(OrtSessionOptions { settings: Mutex::new(options.snapshot()), stop: Mutex::default() });
        Ok(())
    }

    /// Not supported: bb has no file of this kind; `bb compile` writes compiled models.
    SetOptimizedModelFilePath(options: *mut OrtSessionOptions, _path: *const PathChar) {
        accept(options)?;
        Err(CallError::Unsupported { what: "writing the optimized model" })
    }

    /// Does nothing: bb runs the nodes of a model in order, and shares the work of each.
    SetSessionExecutionMode(options: *mut OrtSessionOptions, mode: c_int) {
        of(options)?.settings().mode = mode;
        Ok(())
    }

    /// Returns what `SetSessionExecutionMode` set.
    GetSessionExecutionMode(options: *const OrtSessionOptions, out: *mut c_int) {
        OutPlace::at(out, "a place for a number")?.put(of(options)?.settings().mode);
        Ok(())
    }

    /// Is not there: `bb profile` measures the parts of a model.
    EnableProfiling(options: *mut OrtSessionOptions, _path: *const PathChar) {
        accept(options)?;
        Err(CallError::Unsupported { what: "writing a file of times" })
    }

    /// Does nothing: nothing is measured.
    DisableProfiling(options: *mut OrtSessionOptions) {
        accept(options)
    }

    /// Does nothing: bb plans memory by itself.
    EnableMemPattern(options: *mut OrtSessionOptions) {
        of(options)?.settings().no_pattern = false;
        Ok(())
    }

    /// Does nothing: bb plans memory by itself.
    DisableMemPattern(options: *mut OrtSessionOptions) {
        of(options)?.settings().no_pattern = true;
        Ok(())
    }

    /// Returns the flag that the two functions before set.
    GetMemPatternEnabled(options: *const OrtSessionOptions, out: *mut c_int) {
        OutPlace::at(out, "a place for a number")?.put(c_int::from(!of(options)?.settings().no_pattern));
        Ok(())
    }

    /// Does nothing: bb allocates with its own pool.
    EnableCpuMemArena(options: *mut OrtSessionOptions) {
        accept(options)
    }

    /// Does nothing: bb allocates with its own pool.
    DisableCpuMemArena(options: *mut OrtSessionOptions) {
        accept(options)
    }

    /// Sets the name that goes with messages.
    SetSessionLogId(options: *mut OrtSessionOptions, name: *const c_char) {
        of(options)?.settings().name = Some(bytes(name, "a name")?.to_owned());
        Ok(())
    }

    /// Does nothing: bb has no levels of verbose messages.
    SetSessionLogVerbosityLevel(options: *mut OrtSessionOptions, _level: c_int) {
        accept(options)
    }

    /// Sets the least severity of messages; -1 for the environment's.
    SetSessionLogSeverityLevel(options: *mut OrtSessionOptions, level: c_int) {
        of(options)?.settings().severity = (level >= 0).then_some(level);
        Ok(())
    }

    /// Sets the function for messages.
    SetUserLoggingFunction(options: *mut OrtSessionOptions, logger: Option<Function>, parameter: *mut c_void) {
        of(options)?.settings().logger = Logger::new(logger, parameter);
        Ok(())
    }

    /// Does nothing: bb rewrites a model where that is exact.
    SetSessionGraphOptimizationLevel(options: *mut OrtSessionOptions, _level: c_int) {
        accept(options)
    }

    /// Sets how many threads compute; 0 for the number of processors.
    SetIntraOpNumThreads(options: *mut OrtSessionOptions, number: c_int) {
        of(options)?.settings().threads = threads(number)?;
        Ok(())
    }

    /// Does nothing: bb runs the nodes of a model in order, and shares the work of each.
    SetInterOpNumThreads(options: *mut OrtSessionOptions, number: c_int) {
        accept(options)?;
        threads(number).map(drop)
    }

    /// Sets that a session has the threads of its environment.
    DisablePerSessionThreads(options: *mut OrtSessionOptions) {
        of(options)?.settings().shares_threads = true;
        Ok(())
    }

    /// Sets the program's function for creating the threads of a session on the CPU backend.
    SessionOptionsSetCustomCreateThreadFn(options: *mut OrtSessionOptions, create: Option<Create>) {
        of(options)?.settings().functions.set_create(create);
        Ok(())
    }

    /// Sets the first argument of the function for creating threads.
    SessionOptionsSetCustomThreadCreationOptions(options: *mut OrtSessionOptions, parameter: *mut c_void) {
        of(options)?.settings().functions.set_options(parameter);
        Ok(())
    }

    /// Sets the program's function for joining threads.
    SessionOptionsSetCustomJoinThreadFn(options: *mut OrtSessionOptions, join: Option<Join>) {
        of(options)?.settings().functions.set_join(join);
        Ok(())
    }

    /// Does nothing: the same run gives the same results anyway.
    SetDeterministicCompute(options: *mut OrtSessionOptions, _on: bool) {
        accept(options)
    }

    /// Sets the extents of dimensions by their denotation.
    AddFreeDimensionOverride(options: *mut OrtSessionOptions, denotation: *const c_char, value: i64) {
        let (name, value) = (text(denotation, "what a dimension stands for")?, extent(value)?);
        of(options)?.settings().denotations.push((name.to_owned(), value));
        Ok(())
    }

    /// Sets the extents of symbolic dimensions of a name. A name that the model does not have changes nothing.
    AddFreeDimensionOverrideByName(options: *mut OrtSessionOptions, name: *const c_char, value: i64) {
        let (name, value) = (text(name, "the name of a dimension")?, extent(value)?);
        of(options)?.settings().dims.push((name.to_owned(), value));
        Ok(())
    }

    /// Sets a setting by name: bb has `bb.backend` and `bb.limits.NAME`, and ONNX Runtime's own settings change nothing.
    AddSessionConfigEntry(options: *mut OrtSessionOptions, name: *const c_char, value: *const c_char) {
        let (name, value) = (text(name, "the name of a setting")?, bytes(value, "the value of a setting")?);
        if name.starts_with("bb.") && name != "bb.backend" && !name.starts_with("bb.limits.") {
            return Err(CallError::Setting {
                setting: name.to_owned(),
                expected: "`bb.backend` or `bb.limits.NAME` as the name",
                got: name.to_owned(),
            });
        }
        let name = CString::new(name).unwrap_or_default();
        of(options)?.settings().entries.insert(name, value.to_owned());
        Ok(())
    }

    /// Returns whether a setting is set.
    HasSessionConfigEntry(options: *const OrtSessionOptions, name: *const c_char, out: *mut c_int) {
        let has = of(options)?.settings().entries.contains_key(bytes(name, "the name of a setting")?);
        OutPlace::at(out, "a place for the answer")?.put(c_int::from(has));
        Ok(())
    }

    /// Copies the value of a setting. Without memory for it, only the number of bytes is written.
    GetSessionConfigEntry(options: *const OrtSessionOptions, name: *const c_char, value: *mut c_char, size: *mut usize) {
        let (name, place) = (bytes(name, "the name of a setting")?, OutPlace::at(size, "a place for a size")?);
        let settings = of(options)?.settings();
        let Some(found) = settings.entries.get(name) else {
            let setting = name.to_string_lossy().into_owned();
            return Err(CallError::Setting { setting, expected: "a setting that is set", got: String::new() });
        };
        let found = found.as_bytes_with_nul();
        let room = size.read();
        place.put(found.len());
        if value.is_null() {
            return Ok(());
        }
        if room < found.len() {
            return Err(CallError::Room { what: "the value of a setting", needed: found.len(), got: room });
        }
        value.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len());
        Ok(())
    }

    /// Returns all settings.
    GetSessionOptionsConfigEntries(options: *const OrtSessionOptions, out: *mut *mut OrtKeyValuePairs) {
        let entries = of(options)?.settings().entries.clone();
        OutPlace::at(out, "a place for pairs")?.give(OrtKeyValuePairs::of(entries));
        Ok(())
    }

    /// Accepts the execution provider of the CPU. Others are not there.
    SessionOptionsAppendExecutionProvider(
        options: *mut OrtSessionOptions, name: *const c_char, _keys: *const *const c_char, _values: *const *const c_char,
        _count: usize,
    ) {
        accept(options)?;
        match text(name, "the name of an execution provider")? {
            "CPU" | "CPUExecutionProvider" => Ok(()),
            other => Err(CallError::Provider { name: other.to_owned() }),
        }
    }

    /// Does nothing: there is one execution provider.
    SessionOptionsSetEpSelectionPolicy(options: *mut OrtSessionOptions, _policy: c_int) {
        accept(options)
    }

    /// Stops the loading that uses the options, or lets the next one begin.
    SessionOptionsSetLoadCancellationFlag(options: *mut OrtSessionOptions, stop: bool) {
        let mut token = of(options)?.stop.lock().unwrap_or_else(PoisonError::into_inner);
        match stop {
            true => token.cancel(),
            false => *token = CancelToken::new(),
        }
        Ok(())
    }

    /// Replaces a constant of the model by a tensor.
    AddInitializer(options: *mut OrtSessionOptions, name: *const c_char, value: *const OrtValue) {
        initializers(options, &raw const name, &raw const value, 1)
    }

    /// Replaces constants of the model by tensors.
    AddExternalInitializers(
        options: *mut OrtSessionOptions, names: *const *const c_char, values: *const *const OrtValue, count: usize,
    ) {
        initializers(options, names, values, count)
    }

    /// Gives the contents of files of external data.
    AddExternalInitializersFromMemory(
        options: *mut OrtSessionOptions, names: *const *const PathChar, buffers: *const *mut c_char, lengths: *const usize,
        count: usize,
    ) {
        let (options, names) = (of(options)?, list(names, count, "names of files")?);
        let (buffers, lengths) = (list(buffers, count, "contents of files")?, list(lengths, count, "lengths")?);
        for ((name, first), length) in names.iter().zip(buffers).zip(lengths) {
            let name = path(*name)?.to_string_lossy().into_owned();
            let content = list(first.cast_const().cast::<u8>(), *length, "the content of a file")?;
            options.settings().files.push((name, Bytes::copy_from_slice(content)));
        }
        Ok(())
    }
}

releases! {
    ReleaseSessionOptions(OrtSessionOptions);
}

/// Accepts the execution provider of the CPU. ONNX Runtime's library exports this function in addition to the table.
///
/// # Safety
///
/// The pointer is null or to options of a session.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn OrtSessionOptionsAppendExecutionProvider_CPU(
    options: *mut c_void,
    _use_arena: c_int,
) -> *mut c_void {
    // SAFETY: the caller says so.
    guarded(|| unsafe { accept(options.cast_const().cast()) }).cast()
}
