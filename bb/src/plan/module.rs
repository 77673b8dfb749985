//! A model on its way to a backend.

use bb_ir::graph::Graph;
use std::sync::Arc;

/// A checked model, ready to be compiled for a backend.
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) graph: Arc<Graph>,
}

impl Module {
    /// Wraps a checked graph.
    pub fn new(graph: Graph) -> Module {
        Module { graph: Arc::new(graph) }
    }

    /// Returns the checked graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

/// How to compile.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompileOptions {
    /// The most bytes that one value of the graph may have.
    pub value_bytes: usize,
    /// Which graph it is, for a runtime to keep what it compiled; `None` compiles anew.
    pub identity: Option<crate::GraphIdentity>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions { value_bytes: crate::trace::DEFAULT_LIMIT, identity: None }
    }
}
