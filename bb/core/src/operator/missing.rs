//! The report of a node whose operator nothing runs.

use crate::error::{Advice, Missing, NodeInfo, Why};
use crate::ext::vendor;
use bb_ir::graph::{Graph, Node};
use bb_ir::opset::names;

/// A domain whose operators are in a crate that a program may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalDomain {
    /// The domain.
    pub domain: &'static str,
    /// The feature of `bb` that links the crate.
    pub feature: &'static str,
    /// The crate.
    pub package: &'static str,
}

impl OptionalDomain {
    const fn new(domain: &'static str, feature: &'static str, package: &'static str) -> OptionalDomain {
        OptionalDomain { domain, feature, package }
    }

    /// The domains of the crates in this repository.
    pub const ALL: &[OptionalDomain] = &[
        OptionalDomain::new("ai.onnx.ml", "ml", "bb_onnx_ml"),
        OptionalDomain::new("ai.onnx.preview.training", "training", "bb_onnx_training"),
        OptionalDomain::new("com.microsoft", "microsoft", "bb_onnx_microsoft"),
        OptionalDomain::new("com.microsoft.nchwc", "microsoft", "bb_onnx_microsoft"),
        OptionalDomain::new("com.ms.internal.nhwc", "microsoft", "bb_onnx_microsoft"),
    ];
}

/// Returns what a program lacks if no linked crate has operators of the domain.
pub fn left_out(domain: &str) -> Option<OptionalDomain> {
    let found = OptionalDomain::ALL.iter().find(|known| known.domain == domain)?;
    super::operators().all(|operator| operator.domain != domain).then_some(*found)
}

/// Describes a node whose operator nothing runs, with the operator that was probably meant.
pub fn missing(graph: &Graph, node: &Node) -> Missing {
    let node_info = NodeInfo::of(graph, node);
    if let Some(paths) = vendor::duplicate(&node.domain) {
        return Missing { node: node_info, why: Why::TwoVendors { paths } };
    }
    if let Some(operation) = vendor::find(&node.domain, &node.op_type) {
        return Missing { node: node_info, why: Why::NotYet { since: operation.spec().since } };
    }
    if super::operators().next().is_none() {
        return Missing { node: node_info, why: Why::NoOperators };
    }
    if let Some(OptionalDomain { feature, package, .. }) = left_out(&node.domain) {
        return Missing { node: node_info, why: Why::LeftOut { feature, package } };
    }
    let (known_domain, nearest) = look_up(&node.domain, &node.op_type);
    Missing { node: node_info, why: Why::Operator { known_domain, nearest } }
}

/// Explains why nothing runs an operator, and what the user can do.
pub fn advice(domain: &str, op: &str, opset: i64) -> String {
    let (known_domain, nearest) = look_up(domain, op);
    Advice { domain, op, opset, known_domain, nearest }.to_string()
}

/// Returns whether the domain is known, and its operator whose name is nearest.
fn look_up(domain: &str, op: &str) -> (bool, Option<&'static str>) {
    let nearest = bb_ir::nearest(op, known(domain).filter(|name| *name != op));
    (known(domain).next().is_some(), nearest)
}

/// Returns the operators of a domain that ONNX or `bb` defines.
fn known(domain: &str) -> impl Iterator<Item = &'static str> {
    let own = super::operators().filter(move |o| o.domain == domain).map(|o| o.name);
    names(domain).chain(own).chain(super::vendor::names(domain))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::check::{CheckOptions, check};
    use bb_ir::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

    /// These tests are linked without ONNX's operators.
    #[test]
    fn without_operators_the_error_says_what_to_write() {
        let node = NodeProto {
            op_type: Some("Thing".into()),
            domain: Some("com.example".into()),
            output: vec!["y".into()],
            ..NodeProto::default()
        };
        let opset = |domain: &str| OperatorSetIdProto { domain: Some(domain.into()), version: Some(22) };
        let graph = GraphProto { node: vec![node], ..GraphProto::default() };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: vec![opset(""), opset("com.example")],
            graph: Some(graph),
            ..ModelProto::default()
        };
        let graph = check(&model, &CheckOptions::default()).unwrap().graph;
        let text = missing(&graph, graph.nodes.first().unwrap()).to_string();
        assert!(
            text.ends_with("no operators are linked; depend on the crate `bb`, or write `use bb_onnx as _;`"),
            "{text}"
        );
    }
}
