//! Passes messages to the log functions of programs: the placement of a model's nodes, and declarations of the model that are false.
//! Without a log function, nothing is written.

use std::ffi::{CString, c_char, c_int, c_void};

/// `OrtLoggingFunction`, with the arguments: parameter, severity, category, name of the environment or session, source location, message.
pub(crate) type Function =
    unsafe extern "system" fn(*mut c_void, c_int, *const c_char, *const c_char, *const c_char, *const c_char);

/// `ORT_LOGGING_LEVEL_VERBOSE`.
pub(crate) const VERBOSE: c_int = 0;
/// `ORT_LOGGING_LEVEL_WARNING`.
pub(crate) const WARNING: c_int = 2;

/// The log function of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logger {
    function: Function,
    parameter: *mut c_void,
}

// SAFETY: the header says that any thread may call the function.
unsafe impl Send for Logger {}
// SAFETY: as above.
unsafe impl Sync for Logger {}

impl Logger {
    /// Creates a logger from the program's function. Returns `None` if there is no function.
    ///
    /// # Safety
    ///
    /// Any thread may call the function with the parameter while the owner of the logger lives.
    pub(crate) unsafe fn new(function: Option<Function>, parameter: *mut c_void) -> Option<Logger> {
        function.map(|function| Logger { function, parameter })
    }

    /// Passes a message to the program.
    pub(crate) fn write(&self, severity: c_int, name: &CString, message: &str) {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the caller of `new` guarantees that the function may be called. The strings are NUL-terminated and live until it
        // returns.
        unsafe {
            (self.function)(
                self.parameter,
                severity,
                c"bb".as_ptr(),
                name.as_ptr(),
                c"bb".as_ptr(),
                message.as_ptr(),
            );
        }
    }
}
