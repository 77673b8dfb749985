//! `bb conformance`: runs every case below a folder, each in isolation.
//!
//! Cases run in worker processes, so that only one case fails if it crashes, hangs or uses up all memory. With
//! `--in-process` they run here one after another; then a crash or a case that hangs ends them all.

mod baseline;
mod crash;
mod ended;
mod here;
mod operators;
mod perf;
mod pool;
mod primitives;
mod provider;

use crate::error::{Error, Result};
use crate::{args, out, render, session};
use baseline::Baseline;
use bb::Runtime;
use bb_conformance::onnx;
use ended::Guard;
use operators::Operators;
use pool::{ANSWER, Job, Outcome, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal, Write};
#[cfg(unix)]
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn conformance(options: &args::Conformance) -> Result<ExitCode> {
    let baseline = options.baseline.as_deref().map(Baseline::read).transpose()?;
    // The name includes the options, because the workers open the backend by its name.
    let provider = options
        .library
        .as_deref()
        .map(|library| provider::backend_name(library, options.device))
        .transpose()?;
    let backend = session::backend_name(provider.as_deref().or(options.backend.as_deref()))?;
    let opening = Guard::new(|| out::note("error: the backend ended the process when it was opened"));
    session::backend(Some(backend))
        .map_err(|error| provider::of_library(error, options.library.as_deref()))?;
    drop(opening);
    if let Some(other) = &options.perf {
        session::backend(Some(other))?;
    }
    let Some(dir) = &options.dir else { return primitives(options, backend, baseline.as_ref()) };
    let Selected { jobs, skipped } = selected(options, dir)?;
    let bar = progress(jobs.len());
    let done = |_: &Outcome| {
        bar.inc(1);
        Ok(())
    };
    let timeout = Duration::from_secs(options.timeout);
    let mut outcomes = if options.in_process {
        here::run(jobs, backend, timeout, ended(options, &skipped), done)?
    } else {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = options.jobs.unwrap_or_else(processors);
        pool::run(jobs, backend, workers, timeout, done)?
    };
    bar.finish_and_clear();
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    // Measuring may end the process.
    write(options, &outcomes, &skipped)?;
    let with_table = provider.is_some() || options.perf.is_some();
    if with_table || options.support.is_some() || outcomes.iter().any(Outcome::is_failed) {
        let measure = |other: &String| perf::measured(dir, &outcomes, backend, other);
        let seconds = options.perf.as_ref().map(measure).transpose()?;
        let operators = Operators::count(dir, &outcomes, seconds.as_ref());
        if let Some(path) = &options.support {
            operators.write(path)?;
        }
        if with_table || outcomes.iter().any(Outcome::is_failed) {
            say(options, format_args!("{}", operators.table()))?;
        }
        if let Some(text) = operators.in_all() {
            say(options, format_args!("{text}"))?;
        }
    }
    summary(options, &outcomes, &skipped, baseline.as_ref())
}

/// Runs the tests of the primitives.
fn primitives(options: &args::Conformance, backend: &str, baseline: Option<&Baseline>) -> Result<ExitCode> {
    let outcomes = primitives::run(backend, options.filter.as_deref(), ended(options, &[]), |_| Ok(()))?;
    write(options, &outcomes, &[])?;
    summary(options, &outcomes, &[], baseline)
}

/// Returns the report for the case that the backend ends the process.
fn ended(
    options: &args::Conformance,
    skipped: &[String],
) -> impl FnOnce(Vec<Outcome>, usize) + Send + 'static {
    let (options, skipped) = (options.clone(), skipped.to_vec());
    move |outcomes, left| {
        let report = || -> Result<()> {
            write(&options, &outcomes, &skipped)?;
            let [passed, failed, left_out] = reported(&options, &outcomes, &skipped)?;
            say(
                &options,
                format_args!("{passed} passed, {failed} failed, {left_out} skipped, {left} not run"),
            )?;
            out::flush()
        };
        if let Err(error) = report() {
            out::note(render::chain(&error));
        }
    }
}

