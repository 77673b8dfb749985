//! Tests that the backend passes the cases of every primitive and ONNX's cases, on the first adapter.

use bb_wgpu::Wgpu;
use std::sync::OnceLock;

/// One device for all tests.
fn backend() -> Wgpu {
    static OPEN: OnceLock<Wgpu> = OnceLock::new();
    OPEN.get_or_init(|| Wgpu::first().unwrap_or_else(|error| panic!("no device: {error}"))).clone()
}

bb::conformance!(backend());
