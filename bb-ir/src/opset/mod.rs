//! Operator sets: which versions exist, and what each operator takes.

mod element_types;
mod operators;
mod signature;
mod versions;

pub(crate) use signature::{Lookup, lookup};
pub use versions::{OperatorVersion, since, versions};

/// The newest version of ONNX's own operators.
pub const NEWEST: i64 = 28;

/// Returns the name of a domain as graphs hold it: `ai.onnx` is `""`.
pub fn domain_name(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Returns the oldest and the newest version of a domain's operators that are supported.
///
/// Domains that are not ONNX's have every version.
pub fn supported_opsets(domain: &str) -> (i64, i64) {
    match domain {
        "" => (1, NEWEST),
        "ai.onnx.ml" => (1, 5),
        "ai.onnx.training" | "ai.onnx.preview.training" | "ai.onnx.preview" => (1, 1),
        _ => (0, i64::MAX),
    }
}
