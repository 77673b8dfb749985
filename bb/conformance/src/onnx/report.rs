//! Reports the outcomes of cases, by case and by operator.

use super::CaseOperator;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every output equals the expected one.
    Passed,
    /// An output differs, or the case could not run. The string describes the difference or the reason.
    Failed(String),
    /// The case did not run because it needs something that is missing: an element type that the backend does not
    /// declare, or a feature of `bb`.
    Skipped(String),
}

/// A case and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The path of the case, relative to the folder of cases.
    pub name: String,
    /// The operators of the model.
    pub operators: Vec<CaseOperator>,
    /// The outcome.
    pub outcome: Outcome,
}

impl Case {
    /// Lists the operators. If there are many, lists only the first few.
    fn operators(&self) -> String {
        operator_names(&self.operators)
    }
}

/// Lists operators. If there are many, lists only the first few.
pub fn operator_names<'a>(operators: impl IntoIterator<Item = &'a CaseOperator>) -> String {
    const SHOWN: usize = 4;
    let mut operators = operators.into_iter();
    let names: Vec<String> = operators.by_ref().take(SHOWN).map(CaseOperator::to_string).collect();
    match operators.count() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The outcomes of all cases. It is displayed as a table with a row for each operator and the totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The cases, sorted by name.
    pub cases: Vec<Case>,
    /// The number of excluded cases; `exclude.txt` next to the archive states the reasons.
    pub excluded: usize,
}

impl Report {
    /// Counts the cases that passed, failed, and were skipped.
    pub fn counts(&self) -> [usize; 3] {
        counts(self.cases.iter())
    }

    /// Lists the failures: the case, its operators, and the difference.
    pub fn failures(&self) -> Vec<String> {
        let failed = self.cases.iter().filter_map(|case| match &case.outcome {
            Outcome::Failed(reason) => Some(format!("{} ({}): {reason}", case.name, case.operators())),
            Outcome::Passed | Outcome::Skipped(_) => None,
        });
        failed.collect()
    }
}

/// The cases of an operator.
#[derive(Default)]
struct OperatorCases<'a> {
    versions: BTreeSet<i64>,
    cases: Vec<&'a Case>,
}

fn counts<'a>(cases: impl Iterator<Item = &'a Case>) -> [usize; 3] {
    cases.fold([0; 3], |[passed, failed, skipped], case| match case.outcome {
        Outcome::Passed => [passed + 1, failed, skipped],
        Outcome::Failed(_) => [passed, failed + 1, skipped],
        Outcome::Skipped(_) => [passed, failed, skipped + 1],
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: BTreeMap<(&str, &str), OperatorCases<'_>> = BTreeMap::new();
        for case in &self.cases {
            for operator in &case.operators {
                let row = rows.entry((&operator.domain, &operator.name)).or_default();
                row.versions.insert(operator.since);
                // If a model has two versions of an operator, count the case once.
                if row.cases.last().is_none_or(|last| last.name != case.name) {
                    row.cases.push(case);
                }
            }
        }
        let head = ["operator", "versions", "passed", "failed", "skipped"].map(str::to_owned);
        let rows = rows.into_iter().map(|((domain, name), row)| {
            let versions: Vec<String> = row.versions.iter().map(i64::to_string).collect();
            let [passed, failed, skipped] = counts(row.cases.into_iter()).map(|n| n.to_string());
            let name = if domain.is_empty() { name.to_owned() } else { format!("{domain} {name}") };
            [name, versions.join(" "), passed, failed, skipped]
        });
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
        let widest =
            |cells: fn(&[String; 5]) -> &String| rows.iter().map(|r| cells(r).len()).max().unwrap_or(0);
        let (name, versions) = (widest(|r| &r[0]), widest(|r| &r[1]));
        for [operator, since, passed, failed, skipped] in &rows {
            writeln!(f, "{operator:name$}  {since:versions$}  {passed:>6}  {failed:>6}  {skipped:>7}")?;
        }
        let [passed, failed, skipped] = self.counts();
        writeln!(f, "A case counts for each operator of its model.\n")?;
        let cases = if passed == 1 { "case" } else { "cases" };
        let were = was_or_were(skipped);
        writeln!(f, "{passed} {cases} passed, {failed} failed, {skipped} {were} skipped")?;
        let mut needs: BTreeMap<&str, usize> = BTreeMap::new();
        for case in &self.cases {
            if let Outcome::Skipped(need) = &case.outcome {
                *needs.entry(need).or_default() += 1;
            }
        }
        for (need, count) in needs {
            writeln!(f, "  {count} {} {need}", if count == 1 { "needs" } else { "need" })?;
        }
        if self.excluded == 0 {
            return Ok(());
        }
        let (are, they) = if self.excluded == 1 { ("is", "it expects") } else { ("are", "they expect") };
        writeln!(f, "{} {are} not run, because what {they} cannot be right on any backend", self.excluded)
    }
}

fn was_or_were(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}
