//! Operator sets: the versions of operators, and the signature of each version.

mod presence;
mod schemas;
mod signature;
mod versions;

pub use presence::{Presence, names, presence};
pub use signature::{AttributeSchema, attributes};
pub(crate) use signature::{Lookup, lookup};
pub use versions::{OperatorVersion, history, since, versions};

/// The newest supported version of ONNX's own operators.
pub const NEWEST: i64 = 28;

/// Returns the name that graphs use for a domain: `""` instead of `ai.onnx`, otherwise the name itself.
pub fn domain_name(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Returns the oldest and the newest supported version of a domain's operators.
///
/// For domains that are not ONNX's, all versions are supported.
pub fn supported_opsets(domain: &str) -> (i64, i64) {
    match domain {
        "" => (1, NEWEST),
        "ai.onnx.ml" => (1, 5),
        "ai.onnx.training" | "ai.onnx.preview.training" | "ai.onnx.preview" => (1, 1),
        _ => (0, i64::MAX),
    }
}

/// The reason why a vendor's operations may not use a domain that [`is_reserved`].
pub const RESERVED: &str =
    "domains that begin with `ai.onnx` or `com.microsoft` are not for others' operations";

/// Returns whether a domain belongs to ONNX or ONNX Runtime, so that a vendor's operations may not use it.
pub const fn is_reserved(domain: &str) -> bool {
    starts_with(domain.as_bytes(), b"ai.onnx") || starts_with(domain.as_bytes(), b"com.microsoft")
}

const fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    match (text, prefix) {
        (_, []) => true,
        ([a, text @ ..], [b, prefix @ ..]) if *a == *b => starts_with(text, prefix),
        _ => false,
    }
}

/// Returns the version of a domain's operators for models that do not import the domain: the newest version, as in ONNX Runtime.
/// Returns `None` if the import is required.
///
/// ONNX's own domain must be imported, because its operators change too often.
pub(crate) fn without_import(domain: &str) -> Option<i64> {
    match domain {
        "ai.onnx.ml" | "ai.onnx.training" | "ai.onnx.preview.training" | "ai.onnx.preview" => {
            Some(supported_opsets(domain).1)
        }
        "com.microsoft" | "com.microsoft.nchwc" => Some(1),
        _ => None,
    }
}

/// Returns the domain and the version of the operator that a node actually calls.
///
/// ONNX Runtime writes some of its own operators into ONNX's domain if ONNX has no operator of this name in the imported version.
pub(crate) fn home<'d>(domain: &'d str, op_type: &str, opset: i64) -> (&'d str, i64) {
    match op_type {
        "LayerNormalization" | "SimplifiedLayerNormalization"
            if domain.is_empty() && matches!(lookup(domain, op_type, opset), Lookup::Missing) =>
        {
            ("com.microsoft", 1)
        }
        _ => (domain, opset),
    }
}
