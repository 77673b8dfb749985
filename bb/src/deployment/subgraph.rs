//! Part of a model, which is sent to one backend as a whole.

use crate::{BackendAttrs, BackendHandle, CheckedGraph, ContractResponse, Error, Value};
use bb_ir::proto::{AttributeProto, GraphProto, StringStringEntryProto};
use std::collections::HashMap;
use std::sync::Arc;

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

    /// Returns the graph in the form that a backend's own `dispatch` or `execute` gets.
    ///
    /// # Errors
    ///
    /// Those of [`CheckedGraph::proto`].
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

    /// Moves the inputs to the backend and dispatches the graph.
    pub(super) fn dispatch(
        &self,
        inputs: impl IntoIterator<Item = (String, Value)>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        let moved = inputs.into_iter().map(|(name, value)| Ok((name, self.backend.adopt(&value)?)));
        let attrs = BackendAttrs::default().with_node(&self.attributes, &self.metadata);
        match moved.collect() {
            Ok(inputs) => self.backend.runtime().clone().dispatch_checked(&self.checked, inputs, attrs),
            Err(error) => ContractResponse::Now(Err(error)),
        }
    }
}
