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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_opset_a_similar_name_and_what_to_bind() {
        let say = advice;
        let bind = |domain: &str, op: &str| {
            format!("bind a component to it: `.component(\"{domain}\", \"{op}\", …)`")
        };
        assert_eq!(
            say("", "Rellu", 17),
            format!(
                "`ai.onnx` has no such operator; the nearest name is `Relu`; {}",
                bind("ai.onnx", "Rellu")
            )
        );
        let text = say("", "Gelu", 17);
        assert!(text.starts_with("`ai.onnx` has it from opset 20 on; "), "{text}");
        let text = say("", "Upsample", 13);
        assert!(text.starts_with("`ai.onnx` took it away with opset 10"), "{text}");
        let text = say("com.microsoft", "FusedMatMull", 1);
        assert!(text.contains("the nearest name is `FusedMatMul`"), "{text}");
        assert_eq!(
            say("com.example", "Foo", 1),
            format!("no operator of the domain is known; {}", bind("com.example", "Foo"))
        );
    }
}
