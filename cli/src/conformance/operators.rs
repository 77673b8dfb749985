//! Counts and times, by operator, of the cases that a backend passed, declined or failed.

use super::perf::{Means, Seconds};
use super::pool::{Outcome, Verdict};
use super::provider::DECLINED;
use crate::error::{Error, Result};
use crate::render::{self, Table};
use bb_conformance::onnx::Contents;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::Path;

/// The numbers of cases, and the times of the measured ones.
#[derive(Default)]
struct Counts {
    passed: usize,
    declined: usize,
    failed: usize,
    skipped: usize,
    times: Means,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict, seconds: Option<&Seconds>) {
        if let Some(&seconds) = seconds {
            self.times.add(seconds);
        }
        *match verdict {
            Verdict::Passed => &mut self.passed,
            Verdict::Skipped { reason, .. } if reason == DECLINED => &mut self.declined,
            Verdict::Skipped { .. } => &mut self.skipped,
            Verdict::Failed(_) => &mut self.failed,
        } += 1;
    }

    fn join(&mut self, more: &Counts) {
        self.passed += more.passed;
        self.declined += more.declined;
        self.failed += more.failed;
        self.skipped += more.skipped;
        self.times.join(&more.times);
    }

    fn cells(&self) -> [String; 4] {
        [self.passed, self.declined, self.failed, self.skipped].map(|count| count.to_string())
    }

    /// Formats the mean times of both backends in microseconds, and their ratio.
    fn time_cells(&self) -> [String; 3] {
        self.times.seconds().map_or_else(Default::default, |Seconds { own, other }| {
            [format!("{:.2}", own * 1e6), format!("{:.2}", other * 1e6), format!("{:.2}", own / other)]
        })
    }
}

/// The headings of [`Counts::cells`].
const COUNTED: [&str; 4] = ["passed", "declined", "failed", "skipped"];
/// The headings of [`Counts::time_cells`].
const TIMED: [&str; 3] = ["microseconds", "other", "ratio"];

/// The key for counting the cases of an operator.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct OperatorKey {
    domain: String,
    operator: String,
    /// The opset that introduced this version of the operator.
    since: i64,
    /// The element types of the inputs.
    types: String,
}

/// The counts of the cases with one operator, by operator, and the counts of the cases with several.
pub(super) struct Operators {
    rows: BTreeMap<OperatorKey, Counts>,
    several: Counts,
    timed: bool,
}

impl Operators {
    /// Counts the cases below a folder. A case that cannot be read counts as a case with several operators.
    pub(super) fn count(
        dir: &Path,
        outcomes: &[Outcome],
        seconds: Option<&HashMap<String, Seconds>>,
    ) -> Operators {
        let mut all =
            Operators { rows: BTreeMap::new(), several: Counts::default(), timed: seconds.is_some() };
        for outcome in outcomes {
            let contents = Contents::read(&dir.join(&outcome.name)).unwrap_or_default();
            let types: Vec<&str> = contents.types.iter().map(|dtype| dtype.name()).collect();
            let mut operators = contents.operators.into_iter();
            let counts = match (operators.next(), operators.next()) {
                (Some(only), None) => {
                    let (domain, operator, since) = (only.domain, only.name, only.since);
                    all.rows
                        .entry(OperatorKey { domain, operator, since, types: types.join(" ") })
                        .or_default()
                }
                _ => &mut all.several,
            };
            counts.add(&outcome.verdict, seconds.and_then(|all| all.get(&outcome.name)));
        }
        all
    }

    /// Returns a table with a row for each version of an operator.
    pub(super) fn table(&self) -> Table {
        let mut of_versions: BTreeMap<_, Counts> = BTreeMap::new();
        for (row, counts) in &self.rows {
            of_versions.entry((&row.domain, &row.operator, row.since)).or_default().join(counts);
        }
        let mut table = if self.timed {
            let ([passed, declined, failed, skipped], [own, other, ratio]) = (COUNTED, TIMED);
            render::table(["operator", passed, declined, failed, skipped, own, other, ratio])
        } else {
            let [passed, declined, failed, skipped] = COUNTED;
            render::table(["operator", passed, declined, failed, skipped])
        };
        let mut add = |name: String, counts: &Counts| {
            table.add_row(std::iter::once(name).chain(self.cells(counts)));
        };
        for ((domain, operator, since), counts) in of_versions {
            add(format!("{domain} {operator} {since}").trim_start().to_owned(), &counts);
        }
        add("(several operators)".to_owned(), &self.several);
        table
    }

    fn cells(&self, counts: &Counts) -> impl Iterator<Item = String> {
        counts.cells().into_iter().chain(self.timed.then(|| counts.time_cells()).into_iter().flatten())
    }

    /// Returns the time of all cases relative to the other backend, if the times were measured.
    pub(super) fn in_all(&self) -> Option<String> {
        let mut all = self.several.times;
        self.rows.values().for_each(|counts| all.join(&counts.times));
        let Seconds { own, other } = all.seconds()?;
        Some(format!(
            "{:.2} of the other backend's time, the geometric mean of {} cases",
            own / other,
            all.cases()
        ))
    }

    /// Writes a CSV file with a row for each combination of an operator version and the element types of its inputs.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let timed = if self.timed { format!(",{}", TIMED.join(",")) } else { String::new() };
        let mut text = format!("domain,operator,since,types,{}{timed}\n", COUNTED.join(","));
        for (OperatorKey { domain, operator, since, types }, counts) in &self.rows {
            let (domain, operator) = (quoted(domain), quoted(operator));
            let cells: Vec<String> = self.cells(counts).collect();
            _ = writeln!(text, "{domain},{operator},{since},{types},{}", cells.join(","));
        }
        std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
    }
}

/// Quotes a name for a CSV file.
fn quoted(name: &str) -> std::borrow::Cow<'_, str> {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\"")).into()
    } else {
        name.into()
    }
}
