//! Finds and probes the shared library of ONNX Runtime.
//!
//! The environment variable `ORT_DYLIB_PATH` contains the path of the file, or of a folder with the file. The file is
//! called `libonnxruntime.so`, possibly followed by a version, as in the folder `onnxruntime/capi` of the Python wheel.
//! Without the variable, the system's loader searches for `libonnxruntime.so`.
//!
//! The library's version is queried before any other function of the library is called.

use ort::environment::{Environment, GlobalThreadPoolOptions};
use ort::logging::LogLevel;
use std::ffi::{CStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The environment variable that names the library.
pub const VARIABLE: &str = "ORT_DYLIB_PATH";

/// The oldest supported version. The table of gaps describes the operators of this version.
pub const NEEDED: Version = Version { major: 1, minor: 31 };

/// The advice on how to install the library, for error messages.
const ADVICE: &str = "`pip install onnxruntime` has it: set ORT_DYLIB_PATH to the folder `onnxruntime/capi` of the \
                      installed package";

/// The version of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl Version {
    /// Parses a version, for example `1.31.1`.
    fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Version { major: number()?, minor: number()? })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The reason why ONNX Runtime cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The folder in `ORT_DYLIB_PATH` contains no library.
    #[error("`{}` has no file {name}*; {ADVICE}", .folder.display())]
    NotInFolder {
        /// The folder.
        folder: PathBuf,
        /// The expected prefix of the file's name.
        name: String,
    },

    /// The library cannot be loaded: it does not exist, or the file is not a library.
    #[error("`{}` cannot be loaded; {ADVICE}", .path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: libloading::Error,
    },

    /// The library is not ONNX Runtime.
    #[error("`{}` is not ONNX Runtime: it has no `OrtGetApiBase`; {ADVICE}", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
    },

    /// The version of the library is not supported.
    #[error("`{}` is ONNX Runtime {found}, expected {NEEDED} or a newer 1.x; {ADVICE}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the library reports.
        found: String,
    },

    /// ONNX Runtime failed to start.
    #[error("ONNX Runtime from `{}` does not start", .path.display())]
    Start {
        /// The file.
        path: PathBuf,
        /// ONNX Runtime's own error.
        #[source]
        source: bb::BoxError,
    },
}

/// Returns the environment of the process. The first call creates it; a call after a failure tries again.
pub(crate) fn environment() -> Result<&'static Environment, LibraryError> {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = ENVIRONMENT.get() {
        return Ok(environment);
    }
    let started = start(&found()?)?;
    Ok(ENVIRONMENT.get_or_init(|| started))
}

/// Returns the library's file: a path, or a file name that the system's loader searches for.
///
/// # Errors
///
/// [`LibraryError::NotInFolder`].
pub fn found() -> Result<PathBuf, LibraryError> {
    let name = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) else {
        return Ok(PathBuf::from(name));
    };
    let given = PathBuf::from(given);
    if !given.is_dir() {
        return Ok(absolute(given));
    }
    let begins = |file: &OsString| {
        let stem = name.trim_end_matches(std::env::consts::DLL_SUFFIX);
        let file = file.to_string_lossy();
        // Matches `libonnxruntime.so.1.31.1` and `libonnxruntime.1.31.1.dylib`, but not the library of an execution
        // provider.
        file.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'))
    };
    let entries = std::fs::read_dir(&given).into_iter().flatten().flatten();
    let file = entries.map(|entry| entry.file_name()).filter(begins).max();
    match file {
        Some(file) => Ok(absolute(given.join(file))),
        None => Err(LibraryError::NotInFolder { folder: given, name }),
    }
}

/// Makes a path absolute relative to the working folder, because the loader would search relative to other folders.
pub(crate) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Queries the version of a library, without calling any other function of the library.
///
/// # Errors
///
/// [`LibraryError::Load`], [`LibraryError::Other`] and [`LibraryError::Version`].
pub fn probe(path: &Path) -> Result<String, LibraryError> {
    let other = || LibraryError::Other { path: path.to_owned() };
    let found = version(path, other)?;
    match Version::parse(&found) {
        Some(version) if version >= NEEDED && version.major == NEEDED.major => Ok(found),
        _ => Err(LibraryError::Version { path: path.to_owned(), found }),
    }
}