/// Reports the outcomes, and returns the exit status.
fn summary(
    options: &args::Conformance,
    outcomes: &[Outcome],
    skipped: &[String],
    baseline: Option<&Baseline>,
) -> Result<ExitCode> {
    let [passed, failed, left_out] = reported(options, outcomes, skipped)?;
    let wrong = match baseline {
        None => failed,
        Some(baseline) => compared(options, baseline, outcomes)?,
    };
    say(options, format_args!("{passed} passed, {failed} failed, {left_out} skipped"))?;
    // Cases that were all skipped say nothing of the backend. The exclusion of all cases is the caller's choice.
    let required = options.require.unwrap_or(usize::from(!outcomes.is_empty()));
    if wrong == 0 && passed < required {
        return Err(Error::TooFewPassed { passed, required });
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the differences from an earlier run. Returns how many cases are worse now.
fn compared(options: &args::Conformance, baseline: &Baseline, outcomes: &[Outcome]) -> Result<usize> {
    let is_chosen = |case: &str| options.filter.as_ref().is_none_or(|text| case.contains(text.as_str()));
    let worse = baseline.worse(outcomes, is_chosen);
    for line in &worse {
        say(options, format_args!("{line}"))?;
    }
    let better = baseline.better(outcomes);
    say(options, format_args!("compared with the baseline: {} worse, {better} better", worse.len()))?;
    Ok(worse.len())
}

/// Prints the failures and the reasons for skipping. Returns how many cases passed, failed and were skipped.
fn reported(options: &args::Conformance, outcomes: &[Outcome], skipped: &[String]) -> Result<[usize; 3]> {
    for outcome in outcomes {
        if let Verdict::Failed(reason) = &outcome.verdict {
            let operators = options.dir.as_deref().map(|dir| operators_of(&dir.join(&outcome.name)));
            let name = &outcome.name;
            say(options, format_args!("failed {name}{}: {reason}", operators.unwrap_or_default()))?;
        }
    }
    for line in reasons(outcomes) {
        say(options, format_args!("{line}"))?;
    }
    if !skipped.is_empty() {
        say(options, format_args!("skipped {}: excluded", skipped.len()))?;
    }
    let passed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count();
    let failed = outcomes.iter().filter(|outcome| outcome.is_failed()).count();
    Ok([passed, failed, skipped.len() + outcomes.len() - passed - failed])
}

/// Lists the operators of a case in parentheses. Returns an empty string if the case has none or cannot be read.
fn operators_of(case: &Path) -> String {
    let operators = onnx::Contents::read(case).unwrap_or_default().operators;
    if operators.is_empty() { String::new() } else { format!(" ({})", onnx::operator_names(&operators)) }
}

/// Returns a line for each reason why cases were skipped, with their number and the details of the first one.
fn reasons(outcomes: &[Outcome]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, (usize, &str, &str)> = BTreeMap::new();
    for Outcome { name, verdict, .. } in outcomes {
        if let Verdict::Skipped { reason, detail } = verdict {
            reasons.entry(reason).or_insert((0, name, detail)).0 += 1;
        }
    }
    let line = |(reason, (count, name, detail)): (&str, (usize, &str, &str))| match detail {
        "" => format!("skipped {count}: {reason}"),
        detail => format!("skipped {count}: {reason}, for example {name}: {detail}"),
    };
    reasons.into_iter().map(line).collect()
}

/// Prints a line of the report. If the JSON goes to standard output, the report goes to standard error.
fn say(options: &args::Conformance, text: std::fmt::Arguments<'_>) -> Result<()> {
    if options.json.as_deref() == Some(Path::new("-")) {
        out::note(text);
        Ok(())
    } else {
        out::line(text)
    }
}

/// The cases of a folder: those to run, and the names of the excluded ones.
struct Selected {
    jobs: Vec<Job>,
    skipped: Vec<String>,
}

/// Finds the cases of the folder. Warns if an excluded name is not the name of a case.
fn selected(options: &args::Conformance, dir: &Path) -> Result<Selected> {
    if dir.is_file() {
        return Err(Error::CasesInFile { path: dir.to_owned() });
    }
    let excluded = excluded(options.exclude.as_deref())?;
    let mut unknown: Vec<String> = excluded.iter().cloned().collect();
    let mut skipped = Vec::new();
    let mut jobs = Vec::new();
    let cases = onnx::find(dir)?;
    if cases.is_empty() {
        return Err(Error::NoCases { dir: dir.to_owned() });
    }
    for path in cases {
        let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let listed: Vec<&String> = excluded.iter().filter(|e| excludes(e, &name)).collect();
        unknown.retain(|e| !listed.contains(&e));
        if options.filter.as_ref().is_some_and(|text| !name.contains(text.as_str())) {
            continue;
        }
        if !listed.is_empty() { skipped.push(name) } else { jobs.push(Job { name, path }) }
    }
    if let Some(filter) = &options.filter
        && jobs.is_empty()
        && skipped.is_empty()
    {
        return Err(Error::NoMatch { dir: dir.to_owned(), filter: filter.clone() });
    }
    if !unknown.is_empty() {
        let (shown, rest) = unknown.split_at(unknown.len().min(5));
        let rest = if rest.is_empty() { String::new() } else { format!(" and {} others", rest.len()) };
        out::note(format_args!(
            "warning: --exclude names what is no case below `{}`: {}{rest}",
            dir.display(),
            render::names(shown)
        ));
    }
    Ok(Selected { jobs, skipped })
}

/// Runs the cases whose paths arrive on standard input, and answers each with a line.
pub(crate) fn worker(options: &args::Worker) -> Result<ExitCode> {
    let runtime = bb::backend(&options.backend)?.runtime().clone();
    for path in std::io::stdin().lock().split(0) {
        let path = path_of(path.map_err(Error::Worker)?)?;
        let verdict = verdict(&path, &runtime);
        // Standard output is not locked while a case runs, because kernels may print from any thread.
        let mut out = std::io::stdout().lock();
        writeln!(out, "{ANSWER}{}", verdict.to_line()).map_err(Error::Worker)?;
        out.flush().map_err(Error::Worker)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a case. Skips it if the backend does not support it, for example because of an element type.
fn verdict(case: &Path, on: &Arc<Runtime>) -> Verdict {
    let run = std::panic::AssertUnwindSafe(|| onnx::run_showing(case, on));
    match std::panic::catch_unwind(run) {
        Ok((Ok(()), _)) => Verdict::Passed,
        Ok((Err(failure @ onnx::Failure::Output { .. }), inputs)) => {
            Verdict::Failed(render::chain(&failure) + &inputs.replace("\n  ", "; "))
        }
        Ok((Err(failure), _)) => match onnx::NotRun::of(case, &failure, on) {
            Some(onnx::NotRun::Type(dtype)) => {
                Verdict::skipped(format!("the backend does not have {dtype}"), "")
            }
            Some(onnx::NotRun::Exceeds(dtype, held)) => {
                Verdict::skipped(format!("{dtype} exceeds {held}, in which the backend holds it"), "")
            }
            Some(onnx::NotRun::Primitive(op)) => {
                Verdict::skipped(format!("the backend does not run `{op}`"), "")
            }
            Some(onnx::NotRun::Unwritten(method)) => {
                Verdict::skipped(format!("`{method}` is not written"), "")
            }
            Some(onnx::NotRun::Declined(reason)) => {
                Verdict::skipped(format!("the backend declines a node of the case: {reason}"), "")
            }
            not_run => match (provider::skips(case, on.name(), &failure), not_run) {
                (Some(verdict), _) => verdict,
                (None, Some(onnx::NotRun::Refused(why))) => {
                    Verdict::skipped("the backend refuses the case", why)
                }
                (None, _) => Verdict::Failed(render::chain(&failure)),
            },
        },
        Err(_) => Verdict::Failed("panicked".to_owned()),
    }
}

/// Converts a path to bytes for a worker. On Unix, the path need not be valid Unicode.
#[cfg(unix)]
fn path_bytes(path: &Path) -> std::borrow::Cow<'_, [u8]> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).into()
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> std::borrow::Cow<'_, [u8]> {
    path.to_string_lossy().into_owned().into_bytes().into()
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Result<PathBuf> {
    Ok(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Result<PathBuf> {
    let text = String::from_utf8(bytes).map_err(|e| Error::Worker(std::io::Error::other(e)))?;
    Ok(text.into())
}

/// Returns whether an entry of the list names the case. Entries are relative to the root of the test data, and the folder of the cases may
/// be below that root.
fn excludes(entry: &str, case: &str) -> bool {
    entry == case || (!case.is_empty() && entry.strip_suffix(case).is_some_and(|front| front.ends_with('/')))
}

/// Reads the list of cases to skip. `#` starts a comment.
fn excluded(path: Option<&Path>) -> Result<BTreeSet<String>> {
    let Some(path) = path else { return Ok(BTreeSet::new()) };
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let name = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    Ok(text.lines().map(name).filter(|name| !name.is_empty()).collect())
}

fn progress(length: usize) -> indicatif::ProgressBar {
    if std::io::stderr().is_terminal() {
        indicatif::ProgressBar::new(length as u64)
    } else {
        indicatif::ProgressBar::hidden()
    }
}

/// Writes the JSON, if the options have a file for it.
fn write(options: &args::Conformance, outcomes: &[Outcome], skipped: &[String]) -> Result<()> {
    let Some(path) = &options.json else { return Ok(()) };
    let ran = outcomes.iter().map(|o| {
        let (status, reason) = match &o.verdict {
            Verdict::Passed => ("passed", None),
            Verdict::Failed(reason) => ("failed", Some(reason.clone())),
            Verdict::Skipped { reason, detail } if detail.is_empty() => ("skipped", Some(reason.clone())),
            Verdict::Skipped { reason, detail } => ("skipped", Some(format!("{reason}: {detail}"))),
        };
        serde_json::json!({ "case": o.name, "status": status, "reason": reason, "seconds": o.seconds })
    });
    let left = skipped.iter().map(
        |name| serde_json::json!({ "case": name, "status": "skipped", "reason": "excluded", "seconds": 0.0 }),
    );
    let text = serde_json::to_string_pretty(&ran.chain(left).collect::<Vec<_>>())?;
    if path == Path::new("-") {
        return out::line(text);
    }
    std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}
