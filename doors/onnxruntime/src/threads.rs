//! Threads that the program creates and joins with its own functions.

use crate::error::CallError;
use crate::status::Result;
use bb::BackendHandle;
use bb_cpu::{Cpu, StartedThreads, ThreadWork};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::null_mut;

/// `OrtThreadWorkerFn`: the main function of a thread.
type Worker = unsafe extern "C" fn(*mut c_void);

/// `OrtCustomCreateThreadFn`: creates a thread that calls a function with a parameter. Returns a handle, or null if it fails.
pub(crate) type Create = unsafe extern "C" fn(*mut c_void, Worker, *mut c_void) -> *const c_void;

/// `OrtCustomJoinThreadFn`: joins a thread and releases its handle.
pub(crate) type Join = unsafe extern "C" fn(*const c_void);

/// The program's functions for creating and joining threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadFunctions {
    create: Option<Create>,
    join: Option<Join>,
    options: *mut c_void,
}

impl Default for ThreadFunctions {
    fn default() -> ThreadFunctions {
        ThreadFunctions { create: None, join: None, options: null_mut() }
    }
}

// SAFETY: as in ONNX Runtime, the program guarantees that any thread may use the functions and options.
unsafe impl Send for ThreadFunctions {}
// SAFETY: as above.
unsafe impl Sync for ThreadFunctions {}

impl ThreadFunctions {
    pub(crate) fn set_create(&mut self, create: Option<Create>) {
        self.create = create;
    }

    pub(crate) fn set_join(&mut self, join: Option<Join>) {
        self.join = join;
    }

    pub(crate) fn set_options(&mut self, options: *mut c_void) {
        self.options = options;
    }

    /// Returns both functions, or `None` if the program did not set them.
    ///
    /// # Errors
    ///
    /// [`CallError::Null`] if the program set only one of the functions.
    fn both(self) -> Result<Option<(Create, Join)>> {
        match (self.create, self.join) {
            (None, None) => Ok(None),
            (Some(create), Some(join)) => Ok(Some((create, join))),
            (None, Some(_)) => Err(CallError::Null { what: "the function that makes threads" }),
            (Some(_), None) => Err(CallError::Null { what: "the function that waits for threads" }),
        }
    }

    /// Opens the CPU backend with threads that the program creates. Returns `None` if the program did not set its functions.
    ///
    /// # Errors
    ///
    /// [`CallError::Null`] if the program set only one of the functions; [`CallError::Load`] if the program creates no thread.
    pub(crate) fn cpu(
        self,
        threads: Option<NonZeroUsize>,
    ) -> Result<Option<(BackendHandle, ProgramThreads)>> {
        let Some((create, join)) = self.both()? else { return Ok(None) };
        let mut made = Vec::new();
        let start = |work: ThreadWork| {
            let work = Box::into_raw(Box::new(work));
            // SAFETY: the program's function calls `serve` with the parameter, or returns null and does not.
            let thread = unsafe { create(self.options, serve, work.cast()) };
            if thread.is_null() {
                // SAFETY: no thread received the pointer.
                drop(unsafe { Box::from_raw(work) });
                return Err(std::io::Error::other("the program's function made no thread"));
            }
            made.push(thread);
            Ok(())
        };
        let builder = threads.map_or_else(Cpu::builder, |threads| Cpu::builder().threads(threads.get()));
        let built = builder.build_on(start);
        let threads = |started| ProgramThreads { started, join, made };
        match built {
            Ok((cpu, started)) => Ok(Some((BackendHandle::start("cpu", cpu), threads(Some(started))))),
            Err(source) => {
                // The created threads ended when the backend was dropped. They are joined here.
                drop(threads(None));
                let (backend, origin) = ("cpu", bb::BackendOrigin::Linked);
                let source = bb::Error::Unavailable { backend, origin, source: source.into() };
                Err(CallError::Load(source))
            }
        }
    }
}

/// The threads that the program created for a session. Dropping this ends and joins them.
#[derive(Debug)]
pub(crate) struct ProgramThreads {
    started: Option<StartedThreads>,
    join: Join,
    made: Vec<*const c_void>,
}

// SAFETY: the handles are used only in `drop`, which passes them back to the program.
unsafe impl Send for ProgramThreads {}
// SAFETY: as above.
unsafe impl Sync for ProgramThreads {}

impl Drop for ProgramThreads {
    fn drop(&mut self) {
        if let Some(started) = &self.started {
            started.end();
        }
        for &thread in &self.made {
            // SAFETY: the program's function created the thread, and it was not joined before.
            unsafe { (self.join)(thread) };
        }
    }
}

/// Runs the work of a thread that the program created.
///
/// # Safety
///
/// The parameter points to a boxed [`ThreadWork`], which this call owns.
unsafe extern "C" fn serve(work: *mut c_void) {
    // SAFETY: the caller upholds the safety contract of this function.
    let work = unsafe { Box::from_raw(work.cast::<ThreadWork>()) };
    let _panicked = bb_core::runtime::catch(*work);
}
