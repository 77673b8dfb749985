//! Starts backends. If a backend lacks element types, it is wrapped so that the runtime emulates them.

use super::Runtime;
use crate::Backend;
use crate::ext::{FamilyTable, Kernels, Owned};
use crate::layer::{Erased, InnerBackend, kept_tables};
use crate::narrow::Narrowed;
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

impl Identity {
    /// Returns the identity of a backend without the derive.
    pub(super) fn unversioned<B>(name: &'static str) -> Identity {
        Identity { name, version: "", path: std::any::type_name::<B>() }
    }
}

/// Starts a backend. If it lacks element types, the runtime emulates them; `floats` says whether floats may be rounded
/// for this.
pub(crate) fn start<B: Backend + 'static>(
    backend: B,
    identity: Identity,
    families: &'static [FamilyTable<B>],
    floats: bool,
) -> Arc<Runtime> {
    started(Arc::new(Owned { backend, tables: families }), identity, floats)
}

/// Starts the layers and the backend of a name, like [`start_inner`]. The runtime calls the outermost layer directly.
pub(super) fn start_erased(name: &'static str, stack: Erased, floats: bool) -> Arc<Runtime> {
    let identity = Identity { name, version: stack.version(), path: std::any::type_name::<Erased>() };
    started(stack.kernels, identity, floats)
}

/// Starts a backend or a layer under a name. If the backend lacks element types, the runtime emulates them, if that is
/// exact.
pub(crate) fn start_inner<B: InnerBackend>(name: &'static str, backend: B, floats: bool) -> Arc<Runtime> {
    let identity = Identity { name, version: backend.version(), path: std::any::type_name::<B>() };
    start_as(identity, backend, floats)
}

/// Starts a backend or a layer like [`start_inner`], with this version and path.
pub(super) fn start_as<B: InnerBackend>(identity: Identity, backend: B, floats: bool) -> Arc<Runtime> {
    let tables = kept_tables::<B>(&backend.natives());
    start(backend, identity, tables, floats)
}

/// Starts a backend. If it refuses element types, an adapter emulates them. This part of [`start`] is not generic.
fn started(kernels: Arc<dyn Kernels>, identity: Identity, floats: bool) -> Arc<Runtime> {
    if !kernels.refuses_types() {
        return Runtime::start(kernels, identity);
    }
    let tables = kept_tables::<Narrowed>(&kernels.natives());
    let backend = Narrowed::new(kernels, floats);
    Runtime::start(Arc::new(Owned { backend, tables }), identity)
}
