//! Part of a model, handed to one backend as a whole.

use crate::{BackendAttrs, BackendHandle, ContractResponse, Error, GraphIdentity, Value};
use bb_ir::proto::{AttributeProto, GraphProto, OperatorSetIdProto, StringStringEntryProto};
use std::collections::HashMap;
use std::sync::Arc;

/// Part of a model: a graph, the backend it goes to, and what accompanies it.
#[derive(Debug, Clone)]
pub struct BackendSubgraph {
    pub(super) backend: BackendHandle,
    pub(super) graph: Arc<GraphProto>,
    pub(super) opsets: Vec<OperatorSetIdProto>,
    pub(super) attributes: Vec<AttributeProto>,
    pub(super) metadata: Vec<StringStringEntryProto>,
    pub(super) identity: GraphIdentity,
}

impl BackendSubgraph {
    /// Returns the backend.
    pub fn backend(&self) -> &BackendHandle {
        &self.backend
    }

    /// Returns the graph.
    pub fn graph(&self) -> &GraphProto {
        &self.graph
    }

    /// Returns what accompanies the graph.
    pub fn attrs(&self) -> BackendAttrs<'_> {
        BackendAttrs::default()
            .with_identity(self.identity)
            .with_opsets(&self.opsets)
            .with_node(&self.attributes, &self.metadata)
    }

    /// Moves the inputs to the backend, and hands the graph over.
    pub(super) fn dispatch(
        &self,
        inputs: impl IntoIterator<Item = (String, Value)>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        let moved = inputs.into_iter().map(|(name, value)| Ok((name, self.backend.adopt(&value)?)));
        match moved.collect() {
            Ok(inputs) => self.backend.runtime().clone().dispatch(self.graph.clone(), inputs, self.attrs()),
            Err(error) => ContractResponse::Now(Err(error)),
        }
    }
}
