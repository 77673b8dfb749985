//! Tests that the backend passes the cases of every primitive and the ONNX test cases, on the
//! system's preferred adapter.

use bb_wgpu::Wgpu;
use std::sync::OnceLock;

/// Returns the device that all tests share.
fn backend() -> Wgpu {
    static OPEN: OnceLock<Wgpu> = OnceLock::new();
    OPEN.get_or_init(|| Wgpu::first().unwrap_or_else(|error| panic!("no device: {error}"))).clone()
}

bb::conformance!(backend());
