//! What accompanies a graph that is handed to a backend.

use super::Backend;
use bb_ir::proto::{AttributeProto, FunctionProto, GraphProto, OperatorSetIdProto, StringStringEntryProto};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// Tells graphs apart without comparing them, so that a backend can keep what it compiled.
///
/// Equal identities mean equal graphs within one process. What else accompanies a graph may differ between two calls: a
/// backend that compiles attributes or metadata in keeps what it compiled by them, too.
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
    /// The runtime that hands the graph over, which keeps plans for its backend.
    runtime: Option<Lent<'a>>,
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

/// Runs graphs by plans that are kept.
pub(crate) trait KeepsPlans<T, E>: Send + Sync {
    /// Tells whether the plans are those of this backend, by its address and its type's name.
    fn are_of(&self, backend: *const (), ty: &str) -> bool;

    /// Runs a graph by the plan that is kept for it, or made now.
    ///
    /// # Errors
    ///
    /// The backend's own: what makes the graph invalid, what is missing, or the failure of a node.
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, T>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, T>, E>;
}

/// Plans with the tensor and the error of their backend, which [`BackendAttrs`] do not name.
pub(crate) struct Plans<T, E>(pub(crate) Arc<dyn KeepsPlans<T, E>>);

/// [`Plans`] of some backend.
#[derive(Clone, Copy)]
struct Lent<'a>(&'a (dyn Any + Send + Sync));

impl std::fmt::Debug for Lent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the plans of a runtime")
    }
}

impl<'a> BackendAttrs<'a> {
    /// Returns the same with the plans of the runtime that hands the graph over.
    pub(crate) fn with_plans<T: 'static, E: 'static>(self, plans: &'a Plans<T, E>) -> BackendAttrs<'a> {
        BackendAttrs { runtime: Some(Lent(plans)), ..self }
    }
}

/// Returns the plans that a runtime keeps for this very backend, if it is a runtime that handed over the graph.
///
/// A backend that passes the graph on to another one, attributes and all, does not lend it its plans.
pub(crate) fn plans_of<'a, B: Backend + ?Sized>(
    on: &B,
    attrs: BackendAttrs<'a>,
) -> Option<&'a dyn KeepsPlans<B::Tensor, B::Error>> {
    let Plans(plans) = attrs.runtime?.0.downcast_ref::<Plans<B::Tensor, B::Error>>()?;
    plans.are_of(std::ptr::from_ref(on).cast(), std::any::type_name::<B>()).then_some(&**plans)
}

/// The attributes and metadata of whoever calls for a graph to run, kept with what was compiled for it.
#[derive(Debug, PartialEq)]
pub(crate) struct Caller {
    pub(crate) attributes: Vec<AttributeProto>,
    pub(crate) metadata: Vec<StringStringEntryProto>,
}

thread_local! {
    /// The caller of the plan that this thread runs.
    ///
    /// The operations of a plan are methods that know operands and parameters alone. A backend that turns them into
    /// graphs of one node gives those what the caller gave the plan.
    static CALLER: Cell<Option<Arc<Caller>>> = const { Cell::new(None) };
}

impl Caller {
    /// Runs `f`, a plan, for a caller.
    pub(crate) fn within<R>(caller: &Option<Arc<Caller>>, f: impl FnOnce() -> R) -> R {
        /// Restores what was before, after a panic too.
        struct Before(Option<Arc<Caller>>);
        impl Drop for Before {
            fn drop(&mut self) {
                CALLER.set(self.0.take());
            }
        }
        let _before = Before(CALLER.replace(caller.clone()));
        f()
    }

    /// Returns the caller of the plan that this thread runs.
    pub(crate) fn current() -> Option<Arc<Caller>> {
        let caller = CALLER.take();
        CALLER.set(caller.clone());
        caller
    }
}
