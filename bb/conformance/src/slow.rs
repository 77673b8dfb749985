//! Reports the slowest cases or calls of a slow test, compared with the backend `reference` if it is linked.

use bb_core::Runtime;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A test that takes longer than this prints a report.
pub(crate) const SLOW: Duration = Duration::from_secs(10);

/// The number of cases or calls in a report.
pub(crate) const SHOWN: usize = 10;

/// The name of the backend for comparison.
const REFERENCE: &str = "reference";

/// A case or a call with its run time.
pub(crate) struct Timed {
    pub(crate) name: String,
    pub(crate) took: Duration,
    /// The run time on the reference backend, if it is linked.
    pub(crate) reference: Option<Duration>,
}

/// The cases or calls that made a test slow.
pub(crate) struct SlowReport {
    /// The test, as in `` `onnx` on `my-chip` ``.
    pub(crate) test: String,
    /// `cases` or `calls`.
    pub(crate) what: &'static str,
    /// The run time of the test.
    pub(crate) took: Duration,
    /// The sum of the run times of all cases or calls, which may run at the same time.
    pub(crate) sum: Duration,
    /// The slowest cases or calls, slowest first.
    pub(crate) slowest: Vec<Timed>,
}

impl SlowReport {
    /// Prints the report to standard error directly. The test harness does not capture this, so the report is visible even
    /// if the test passes.
    pub(crate) fn print(&self) {
        use std::io::Write as _;
        // Ignore an error: nothing can be done if the stream is closed.
        let _closed = write!(std::io::stderr(), "{self}");
    }
}

impl std::fmt::Display for SlowReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SlowReport { test, what, took, sum, slowest } = self;
        let compared = slowest.iter().any(|row| row.reference.is_some());
        writeln!(
            f,
            "\n{test} took {:.1} s, and its {what} {:.1} s in all. The slowest, with the share of each:",
            took.as_secs_f64(),
            sum.as_secs_f64()
        )?;
        let reference = if compared { format!("  {REFERENCE:>9}") } else { String::new() };
        writeln!(f, "  seconds  share{reference}")?;
        for Timed { name, took, reference } in slowest {
            let share = if sum.is_zero() { 0.0 } else { took.as_secs_f64() / sum.as_secs_f64() };
            write!(f, "  {:>7.3}  {:>3.0} %", took.as_secs_f64(), share * 100.0)?;
            match reference {
                Some(time) => write!(f, "  {:>9.3}", time.as_secs_f64())?,
                None if compared => write!(f, "  {:>9}", "–")?,
                None => {}
            }
            writeln!(f, "  {name}")?;
        }
        if !compared {
            writeln!(
                f,
                "  `use bb_reference as _;` in the test adds the seconds of the backend `{REFERENCE}`."
            )?;
        }
        // In a release build, the kernels are optimized, too. In a debug build, the optimization level of the backend's
        // crate is unknown.
        if cfg!(debug_assertions) {
            writeln!(
                f,
                "  Kernels are slow without optimisation: write `[profile.dev.package.YOUR-CRATE]` with `opt-level = 1` unless Cargo.toml has it."
            )?;
        }
        if *what == "cases" {
            writeln!(f, "  `cases = \"node/\"` runs single nodes only.")?;
        }
        Ok(())
    }
}

/// Returns the reference backend, if it is linked and is not the backend under test.
pub(crate) fn reference(under_test: &str) -> Option<Arc<Runtime>> {
    if under_test == REFERENCE {
        return None;
    }
    bb_core::backend(REFERENCE).ok().map(|backend| backend.runtime().clone())
}

/// Calls a function, and returns its result and its run time.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let returned = run();
    (returned, started.elapsed())
}

/// Inserts an entry, and keeps only the [`SHOWN`] slowest entries, slowest first.
pub(crate) fn keep_slowest<T>(kept: &mut Vec<(Duration, T)>, took: Duration, make: impl FnOnce() -> T) {
    let at = kept.partition_point(|(other, _)| *other >= took);
    if at < SHOWN {
        kept.insert(at, (took, make()));
        kept.truncate(SHOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, took: u64, reference: Option<u64>) -> Timed {
        let time = Duration::from_millis;
        Timed { name: name.to_owned(), took: time(took), reference: reference.map(time) }
    }

    #[test]
    fn a_report_has_the_share_of_each_case_and_the_reference() {
        let mut report = SlowReport {
            test: "`onnx` on `my-chip`".to_owned(),
            what: "cases",
            took: Duration::from_secs(12),
            sum: Duration::from_secs(20),
            slowest: vec![row("node/test_conv", 5000, Some(40)), row("node/test_gru", 1000, None)],
        };
        let profile = match cfg!(debug_assertions) {
            true => {
                "  Kernels are slow without optimisation: write `[profile.dev.package.YOUR-CRATE]` with `opt-level = 1` unless Cargo.toml has it.\n"
            }
            false => "",
        };
        let advice = format!("{profile}  `cases = \"node/\"` runs single nodes only.\n");
        let text = "\n`onnx` on `my-chip` took 12.0 s, and its cases 20.0 s in all. The slowest, with the share of each:
  seconds  share  reference
    5.000   25 %      0.040  node/test_conv
    1.000    5 %          –  node/test_gru
";
        assert_eq!(report.to_string(), format!("{text}{advice}"));
        report.slowest = vec![row("node/test_conv", 5000, None)];
        let text =
            "  seconds  share\n    5.000   25 %  node/test_conv\n  `use bb_reference as _;` in the test adds";
        assert!(report.to_string().contains(text), "{report}");
    }

    #[test]
    fn the_slowest_are_kept() {
        let mut kept = Vec::new();
        for n in 0..100u64 {
            keep_slowest(&mut kept, Duration::from_millis(n * 37 % 100), || n);
        }
        let times: Vec<u128> = kept.iter().map(|(took, _)| took.as_millis()).collect();
        assert_eq!(times, [99, 98, 97, 96, 95, 94, 93, 92, 91, 90]);
    }
}
