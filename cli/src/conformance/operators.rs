//! What a backend ran, declined and got wrong, by operator.

use super::pool::{Outcome, Verdict};
use super::provider::DECLINED;
use crate::error::{Error, Result};
use crate::render::{self, Table};
use bb::conformance::onnx::Contents;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Numbers of cases.
#[derive(Default)]
struct Counts {
    passed: usize,
    declined: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Passed => &mut self.passed,
            Verdict::Skipped(reason) if reason == DECLINED => &mut self.declined,
            Verdict::Skipped(_) => &mut self.skipped,
            Verdict::Failed(_) => &mut self.failed,
        } += 1;
    }

    fn cells(&self) -> [String; 4] {
        [self.passed, self.declined, self.failed, self.skipped].map(|count| count.to_string())
    }
}

/// The headings of [`Counts::cells`].
const COUNTED: [&str; 4] = ["passed", "declined", "failed", "skipped"];

/// What cases of an operator have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    domain: String,
    operator: String,
    /// The opset that introduced the version.
    since: i64,
    /// The element types of the inputs.
    types: String,
}

/// What became of the cases that have one operator each, and of those of several together.
pub(super) struct Operators {
    rows: BTreeMap<Row, Counts>,
    several: Counts,
}

impl Operators {
    /// Counts cases below a folder. One that cannot be read belongs to those of several operators.
    pub(super) fn count(dir: &Path, outcomes: &[Outcome]) -> Operators {
        let mut all = Operators { rows: BTreeMap::new(), several: Counts::default() };
        for outcome in outcomes {
            let contents = Contents::read(&dir.join(&outcome.name)).unwrap_or_default();
            let types: Vec<&str> = contents.types.iter().map(|dtype| dtype.name()).collect();
            let mut operators = contents.operators.into_iter();
            let counts = match (operators.next(), operators.next()) {
                (Some(only), None) => {
                    let (domain, operator, since) = (only.domain, only.name, only.since);
                    all.rows.entry(Row { domain, operator, since, types: types.join(" ") }).or_default()
                }
                _ => &mut all.several,
            };
            counts.add(&outcome.verdict);
        }
        all
    }

    /// Returns a table by version of an operator.
    pub(super) fn table(&self) -> Table {
        let mut of_versions: BTreeMap<_, Counts> = BTreeMap::new();
        for (row, counts) in &self.rows {
            let sum = of_versions.entry((&row.domain, &row.operator, row.since)).or_default();
            sum.passed += counts.passed;
            sum.declined += counts.declined;
            sum.failed += counts.failed;
            sum.skipped += counts.skipped;
        }
        let [passed, declined, failed, skipped] = COUNTED;
        let mut table = render::table(["operator", passed, declined, failed, skipped]);
        for ((domain, operator, since), counts) in of_versions {
            let [passed, declined, failed, skipped] = counts.cells();
            let name = format!("{domain} {operator} {since}");
            table.add_row([name.trim_start().to_owned(), passed, declined, failed, skipped]);
        }
        let [passed, declined, failed, skipped] = self.several.cells();
        table.add_row(["(several operators)".to_owned(), passed, declined, failed, skipped]);
        table
    }

    /// Writes a row of comma-separated values for each version of an operator and the element types of the inputs.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let mut text = format!("domain,operator,since,types,{}\n", COUNTED.join(","));
        for (Row { domain, operator, since, types }, counts) in &self.rows {
            let (domain, operator) = (quoted(domain), quoted(operator));
            _ = writeln!(text, "{domain},{operator},{since},{types},{}", counts.cells().join(","));
        }
        std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
    }
}

/// Quotes a name of a model as comma-separated values have it.
fn quoted(name: &str) -> std::borrow::Cow<'_, str> {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\"")).into()
    } else {
        name.into()
    }
}
