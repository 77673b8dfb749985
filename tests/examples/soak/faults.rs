//! A backend that fails on purpose, and the counts of its injected faults.

use bb::{BackendHandle, OpenOptions};
use bb_cpu::Cpu;
use bb_layers::{Check, Fault, FaultKind, FaultOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The share of operations that fail in one way, or take longer. A run calls tens to hundreds of operations.
const RATE: f64 = 2e-4;

/// How much longer.
const DELAY: Duration = Duration::from_micros(300);

/// How the message of an injected panic begins.
pub(super) const PANIC: &str = "an injected panic";

/// Counters of the injected faults.
pub(super) struct Faults {
    injected: [Arc<AtomicU64>; 3],
    delays: Arc<AtomicU64>,
    /// How many arrived as errors.
    arrived: AtomicUsize,
}

impl Faults {
    /// Starts the CPU backend under layers that inject errors, panics, wrong extents and delays.
    pub(super) fn start(options: &OpenOptions) -> (BackendHandle, Faults) {
        let at_rate = |kind, seed| FaultOptions::rate(kind, RATE, seed);
        let threads = options.threads.map_or(1, |threads| threads.get());
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        let delaying = at_rate(FaultKind::Delay, 1).with_delay(DELAY);
        let delaying = Fault::new(cpu, delaying);
        let delays = delaying.injected();
        let failing = Fault::new(delaying, at_rate(FaultKind::Error, 2));
        let errors = failing.injected();
        let panicking = Fault::new(failing, at_rate(FaultKind::Panic, 3));
        let panics = panicking.injected();
        let reshaping = Fault::new(panicking, at_rate(FaultKind::Shape, 4));
        let injected = [errors, panics, reshaping.injected()];
        let faults = Faults { injected, delays, arrived: AtomicUsize::new(0) };
        (BackendHandle::start("faulty", Check::new(reshaping, false)), faults)
    }

    /// Counts an error, if it is one that was injected, which must tell the node unless the run has not begun. Returns whether it is.
    pub(super) fn arrives(&self, text: &str, running: bool) -> bool {
        let injected = ["an injected fault", PANIC, "layer `check` failed"];
        if !injected.iter().any(|part| text.contains(part)) {
            return false;
        }
        assert!(
            !running || text.contains("node `") || text.contains("nodes from `"),
            "no node is told: {text}"
        );
        self.arrived.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Prints the injected faults, and returns whether each failure arrived as an error.
    pub(super) fn all_arrived(&self) -> bool {
        let [errors, panics, shapes] = self.injected.each_ref().map(|count| count.load(Ordering::Relaxed));
        let (delays, arrived) = (self.delays.load(Ordering::Relaxed), self.arrived.load(Ordering::Relaxed));
        println!(
            "injected: {errors} errors, {panics} panics, {shapes} wrong shapes, {delays} delays; failures that arrived: {arrived}"
        );
        errors > 0 && panics > 0 && shapes > 0 && delays > 0 && errors + panics + shapes == arrived as u64
    }
}
