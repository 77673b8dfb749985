//! The options of sessions.
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

/// `ORTCHAR_T`, a code unit of a path.
#[cfg(windows)]
pub(crate) type PathChar = u16;
/// `ORTCHAR_T`, a code unit of a path.
#[cfg(not(windows))]
pub(crate) type PathChar = c_char;

/// `OrtSessionOptions`. Another thread may stop a load that uses them.
#[derive(Debug, Default)]
pub(crate) struct OrtSessionOptions {
    settings: Mutex<Settings>,
    stop: Mutex<CancelToken>,
}

/// The settings that the program has made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The number of threads. `None` means the number of processors.
    pub(crate) threads: Option<NonZeroUsize>,
    /// Whether the session uses the environment's threads.
    pub(crate) shares_threads: bool,
    /// The program's functions that create and join threads.
    pub(crate) functions: ThreadFunctions,
    /// The names of symbolic dimensions, and their extents.
    pub(crate) dims: Vec<(String, usize)>,
    /// The denotations of dimensions, for example `DATA_BATCH`, and their extents.
    pub(crate) denotations: Vec<(String, usize)>,
    /// Settings by name. ONNX Runtime's own settings have no effect here.
    entries: BTreeMap<CString, CString>,
    /// The names of the model's constants that are replaced, and the replacements.
    pub(crate) initializers: Vec<(String, TensorData)>,
    /// The contents of external data files, by the names that the model uses for the files.
    pub(crate) files: Vec<(String, Bytes)>,
    /// The log function, if the session does not use the environment's.
    pub(crate) logger: Option<Logger>,
    /// The minimum severity of messages. `None` means the environment's.
    pub(crate) severity: Option<c_int>,
    /// The name in messages. `None` means the environment's.
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

    /// Iterates over the settings whose names begin with a prefix. The prefix is removed from the names.
    pub(crate) fn entries<'a>(&'a self, begin: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pair =
            |(name, value): (&'a CString, &'a CString)| Some((name.to_str().ok()?, value.to_str().ok()?));
        let all = self.entries.iter().filter_map(pair);
        all.filter_map(move |(name, value)| Some((name.strip_prefix(begin)?, value)))
    }
}

/// Returns the options behind a pointer.
///
/// # Safety
///
/// As [`object`].
unsafe fn of<'a>(options: *const OrtSessionOptions) -> Result<&'a OrtSessionOptions> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { object(options, "options of a session") }
}

/// Accepts a setting of ONNX Runtime's internals, and ignores it.
///
/// # Safety
///
/// As [`object`].
unsafe fn accept(options: *const OrtSessionOptions) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
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
    // SAFETY: the caller upholds the safety contract of this function.
    let (options, names, values) =
        unsafe { (of(options)?, list(names, count, "names")?, list(values, count, "values")?) };
    for (name, value) in names.iter().zip(values) {
        // SAFETY: the caller upholds the safety contract of this function.
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

/// Returns the path behind a pointer.
///
/// # Safety
///
/// The pointer is null or points to a zero-terminated path.
#[cfg(not(windows))]
pub(crate) unsafe fn path<'a>(pointer: *const PathChar) -> Result<std::borrow::Cow<'a, std::path::Path>> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the caller upholds the safety contract of this function.
    let path = unsafe { bytes(pointer, "a path") }?;
    Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())).into())
}

