//! What rten cannot run as ONNX defines it.

use bb_engines::Gap;

/// The gaps; `tests/gaps.rs` runs each one's case.
pub(crate) const GAPS: &[Gap] = &[];
