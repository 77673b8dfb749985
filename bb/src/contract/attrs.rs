//! What accompanies a graph that is handed to a backend.

use bb_ir::proto::{AttributeProto, FunctionProto, OperatorSetIdProto, StringStringEntryProto};

/// Tells graphs apart without comparing them, so that a backend can keep what it compiled.
///
/// Equal identities mean equal graphs within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphIdentity(u64);

impl GraphIdentity {
    /// Makes an identity that no graph of this process has had.
    pub fn fresh() -> GraphIdentity {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        GraphIdentity(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What accompanies a graph: the calling node's attributes and metadata, opsets, functions, identity.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct BackendAttrs<'a> {
    /// The attributes of the node that carries the graph.
    pub attributes: &'a [AttributeProto],
    /// The metadata of the node that carries the graph.
    pub metadata: &'a [StringStringEntryProto],
    /// The opset of each domain that the graph uses; none means the newest.
    pub opsets: &'a [OperatorSetIdProto],
    /// The functions that the graph may call.
    pub functions: &'a [FunctionProto],
    /// Which graph it is, if the caller runs it more than once.
    pub identity: Option<GraphIdentity>,
}

impl<'a> BackendAttrs<'a> {
    /// Returns the same with another identity.
    #[must_use]
    pub fn with_identity(self, identity: GraphIdentity) -> BackendAttrs<'a> {
        BackendAttrs { identity: Some(identity), ..self }
    }

    /// Returns the same with other opsets.
    #[must_use]
    pub fn with_opsets(self, opsets: &'a [OperatorSetIdProto]) -> BackendAttrs<'a> {
        BackendAttrs { opsets, ..self }
    }

    /// Returns the same with other functions.
    #[must_use]
    pub fn with_functions(self, functions: &'a [FunctionProto]) -> BackendAttrs<'a> {
        BackendAttrs { functions, ..self }
    }

    /// Returns the same with a carrier node's attributes and metadata.
    #[must_use]
    pub fn with_node(
        self,
        attributes: &'a [AttributeProto],
        metadata: &'a [StringStringEntryProto],
    ) -> BackendAttrs<'a> {
        BackendAttrs { attributes, metadata, ..self }
    }
}
