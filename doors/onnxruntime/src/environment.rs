//! Environments, which have the state that sessions share, and information about the library.
//!
//! An environment stores the number of threads that its sessions share, and the program's log function.
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
    /// The number of threads of sessions that share them. `None` means the number of processors.
    pub(crate) threads: Option<NonZeroUsize>,
    /// The program's functions that create and join these threads.
    pub(crate) functions: ThreadFunctions,
    /// The program's log function.
    pub(crate) logger: Option<Logger>,
    /// The minimum severity of messages.
    pub(crate) severity: AtomicI32,
    /// The name of the environment in messages.
    pub(crate) name: CString,
}

/// `OrtThreadingOptions`: the options of threads that sessions share.
#[derive(Debug, Default)]
pub(crate) struct OrtThreadingOptions {
    /// The number of threads. 0 means the number of processors.
    threads: AtomicUsize,
    functions: Mutex<ThreadFunctions>,
}

impl OrtThreadingOptions {
    fn functions(&self) -> MutexGuard<'_, ThreadFunctions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `OrtArenaCfg`: the options of ONNX Runtime's allocator. bb's allocator ignores them.
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

/// Checks a number of threads. 0 means the number of processors.
///
/// # Errors
///
/// [`CallError::Number`] if the number is negative.
pub(crate) fn threads(number: c_int) -> Result<Option<NonZeroUsize>> {
    let wrong = || CallError::Number { expected: "a number of threads", got: number.into() };
    Ok(NonZeroUsize::new(usize::try_from(number).map_err(|_| wrong())?))
}

/// Creates an environment and writes its pointer for the program.
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
    // SAFETY: the caller upholds the safety contract of this function.
    let (threading, logger, out) = unsafe {
        (
            threading.as_ref(),
            Logger::new(function, parameter),
            OutPlace::at(out, "a place for an environment")?,
        )
    };
    let name = match name.is_null() {
        true => CString::default(),
        // SAFETY: the caller upholds the safety contract of this function.
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
    /// Creates an environment.
    CreateEnv(severity: c_int, name: *const c_char, out: *mut *mut OrtEnv) {
        give((None, null_mut()), severity, name, null(), out)
    }

    /// Creates an environment with a log function.
    CreateEnvWithCustomLogger(
        logger: Option<Function>, parameter: *mut c_void, severity: c_int, name: *const c_char, out: *mut *mut OrtEnv,
    ) {
        give((logger, parameter), severity, name, null(), out)
    }

    /// Creates an environment whose sessions share threads.
    CreateEnvWithGlobalThreadPools(
        severity: c_int, name: *const c_char, threading: *const OrtThreadingOptions, out: *mut *mut OrtEnv,
    ) {
        give((None, null_mut()), severity, name, threading, out)
    }

    /// Creates an environment with a log function, whose sessions share threads.
    CreateEnvWithCustomLoggerAndGlobalThreadPools(
        logger: Option<Function>, parameter: *mut c_void, severity: c_int, name: *const c_char,
        threading: *const OrtThreadingOptions, out: *mut *mut OrtEnv,
    ) {
        give((logger, parameter), severity, name, threading, out)
    }

    /// Creates an environment from options.
    CreateEnvWithOptions(options: *const OrtEnvCreationOptions, out: *mut *mut OrtEnv) {
        let options = object(options, "options of an environment")?;
        let logger = (options.logger, options.logger_parameter);
        give(logger, options.severity, options.log_id, options.threading, out)
    }

    /// Does nothing, because bb has no telemetry.
    EnableTelemetryEvents(env: *const OrtEnv) {
        object(env, "an environment").map(drop)
    }

    /// Does nothing, because bb has no telemetry.
    DisableTelemetryEvents(env: *const OrtEnv) {
        object(env, "an environment").map(drop)
    }

    /// Does nothing, because the program's language makes no difference.
    SetLanguageProjection(env: *const OrtEnv, _language: c_int) {
        object(env, "an environment").map(drop)
    }

    /// Sets the minimum severity of messages.
    UpdateEnvWithCustomLogLevel(env: *mut OrtEnv, severity: c_int) {
        object(env, "an environment")?.severity.store(severity, Ordering::Relaxed);
        Ok(())
    }

    /// Creates options of threads that sessions share.
    CreateThreadingOptions(out: *mut *mut OrtThreadingOptions) {
        OutPlace::at(out, "a place for options")?.give(OrtThreadingOptions::default());
        Ok(())
    }

    /// Sets the number of threads that compute an operation.
    SetGlobalIntraOpNumThreads(options: *mut OrtThreadingOptions, number: c_int) {
        let (options, threads) = (object(options, "options of threads")?, threads(number)?);
        options.threads.store(threads.map_or(0, NonZeroUsize::get), Ordering::Relaxed);
        Ok(())
    }

    /// Does nothing, because bb runs the nodes of a model in order, and parallelizes each node.
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

    /// Does nothing, because the spinning of bb's threads cannot be configured.
    SetGlobalSpinControl(options: *mut OrtThreadingOptions, _spins: c_int) {
        object(options, "options of threads").map(drop)
    }

    /// Checks the memory type. No allocator is registered, because bb allocates from its own pool.
    CreateAndRegisterAllocator(env: *mut OrtEnv, info: *const OrtMemoryInfo, _arena: *const OrtArenaCfg) {
        object(env, "an environment")?;
        object(info, "a kind of memory")?.check_host()
    }

    /// Creates options of an allocator, which bb ignores.
    CreateArenaCfg(_most: usize, _strategy: c_int, _chunk: c_int, _dead: c_int, out: *mut *mut OrtArenaCfg) {
        OutPlace::at(out, "a place for settings")?.give(OrtArenaCfg(()));
        Ok(())
    }

    /// Creates options of an allocator, which bb ignores.
    CreateArenaCfgV2(_keys: *const *const c_char, _values: *const usize, _count: usize, out: *mut *mut OrtArenaCfg) {
        OutPlace::at(out, "a place for settings")?.give(OrtArenaCfg(()));
        Ok(())
    }

    /// Returns the names of the execution providers. This is only the CPU provider, which programs expect to exist always.
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
