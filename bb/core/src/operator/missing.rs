//! Reports nodes whose operators neither a linked crate nor the backend implements.

use crate::error::{Advice, Missing, NodeInfo, Why};
use crate::ext::vendor;
use bb_ir::graph::{Graph, Node};
use bb_ir::opset::names;

/// A domain whose operators are defined in a crate that a program may omit.
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
    /// Creates the description of a domain.
    pub const fn new(domain: &'static str, feature: &'static str, package: &'static str) -> OptionalDomain {
        OptionalDomain { domain, feature, package }
    }
}

/// Returns the optional domain with this name. Returns `None` if a linked crate defines operators of the domain, or if
/// there is no optional domain with this name.
pub fn left_out(domain: &str) -> Option<OptionalDomain> {
    let found = super::optional_domains().find(|known| known.domain == domain)?;
    super::operators().all(|operator| operator.domain != domain).then_some(*found)
}

/// Describes a node whose operator is not implemented, with the operator that was probably meant.
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
    if let Some(library) = super::unlinked(node) {
        return Missing { node: node_info, why: Why::Unlinked(library) };
    }
    if let Some(OptionalDomain { feature, package, .. }) = left_out(&node.domain) {
        return Missing { node: node_info, why: Why::LeftOut { feature, package } };
    }
    let (known_domain, nearest) = look_up(&node.domain, &node.op_type);
    Missing { node: node_info, why: Why::Operator { known_domain, nearest } }
}

/// Explains why an operator is not implemented, and how the user can fix it.
pub fn advice(domain: &str, op: &str, opset: i64) -> String {
    let (known_domain, nearest) = look_up(domain, op);
    Advice { domain, op, opset, known_domain, nearest }.to_string()
}

/// Returns whether the domain is known, and the most similar operator name in it.
fn look_up(domain: &str, op: &str) -> (bool, Option<&'static str>) {
    let nearest = bb_ir::nearest(op, known(domain).filter(|name| *name != op));
    (known(domain).next().is_some(), nearest)
}

/// Returns the names of the operators of a domain that ONNX, a linked crate or a vendor defines.
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

    /// Returns a graph with one node whose operator no table contains.
    fn graph() -> Graph {
        let node = NodeProto {
            op_type: Some("Thing".into()),
            domain: Some("com.example".into()),
            output: vec!["y".into()],
            ..NodeProto::default()
        };
        let opset = |domain: &str| OperatorSetIdProto { domain: Some(domain.into()), version: Some(22) };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: vec![opset(""), opset("com.example")],
            graph: Some(GraphProto { node: vec![node], ..GraphProto::default() }),
            ..ModelProto::default()
        };
        check(&model, &CheckOptions::default()).unwrap().graph
    }

    /// The tests of this crate are linked without ONNX's operators.
    #[test]
    fn without_operators_the_error_says_what_to_write() {
        let graph = graph();
        let text = missing(&graph, graph.nodes.first().unwrap()).to_string();
        assert!(
            text.ends_with("no operators are linked; depend on the crate `bb`, or write `use bb_onnx as _;`"),
            "{text}"
        );
    }
}
