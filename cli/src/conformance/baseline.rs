//! Compares the outcomes of cases with an earlier run.

use super::pool::{Outcome, Verdict};
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// An outcome of the earlier run, as `--json` wrote it.
#[derive(Deserialize)]
struct Earlier {
    case: String,
    status: Status,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Passed,
    Failed,
    Skipped,
}

/// The cases of an earlier run.
pub(super) struct Baseline {
    passed: BTreeSet<String>,
    /// The cases that failed or were skipped.
    others: BTreeSet<String>,
}

impl Baseline {
    /// Reads the list of an earlier run.
    pub(super) fn read(path: &Path) -> Result<Baseline> {
        let text = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let earlier: Vec<Earlier> = serde_json::from_slice(&text)
            .map_err(|source| Error::Baseline { path: path.to_owned(), source })?;
        let (passed, others): (Vec<_>, Vec<_>) =
            earlier.into_iter().partition(|earlier| earlier.status == Status::Passed);
        let names = |cases: Vec<Earlier>| cases.into_iter().map(|earlier| earlier.case).collect();
        Ok(Baseline { passed: names(passed), others: names(others) })
    }

    /// Returns a line for each case that passed in the earlier run and does not pass now, and for each case that fails and was
    /// not in the earlier run. Cases that `is_chosen` rejects are ignored.
    pub(super) fn worse(&self, outcomes: &[Outcome], is_chosen: impl Fn(&str) -> bool) -> Vec<String> {
        let now: BTreeMap<&str, &Verdict> = outcomes.iter().map(|o| (&*o.name, &o.verdict)).collect();
        let line = |case: &String| match now.get(&**case) {
            Some(Verdict::Passed) => None,
            Some(Verdict::Failed(_)) => Some(format!("worse {case}: passed before, failed now")),
            Some(Verdict::Skipped { .. }) => Some(format!("worse {case}: passed before, skipped now")),
            None => Some(format!("worse {case}: passed before, not run now")),
        };
        let is_new = |case: &str| !self.passed.contains(case) && !self.others.contains(case);
        let new = outcomes.iter().filter(|outcome| outcome.is_failed() && is_new(&outcome.name));
        let new = new.map(|outcome| format!("worse {}: not run before, failed now", outcome.name));
        self.passed.iter().filter(|case| is_chosen(case)).filter_map(line).chain(new).collect()
    }

    /// Returns how many cases pass now and did not pass in the earlier run.
    pub(super) fn better(&self, outcomes: &[Outcome]) -> usize {
        let passed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed);
        passed.filter(|outcome| !self.passed.contains(&outcome.name)).count()
    }
}
