//! The options of a compilation.

use super::attrs::{BackendPlace, Caller, reach};
use super::switches::PassSwitches;
use super::{Backend, FamilyTable, GraphIdentity};
use crate::Error;
use bb_ir::Limits;
use bb_ir::proto::{AttributeProto, StringStringEntryProto};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of compilation.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompileOptions {
    /// [`Limits::value_bytes`](bb_ir::Limits::value_bytes).
    pub value_bytes: usize,
    /// [`Limits::iterations`](bb_ir::Limits::iterations).
    pub iterations: usize,
    /// [`Limits::run_bytes`](bb_ir::Limits::run_bytes).
    pub run_bytes: usize,
    /// [`Limits::fold_bytes`](bb_ir::Limits::fold_bytes).
    pub fold_bytes: usize,
    /// [`Limits::plan_bytes`](bb_ir::Limits::plan_bytes).
    pub plan_bytes: usize,
    /// Whether to refuse a graph with nodes that run on the host, as `bb::coverage::Coverage` counts them.
    pub refuse_host: bool,
    /// Whether to refuse a graph with nodes that are lowered to several operations rather than native to the backend.
    pub refuse_lowered: bool,
    /// Whether to check each trace after each pass that rewrites it; on by default in builds with debug assertions. A failed check
    /// is a bug in `bb`, [`Error::Internal`](crate::Error::Internal).
    pub check_passes: bool,
    /// The enabled passes.
    pub passes: PassSwitches,
    /// Whether to refuse inputs with different extents that share one name in the model. Exporters often get these names wrong, and results
    /// do not depend on them, so the option is off by default; [`InputSpec::contradictions`](crate::InputSpec::contradictions) lists these
    /// extents.
    pub strict: bool,
    /// The identity of the graph: a runtime finds an earlier compilation by it. `None` compiles anew.
    pub identity: Option<GraphIdentity>,
    /// The attributes and metadata of the caller; see [`with_node`](Self::with_node).
    caller: Option<Arc<Caller>>,
    /// A `Families<B>` for the backend that compiles.
    families: Option<Arc<dyn Any + Send + Sync>>,
    /// A flag, and the backend whose default `compile` sets it instead of compiling.
    asking: Option<(Arc<AtomicBool>, BackendPlace)>,
}

/// The families that a backend adopted, stored in [`CompileOptions`], which are not generic over the backend.
struct Families<B: Backend + ?Sized + 'static>(&'static [FamilyTable<B>]);

impl CompileOptions {
    /// Returns these options with the limits of runs from `limits`.
    #[must_use]
    pub fn within(self, limits: &Limits) -> CompileOptions {
        let Limits { value_bytes, run_bytes, fold_bytes, iterations, plan_bytes, .. } = *limits;
        CompileOptions { value_bytes, run_bytes, fold_bytes, iterations, plan_bytes, ..self }
    }

    /// Returns these options with the families that the backend `B` adopted; plans call the native operations of these families.
    #[must_use]
    pub fn with_families<B: Backend + ?Sized + 'static>(
        self,
        tables: &'static [FamilyTable<B>],
    ) -> CompileOptions {
        CompileOptions { families: Some(Arc::new(Families(tables))), ..self }
    }

    /// Returns these options with the attributes and metadata of the node that contains the graph, or of any other caller.
    ///
    /// The compiled graph passes them to the backend with every graph, of one node or of many.
    #[must_use]
    pub fn with_node(
        self,
        attributes: &[AttributeProto],
        metadata: &[StringStringEntryProto],
    ) -> CompileOptions {
        let caller = Caller { attributes: attributes.to_vec(), metadata: metadata.to_vec() };
        let given = !attributes.is_empty() || !metadata.is_empty();
        CompileOptions { caller: given.then(|| Arc::new(caller)), ..self }
    }

    /// Returns these options for a call that only an overridden `compile` of this backend may serve. The default `compile` sets `reached`
    /// and fails.
    pub(crate) fn asking<B: ?Sized>(self, on: &B, reached: &Arc<AtomicBool>) -> CompileOptions {
        CompileOptions { asking: Some((reached.clone(), BackendPlace::of(on))), ..self }
    }

    /// Returns these options for a call of this backend, because the original backend passes graphs on to this backend.
    pub(crate) fn asked_of<B: ?Sized>(self, on: &B) -> CompileOptions {
        CompileOptions { asking: self.asking.map(|(reached, _)| (reached, BackendPlace::of(on))), ..self }
    }

    /// Returns the flag `reached` of [`asking`](Self::asking) if only an overridden `compile` of this backend may serve the call.
    pub(crate) fn asking_about<B: ?Sized>(&self, on: &B) -> Option<&Arc<AtomicBool>> {
        self.asking.as_ref().filter(|(_, place)| *place == BackendPlace::of(on)).map(|(reached, _)| reached)
    }

    /// Fails if only an overridden `compile` may serve the call. The defaults call this first.
    pub(crate) fn reach_default<B: ?Sized>(&self, on: &B) -> Result<(), Error> {
        match &self.asking {
            Some((reached, place)) if *place == BackendPlace::of(on) => reach(reached),
            _ => Ok(()),
        }
    }

    /// Returns the caller's attributes.
    pub fn attributes(&self) -> &[AttributeProto] {
        self.caller.as_ref().map_or(&[], |caller| &caller.attributes)
    }

    /// Returns the caller's metadata.
    pub fn metadata(&self) -> &[StringStringEntryProto] {
        self.caller.as_ref().map_or(&[], |caller| &caller.metadata)
    }

    pub(crate) fn caller(&self) -> Option<Arc<Caller>> {
        self.caller.clone()
    }

    /// Returns whether a backend compiles a graph in the same way with both options.
    pub(crate) fn are_like(&self, other: &CompileOptions) -> bool {
        // Every field is named, so that a new field cannot be forgotten. The families belong to the backend, not to the caller.
        let CompileOptions {
            value_bytes,
            iterations,
            run_bytes,
            fold_bytes,
            plan_bytes,
            refuse_host,
            refuse_lowered,
            check_passes,
            passes,
            strict,
            identity,
            caller,
            families: _,
            asking: _,
        } = self;
        *identity == other.identity
            && *value_bytes == other.value_bytes
            && *iterations == other.iterations
            && *run_bytes == other.run_bytes
            && *fold_bytes == other.fold_bytes
            && *plan_bytes == other.plan_bytes
            && *refuse_host == other.refuse_host
            && *refuse_lowered == other.refuse_lowered
            && *check_passes == other.check_passes
            && *passes == other.passes
            && *strict == other.strict
            && *caller == other.caller
    }

    /// Returns the families of `B`; an empty list if the options were created for another backend.
    pub(crate) fn families<B: Backend + ?Sized + 'static>(&self) -> &'static [FamilyTable<B>] {
        self.families
            .as_ref()
            .and_then(|any| any.downcast_ref::<Families<B>>())
            .map_or(&[], |families| families.0)
    }
}

impl std::fmt::Debug for CompileOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompileOptions").field("value_bytes", &self.value_bytes).finish_non_exhaustive()
    }
}

impl Default for CompileOptions {
    fn default() -> Self {
        let Limits { value_bytes, run_bytes, fold_bytes, iterations, plan_bytes, .. } = Limits::default();
        CompileOptions {
            value_bytes,
            iterations,
            run_bytes,
            fold_bytes,
            plan_bytes,
            refuse_host: false,
            refuse_lowered: false,
            check_passes: cfg!(debug_assertions),
            passes: PassSwitches::default(),
            strict: false,
            identity: None,
            caller: None,
            families: None,
            asking: None,
        }
    }
}
