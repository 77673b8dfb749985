//! Rules that assign nodes to backends.

use bb_ir::graph::{self, Graph};

/// How a rule selects nodes.
pub(super) enum Chooses {
    /// The nodes of an operator.
    Op(String),
    /// The node of this name.
    Node(String),
    /// The nodes that a function returns true for.
    Where(Box<dyn Fn(&graph::Node) -> bool + Send + Sync>),
}

/// A selection of nodes, and the backend that runs them.
pub(super) struct Rule {
    pub(super) chooses: Chooses,
    pub(super) backend: String,
}

impl Rule {
    pub(super) fn chooses(&self, graph: &Graph, node: &graph::Node) -> bool {
        match &self.chooses {
            Chooses::Op(op) => node.op_type == *op,
            // A node without a name has the name of its first result.
            Chooses::Node(name) => bb_core::error::name(graph, node) == *name,
            Chooses::Where(chooses) => chooses(node),
        }
    }

    /// Returns the source text of the call that added this rule, for messages. `index` is the index of the
    /// rule.
    pub(super) fn text(&self, index: usize) -> String {
        let backend = &self.backend;
        match &self.chooses {
            Chooses::Op(op) => format!(".bind_op(\"{op}\", \"{backend}\")"),
            Chooses::Node(name) => format!(".bind_node(\"{name}\", \"{backend}\")"),
            Chooses::Where(_) => format!(".bind_where(…, \"{backend}\"), rule {}", index + 1),
        }
    }
}
