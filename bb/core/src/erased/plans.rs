//! The plans that a running backend keeps for graphs. The default methods of its backend use them.

use super::{ErasedError, ErasedTensor, erased_named, typed_named};
use crate::{Backend, BackendAttrs};
use bb_ir::proto::GraphProto;
use std::collections::HashMap;
use std::sync::Arc;

/// A cache of plans that runs graphs with them.
pub(crate) trait KeepsPlans: Send + Sync {
    /// Returns whether the plans belong to this backend, which is identified by its address and the name of its type.
    fn are_of(&self, backend: *const (), ty: &str) -> bool;

    /// Returns whether the plans belong to an adapter that emulates element types for its backend.
    fn are_narrowed(&self) -> bool;

    /// Runs a graph with its cached plan. If there is none, makes the plan first.
    ///
    /// # Errors
    ///
    /// The backend's own error if the graph is invalid, an input is missing, or a node fails.
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError>;
}

impl dyn KeepsPlans + '_ {
    /// Runs a graph on tensors of the backend's own type.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](KeepsPlans::run).
    pub(crate) fn run_typed<B: Backend + ?Sized>(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, B::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, B::Tensor>, B::Error> {
        let results = self.run(graph, erased_named(inputs), attrs).map_err(ErasedError::typed::<B>)?;
        Ok(typed_named(results)?)
    }
}

/// The plans that a runtime passes to its backend in [`BackendAttrs`].
pub(crate) struct Plans(pub(crate) Arc<dyn KeepsPlans>);

/// Returns the plans that the calling runtime keeps for exactly this backend; `None` if the caller is not
/// a runtime that keeps plans for it.
///
/// If a backend passes a graph and its attributes on to another backend, that backend does not get the plans.
pub(crate) fn plans_of<'a, B: Backend + ?Sized>(
    on: &B,
    attrs: BackendAttrs<'a>,
) -> Option<&'a dyn KeepsPlans> {
    let Plans(plans) = attrs.plans()?;
    plans.are_of(std::ptr::from_ref(on).cast(), std::any::type_name::<B>()).then_some(&**plans)
}

/// Returns the plans that the calling runtime keeps for an adapter that emulates element types.
pub(crate) fn narrowed_plans(attrs: BackendAttrs<'_>) -> Option<&dyn KeepsPlans> {
    let Plans(plans) = attrs.plans()?;
    plans.are_narrowed().then_some(&**plans)
}
