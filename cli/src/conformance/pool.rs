//! A pool of worker processes. Workers that crash or take too long are replaced.

use crate::error::{Error, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A case to run.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The result of a case.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// The case failed, for this reason.
    Failed(String),
    /// The case was skipped. Cases are counted by the reason, for example an element type that the backend lacks.
    Skipped {
        reason: String,
        /// Details of this case; may be empty.
        detail: String,
    },
}

/// The separator of a reason and its detail in a line.
const DETAIL: char = '\u{1}';

impl Verdict {
    pub(super) fn skipped(reason: impl Into<String>, detail: impl Into<String>) -> Verdict {
        Verdict::Skipped { reason: reason.into(), detail: detail.into() }
    }

    /// Formats the verdict as a line, without the line feed.
    pub(super) fn to_line(&self) -> String {
        match self {
            Verdict::Passed => String::new(),
            Verdict::Failed(reason) => format!("-{}", reason.replace('\n', " ")),
            Verdict::Skipped { reason, detail } => format!("~{reason}{DETAIL}{detail}").replace('\n', " "),
        }
    }

    /// Parses the output of [`to_line`](Self::to_line).
    fn of_line(line: &str) -> Verdict {
        match (line.strip_prefix('~'), line.strip_prefix('-')) {
            (Some(skipped), _) => {
                let (reason, detail) = skipped.split_once(DETAIL).unwrap_or((skipped, ""));
                Verdict::skipped(reason, detail)
            }
            (None, Some(reason)) => Verdict::Failed(reason.to_owned()),
            (None, None) if line.is_empty() => Verdict::Passed,
            (None, None) => Verdict::Failed(line.to_owned()),
        }
    }
}

/// The result and the time of a case.
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
}

impl Outcome {
    pub(super) fn is_failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

/// Runs all jobs on `workers` processes, and calls `done` after each job.
pub(super) fn run(
    jobs: Vec<Job>,
    backend: &str,
    workers: usize,
    timeout: Duration,
    done: impl Fn(&Outcome) -> Result<()> + Sync,
) -> Result<Vec<Outcome>> {
    let queue = Mutex::new(jobs.into_iter());
    let outcomes = Mutex::new(Vec::new());
    let one = || -> Result<()> {
        let mut worker = None;
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = next else { return Ok(()) };
            let running = match worker.take() {
                Some(running) => running,
                None => Worker::start(backend)?,
            };
            let start = Instant::now();
            let (verdict, kept) = running.run(&job, timeout);
            worker = kept;
            let outcome = Outcome { name: job.name, verdict, seconds: start.elapsed().as_secs_f64() };
            done(&outcome)?;
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|t| {
            t.join().unwrap_or_else(|_| {
                Err(Error::Worker(std::io::Error::other("a supervising thread panicked")))
            })
        })
    })?;
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The prefix of a worker's answer on standard output. It distinguishes answers from text that kernels print there.
pub(super) const ANSWER: &str = "\u{1}bb-answer:";

/// A worker process. It reads paths from its standard input, each terminated by a NUL, and answers each with a line.
struct Worker {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    fn start(backend: &str) -> Result<Worker> {
        let program = std::env::current_exe().map_err(Error::Worker)?;
        let mut process = Command::new(program)
            .args(["conformance-worker", "--backend", backend])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::Worker)?;
        let closed = || Error::Worker(std::io::Error::other("a pipe is missing"));
        let input = process.stdin.take().ok_or_else(closed)?;
        let output = process.stdout.take().ok_or_else(closed)?;
        let (send, answers) = channel();
        std::thread::spawn(move || {
            // Other lines are skipped, because kernels may print to the same pipe.
            for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if let Some((_, answer)) = line.rsplit_once(ANSWER)
                    && send.send(answer.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Ok(Worker { process, input, answers })
    }

    /// Runs a case. Returns its verdict, and the worker if it can be used again.
    fn run(mut self, job: &Job, timeout: Duration) -> (Verdict, Option<Worker>) {
        let asked = self.input.write_all(&super::path_bytes(&job.path));
        let asked = asked.and_then(|()| self.input.write_all(b"\0")).and_then(|()| self.input.flush());
        let answer = asked
            .map_err(|_| RecvTimeoutError::Disconnected)
            .and_then(|()| self.answers.recv_timeout(timeout));
        match answer {
            Ok(line) => (Verdict::of_line(&line), Some(self)),
            Err(RecvTimeoutError::Timeout) => (too_long(timeout), None),
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.process.wait().map_or_else(|e| format!("crashed: {e}"), ended);
                (Verdict::Failed(how), None)
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Killing fails if the process has already ended, which is not an error.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Describes how a process ended before it answered.
fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended the process with status {code} before it answered"),
        None => format!("crashed: {status}"),
    }
}

/// Returns the verdict for a case that took too long.
pub(super) fn too_long(timeout: Duration) -> Verdict {
    Verdict::Failed(format!("timed out after {} s", timeout.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_survives_the_pipe() {
        for verdict in [
            Verdict::Passed,
            Verdict::Failed("~ it is wrong".to_owned()),
            Verdict::Failed(String::new()),
            Verdict::skipped("the backend does not have f64", ""),
            Verdict::skipped("the provider declines nodes of the case", "its operators are Exp 13"),
        ] {
            assert_eq!(Verdict::of_line(&verdict.to_line()), verdict);
        }
        assert_eq!(Verdict::Failed("two\nlines".to_owned()).to_line(), "-two lines");
    }
}
