//! Starts backends. If a backend lacks element types, it is wrapped so that the runtime emulates them.

use super::{BackendRuntime, Runtime};
use crate::Backend;
use crate::ext::{FamilyTable, Kernels, Owned};
use crate::layer::{InnerBackend, kept_tables};
use crate::narrow::Narrowed;
use std::any::Any;
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
) -> Arc<dyn BackendRuntime> {
    let narrows = !backend.types().is_all();
    let owned = Arc::new(Owned { backend, tables: families });
    match narrows {
        true => started(owned.clone(), owned, identity, floats),
        false => Runtime::start(owned, identity),
    }
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

/// Starts a backend with an adapter that emulates the element types that it lacks. This part of [`start`] is not generic.
fn started(
    kernels: Arc<dyn Kernels>,
    own: Arc<dyn Any + Send + Sync>,
    identity: Identity,
    floats: bool,
) -> Arc<dyn BackendRuntime> {
    let tables = kept_tables::<Narrowed>(&kernels.natives());
    let backend = Narrowed::new(kernels, own, floats);
    Runtime::start(Arc::new(Owned { backend, tables }), identity)
}
