//! Which backend or component runs each node of a model, and which values are transferred between them. This is known
//! before anything runs.

use crate::coverage::{How, NodeInfo};
use std::fmt;

/// The backend or component that runs a node.
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

/// A node and its executor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodePlacement {
    /// The node.
    pub node: NodeInfo,
    /// The executor of the node.
    pub executor: Executor,
    /// Whether the backend is known to support all element types that the node needs. Some types are known only when
    /// inputs arrive. A component is responsible for its own types.
    pub checked: bool,
}

/// The backend or component that produces or reads a value.
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

/// A value that one backend or component produces and another reads.
///
/// Between backends, the value is copied through the host. A component reads the value where it is. A component's
/// result is moved if the backend that reads it is not the one on which the component left it; this is known only when
/// the component runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The value's name.
    pub value: String,
    /// The side that produces the value.
    pub from: Side,
    /// The side that reads the value.
    pub to: Side,
}

/// The executor of each node of a model, and the transfers between executors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The nodes, in the order in which they can run.
    pub nodes: Vec<NodePlacement>,
    /// The values that are transferred.
    pub transfers: Vec<Transfer>,
    /// The number of parts into which the model is cut.
    pub parts: usize,
}
