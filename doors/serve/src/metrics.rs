//! The counters of the server and its models.

use crate::refusal::RefusalKind;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }
}

pub(crate) const PROTOCOLS: [(Protocol, &str); 2] = [(Protocol::Http, "http"), (Protocol::Grpc, "grpc")];

/// The reason why the server closes or rejects a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The connection gave way to another one.
    GaveWay,
    /// The peer read too little of its answers.
    Stalled,
    /// The connection exceeded the limits.
    Surplus,
}

pub(crate) const CLOSED: [(Closed, &str); 3] =
    [(Closed::GaveWay, "gave_way"), (Closed::Stalled, "stalled"), (Closed::Surplus, "surplus")];

/// The outcomes of requests, as values of the label `outcome`.
const OUTCOMES: [&str; 7] = ["ok", "invalid", "busy", "deadline", "cancelled", "unavailable", "failed"];

fn outcome(of: Option<RefusalKind>) -> usize {
    match of {
        None => 0,
        Some(
            RefusalKind::Invalid
            | RefusalKind::NotFound
            | RefusalKind::Method
            | RefusalKind::TooLarge
            | RefusalKind::Encoding
            | RefusalKind::Forbidden
            | RefusalKind::NoToken
            | RefusalKind::Absent,
        ) => 1,
        Some(RefusalKind::Busy) => 2,
        Some(RefusalKind::Deadline) => 3,
        Some(RefusalKind::Cancelled) => 4,
        Some(RefusalKind::Unavailable) => 5,
        Some(RefusalKind::Unsupported | RefusalKind::Failed) => 6,
    }
}

/// The number of requests by protocol and outcome.
#[derive(Debug, Default)]
pub(crate) struct Outcomes([[AtomicU64; OUTCOMES.len()]; PROTOCOLS.len()]);

impl Outcomes {
    pub(crate) fn count(&self, protocol: Protocol, refused: Option<RefusalKind>) {
        let row = self.0.get(protocol as usize);
        if let Some(counter) = row.and_then(|row| row.get(outcome(refused))) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the counters as lines of Prometheus's text format.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        for ((_, protocol), row) in PROTOCOLS.iter().zip(&self.0) {
            for (outcome, counter) in OUTCOMES.iter().zip(row) {
                let n = counter.load(Ordering::Relaxed);
                line(
                    out,
                    format_args!("{name}{{{labels}protocol=\"{protocol}\",outcome=\"{outcome}\"}} {n}"),
                );
            }
        }
    }
}

/// The upper bounds of the buckets for times, in seconds.
const TIMES: [f64; 16] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];

/// The upper bounds of the buckets for numbers of rows.
const ROWS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// The number of values in each bucket.
#[derive(Debug)]
struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    counts: [AtomicU64; N],
    above: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [f64; N]) -> Histogram<N> {
        Histogram { bounds, counts: std::array::from_fn(|_| AtomicU64::new(0)), above: AtomicU64::new(0) }
    }

    fn record(&self, value: f64) {
        let within = self.bounds.iter().zip(&self.counts).find(|(bound, _)| value <= **bound);
        within.map_or(&self.above, |(_, count)| count).fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str, sum: f64) {
        let mut total = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            line(out, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {total}"));
        }
        total += self.above.load(Ordering::Relaxed);
        line(out, format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {total}"));
        line(out, format_args!("{name}_sum{{{labels}}} {sum}"));
        line(out, format_args!("{name}_count{{{labels}}} {total}"));
    }
}

/// A histogram of times, and their sum.
#[derive(Debug)]
pub(crate) struct Times {
    histogram: Histogram<{ TIMES.len() }>,
    nanoseconds: AtomicU64,
}

impl Default for Times {
    fn default() -> Times {
        Times { histogram: Histogram::new(&TIMES), nanoseconds: AtomicU64::new(0) }
    }
}

impl Times {
    pub(crate) fn record(&self, time: Duration) {
        self.histogram.record(time.as_secs_f64());
        self.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Writes the counters as lines of Prometheus's text format.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        self.histogram.write(out, name, labels, sum);
    }
}

/// A histogram of numbers of rows, and their sum.
#[derive(Debug)]
pub(crate) struct Rows {
    histogram: Histogram<{ ROWS.len() }>,
    sum: AtomicU64,
}

impl Default for Rows {
    fn default() -> Rows {
        Rows { histogram: Histogram::new(&ROWS), sum: AtomicU64::new(0) }
    }
}

impl Rows {
    pub(crate) fn record(&self, rows: usize) {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.histogram.record(rows.into());
        self.sum.fetch_add(rows.into(), Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "Prometheus has only floats")]
    /// Writes the counters as lines of Prometheus's text format.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        self.histogram.write(out, name, labels, self.sum.load(Ordering::Relaxed) as f64);
    }
}

/// The metrics of one model.
#[derive(Debug, Default)]
pub(crate) struct ModelMetrics {
    pub(crate) requests: Outcomes,
    /// The time from the first byte of a request to its answer.
    pub(crate) requests_took: Times,
    /// The time from the end of a request to the start of its run.
    pub(crate) queued: Times,
    pub(crate) runs: Times,
    /// The number of rows of each run. Without batching, a run counts as one row.
    pub(crate) batches: Rows,
}

/// The metrics of one language model.
#[cfg(feature = "generate")]
#[derive(Debug, Default)]
pub(crate) struct LanguageMetrics {
    pub(crate) requests: Outcomes,
    /// The time from the first byte of a request to the end of its answer.
    pub(crate) took: Times,
}

/// The metrics of the server.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    /// The requests that concern no model of the server, or that were refused before their model was known.
    pub(crate) others: Outcomes,
    pub(crate) connections: [AtomicUsize; PROTOCOLS.len()],
    pub(crate) closed: [[AtomicU64; CLOSED.len()]; PROTOCOLS.len()],
    pub(crate) lost_lines: AtomicU64,
}

impl ServerMetrics {
    /// Records the number of open connections.
    pub(crate) fn open(&self, protocol: Protocol, connections: usize) {
        if let Some(open) = self.connections.get(protocol as usize) {
            open.store(connections, Ordering::Relaxed);
        }
    }

    /// Counts a line of the log that was dropped.
    pub(crate) fn lost_line(&self) {
        self.lost_lines.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that the server closes or rejects.
    pub(crate) fn closed(&self, protocol: Protocol, why: Closed) {
        if let Some(counter) = self.closed.get(protocol as usize).and_then(|row| row.get(why as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(crate) fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _never = out.write_fmt(text);
    out.push('\n');
}
