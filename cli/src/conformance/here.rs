//! Runs cases and tests one after another in this process.

use super::ended;
use super::pool::{self, Job, Outcome, Verdict};
use crate::error::Result;
use bb::RunOptions;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// Runs all cases, and calls `done` after each one. If a case ends the process, calls `ended` with the outcomes and the number of
/// cases that did not run.
pub(super) fn run(
    jobs: Vec<Job>,
    backend: &str,
    timeout: Duration,
    ended: impl FnOnce(Vec<Outcome>, usize) + Send + 'static,
    done: impl Fn(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let runtime = bb::backend(backend)?.runtime().clone();
    let jobs = jobs.into_iter().map(|Job { name, path }| (name, path)).collect();
    let verdict = |path: &std::path::PathBuf| {
        let start = Instant::now();
        let within = RunOptions::default().with_deadline(start + timeout);
        match within.within(|| super::verdict(path, &runtime)) {
            // The time limit replaces other failures, because a case that is stopped may fail with any error.
            Verdict::Failed(_) if start.elapsed() >= timeout => pool::too_long(timeout),
            verdict => verdict,
        }
    };
    one_by_one(jobs, verdict, ended, done)
}

/// Runs jobs one after another. Each job has a name. `ended` and `done` are called as in [`run`].
pub(super) fn one_by_one<T>(
    jobs: Vec<(String, T)>,
    verdict: impl Fn(&T) -> Verdict,
    ended: impl FnOnce(Vec<Outcome>, usize) + Send + 'static,
    done: impl Fn(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let progress = Arc::new(Mutex::new(Progress { left: jobs.len(), ..Progress::default() }));
    let shared = progress.clone();
    let _guard = ended::Guard::new(move || {
        let (outcomes, left) = locked(&shared).end();
        ended(outcomes, left);
    });
    for (name, job) in jobs {
        let start = Instant::now();
        // The lock is not held while a case runs.
        {
            let mut progress = locked(&progress);
            progress.running = Some((name.clone(), start));
            progress.left -= 1;
        }
        #[cfg(unix)]
        let _running = super::crash::RunningName::new(&name);
        let verdict = verdict(&job);
        let outcome = Outcome { name, verdict, seconds: start.elapsed().as_secs_f64() };
        done(&outcome)?;
        let mut progress = locked(&progress);
        progress.running = None;
        progress.outcomes.push(outcome);
    }
    Ok(std::mem::take(&mut locked(&progress).outcomes))
}
