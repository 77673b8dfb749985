//! Tests the operations of `Llm`, `Image` and `Quant` on every backend, called one by one and as graphs of primitives.
//!
//! What NumPy computes of them lies in `tests/families`; `tests/families/make.py` made it, and says by which formulas.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod cases;
mod refusals;
mod sampling;

use bb::BackendHandle;
use bb_tests::backends;

/// Starts each backend.
fn each() -> impl Iterator<Item = BackendHandle> {
    backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()))
}
