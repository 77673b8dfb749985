//! A checked graph on its way to a backend.

use crate::{BackendAttrs, Error, GraphIdentity, InputSpec, Module};
use bb_ir::proto::{GraphProto, OperatorSetIdProto};
use std::sync::{Arc, OnceLock};

/// A checked graph that a backend is asked to run, perhaps often.
///
/// A backend's own `dispatch` and `execute` take protobuf, so the first dispatch writes the graph as protobuf, once. A
/// backend that compiles the graph takes the checked module ([`BackendAttrs::module`]), so nothing is checked twice.
#[derive(Debug)]
pub struct CheckedGraph {
    module: Module,
    opsets: Vec<OperatorSetIdProto>,
    declared: InputSpec,
    identity: GraphIdentity,
    proto: OnceLock<Arc<GraphProto>>,
}

impl CheckedGraph {
    /// Prepares a module for dispatches, with an identity of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the nodes were written for two versions of one domain, because protobuf cannot say so.
    pub fn new(module: Module) -> Result<CheckedGraph, Error> {
        Ok(CheckedGraph {
            opsets: module.graph().opsets()?,
            declared: InputSpec::new(module.graph()),
            identity: GraphIdentity::fresh(),
            proto: OnceLock::new(),
            module,
        })
    }

    /// Returns the checked graph.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the graph as protobuf; the first call writes it.
    pub fn proto(&self) -> &Arc<GraphProto> {
        self.proto.get_or_init(|| Arc::new(self.module.graph().to_proto()))
    }

    /// Returns the opset of each domain that the graph uses.
    pub fn opsets(&self) -> &[OperatorSetIdProto] {
        &self.opsets
    }

    /// Returns the identity under which backends keep what they compile of the graph.
    pub fn identity(&self) -> GraphIdentity {
        self.identity
    }

    /// Returns what the graph declares of its inputs.
    pub(super) fn declared(&self) -> &InputSpec {
        &self.declared
    }

    /// Adds to attributes what the graph brings along.
    pub(super) fn accompany<'a>(&'a self, attrs: BackendAttrs<'a>) -> BackendAttrs<'a> {
        attrs.with_identity(self.identity).with_checked(&self.module, self.proto(), &self.opsets)
    }
}
