//! What a provider took, declined and got wrong, by operator.

use super::pool::{Outcome, Verdict};
use super::provider::DECLINED;
use crate::error::Result;
use crate::render::{self, Table};
use bb::conformance::onnx::Contents;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers of cases.
#[derive(Default)]
struct Counts {
    took: usize,
    declined: usize,
    wrong: usize,
    other: usize,
}

/// Counts the cases of one operator by it, and those of several under one heading.
pub(super) fn table(dir: &Path, outcomes: &[Outcome]) -> Result<Table> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for outcome in outcomes {
        let contents = Contents::read(&dir.join(&outcome.name))?;
        let mut operators = contents.operators.iter();
        let name = match (operators.next(), operators.next()) {
            (Some(only), None) => only.to_string(),
            _ => "(several operators)".to_owned(),
        };
        let counts = counts.entry(name).or_default();
        match &outcome.verdict {
            Verdict::Passed => counts.took += 1,
            Verdict::Skipped(reason) if reason == DECLINED => counts.declined += 1,
            Verdict::Skipped(_) => counts.other += 1,
            Verdict::Failed(_) => counts.wrong += 1,
        }
    }
    let mut table = render::table(["operator", "passed", "declined", "failed", "skipped"]);
    for (name, Counts { took, declined, wrong, other }) in counts {
        table.add_row([name, took.to_string(), declined.to_string(), wrong.to_string(), other.to_string()]);
    }
    Ok(table)
}
