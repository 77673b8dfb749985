//! `bb conformance --primitives`: runs the tests of the primitives on a backend, as `bb::conformance!` does.

use super::here::one_by_one;
use super::pool::{Outcome, Verdict};
use crate::error::{Error, Result};
use crate::out;
use bb_conformance::{RunningCalls, Subject, Test, TestEnd, tests};
use std::time::Duration;

/// The interval at which running calls are compared with the limit.
const TICK: Duration = Duration::from_millis(250);

/// Runs the tests whose name contains `filter`. Tests of primitives that the backend does not run are skipped.
///
/// The backend runs without the element types that the runtime emulates. A call that does not return in time ends the process. Panics
/// are failures of tests, so they are not printed.
pub(super) fn run(
    backend: &str,
    filter: Option<&str>,
    ended: impl FnOnce(Vec<Outcome>, usize) + Send + 'static,
    done: impl Fn(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let tested = bb::Registry::global().as_written(backend)?;
    let subject = Subject::new(&tested);
    let limit = bb_conformance::call_limit().map_err(Error::CallLimit)?;
    let calls = subject.running_calls();
    // The thread runs until the process ends. If it cannot start, calls have no limit.
    let _watching = std::thread::Builder::new().spawn(move || end_hanging(&calls, limit));
    let chosen = tests().into_iter().filter(|test| filter.is_none_or(|text| test.name.contains(text)));
    let jobs: Vec<(String, Test)> = chosen.map(|test| (test.name.to_owned(), test)).collect();
    if let (true, Some(filter)) = (jobs.is_empty(), filter) {
        return Err(Error::NoTest { filter: filter.to_owned() });
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcomes = one_by_one(jobs, |test| verdict(test, &subject), ended, done);
    std::panic::set_hook(before);
    outcomes
}

/// Ends the process if a call takes longer than the limit, because a call cannot be interrupted.
fn end_hanging(calls: &RunningCalls, limit: Duration) {
    loop {
        std::thread::sleep(TICK);
        if let Some(problem) = calls.overdue(limit) {
            out::note(problem);
            std::process::exit(1);
        }
    }
}

fn verdict(test: &Test, subject: &Subject<'_>) -> Verdict {
    match test.run(subject) {
        Ok(TestEnd::Skipped(reason)) => Verdict::skipped(reason, ""),
        Ok(_) => Verdict::Passed,
        Err(reason) => Verdict::Failed(reason),
    }
}
