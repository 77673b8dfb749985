//! `bb conformance --primitives`: runs the tests of the primitives on a backend, as `bb::conformance!` does.

use super::here::one_by_one;
use super::pool::{Outcome, Verdict};
use crate::error::{Error, Result};
use bb_conformance::{Subject, Test, TestEnd, tests};

/// Runs the tests whose name contains `filter`. Tests of primitives that the backend does not run are skipped.
///
/// The backend runs without the element types that the runtime emulates. Panics are failures of tests, so they are not printed.
pub(super) fn run(
    backend: &str,
    filter: Option<&str>,
    ended: impl FnOnce(Vec<Outcome>, usize) + Send + 'static,
    done: impl Fn(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let tested = bb::Registry::global().as_written(backend)?;
    let subject = Subject::new(&tested);
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

fn verdict(test: &Test, subject: &Subject<'_>) -> Verdict {
    match test.run(subject) {
        Ok(TestEnd::Skipped(reason)) => Verdict::skipped(reason, ""),
        Ok(_) => Verdict::Passed,
        Err(reason) => Verdict::Failed(reason),
    }
}
