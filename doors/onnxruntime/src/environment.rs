//! Environments, which hold the state that all sessions share, and information about the library.
//!
//! An environment holds the number of threads that sessions share, and the function of the program that takes
//! messages.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::allocator::{Allocator, own};
use crate::arguments::{OutPlace, bytes, list, object};
use crate::error::CallError;
use crate::log::{Function, Logger};
use crate::memory::OrtMemoryInfo;
use crate::release::releases;
use crate::status::{Result, functions};
use crate::threads::{Create, Join, ThreadFunctions};
use std::ffi::{CString, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `OrtEnv`.
#[derive(Debug)]
pub(crate) struct OrtEnv {
    /// How many threads compute in sessions that share them; `None` for the number of processors.
    pub(crate) threads: Option<NonZeroUsize>,
    /// How the program makes these threads.
    pub(crate) functions: ThreadFunctions,
    /// The receiver of messages.
    pub(crate) logger: Option<Logger>,
    /// The least severity of messages.
    pub(crate) severity: AtomicI32,
    /// The name that goes with messages.
    pub(crate) name: CString,
}

/// `OrtThreadingOptions`: threads that sessions share.
#[derive(Debug, Default)]
pub(crate) struct OrtThreadingOptions {
    /// 0 means the number of processors.
    threads: AtomicUsize,
    functions: Mutex<ThreadFunctions>,
}

impl OrtThreadingOptions {
    fn functions(&self) -> MutexGuard<'_, ThreadFunctions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `OrtArenaCfg`: how ONNX Runtime's allocator keeps memory. bb's own does not ask.
#[derive(Debug)]
pub(crate) struct OrtArenaCfg(());

/// `OrtEnvCreationOptions`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OrtEnvCreationOptions {
    version: u32,
    severity: i32,
    log_id: *const c_char,
    logger: Option<Function>,
    logger_parameter: *mut c_void,
    threading: *const OrtThreadingOptions,
    entries: *const c_void,
}

/// Reads a number of threads: 0 means the number of processors.
///
/// # Errors
///
/// [`CallError::Number`] if the number is negative.
pub(crate) fn threads(number: c_int) -> Result<Option<NonZeroUsize>> {
    let wrong = || CallError::Number { expected: "a number of threads", got: number.into() };
    Ok(NonZeroUsize::new(usize::try_from(number).map_err(|_| wrong())?))
}

/// Gives an environment to the program.
///
/// # Safety
///
/// The pointers are null or conform to the header.
unsafe fn give(
    (function, parameter): (Option<Function>, *mut c_void),
    severity: c_int,
    name: *const c_char,
    threading: *const OrtThreadingOptions,
    out: *mut *mut OrtEnv,
) -> Result<()> {
    // SAFETY: the caller says so.
    let (threading, logger, out) = unsafe {
        (
            threading.as_ref(),
            Logger::new(function, parameter),
            OutPlace::at(out, "a place for an environment")?,
        )
    };
    let name = match name.is_null() {
        true => CString::default(),
        // SAFETY: the caller says so.
        false => unsafe { bytes(name, "a name") }?.to_owned(),
    };
    let threads = threading.map_or(0, |threading| threading.threads.load(Ordering::Relaxed));
    let functions = threading.map_or_else(ThreadFunctions::default, |threading| *threading.functions());
    out.give(OrtEnv {
        functions,
        threads: NonZeroUsize::new(threads),
        logger,
        severity: AtomicI32::new(severity),
        name,
    });
    Ok(())
}

functions! {
    /// Makes an environment.
    CreateEnv(severity: c_int, name: *const c_char, out: *mut *mut OrtEnv) {
        give((None, null_mut()), severity, name, null(), out)
    }

    /// Makes an environment with a function for messages.
    CreateEnvWithCustomLogger(
        logger: Option<Function>, parameter: *mut c_void, severity: c_int, name: *const c_char, out: *mut *mut OrtEnv,
    ) {
        give((logger, parameter), severity, name, null(), out)
    }

    /// Makes an environment whose sessions share threads.
    CreateEnvWithGlobalThreadPools(
        severity: c_int, name: *const c_char, threading: *const OrtThreadingOptions, out: *mut *mut OrtEnv,
    ) {
        give((None, null_mut()), severity, name, threading, out)
    }

    /// Makes an environment whose sessions share threads, with a function for messages.
    CreateEnvWithCustomLoggerAndGlobalThreadPools(
        logger: Option<Function>, parameter: *mut c_void, severity: c_int, name: *const c_char,
        threading: *const OrtThreadingOptions, out: *mut *mut OrtEnv,
    ) {
        give((logger, parameter), severity, name, threading, out)
    }

    /// Makes an environment of options.
    CreateEnvWithOptions(options: *const OrtEnvCreationOptions, out: *mut *mut OrtEnv) {
        let options = object(options, "options of an environment")?;
        let logger = (options.logger, options.logger_parameter);
        give(logger, options.severity, options.log_id, options.threading, out)
    }

    /// Does nothing: bb sends nothing anywhere.
    EnableTelemetryEvents(env: *const OrtEnv) {
        object(env, "an environment").map(drop)
    }

    /// Does nothing: bb sends nothing anywhere.
    DisableTelemetryEvents(env: *const OrtEnv) {
        object(env, "an environment").map(drop)
    }

    /// Does nothing: which language a program has changes nothing.
    SetLanguageProjection(env: *const OrtEnv, _language: c_int) {
        object(env, "an environment").map(drop)
    }

    /// Sets the least severity of messages.
    UpdateEnvWithCustomLogLevel(env: *mut OrtEnv, severity: c_int) {
        object(env, "an environment")?.severity.store(severity, Ordering::Relaxed);
        Ok(())
    }

    /// Makes options of threads that sessions share.
    CreateThreadingOptions(out: *mut *mut OrtThreadingOptions) {
        OutPlace::at(out, "a place for options")?.give(OrtThreadingOptions::default());
        Ok(())
    }

    /// Sets how many threads compute.
    SetGlobalIntraOpNumThreads(options: *mut OrtThreadingOptions, number: c_int) {
        let (options, threads) = (object(options, "options of threads")?, threads(number)?);
        options.threads.store(threads.map_or(0, NonZeroUsize::get), Ordering::Relaxed);
        Ok(())
    }

    /// Does nothing: bb runs the nodes of a model in order, and shares the work of each.
    SetGlobalInterOpNumThreads(options: *mut OrtThreadingOptions, number: c_int) {
        object(options, "options of threads")?;
        threads(number).map(drop)
    }

    /// Sets the program's function for creating threads. Each session on the CPU backend creates its own threads.
    SetGlobalCustomCreateThreadFn(options: *mut OrtThreadingOptions, create: Option<Create>) {
        object(options, "options of threads")?.functions().set_create(create);
        Ok(())
    }

    /// Sets the first argument of the function for creating threads.
    SetGlobalCustomThreadCreationOptions(options: *mut OrtThreadingOptions, parameter: *mut c_void) {
        object(options, "options of threads")?.functions().set_options(parameter);
        Ok(())
    }

    /// Sets the program's function for joining threads.
    SetGlobalCustomJoinThreadFn(options: *mut OrtThreadingOptions, join: Option<Join>) {
        object(options, "options of threads")?.functions().set_join(join);
        Ok(())
    }

    /// Does nothing: how bb's threads wait cannot be chosen.
    SetGlobalSpinControl(options: *mut OrtThreadingOptions, _spins: c_int) {
        object(options, "options of threads").map(drop)
    }

    /// Only checks the memory: bb allocates with its own pool.
    CreateAndRegisterAllocator(env: *mut OrtEnv, info: *const OrtMemoryInfo, _arena: *const OrtArenaCfg) {
        object(env, "an environment")?;
        object(info, "a kind of memory")?.check_host()
    }

    /// Makes settings of an allocator, which bb does not ask.
    CreateArenaCfg(_most: usize, _strategy: c_int, _chunk: c_int, _dead: c_int, out: *mut *mut OrtArenaCfg) {
        OutPlace::at(out, "a place for settings")?.give(OrtArenaCfg(()));
        Ok(())
    }

    /// Makes settings of an allocator, which bb does not ask.
    CreateArenaCfgV2(_keys: *const *const c_char, _values: *const usize, _count: usize, out: *mut *mut OrtArenaCfg) {
        OutPlace::at(out, "a place for settings")?.give(OrtArenaCfg(()));
        Ok(())
    }

    /// Returns the names of the execution providers: only the CPU provider, which programs expect to be always there.
    GetAvailableProviders(out: *mut *mut *mut c_char, count: *mut c_int) {
        let (out, count) = (OutPlace::at(out, "a place for names")?, OutPlace::at(count, "a place for a count")?);
        let allocator = Allocator::of(own())?;
        let name = allocator.text("CPUExecutionProvider")?;
        out.put(allocator.list(&[name])?);
        count.put(1);
        Ok(())
    }

    /// Releases the names of the execution providers.
    ReleaseAvailableProviders(names: *mut *mut c_char, count: c_int) {
        let allocator = Allocator::of(own())?;
        for name in list(names, usize::try_from(count).unwrap_or(0), "names")? {
            allocator.free(name.cast());
        }
        allocator.free(names.cast());
        Ok(())
    }
}

/// Returns a description of the library.
pub(crate) extern "system" fn GetBuildInfoString() -> *const c_char {
    const TEXT: &str = concat!("bb ", env!("CARGO_PKG_VERSION"), ", in the place of ONNX Runtime\0");
    TEXT.as_ptr().cast()
}

releases! {
    ReleaseEnv(OrtEnv);
    ReleaseThreadingOptions(OrtThreadingOptions);
    ReleaseArenaCfg(OrtArenaCfg);
}
