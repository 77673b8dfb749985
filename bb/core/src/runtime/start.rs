//! Starts backends. If a backend lacks element types, it is wrapped so that the runtime emulates them.

use super::{BackendRuntime, Runtime};
use crate::Backend;
use crate::ext::{FamilyTable, OpSet, Owned};
use crate::layer::{InnerBackend, kept_tables};
use crate::narrow::Narrowed;
use bb_ir::op::Family;
use std::sync::Arc;

/// The identity of a started backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    /// The name of the instance.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The path of the backend's type.
    pub(crate) path: &'static str,
}

/// Starts a backend. If it lacks element types, the runtime emulates them; `floats` says whether floats may be rounded
/// for this.
pub(crate) fn start<B: Backend + 'static>(
    backend: B,
    identity: Identity,
    families: &'static [FamilyTable<B>],
    floats: bool,
) -> Arc<dyn BackendRuntime> {
    if backend.types().is_all() {
        return Runtime::start(backend, identity, families);
    }
    let natives: Vec<_> = families.iter().map(|table| (table.family(), table.native())).collect();
    let owned = Arc::new(Owned { backend, tables: families });
    started(Narrowed::new(owned.clone(), owned, floats), identity, &natives)
}

/// Starts a backend or a layer under a name. If the backend lacks element types, the runtime emulates them, if that is
/// exact.
pub(crate) fn start_inner<B: InnerBackend>(
    name: &'static str,
    backend: B,
    floats: bool,
) -> Arc<dyn BackendRuntime> {
    let identity = Identity { name, version: backend.version(), path: std::any::type_name::<B>() };
    start_as(identity, backend, floats)
}

/// Starts a backend or a layer like [`start_inner`], with this version and path.
pub(super) fn start_as<B: InnerBackend>(
    identity: Identity,
    backend: B,
    floats: bool,
) -> Arc<dyn BackendRuntime> {
    let tables = kept_tables::<B>(&backend.natives());
    start(backend, identity, tables, floats)
}

/// Starts a wrapped backend. This part of [`start`] is not generic, so that it is compiled once.
fn started(narrowed: Narrowed, identity: Identity, natives: &[(Family, OpSet)]) -> Arc<dyn BackendRuntime> {
    Runtime::start(narrowed, identity, kept_tables::<Narrowed>(natives))
}
