//! The target of a node of a deployment: a backend or a component, by number.

/// The backend or the component that runs a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Backend(usize),
    /// A node that carries a graph, which goes to the backend as a whole.
    Carrier(usize),
    Component(usize),
}

impl Target {
    /// Returns whether each node is a part of its own: each node of a component, and each carrier.
    pub(super) fn is_alone(&self) -> bool {
        !matches!(self, Target::Backend(_))
    }
}

/// Nodes that run together.
pub(super) type Part = bb_core::cut::Part<Target>;
