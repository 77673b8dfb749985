//! The attributes that are passed to a backend together with a graph.

use super::{GraphCache, Module};
use crate::Error;
use bb_ir::proto::{AttributeProto, FunctionProto, GraphProto, OperatorSetIdProto, StringStringEntryProto};
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The identity of a graph. A backend can compare it instead of the graph's contents, to find a cached compiled graph.
///
/// Within one process, equal identities mean equal graphs. The other [`BackendAttrs`] may differ between two
/// calls: a backend whose compiled form depends on attributes or metadata must include them in the key of its
/// cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphIdentity(u64);

impl GraphIdentity {
    /// Returns an identity that no other graph of this process has.
    pub fn fresh() -> GraphIdentity {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        GraphIdentity(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Additional data of a graph: the attributes and metadata of the calling node, opsets, functions and an
/// identity.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct BackendAttrs<'a> {
    /// The attributes of the node that carries the graph.
    pub attributes: &'a [AttributeProto],
    /// The metadata of the node that carries the graph.
    pub metadata: &'a [StringStringEntryProto],
    /// The opset of each domain that the graph uses; an empty list means the newest opsets.
    pub opsets: &'a [OperatorSetIdProto],
    /// The functions that the graph may call.
    pub functions: &'a [FunctionProto],
    /// The identity of the graph, if the caller runs it more than once.
    pub identity: Option<GraphIdentity>,
    /// The place for the compiled form of the graph.
    cache: Option<&'a GraphCache>,
    /// The plans that the calling runtime keeps for its backend.
    runtime: Option<PlansRef<'a>>,
    /// The checked graph that the protobuf was written from.
    checked: Option<Checked<'a>>,
    /// The original steps of a graph that was narrowed to the types of a backend.
    narrowed: Option<&'a (dyn Any + Send + Sync)>,
    /// Whose default of a method sets this, instead of running the graph.
    asking: Option<(&'a AtomicBool, Option<BackendPlace>)>,
    /// Whether the call comes from `dispatch` and has not reached the default of `dispatch`.
    in_dispatch: bool,
}

/// A checked graph, with the protobuf and the opsets that were written from it.
#[derive(Debug, Clone, Copy)]
struct Checked<'a> {
    module: &'a Module,
    graph: &'a GraphProto,
    opsets: &'a [OperatorSetIdProto],
}

impl<'a> BackendAttrs<'a> {
    /// Returns the attributes with another identity.
    #[must_use]
    pub fn with_identity(self, identity: GraphIdentity) -> BackendAttrs<'a> {
        BackendAttrs { identity: Some(identity), ..self }
    }

    /// Returns the attributes with the identity of a graph and the place for its compiled form.
    pub(crate) fn with_cache(self, cache: &'a GraphCache) -> BackendAttrs<'a> {
        BackendAttrs { identity: Some(cache.identity()), cache: Some(cache), ..self }
    }

    /// Returns the place for the compiled form of the graph; `None` if the caller has none.
    ///
    /// A graph that has an identity and no cache may come again, so a backend keeps its compiled form itself, in a list of limited length.
    pub fn cache(&self) -> Option<&'a GraphCache> {
        self.cache.filter(|cache| Some(cache.identity()) == self.identity)
    }

    /// Returns the module that the graph was written from, if it came with these attributes.
    pub(crate) fn checked(&self, graph: &GraphProto) -> Option<&'a Module> {
        let same = |checked: &Checked<'_>| {
            std::ptr::eq(checked.graph, graph)
                && std::ptr::eq(checked.opsets, self.opsets)
                && self.functions.is_empty()
        };
        self.checked.filter(same).map(|checked| checked.module)
    }

    /// Returns the attributes with the opsets of a graph, and with the module that the graph was written from.
    pub(crate) fn with_checked(
        self,
        module: &'a Module,
        graph: &'a GraphProto,
        opsets: &'a [OperatorSetIdProto],
    ) -> BackendAttrs<'a> {
        BackendAttrs { opsets, checked: Some(Checked { module, graph, opsets }), ..self }
    }

    /// Returns the attributes with the original steps of the narrowed graph.
    pub(crate) fn with_narrowed<T: Send + Sync + 'static>(self, narrowed: Option<&'a T>) -> BackendAttrs<'a> {
        BackendAttrs { narrowed: narrowed.map(|steps| steps as _), ..self }
    }

    /// Returns the original steps of a graph that was narrowed to the types of a backend, if they are a `T`.
    pub(crate) fn narrowed<T: 'static>(&self) -> Option<&'a T> {
        self.narrowed?.downcast_ref()
    }

    /// Returns the attributes for a call that only an overridden method may run. If the call reaches a default method
    /// of the backend that [`asked_of`](Self::asked_of) sets, the default sets `reached` and fails.
    pub(crate) fn asking(self, reached: &'a AtomicBool) -> BackendAttrs<'a> {
        BackendAttrs { asking: Some((reached, None)), ..self }
    }

    /// Returns the attributes for a call of `dispatch` that only an overridden method may run. An overridden `dispatch`
    /// may call the default of `execute`, which then runs the graph.
    pub(crate) fn asking_dispatch(self, reached: &'a AtomicBool) -> BackendAttrs<'a> {
        BackendAttrs { in_dispatch: true, ..self.asking(reached) }
    }

    /// Returns the attributes with the mark that the default of `dispatch` was reached.
    pub(crate) fn by_default_dispatch(self) -> BackendAttrs<'a> {
        BackendAttrs { in_dispatch: false, ..self }
    }

    /// Returns whether this backend's own `dispatch` calls the default of `execute`.
    pub(crate) fn in_own_dispatch_of<B: ?Sized>(&self, on: &B) -> bool {
        let asked = |(_, place): (_, Option<BackendPlace>)| place == Some(BackendPlace::of(on));
        self.in_dispatch && self.asking.is_some_and(asked)
    }

    /// Returns the attributes for a call of this backend. Its methods may pass the attributes on to other backends,
    /// whose default methods run as usual.
    #[doc(hidden)]
    #[must_use]
    pub fn asked_of<B: ?Sized>(self, on: &B) -> BackendAttrs<'a> {
        BackendAttrs { asking: self.asking.map(|(reached, _)| (reached, Some(BackendPlace::of(on)))), ..self }
    }

    /// Returns the attributes for a backend that replaces `on` in this call. The backend gets them by [`asked_of`](Self::asked_of). If the
    /// call is about the methods of another backend, the default methods of the new backend run as usual.
    pub(crate) fn handed_on_by<B: ?Sized>(self, on: &B) -> BackendAttrs<'a> {
        let asking = self.asking.filter(|(_, place)| *place == Some(BackendPlace::of(on)));
        BackendAttrs { asking, ..self }
    }

    /// Fails if only an overridden method may run the call. Default methods call this first.
    pub(crate) fn reach_default<B: ?Sized>(&self, on: &B) -> Result<(), Error> {
        match self.asking {
            Some(_) if self.in_own_dispatch_of(on) => Ok(()),
            Some((reached, Some(place))) if place == BackendPlace::of(on) => reach(reached),
            _ => Ok(()),
        }
    }

    /// Returns the attributes with other opsets.
    #[must_use]
    pub fn with_opsets(self, opsets: &'a [OperatorSetIdProto]) -> BackendAttrs<'a> {
        BackendAttrs { opsets, ..self }
    }

    /// Returns the attributes with other functions.
    #[must_use]
    pub fn with_functions(self, functions: &'a [FunctionProto]) -> BackendAttrs<'a> {
        BackendAttrs { functions, ..self }
    }

    /// Returns the attributes with the attributes and metadata of the node that carries the graph.
    #[must_use]
    pub fn with_node(
        self,
        attributes: &'a [AttributeProto],
        metadata: &'a [StringStringEntryProto],
    ) -> BackendAttrs<'a> {
        BackendAttrs { attributes, metadata, ..self }
    }
}