/// Returns the path behind a pointer.
///
/// # Safety
///
/// The pointer is null or points to a zero-terminated path.
#[cfg(windows)]
pub(crate) unsafe fn path<'a>(pointer: *const PathChar) -> Result<std::borrow::Cow<'a, std::path::Path>> {
    use std::os::windows::ffi::OsStringExt;
    if pointer.is_null() {
        return Err(CallError::Null { what: "a path" });
    }
    let mut length = 0;
    // SAFETY: the caller guarantees that the path is zero-terminated.
    while unsafe { *pointer.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: the loop has read `length` units.
    let units = unsafe { std::slice::from_raw_parts(pointer, length) };
    Ok(std::path::PathBuf::from(std::ffi::OsString::from_wide(units)).into())
}

functions! {
    /// Creates options.
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

    /// Returns an error, because bb does not write this format. `bb compile` writes compiled models.
    SetOptimizedModelFilePath(options: *mut OrtSessionOptions, _path: *const PathChar) {
        accept(options)?;
        Err(CallError::Unsupported { what: "writing the optimized model" })
    }

    /// Stores the mode. It has no effect, because bb runs the nodes of a model in order, and parallelizes each node.
    SetSessionExecutionMode(options: *mut OrtSessionOptions, mode: c_int) {
        of(options)?.settings().mode = mode;
        Ok(())
    }

    /// Returns the mode that `SetSessionExecutionMode` stored.
    GetSessionExecutionMode(options: *const OrtSessionOptions, out: *mut c_int) {
        OutPlace::at(out, "a place for a number")?.put(of(options)?.settings().mode);
        Ok(())
    }

    /// Returns an error, because the library does not write profiles. `bb profile` measures the parts of a model.
    EnableProfiling(options: *mut OrtSessionOptions, _path: *const PathChar) {
        accept(options)?;
        Err(CallError::Unsupported { what: "writing a file of times" })
    }

    /// Does nothing, because sessions are not profiled.
    DisableProfiling(options: *mut OrtSessionOptions) {
        accept(options)
    }

    /// Stores the flag. It has no effect, because bb plans memory itself.
    EnableMemPattern(options: *mut OrtSessionOptions) {
        of(options)?.settings().no_pattern = false;
        Ok(())
    }

    /// Stores the flag. It has no effect, because bb plans memory itself.
    DisableMemPattern(options: *mut OrtSessionOptions) {
        of(options)?.settings().no_pattern = true;
        Ok(())
    }

    /// Returns the flag that `EnableMemPattern` and `DisableMemPattern` store.
    GetMemPatternEnabled(options: *const OrtSessionOptions, out: *mut c_int) {
        OutPlace::at(out, "a place for a number")?.put(c_int::from(!of(options)?.settings().no_pattern));
        Ok(())
    }

    /// Does nothing, because bb allocates from its own pool.
    EnableCpuMemArena(options: *mut OrtSessionOptions) {
        accept(options)
    }

    /// Does nothing, because bb allocates from its own pool.
    DisableCpuMemArena(options: *mut OrtSessionOptions) {
        accept(options)
    }

    /// Sets the name of the session in messages.
    SetSessionLogId(options: *mut OrtSessionOptions, name: *const c_char) {
        of(options)?.settings().name = Some(bytes(name, "a name")?.to_owned());
        Ok(())
    }

    /// Does nothing, because bb has no levels of verbosity.
    SetSessionLogVerbosityLevel(options: *mut OrtSessionOptions, _level: c_int) {
        accept(options)
    }

    /// Sets the minimum severity of messages. -1 means the environment's.
    SetSessionLogSeverityLevel(options: *mut OrtSessionOptions, level: c_int) {
        of(options)?.settings().severity = (level >= 0).then_some(level);
        Ok(())
    }

    /// Sets the log function.
    SetUserLoggingFunction(options: *mut OrtSessionOptions, logger: Option<Function>, parameter: *mut c_void) {
        of(options)?.settings().logger = Logger::new(logger, parameter);
        Ok(())
    }

    /// Does nothing, because bb always applies its rewrites of the model, which are exact.
    SetSessionGraphOptimizationLevel(options: *mut OrtSessionOptions, _level: c_int) {
        accept(options)
    }

    /// Sets the number of threads. 0 means the number of processors.
    SetIntraOpNumThreads(options: *mut OrtSessionOptions, number: c_int) {
        of(options)?.settings().threads = threads(number)?;
        Ok(())
    }

    /// Does nothing, because bb runs the nodes of a model in order, and parallelizes each node.
    SetInterOpNumThreads(options: *mut OrtSessionOptions, number: c_int) {
        accept(options)?;
        threads(number).map(drop)
    }

    /// Creates a session use the threads of its environment.
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

    /// Does nothing, because runs are always deterministic.
    SetDeterministicCompute(options: *mut OrtSessionOptions, _on: bool) {
        accept(options)
    }

    /// Sets the extent of dimensions by their denotation.
    AddFreeDimensionOverride(options: *mut OrtSessionOptions, denotation: *const c_char, value: i64) {
        let (name, value) = (text(denotation, "what a dimension stands for")?, extent(value)?);
        of(options)?.settings().denotations.push((name.to_owned(), value));
        Ok(())
    }

    /// Sets the extent of the symbolic dimension with a name. A name that the model does not have has no effect.
    AddFreeDimensionOverrideByName(options: *mut OrtSessionOptions, name: *const c_char, value: i64) {
        let (name, value) = (text(name, "the name of a dimension")?, extent(value)?);
        of(options)?.settings().dims.push((name.to_owned(), value));
        Ok(())
    }

    /// Sets a setting by name. bb's settings are `bb.backend` and `bb.limits.NAME`; ONNX Runtime's own settings have no effect.
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

    /// Copies the value of a setting. If no memory is passed, only the size in bytes is written.
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

    /// Accepts the CPU execution provider, and refuses others.
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

    /// Does nothing, because there is only one execution provider.
    SessionOptionsSetEpSelectionPolicy(options: *mut OrtSessionOptions, _policy: c_int) {
        accept(options)
    }

    /// Stops a load that uses the options, or allows further loads.
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

    /// Sets the contents of external data files.
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

/// Accepts the CPU execution provider. Like ONNX Runtime's library, this library exports the function in addition to the table.
///
/// # Safety
///
/// The pointer is null or points to options of a session.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn OrtSessionOptionsAppendExecutionProvider_CPU(
    options: *mut c_void,
    _use_arena: c_int,
) -> *mut c_void {
    // SAFETY: the caller upholds the safety contract of this function.
    guarded(|| unsafe { accept(options.cast_const().cast()) }).cast()
}
