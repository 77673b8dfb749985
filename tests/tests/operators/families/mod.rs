//! Tests the operations of `Llm`, `Image` and `Quant` on every backend, called one by one and as graphs of primitives.
//!
//! The expected results in `tests/families` are computed with NumPy, by the formulas in `tests/families/make.py`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod batch;
mod cases;
mod refusals;
mod sampling;

use bb::{BackendHandle, Runtime};
use bb_tests::backends;
use bb_tests::few::Few;

/// The name of the backend that has only `f32`, `i32` and `bool`.
const LEAST: &str = "least";

/// Starts each backend.
fn each() -> impl Iterator<Item = BackendHandle> {
    let named = backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()));
    named.chain([BackendHandle::new(Runtime::erased(LEAST, Few::least(), &[]))])
}