/// The identity of a backend: its address and the name of its type, because a layer may have the address of its inner backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackendPlace(usize, &'static str);

impl BackendPlace {
    pub(crate) fn of<B: ?Sized>(on: &B) -> BackendPlace {
        BackendPlace(std::ptr::from_ref(on).cast::<()>().addr(), std::any::type_name::<B>())
    }
}

/// Records that a default method was reached, and returns an error so that it stops: only an overridden method may run
/// the call.
pub(crate) fn reach(reached: &AtomicBool) -> Result<(), Error> {
    reached.store(true, Ordering::Relaxed);
    Err(Error::excluded("a method of the backend's own"))
}

/// A reference to the plans of a runtime, whose type is in a higher module.
#[derive(Clone, Copy)]
struct PlansRef<'a>(&'a (dyn Any + Send + Sync));

impl std::fmt::Debug for PlansRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the plans of a runtime")
    }
}

impl<'a> BackendAttrs<'a> {
    /// Returns the attributes with the plans of the calling runtime.
    pub(crate) fn with_plans<P: Any + Send + Sync>(self, plans: &'a P) -> BackendAttrs<'a> {
        BackendAttrs { runtime: Some(PlansRef(plans)), ..self }
    }

    /// Returns the plans of the calling runtime.
    pub(crate) fn plans<P: Any>(self) -> Option<&'a P> {
        self.runtime?.0.downcast_ref()
    }
}

/// The attributes and metadata of a graph's caller, stored with the compiled graph.
#[derive(Debug, PartialEq)]
pub(crate) struct Caller {
    pub(crate) attributes: Vec<AttributeProto>,
    pub(crate) metadata: Vec<StringStringEntryProto>,
}

thread_local! {
    /// The caller of the plan that this thread is running.
    ///
    /// The operations of a plan are methods that only take operands and parameters. A backend that turns them
    /// into graphs of one node reads the caller's attributes and metadata here.
    static CALLER: Cell<Option<Arc<Caller>>> = const { Cell::new(None) };
}

impl Caller {
    /// Runs `f` on behalf of a caller. `f` runs a plan.
    pub(crate) fn within<R>(caller: &Option<Arc<Caller>>, f: impl FnOnce() -> R) -> R {
        /// Restores the previous caller, also after a panic.
        struct CallerGuard(Option<Arc<Caller>>);
        impl Drop for CallerGuard {
            fn drop(&mut self) {
                CALLER.set(self.0.take());
            }
        }
        let _before = CallerGuard(CALLER.replace(caller.clone()));
        f()
    }

    /// Returns the caller of the plan that this thread is running.
    pub(crate) fn current() -> Option<Arc<Caller>> {
        let caller = CALLER.take();
        CALLER.set(caller.clone());
        caller
    }
}
