//! What runs a node: known before anything runs.

use bb_ir::graph::{Graph, Node};

/// A node that nothing runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The node's name, or its first output's where it has none.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
}

impl Missing {
    /// Describes a node.
    pub(crate) fn of(graph: &Graph, node: &Node) -> Missing {
        let first = node.outputs.iter().flatten().next().map_or("", |v| graph.name_of(*v));
        Missing {
            node: if node.name.is_empty() { first } else { &node.name }.to_owned(),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            opset: node.opset,
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let domain = if self.domain.is_empty() { "ai.onnx" } else { &self.domain };
        write!(f, "`{}` is `{}` of `{domain}` {}", self.node, self.op, self.opset)
    }
}

/// Every node that nothing runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingList(pub Vec<Missing>);

impl std::fmt::Display for MissingList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, missing) in self.0.iter().enumerate() {
            write!(f, "{}{missing}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