#[expect(unsafe_code, reason = "loads a library and calls two functions of it")]
fn version(path: &Path, other: impl Fn() -> LibraryError) -> Result<String, LibraryError> {
    type Base = unsafe extern "C" fn() -> *const ort::sys::OrtApiBase;
    // SAFETY: loading a library runs its initialisation code. The user named this library or installed it for the system.
    let library = unsafe { libloading::Library::new(path) };
    let library = library.map_err(|source| LibraryError::Load { path: path.to_owned(), source })?;
    // SAFETY: all versions of ONNX Runtime export this function with this signature, and nothing else has the name.
    let base = unsafe { library.get::<Base>(b"OrtGetApiBase") }.map_err(|_| other())?;
    // SAFETY: the function takes no arguments and may be called at any time.
    let base = unsafe { base() };
    // SAFETY: a pointer that is not null points to a table that lives as long as the library, whose two entries have not
    // changed since the first version.
    let base = unsafe { base.as_ref() }.ok_or_else(&other)?;
    // SAFETY: as above.
    let text = unsafe { (base.GetVersionString)() };
    if text.is_null() {
        return Err(other());
    }
    // SAFETY: the string is NUL-terminated and lives as long as the library; it is copied.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // Never unload the library, because threads and state that it creates when it is loaded do not support that.
    std::mem::forget(library);
    Ok(text)
}

/// Describes a library that is no provider by a symbol that it exports.
#[expect(unsafe_code, reason = "loads a library")]
pub(crate) fn kind_of(path: &Path) -> Option<&'static str> {
    // SAFETY: ONNX Runtime has tried to load the library before.
    let library = unsafe { libloading::Library::new(path) }.ok()?;
    let exports = |symbol: &str| {
        // SAFETY: the symbol is only searched for; its value is not used.
        unsafe { library.get::<*const u8>(symbol.as_bytes()) }.is_ok()
    };
    let known = [
        ("bb_backend_library", "the library of a backend of bb, which BB_BACKEND_PATH names"),
        ("bb_load_backend", "bb's own library for programs in C"),
        ("OrtGetApiBase", "a library of ONNX Runtime itself, which ORT_DYLIB_PATH names"),
    ];
    let kind = known.iter().find_map(|(symbol, kind)| exports(symbol).then_some(*kind));
    // Never unload the library, because threads and state that it creates when it is loaded may not support that.
    std::mem::forget(library);
    kind
}

fn start(path: &Path) -> Result<Environment, LibraryError> {
    probe(path)?;
    let failed = |source| LibraryError::Start { path: path.to_owned(), source };
    let started = || -> Result<Environment, bb::BoxError> {
        // Load the library first; any other function of `ort` would search for a library itself.
        let builder = ort::init_from(path)?.with_name("bb").with_telemetry(false);
        // Use one thread pool for all sessions. Otherwise, each session would start the same number of threads again.
        let pool = GlobalThreadPoolOptions::default().with_spin_control(false)?;
        let environment = builder.with_global_thread_pool(pool).build()?;
        environment.set_log_level(LogLevel::Fatal);
        Ok(environment)
    };
    started().map_err(failed)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        assert_eq!(Version::parse("1.31.1"), Some(Version { major: 1, minor: 31 }));
        assert!(Version::parse("1.9.0").unwrap() < NEEDED);
        assert_eq!(Version::parse("one"), None);
        assert_eq!(Version::parse("1"), None);
    }

    #[test]
    fn a_text_file_is_not_a_library() {
        let path = std::env::temp_dir().join(format!("bb-ort-text-{}", std::process::id()));
        std::fs::write(&path, "no library").unwrap();
        let error = probe(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, LibraryError::Load { .. }), "{error:?}");
        assert!(error.to_string().contains("pip install onnxruntime"), "{error}");
    }
}
