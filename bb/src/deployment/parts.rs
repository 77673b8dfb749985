//! Parts of a model: the target of each node, and the graphs that are sent to backends.

use crate::placement::Placement;
use crate::{BackendAttrs, BackendHandle, CheckedGraph, Error, Module};
use bb_core::cut;
use bb_ir::proto::{AttributeProto, GraphProto, StringStringEntryProto};
use std::sync::Arc;

/// The backend or the component that runs a node, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Backend(usize),
    /// A node that carries a graph, which goes to the backend as a whole.
    Carrier(usize),
    Component(usize),
}

impl Target {
    /// Returns whether each node of this target is a separate part, as for components and carriers.
    pub(super) fn is_alone(&self) -> bool {
        !matches!(self, Target::Backend(_))
    }
}

/// Nodes that run together.
pub(super) type Part = cut::Part<Target>;

/// A model that is read and cut, but not yet prepared to run.
pub(super) struct Loaded {
    pub(super) name: String,
    pub(super) module: Module,
    pub(super) parts: Vec<Part>,
    pub(super) placement: Placement,
}

/// Part of a model: a graph, the backend that runs it, and the attributes and metadata that are sent with it.
#[derive(Debug, Clone)]
pub struct BackendSubgraph {
    pub(super) backend: BackendHandle,
    pub(super) checked: Arc<CheckedGraph>,
    pub(super) attributes: Vec<AttributeProto>,
    pub(super) metadata: Vec<StringStringEntryProto>,
}

impl BackendSubgraph {
    /// Returns the backend.
    pub fn backend(&self) -> &BackendHandle {
        &self.backend
    }

    /// Returns the checked graph.
    pub fn checked(&self) -> &CheckedGraph {
        &self.checked
    }

    /// Returns the graph as the message that a backend's own `dispatch` or `execute` receives.
    ///
    /// # Errors
    ///
    /// The errors of [`CheckedGraph::proto`].
    pub fn graph(&self) -> Result<&GraphProto, Error> {
        Ok(self.checked.proto()?)
    }

    /// Returns the attributes and metadata that are sent with the graph.
    pub fn attrs(&self) -> BackendAttrs<'_> {
        BackendAttrs::default()
            .with_identity(self.checked.identity())
            .with_opsets(self.checked.opsets())
            .with_node(&self.attributes, &self.metadata)
    }
}
