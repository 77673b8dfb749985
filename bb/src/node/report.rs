//! What runs each node of a model, and what crosses between backends; known before anything runs.

use crate::coverage::{How, Missing};

/// What runs a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// A backend.
    Backend {
        /// The backend's name.
        name: String,
        /// How it runs the node.
        how: How,
    },
    /// The component bound to the operator.
    Component,
}

/// A node and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// The node.
    pub node: Missing,
    /// What runs it.
    pub by: By,
}

/// A value that is made on one backend and read on another, by way of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// The value's name.
    pub value: String,
    /// The backend that makes it.
    pub from: String,
    /// The backend that reads it.
    pub to: String,
}

/// What runs each node of a model, and what crosses between backends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The nodes, in the order in which they can run.
    pub nodes: Vec<Placed>,
    /// The values that cross.
    pub crossings: Vec<Crossing>,
    /// The number of parts into which the model is cut.
    pub parts: usize,
}

/// A node that nothing runs, and the backend that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uncovered {
    /// The name under which the model is bound.
    pub model: String,
    /// The node.
    pub node: Missing,
    /// The backend.
    pub backend: String,
}

/// The nodes that nothing runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UncoveredList(pub Vec<Uncovered>);

impl std::fmt::Display for UncoveredList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, Uncovered { model, node, backend }) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}in `{model}`, {node}, asked of `{backend}`")?;
        }
        Ok(())
    }
}
