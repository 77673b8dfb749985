//! What ONNX Runtime cannot run as ONNX defines it.

use bb_engines::Gap;

/// The gaps, by operator; `tests/gaps.rs` runs each one's case.
pub const GAPS: &[Gap] = &[];
