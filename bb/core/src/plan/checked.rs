//! A checked graph, prepared for a backend.

use crate::{BackendAttrs, Error, GraphCache, GraphIdentity, InputSpec, Module};
use bb_ir::proto::{GraphProto, OperatorSetIdProto};
use std::sync::{Arc, OnceLock};

/// A checked graph that a backend may run many times.
///
/// A backend's own `dispatch` and `execute` take protobuf, so the first dispatch converts the graph to protobuf, once. A
/// backend that compiles the graph takes the checked module ([`BackendAttrs::module`]), so the graph is not checked again.
#[derive(Debug)]
pub struct CheckedGraph {
    module: Module,
    opsets: Vec<OperatorSetIdProto>,
    declared: InputSpec,
    cache: GraphCache,
    proto: OnceLock<Arc<GraphProto>>,
}

impl CheckedGraph {
    /// Prepares a module for dispatches and assigns a new identity to it.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the nodes use two versions of one domain, because protobuf cannot express that.
    pub fn new(module: Module) -> Result<CheckedGraph, Error> {
        Ok(CheckedGraph {
            opsets: module.graph().opsets()?,
            declared: InputSpec::new(module.graph()),
            cache: GraphCache::fresh(),
            proto: OnceLock::new(),
            module,
        })
    }

    /// Returns the checked graph.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the graph as protobuf; the first call converts it.
    ///
    /// # Errors
    ///
    /// The error of a tensor whose file is damaged; see [`TensorData::prepare`](crate::TensorData::prepare).
    pub fn proto(&self) -> Result<&Arc<GraphProto>, Error> {
        if let Some(proto) = self.proto.get() {
            return Ok(proto);
        }
        let proto = Arc::new(self.module.graph().to_proto()?);
        // If another thread was faster, its result is kept.
        Ok(self.proto.get_or_init(|| proto))
    }

    /// Returns the opset of each domain that the graph uses.
    pub fn opsets(&self) -> &[OperatorSetIdProto] {
        &self.opsets
    }

    /// Returns the identity of this graph. Backends look up compiled plans by it.
    pub fn identity(&self) -> GraphIdentity {
        self.cache.identity()
    }

    /// Returns the declared types and shapes of the graph's inputs.
    pub(crate) fn declared(&self) -> &InputSpec {
        &self.declared
    }

    /// Adds the graph's identity, cache, module and opsets to the attributes.
    pub(crate) fn accompany<'a>(&'a self, attrs: BackendAttrs<'a>) -> Result<BackendAttrs<'a>, Error> {
        Ok(attrs.with_cache(&self.cache).with_checked(&self.module, self.proto()?, &self.opsets))
    }
}
