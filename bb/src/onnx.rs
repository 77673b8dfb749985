//! ONNX's operators as functions that a tracer records, from every linked operator crate.
//!
//! `bb-onnx` has the operators of ONNX's own domain. Features add the other domains: `ml`, `microsoft` and `training`.

#[doc(inline)]
pub use bb_onnx::{
    AttributeReads, Body, Call, Class, Function, Halves, HostFunction, ItemFunction, ItemResult, OPERATORS,
    OPTIONAL_DOMAINS, OnnxValue, OpOutputs, OpResult, Operator, TensorFunction,
};

#[doc(inline)]
pub use bb_core::operator::OptionalDomain;

use std::sync::OnceLock;

/// Returns the operator, and the function that implements it, for a model that imports `opset` of `domain`.
///
/// `ai.onnx` is another name of the empty domain. The operations of linked vendors are found, too.
pub fn lookup(domain: &str, op_type: &str, opset: i64) -> Option<(&'static Operator, Body)> {
    bb_core::operator::find(domain, op_type, opset).map(|found| (found.operator, found.body))
}

/// Lists the operator versions that have an implementation, ordered by domain, name and version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    static ALL: OnceLock<Vec<&'static Operator>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut all: Vec<&'static Operator> = bb_core::operator::operators().collect();
        all.sort_by_key(|operator| (operator.domain, operator.name, operator.since));
        all
    });
    all.iter().copied()
}

/// Lists the features of this crate that an operator needs: the feature of its domain, and the feature of the engine that computes
/// it. Features of backends are not listed.
pub fn features_of(domain: &str, op_type: &str) -> impl Iterator<Item = &'static str> {
    let by_domain = OPTIONAL_DOMAINS.iter().find(|known| known.domain == domain).map(|known| known.feature);
    let by_engine = match (bb_ir::opset::domain_name(domain), op_type) {
        ("", "ImageDecoder") => Some("image"),
        ("", "RegexFullMatch") | ("com.microsoft", "Tokenizer") => Some("regex"),
        _ => None,
    };
    by_domain.into_iter().chain(by_engine)
}
