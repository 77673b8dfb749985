//! Reports the ONNX test cases that an engine passes, and tests its table of gaps.

use crate::{EngineError, Gap, Host, Reason};
use bb::conformance::onnx::{Outcome, Report, Suite, run};
use bb::conformance::{Subject, cases};
use bb::{Backend, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The test results of one operator on an engine.
#[derive(Default)]
struct OperatorCounts {
    versions: BTreeSet<i64>,
    cases: usize,
    alone: [usize; 3],
    lowered: [usize; 3],
    primitives: [usize; 3],
}

/// Runs the ONNX test cases on the backends of an engine, and returns a Markdown table by operator. The first backend is the engine
/// without its table of gaps, the second is the engine with a backend for the gaps, and the third, if present, is the engine with
/// models lowered to primitives.
///
/// # Panics
///
/// If the cases cannot be read.
pub fn operators(alone: Arc<Runtime>, lowered: Arc<Runtime>, primitives: Option<Arc<Runtime>>) -> String {
    let run = |on: Arc<Runtime>| match Suite::new(on).run() {
        Ok(report) => report,
        Err(failure) => panic!("{failure}"),
    };
    table(&run(alone), &run(lowered), primitives.map(run).as_ref())
}

fn table(alone: &Report, lowered: &Report, primitives: Option<&Report>) -> String {
    let mut rows: BTreeMap<String, OperatorCounts> = BTreeMap::new();
    let as_primitives = primitives.map_or(&[][..], |report| report.cases.as_slice());
    let all = alone.cases.iter().zip(&lowered.cases).enumerate();
    let mut total = OperatorCounts::default();
    for (at, (alone, lowered)) in all {
        let mut names = BTreeSet::new();
        let count = |row: &mut OperatorCounts| {
            row.cases += 1;
            add(&mut row.alone, &alone.outcome);
            add(&mut row.lowered, &lowered.outcome);
            if let Some(primitives) = as_primitives.get(at) {
                add(&mut row.primitives, &primitives.outcome);
            }
        };
        for operator in &alone.operators {
            let name = match operator.domain.as_str() {
                "" => operator.name.clone(),
                domain => format!("{domain} {}", operator.name),
            };
            let row = rows.entry(name.clone()).or_default();
            row.versions.insert(operator.since);
            if names.insert(name) {
                count(row);
            }
        }
        count(&mut total);
    }
    let mut text = String::from(
        "| operator | versions | cases | alone: passes | differs | refuses | with a backend for the rest: passes |",
    );
    let mut rule = String::from("|---|---|--:|--:|--:|--:|--:|");
    if primitives.is_some() {
        text.push_str(" as primitives: passes |");
        rule.push_str("--:|");
    }
    let _infallible = writeln!(text, "\n{rule}");
    for (name, row) in rows.iter().chain([(&"**all cases**".to_owned(), &total)]) {
        let versions: Vec<String> = row.versions.iter().map(i64::to_string).collect();
        let [passed, differs, refused] = row.alone;
        let _infallible = write!(
            text,
            "| {name} | {} | {} | {passed} | {differs} | {refused} | {} |",
            versions.join(" "),
            row.cases,
            row.lowered[0],
        );
        let last = if primitives.is_some() { format!(" {} |", row.primitives[0]) } else { String::new() };
        let _infallible = writeln!(text, "{last}");
    }
    text
}

fn add([passed, differs, refused]: &mut [usize; 3], outcome: &Outcome) {
    match outcome {
        Outcome::Passed => *passed += 1,
        // The message about a result that differs begins with this text.
        Outcome::Failed(reason) if reason.starts_with("output ") => *differs += 1,
        Outcome::Failed(_) | Outcome::Skipped(_) => *refused += 1,
    }
}

/// The environment variable that tells a child process to run only the named case.
const ONLY: &str = "BB_GAP";

/// Checks a table of gaps: without its table, the engine must fail the case of each row. The test named `test` must call only this
/// function, because this function starts the test again in child processes for cases that may end the process.
///
/// # Panics
///
/// If the engine passes the case of a row, or if a case does not exist. The message lists these rows.
pub fn check_gaps<B>(gaps: &[Gap], test: &str, make: impl Fn() -> B)
where
    B: Backend<Tensor = Host, Error = EngineError> + 'static,
{
    if let Ok(only) = std::env::var(ONLY) {
        assert!(passes(&only, &make), "the engine fails {only}");
        return;
    }
    let elsewhere = |case: &str| {
        let program = std::env::current_exe().map(std::process::Command::new);
        let ended = program.and_then(|mut program| program.args(["--exact", test]).env(ONLY, case).output());
        ended.is_ok_and(|ended| ended.status.success())
    };
    let mut wrong = Vec::new();
    for gap in gaps {
        let passed = match gap.reason {
            Reason::Crashes => elsewhere(gap.case),
            Reason::Missing | Reason::Differs => passes(gap.case, &make),
        };
        if passed {
            wrong.push(format!("{} {}: {}", gap.domain, gap.op, gap.case));
        }
    }
    assert!(
        wrong.is_empty(),
        "the engine passes these cases, so that the rows can go:\n{}",
        wrong.join("\n")
    );
}

/// Returns whether a case passes or does not exist.
fn passes<B>(case: &str, make: &impl Fn() -> B) -> bool
where
    B: Backend<Tensor = Host, Error = EngineError> + 'static,
{
    if let Some(method) = case.strip_prefix("primitive/") {
        return primitive(method).is_none_or(|case| {
            let backend = make();
            catch_unwind(AssertUnwindSafe(|| case(&Subject::new(&backend)))).is_ok()
        });
    }
    let folder = match bb_onnx_cases::folder() {
        Ok(folder) => folder,
        Err(error) => panic!("{error}"),
    };
    let path = folder.join(case);
    let runtime: Arc<Runtime> = Runtime::named("engine", make());
    !path.join("model.onnx").is_file()
        || matches!(catch_unwind(AssertUnwindSafe(|| run(&path, &runtime))), Ok(Ok(())))
}

macro_rules! by_name {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// Returns the cases of a primitive.
        fn primitive(method: &str) -> Option<fn(&Subject<'_>)> {
            $( if method == stringify!($method) { return Some(|on: &Subject<'_>| cases::$method(on)); } )*
            None
        }
    };
}

bb_ir::for_each_primitive!(by_name);
