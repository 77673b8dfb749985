//! Counts and times of a model's requests, as defined by Triton's extension for statistics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of distinct batch sizes that are counted.
const SIZES: usize = 1024;

/// The number of times that something was done, and the total time of it.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Spent {
    pub(crate) fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> Total {
        Total { count: load(&self.count), ns: load(&self.nanoseconds) }
    }
}

/// The value of a [`Spent`] at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Total {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

impl Total {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.ns = self.ns.saturating_add(nanoseconds(time));
    }
}

/// The runs with one batch size.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) input: Total,
    pub(crate) infer: Total,
    pub(crate) output: Total,
}

/// Counts and times of a model's requests.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) success: Spent,
    pub(crate) fail: Spent,
    pub(crate) queue: Spent,
    pub(crate) input: Spent,
    pub(crate) infer: Spent,
    pub(crate) output: Spent,
    rows: AtomicU64,
    runs: AtomicU64,
    /// The time when the last run began, in milliseconds since 1970.
    last: AtomicU64,
    batches: Mutex<BTreeMap<usize, Batch>>,
}

impl Statistics {
    /// Counts a run that succeeded.
    pub(crate) fn ran(&self, rows: usize, phases: &Phases) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = since.saturating_sub(phases.start.elapsed()).as_millis();
        self.last.store(u64::try_from(began).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if batches.len() >= SIZES && !batches.contains_key(&rows) {
            return;
        }
        let batch = batches.entry(rows).or_default();
        batch.input.add(phases.input);
        batch.infer.add(phases.infer);
        batch.output.add(phases.output);
    }

    /// Counts a request that a run has answered. A request with 0 rows counts as one row.
    pub(crate) fn served(&self, arrived: Instant, rows: usize, phases: &Phases) {
        self.rows.fetch_add(rows.max(1) as u64, Ordering::Relaxed);
        self.queue.add(phases.start.saturating_duration_since(arrived));
        self.input.add(phases.input);
        self.infer.add(phases.infer);
        self.output.add(phases.output);
    }

    pub(crate) fn rows(&self) -> u64 {
        load(&self.rows)
    }

    pub(crate) fn runs(&self) -> u64 {
        load(&self.runs)
    }

    pub(crate) fn last(&self) -> u64 {
        load(&self.last)
    }

    pub(crate) fn batches(&self) -> Vec<(usize, Batch)> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.iter().map(|(rows, batch)| (*rows, *batch)).collect()
    }
}

fn load(of: &AtomicU64) -> u64 {
    of.load(Ordering::Relaxed)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The durations of the phases of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phases {
    start: Instant,
    /// The start of the current phase.
    since: Instant,
    input: Duration,
    infer: Duration,
    output: Duration,
}

impl Phases {
    pub(crate) fn new(start: Instant) -> Phases {
        Phases { start, since: start, input: Duration::ZERO, infer: Duration::ZERO, output: Duration::ZERO }
    }

    /// Ends the phase that copies the inputs to the backend.
    pub(crate) fn put(&mut self) {
        self.input = self.lap();
    }

    /// Ends the phase that runs the model.
    pub(crate) fn ran(&mut self) {
        self.infer = self.lap();
    }

    /// Ends the phase that reads the outputs.
    pub(crate) fn taken(&mut self) {
        self.output = self.lap();
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.since, now))
    }
}
