//! What runs each node of a model, and what crosses between backends and components; known before anything runs.

use crate::coverage::{How, NodeInfo};
use std::fmt;

/// What runs a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
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
pub struct NodePlacement {
    /// The node.
    pub node: NodeInfo,
    /// What runs it.
    pub by: Executor,
    /// Whether the backend is known to take all element types that the node needs; some are known only when inputs arrive.
    /// A component answers for its own.
    pub checked: bool,
}

/// Who makes or reads a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// The backend of this name.
    Backend(String),
    /// The component that runs the node of this name.
    Component(String),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Backend(name) => write!(f, "`{name}`"),
            Side::Component(node) => write!(f, "the component at `{node}`"),
        }
    }
}

/// A value that one makes and another reads.
///
/// Between backends it goes by way of the host. A component is given it where it is, and what a component makes is moved if
/// the backend that reads it is another than the one the component chose, which nobody knows beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The value's name.
    pub value: String,
    /// Who makes it.
    pub from: Side,
    /// Who reads it.
    pub to: Side,
}

/// What runs each node of a model, and what crosses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The nodes, in the order in which they can run.
    pub nodes: Vec<NodePlacement>,
    /// The values that cross.
    pub crossings: Vec<Transfer>,
    /// The number of parts into which the model is cut.
    pub parts: usize,
}
