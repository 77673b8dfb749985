//! Names the running test or case if a signal ends the process, for example a segmentation fault in a backend.
//!
//! It exists on Unix only. The signal ends the process as it does without the handler.

#[cfg(unix)]
pub(super) use unix::RunningName;

#[cfg(unix)]
mod unix {
    #![expect(unsafe_code, reason = "the standard library has no handlers of signals")]

    use std::ffi::{CStr, CString, c_char, c_int};
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicPtr, Ordering};

    /// The signals of a process that crashes.
    const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

    /// The name of the running test; null if none is running.
    static NAME: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

    /// The handlers that were registered before.
    static BEFORE: OnceLock<Vec<(c_int, libc::sigaction)>> = OnceLock::new();

    /// The name of the running test, which the handler prints as long as this value exists.
    pub(in super::super) struct RunningName(CString);

    impl RunningName {
        /// Stores the name. The first call registers the handler.
        pub(in super::super) fn new(name: &str) -> RunningName {
            BEFORE.get_or_init(|| SIGNALS.into_iter().filter_map(register).collect());
            let name = RunningName(CString::new(name).unwrap_or_default());
            NAME.store(name.0.as_ptr().cast_mut(), Ordering::Release);
            name
        }
    }

    impl Drop for RunningName {
        fn drop(&mut self) {
            NAME.store(std::ptr::null_mut(), Ordering::Release);
        }
    }

    /// Registers the handler. Returns the handler that it replaces; `None` if the system refuses.
    fn register(signal: c_int) -> Option<(c_int, libc::sigaction)> {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a structure of zeros is valid: it has no flags and an empty mask. `crashed` has the signature of a handler without the flag
        // `SA_SIGINFO`. `SA_ONSTACK` lets it run after a stack overflow, on the stack that Rust reserves for handlers.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crashed as extern "C" fn(c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, before.as_mut_ptr())
        };
        // SAFETY: the call succeeded, so it wrote the structure.
        (result == 0).then(|| (signal, unsafe { before.assume_init() }))
    }

    /// Prints the name of the running test, and restores the earlier handler. The instruction that failed then runs again, and the signal
    /// reaches that handler.
    extern "C" fn crashed(signal: c_int) {
        let name = NAME.load(Ordering::Acquire);
        if !name.is_null() {
            // SAFETY: the name is NUL-terminated and lives until it is replaced.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            for part in [b"\nerror: the process crashed while `".as_slice(), name, b"` ran\n"] {
                // SAFETY: `write` is allowed in a handler, and the buffer has the length. Nothing can be done if the stream is closed.
                let _written = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
            }
        }
        for (_, before) in BEFORE.get().into_iter().flatten().filter(|(of, _)| *of == signal) {
            // SAFETY: `sigaction` is allowed in a handler, and the structure came from the system.
            let _restored = unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
        }
    }
}
