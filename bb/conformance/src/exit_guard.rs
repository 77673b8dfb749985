//! Makes the program fail if it exits while a test of `bb::conformance!` runs.
//!
//! `cargo test` reads only the exit status, so a backend that calls `exit(0)` would end the tests with success. The guard is a
//! function that `exit` calls. It exists on Unix only, and `_exit` does not call it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The names of the running tests.
static RUNNING: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The id of the process that runs the tests. The guard ignores the exit of another process that was forked from it.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Marks a test as running until it is dropped.
pub(crate) struct RunningTest(String);

impl RunningTest {
    /// Marks a test as running. The first call registers the guard.
    pub(crate) fn begin(name: &str) -> RunningTest {
        PROCESS.get_or_init(|| {
            register();
            std::process::id()
        });
        running().push(name.to_owned());
        RunningTest(name.to_owned())
    }
}

impl Drop for RunningTest {
    fn drop(&mut self) {
        let mut running = running();
        if let Some(at) = running.iter().position(|name| *name == self.0) {
            running.swap_remove(at);
        }
    }
}

fn running() -> MutexGuard<'static, Vec<String>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes `exit` call [`at_exit`].
#[cfg(all(unix, not(miri)))]
fn register() {
    #[expect(
        unsafe_code,
        reason = "the standard library has no function that runs at the exit of the process"
    )]
    mod c {
        // SAFETY: this is the declaration of the C standard. `atexit` only stores the function.
        unsafe extern "C" {
            pub(super) safe fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
        }
    }
    // The function fails only if the system has no memory. Then the tests run without the guard.
    let _failed = c::atexit(at_exit);
}

#[cfg(not(all(unix, not(miri))))]
fn register() {}

/// Aborts the process if a test is running.
#[cfg(all(unix, not(miri)))]
extern "C" fn at_exit() {
    use std::io::Write as _;
    let running = running();
    if running.is_empty() || PROCESS.get() != Some(&std::process::id()) {
        return;
    }
    // The test harness captures `eprintln!`, so this writes to the stream itself. Nothing can be done if the stream is closed.
    let _closed = writeln!(
        std::io::stderr(),
        "\nerror: the process exits while tests of `bb::conformance!` run ({}): the backend, or a library that it calls, calls `exit`; \
         return an error instead",
        bb_ir::text::listed(running.as_slice())
    );
    std::process::abort();
}
