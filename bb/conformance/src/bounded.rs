//! Limits the time of each call in the tests of primitives.
//!
//! A test creates, uses and drops its backend on a new thread. The main thread of the test waits for the new thread. If a call does
//! not return in time, the test fails and the new thread is abandoned.

use super::exit_guard::RunningTest;
use super::watch::{LIMIT_VARIABLE, RunningCalls};
use super::{Subject, TestEnd};
use bb_core::Backend;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time limit of a call, unless [`LIMIT_VARIABLE`] is set.
///
/// Units: seconds.
const SECONDS: u64 = 60;

/// The interval at which running calls are compared with the limit.
const TICK: Duration = Duration::from_millis(250);

/// Returns the time limit of a call in the tests of primitives: a minute, or the seconds in the environment variable `BB_CALL_SECONDS`.
///
/// # Errors
///
/// A message if the variable is set, but is not a number of seconds.
pub fn call_limit() -> Result<Duration, String> {
    let seconds = std::env::var(LIMIT_VARIABLE).map_or(Ok(SECONDS), |text| match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(format!("{LIMIT_VARIABLE} is `{text}`; expected a number of seconds, at least 1")),
    });
    seconds.map(Duration::from_secs)
}

/// Runs the test of a primitive or a topic on a backend that `make` creates. `bb::conformance!` expands to calls of this function.
///
/// # Panics
///
/// If the test fails, or if a call takes longer than a minute, or longer than the seconds in the environment variable
/// `BB_CALL_SECONDS`.
#[doc(hidden)]
#[track_caller]
pub fn check_case<B: Backend + 'static>(name: &'static str, make: fn() -> B, test: fn(&Subject<'_>)) {
    let limit = call_limit().unwrap_or_else(|problem| panic!("{problem}"));
    check_within(limit, name, make, test);
}

/// Runs the test with a specified time limit for each call.
#[doc(hidden)]
#[track_caller]
pub fn check_within<B: Backend + 'static>(
    limit: Duration,
    name: &'static str,
    make: fn() -> B,
    test: fn(&Subject<'_>),
) {
    let calls = RunningCalls(Arc::default());
    let (end, ended) = channel::<()>();
    let shared = calls.0.clone();
    // Panic messages contain the name of the thread.
    let title = std::thread::current().name().unwrap_or(name).to_owned();
    let _running = RunningTest::begin(&title);
    let worker = std::thread::Builder::new().name(title).spawn(move || {
        // `end` must be dropped last, to report the end after the backend is dropped. Locals are dropped in reverse order.
        let _end = end;
        let backend = make();
        report(Subject::watched(&backend, shared).case(name, test), name);
    });
    let Ok(worker) = worker else {
        return report(Subject::new(&make()).case(name, test), name);
    };
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
        if let Some(problem) = calls.overdue(limit) {
            panic!("{problem}");
        }
    }
    if let Err(panic) = worker.join() {
        resume_unwind(panic);
    }
}

/// Prints why a test was skipped, or ended early.
fn report(end: TestEnd, name: &str) {
    if let TestEnd::Skipped(reason) = end {
        println!("`{name}`, or the rest of it, is skipped: {reason}");
    }
}
