//! The report of a node whose operator nothing runs.

use crate::error::{Advice, Missing, NodeInfo, Why};
use crate::ext::vendor;
use bb_ir::graph::{Graph, Node};
use bb_ir::opset::names;

/// Describes a node whose operator nothing runs, with the operator that was probably meant.
pub fn missing(graph: &Graph, node: &Node) -> Missing {
    let node_info = NodeInfo::of(graph, node);
    if let Some(paths) = vendor::duplicate(&node.domain) {
        return Missing { node: node_info, why: Why::TwoVendors { paths } };
    }
    if let Some(operation) = vendor::find(&node.domain, &node.op_type) {
        return Missing { node: node_info, why: Why::NotYet { since: operation.spec().since } };
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
