//! Tests that three nested layers do not change results on the preferred adapter: the cases of every primitive, and the native
//! operations.

use bb::InnerBackend;
use bb_layers::{Fault, FaultKind, FaultOptions, Log, Metrics};
use bb_wgpu::Wgpu;
use std::sync::OnceLock;

/// Returns the device that all tests share.
fn backend() -> Wgpu {
    static OPEN: OnceLock<Wgpu> = OnceLock::new();
    OPEN.get_or_init(|| Wgpu::first().unwrap_or_else(|error| panic!("no device: {error}"))).clone()
}

/// Wraps the device in three layers that see every operation. The fault layer never causes a fault.
fn layered() -> Metrics<Log<Fault<Wgpu>>> {
    let never = FaultOptions::rate(FaultKind::Error, 0.0, 1);
    Metrics::new(Log::new(Fault::new(backend(), never), std::io::sink()))
}

bb::conformance!(layered(), cases = 20);

#[test]
fn natives_stay_native() {
    assert_eq!(layered().natives(), backend().natives());
}
