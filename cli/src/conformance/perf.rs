//! Compares the times of cases on two backends.

use super::pool::{Outcome, Verdict};
use crate::error::Result;
use crate::out;
use bb::Runtime;
use bb_conformance::onnx::{Failure, ReadyCase};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The number of turns that each backend has with a case.
const ROUNDS: usize = 7;
/// The duration of a turn in seconds.
const TURN: f64 = 1e-3;
/// The maximum number of runs in a turn.
const MOST: f64 = 1e4;

/// The times of a run on both backends in seconds. Each is the median over the turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds {
    pub(super) own: f64,
    pub(super) other: f64,
}

/// Measures the cases that passed, one after another in this process. Cases that the other backend cannot run are left out.
pub(super) fn measured(
    dir: &Path,
    outcomes: &[Outcome],
    own: &str,
    other: &str,
) -> Result<HashMap<String, Seconds>> {
    let (own, other) = (bb::backend(own)?, bb::backend(other)?);
    let passed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Passed));
    let mut all = HashMap::new();
    let mut left_out = 0;
    for Outcome { name, .. } in passed {
        match in_turns(&dir.join(name), own.runtime(), other.runtime()) {
            Ok(seconds) => {
                all.insert(name.clone(), seconds);
            }
            Err(_) => left_out += 1,
        }
    }
    if left_out > 0 {
        out::note(format_args!("{left_out} cases are not measured, because they fail on `{}`", other.name()));
    }
    Ok(all)
}

/// Measures a case on two backends in turns, so that changes of the machine's load affect both.
fn in_turns(case: &Path, own: &Arc<Runtime>, other: &Arc<Runtime>) -> std::result::Result<Seconds, Failure> {
    let (own, other) = (ReadyCase::open(case, own)?, ReadyCase::open(case, other)?);
    let [mut own_times, mut other_times] = [[0.0; ROUNDS]; 2];
    let [own_runs, other_runs] = [runs(&own)?, runs(&other)?];
    for (own_time, other_time) in own_times.iter_mut().zip(&mut other_times) {
        *own_time = turn(&own, own_runs)?;
        *other_time = turn(&other, other_runs)?;
    }
    Ok(Seconds { own: median(own_times), other: median(other_times) })
}

/// Returns the number of runs in a turn.
fn runs(case: &ReadyCase) -> std::result::Result<usize, Failure> {
    case.run()?;
    let seconds = turn(case, 3)?;
    Ok((TURN / seconds.max(1e-9)).clamp(1.0, MOST) as usize)
}

/// Returns the time of a run in seconds.
fn turn(case: &ReadyCase, runs: usize) -> std::result::Result<f64, Failure> {
    let start = Instant::now();
    for _ in 0..runs {
        case.run()?;
    }
    Ok(start.elapsed().as_secs_f64() / runs as f64)
}

fn median(mut times: [f64; ROUNDS]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
}

/// The geometric means of the times of several cases.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Means {
    cases: usize,
    own: f64,
    other: f64,
}

impl Means {
    pub(super) fn add(&mut self, Seconds { own, other }: Seconds) {
        self.join(&Means { cases: 1, own: own.max(1e-9).ln(), other: other.max(1e-9).ln() });
    }

    pub(super) fn join(&mut self, more: &Means) {
        self.cases += more.cases;
        self.own += more.own;
        self.other += more.other;
    }

    /// Returns the means, or `None` if no case was measured.
    pub(super) fn seconds(&self) -> Option<Seconds> {
        let mean = |sum: f64| (sum / self.cases as f64).exp();
        (self.cases > 0).then(|| Seconds { own: mean(self.own), other: mean(self.other) })
    }

    /// Returns the number of cases.
    pub(super) fn cases(&self) -> usize {
        self.cases
    }
}
