//! `bb conformance`: runs every case below a folder, each in isolation.
//!
//! Cases run in worker processes, so that only one case fails if it crashes, hangs or uses up all memory. With
//! `--in-process` they run here one after another; then a crash or a case that hangs ends them all.

mod ended;
mod operators;
mod perf;
mod pool;
mod provider;

use crate::error::{Error, Result};
use crate::{args, out, render, session};
use bb::{BackendRuntime, RunOptions};
use bb_conformance::onnx;
use operators::Operators;
use pool::{ANSWER, Job, Outcome, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal, Write};
#[cfg(unix)]
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) fn conformance(options: &args::Conformance) -> Result<ExitCode> {
    // The name includes the options, because the workers open the backend by its name.
    let provider = options
        .library
        .as_deref()
        .map(|library| provider::backend_name(library, options.device))
        .transpose()?;
    let backend = session::backend_name(provider.as_deref().or(options.backend.as_deref()))?;
    session::backend(Some(backend))?;
    if let Some(other) = &options.perf {
        session::backend(Some(other))?;
    }
    let Selected { jobs, skipped } = selected(options)?;
    let json = options.json.clone();
    let report = |text: std::fmt::Arguments<'_>| say(options.json.as_deref(), text);
    let bar = progress(jobs.len());
    let done = |outcome: &Outcome| {
        if let Verdict::Failed(reason) = &outcome.verdict {
            bar.suspend(|| report(format_args!("failed {}: {reason}", outcome.name)))?;
        }
        bar.inc(1);
        Ok(())
    };
    let mut outcomes = if options.in_process {
        let left_out = skipped.clone();
        let ended =
            move |outcomes: Vec<Outcome>, left| report_ended(json.as_deref(), outcomes, left, &left_out);
        run_here(jobs, backend, Duration::from_secs(options.timeout), ended, done)?
    } else {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = options.jobs.unwrap_or_else(processors);
        pool::run(jobs, backend, workers, Duration::from_secs(options.timeout), done)?
    };
    bar.finish_and_clear();
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(path) = &options.json {
        write(path, &outcomes, &skipped)?;
    }
    if provider.is_some() || options.support.is_some() || options.perf.is_some() {
        let measure = |other: &String| perf::measured(&options.dir, &outcomes, backend, other);
        let seconds = options.perf.as_ref().map(measure).transpose()?;
        let operators = Operators::count(&options.dir, &outcomes, seconds.as_ref());
        if let Some(path) = &options.support {
            operators.write(path)?;
        }
        if provider.is_some() || options.perf.is_some() {
            report(format_args!("{}", operators.table()))?;
        }
        if let Some(text) = operators.in_all() {
            report(format_args!("{text}"))?;
        }
    }
    for line in reasons(&outcomes) {
        report(format_args!("{line}"))?;
    }
    let count = |is: fn(&Verdict) -> bool| outcomes.iter().filter(|o| is(&o.verdict)).count();
    let passed = count(|verdict| matches!(verdict, Verdict::Passed));
    let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let left_out = skipped.len() + outcomes.len() - passed - failed;
    report(format_args!("{passed} passed, {failed} failed, {left_out} skipped"))?;
    // Cases that were all skipped say nothing of the backend. The exclusion of all cases is the caller's choice.
    let required = options.require.unwrap_or(usize::from(!outcomes.is_empty()));
    if failed == 0 && passed < required {
        return Err(Error::TooFewPassed { passed, required });
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
fn say(json: Option<&Path>, text: std::fmt::Arguments<'_>) -> Result<()> {
    if json == Some(Path::new("-")) {
        out::note(text);
        Ok(())
    } else {
        out::line(text)
    }
}

/// Reports the cases of a process that the backend ends. The case that was running has the last outcome, and `left` cases did
/// not run.
fn report_ended(json: Option<&Path>, outcomes: Vec<Outcome>, left: usize, skipped: &[String]) {
    let report = || -> Result<()> {
        if let Some(path) = json {
            write(path, &outcomes, skipped)?;
        }
        if let Some(Outcome { name, verdict: Verdict::Failed(reason), .. }) = outcomes.last() {
            say(json, format_args!("failed {name}: {reason}"))?;
        }
        let count = |is: fn(&Verdict) -> bool| outcomes.iter().filter(|o| is(&o.verdict)).count();
        let passed = count(|verdict| matches!(verdict, Verdict::Passed));
        let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let left_out = skipped.len() + outcomes.len() - passed - failed;
        say(json, format_args!("{passed} passed, {failed} failed, {left_out} skipped, {left} not run"))?;
        out::flush()
    };
    if let Err(error) = report() {
        out::note(render::chain(&error));
    }
}

/// The cases of a folder: those to run, and the names of the excluded ones.
struct Selected {
    jobs: Vec<Job>,
    skipped: Vec<String>,
}

/// Finds the cases of the folder. Warns if an excluded name is not the name of a case.
fn selected(options: &args::Conformance) -> Result<Selected> {
    let excluded = excluded(options.exclude.as_deref())?;
    let mut unknown: Vec<String> = excluded.iter().cloned().collect();
    let mut skipped = Vec::new();
    let mut jobs = Vec::new();
    let cases = onnx::find(&options.dir)?;
    if cases.is_empty() {
        return Err(Error::NoCases { dir: options.dir.clone() });
    }
    for path in cases {
        let name = path.strip_prefix(&options.dir).unwrap_or(&path).to_string_lossy().replace('\\', "/");
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
        return Err(Error::NoMatch { dir: options.dir.clone(), filter: filter.clone() });
    }
    if !unknown.is_empty() {
        let (shown, rest) = unknown.split_at(unknown.len().min(5));
        let rest = if rest.is_empty() { String::new() } else { format!(" and {} others", rest.len()) };
        out::note(format_args!(
            "warning: --exclude names what is no case below `{}`: {}{rest}",
            options.dir.display(),
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

/// The cases that run in this process.
#[derive(Default)]
struct Progress {
    outcomes: Vec<Outcome>,
    /// The case that is running, and when it started.
    running: Option<(String, Instant)>,
    /// The number of cases after it.
    left: usize,
}

impl Progress {
    /// Ends the case that is running, because the process ends.
    fn end(&mut self) -> (Vec<Outcome>, usize) {
        if let Some((name, start)) = self.running.take() {
            let seconds = start.elapsed().as_secs_f64();
            let verdict = Verdict::Failed("ended the process before it answered".to_owned());
            self.outcomes.push(Outcome { name, verdict, seconds });
        }
        (std::mem::take(&mut self.outcomes), self.left)
    }
}

fn locked(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs all jobs in this process, and calls `done` after each job. If a job ends the process, calls `ended` with the outcomes and the number
/// of jobs that did not run.
fn run_here(
    jobs: Vec<Job>,
    backend: &str,
    timeout: Duration,
    ended: impl FnOnce(Vec<Outcome>, usize) + Send + 'static,
    done: impl Fn(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let runtime = bb::backend(backend)?.runtime().clone();
    let progress = Arc::new(Mutex::new(Progress { left: jobs.len(), ..Progress::default() }));
    let shared = progress.clone();
    let _guard = ended::Guard::new(move || {
        let (outcomes, left) = locked(&shared).end();
        ended(outcomes, left);
    });
    for job in jobs {
        let start = Instant::now();
        // The lock is not held while a case runs.
        {
            let mut progress = locked(&progress);
            progress.running = Some((job.name.clone(), start));
            progress.left -= 1;
        }
        let within = RunOptions::default().with_deadline(start + timeout);
        let verdict = match within.within(|| verdict(&job.path, &runtime)) {
            // The time limit replaces other failures, because a case that is stopped may fail with any error.
            Verdict::Failed(_) if start.elapsed() >= timeout => pool::too_long(timeout),
            verdict => verdict,
        };
        let outcome = Outcome { name: job.name, verdict, seconds: start.elapsed().as_secs_f64() };
        done(&outcome)?;
        let mut progress = locked(&progress);
        progress.running = None;
        progress.outcomes.push(outcome);
    }
    Ok(std::mem::take(&mut locked(&progress).outcomes))
}

/// Runs a case. Skips it if the backend does not support it, for example because of an element type.
fn verdict(case: &Path, on: &Arc<dyn BackendRuntime>) -> Verdict {
    let run = std::panic::AssertUnwindSafe(|| onnx::run(case, on));
    match std::panic::catch_unwind(run) {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(failure)) => match onnx::NotRun::of(case, &failure, on) {
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

fn write(path: &Path, outcomes: &[Outcome], skipped: &[String]) -> Result<()> {
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
