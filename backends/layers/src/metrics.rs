//! The layer `metrics`, which counts calls, elements and bytes and measures time, by operation.

use crate::bytes_of;
use bb::{BoxError, Erased, InnerBackend, LayerCall, OpenOptions, Outputs, Tensor};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The metrics of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OperationMetrics {
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that a prepared kernel computed.
    pub prepared: u64,
    /// The number of calls that failed.
    pub failed: u64,
    /// The number of elements of all results.
    pub elements: u64,
    /// The size in bytes of all operands and results, except operands that kernels have packed.
    pub bytes: u64,
    /// The total duration of the calls.
    pub time: Duration,
}

/// The metrics of each operation, by name.
#[derive(Debug, Default)]
pub struct MetricsTable(Mutex<BTreeMap<&'static str, OperationMetrics>>);

impl MetricsTable {
    /// Returns the metrics so far.
    pub fn snapshot(&self) -> BTreeMap<&'static str, OperationMetrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resets all metrics to zero.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The tables of the layers that were opened by name.
static OPENED: Mutex<Vec<Weak<MetricsTable>>> = Mutex::new(Vec::new());

/// Returns the tables of all layers that were opened by name and still exist, oldest first.
pub fn all_metrics() -> Vec<Arc<MetricsTable>> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|table| table.strong_count() > 0);
    opened.iter().filter_map(Weak::upgrade).collect()
}

/// Counts calls, elements and bytes, and measures time, by operation.
#[derive(bb::Backend)]
#[bb(delegate = inner, crate = bb)]
pub struct Metrics<B> {
    inner: B,
    table: Arc<MetricsTable>,
}

impl<B> Metrics<B> {
    /// Measures the operations of a backend.
    pub fn new(inner: B) -> Metrics<B> {
        Metrics { inner, table: Arc::default() }
    }

    /// Returns the table. It stays available after the layer is moved into a runtime.
    pub fn table(&self) -> Arc<MetricsTable> {
        self.table.clone()
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Metrics<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        let (method, prepared) = (call.spec().method, call.is_prepared());
        let read: u64 = (0..call.operands()).filter_map(|index| call.operand(index)).map(bytes_of).sum();
        let start = Instant::now();
        let outcome = call.run();
        let time = start.elapsed();
        let mut table = self.table.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = table.entry(method).or_default();
        row.calls += 1;
        row.prepared += u64::from(prepared);
        row.time += time;
        row.bytes += read;
        match &outcome {
            Ok(results) => {
                for y in results {
                    row.elements += bb_ir::element_count(y.shape()).unwrap_or(0) as u64;
                    row.bytes += bytes_of(y);
                }
            }
            Err(_) => row.failed += 1,
        }
        outcome
    }
}

impl bb::RegisteredLayer for Metrics<Erased> {
    const NAME: &'static str = "metrics";
    const ABOUT: &'static str = "counts calls, elements and bytes, and measures time, by operation";

    fn on(inner: Erased, _options: &OpenOptions) -> Result<Self, BoxError> {
        let layer = Metrics::new(inner);
        OPENED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&layer.table));
        Ok(layer)
    }
}

bb::register_layer!(Metrics<Erased>);
