//! The native operations of backends that layers wrap.

use super::{Delegate, Layer, LayerError, LayerTensor, call, observes, writes};
use crate::ext::fused::replaced;
use crate::ext::{Extended, FamilyTable, NnOp, OpSet, ScalarOp};
use crate::{Backend, Outputs};
use bb_ir::op::{Family, OpSpec, Param};
use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A backend that a layer can wrap. It reports which operations of families it implements natively.
///
/// Every backend with `#[derive(bb::Backend)]` implements this, and so does every layer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a derived backend: `bb::InnerBackend` is not implemented for it",
    label = "this is not a backend with `#[derive(bb::Backend)]`, nor a layer",
    note = "write `#[derive(bb::Backend)]` on a backend, `#[bb::layer] impl bb::Layer` for a layer, and `B: bb::InnerBackend` in the bounds of a generic one",
    note = "a running backend (`bb::BackendHandle`) cannot be an inner backend: put the layer on the backend before it starts, or open both by name, as in `bb::backend(\"my-layer+cpu\")`"
)]
pub trait InnerBackend: Backend + Sized + 'static {
    /// Fails to compile for a layer that implements a family without `extensions(…)`.
    #[doc(hidden)]
    const ADOPTS: () = ();

    /// Returns the native operations of each family. The default returns none.
    fn natives(&self) -> Vec<(Family, OpSet)> {
        Vec::new()
    }

    /// Calls an operation of a family: the native method if there is one, otherwise the body. The default runs the
    /// body.
    ///
    /// # Errors
    ///
    /// The operation's own errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb::ir::op::Param;
    ///
    /// /// Returns the softmax along the last axis.
    /// fn softmax<B: bb::InnerBackend>(inner: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    ///     Ok(inner.native(bb::ext::NnOp::Softmax.spec(), &[Some(x)], &[Param::Int(-1)])?.remove(0))
    /// }
    /// ```
    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&Self::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Self::Tensor>, Self::Error> {
        Extended::new(self, &[]).call(spec, inputs, params)
    }

    /// Returns the versions of the backend and of the layers on top of it. The default is empty.
    fn version(&self) -> &'static str {
        ""
    }
}

/// Returns the native operations of a layer: the union of the inner backend's and the layer's own native operations.
///
/// A fused operation of the inner backend is left out if the layer writes an operation that it replaces in plans, because
/// the layer's method would not be called.
pub fn layer_natives<L: Layer>(on: &L) -> Vec<(Family, OpSet)> {
    let mut all = on.inner().natives();
    for fused in [NnOp::FusedConv.spec(), ScalarOp::Fused.spec()] {
        let bypasses = replaced(fused).any(writes::<L>);
        for (_, set) in all.iter_mut().filter(|(family, _)| bypasses && *family == fused.family) {
            *set = set.without(fused.index);
        }
    }
    for &(family, own) in L::NATIVES {
        match all.iter_mut().find(|(known, _)| *known == family) {
            Some((_, set)) => *set = set.union(own),
            None => all.push((family, own)),
        }
    }
    all
}

/// Calls an operation of a family on a layer. `own` are the tables of the families that the layer implements itself.
///
/// # Errors
///
/// The operation's own errors.
pub(super) fn layer_native<L: Layer>(
    on: &L,
    own: &[FamilyTable<L>],
    spec: &'static OpSpec,
    inputs: &[Option<&LayerTensor<L>>],
    params: &[Param<'_>],
) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
    if let Some(table) = crate::ext::native_in(own, spec) {
        return call::guarded::<L, _>(spec, || table.call(on, spec, inputs, params));
    }
    match const { observes::<L>() } {
        true => call::operation(on, spec, inputs, params),
        false => on.inner().native(spec, inputs, params),
    }
}

/// Returns the versions of a layer and of its inner backend as one string.
pub fn layer_version<L: Layer>(on: &L) -> &'static str {
    interned(format!("{} on {}", <L as Delegate>::VERSION, on.inner().version()))
}

/// Returns the tables of native operations, for a runtime and for plans. A runtime refers to the tables, so the
/// tables of each type of backend and set of operations are created once and leaked.
pub(crate) fn kept_tables<B: InnerBackend>(natives: &[(Family, OpSet)]) -> &'static [FamilyTable<B>] {
    type Key = (TypeId, Vec<(Family, OpSet)>);
    static KEPT: Mutex<Option<HashMap<Key, &'static (dyn Any + Send + Sync)>>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let made =
        kept.get_or_insert_default().entry((TypeId::of::<B>(), natives.to_vec())).or_insert_with(|| {
            let table = |&(family, native): &(Family, OpSet)| {
                FamilyTable::new(family, native, |on: &B, spec, inputs, params| {
                    on.native(spec, inputs, params)
                })
            };
            let tables: &'static [FamilyTable<B>] =
                Box::leak(natives.iter().map(table).collect::<Vec<_>>().into_boxed_slice());
            Box::leak(Box::new(tables))
        });
    made.downcast_ref::<&'static [FamilyTable<B>]>().copied().unwrap_or_default()
}

/// Returns a string with a static lifetime. Each distinct string is leaked once.
pub fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}
