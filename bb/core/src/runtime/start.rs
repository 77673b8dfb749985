//! Starts backends. If a backend lacks element types, it is wrapped so that the runtime emulates them.

use super::{Declared, OpenOptions, Runtime, bridge, open};
use crate::ext::{FamilyTable, Kernels, Owned};
use crate::layer::{Erased, InnerBackend, kept_tables};
use crate::narrow::Narrowed;
use crate::{Backend, Error, OpenOption};
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

impl Runtime {
    /// Starts a backend that was declared by `#[derive(bb::Backend)]`.
    pub fn new<B: Declared>(backend: B) -> Arc<Runtime> {
        let identity = Identity { name: B::NAME, version: B::VERSION, path: B::PATH };
        Runtime::start(Arc::new(Owned { backend, tables: B::FAMILIES }), identity)
    }

    /// Constructs a backend and starts it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the constructor fails or panics.
    pub fn open<B: Declared>() -> Result<Arc<Runtime>, Error> {
        Runtime::open_with::<B>(&OpenOptions::default())
    }

    /// Constructs a backend with options.
    pub(crate) fn constructed<B: Declared>(options: &OpenOptions) -> Result<B, Error> {
        open::check::<B>(options)?;
        let options = &open::complete(B::OPTIONS, options);
        bridge::construct(B::NAME, || B::create(options))
    }

    /// Constructs a backend with options and starts it.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`Error::OpenOption`] if the backend does not accept one of the options;
    /// [`Error::UnknownDevice`] if it lists its devices and the requested one is not among them.
    pub fn open_with<B: Declared>(options: &OpenOptions) -> Result<Arc<Runtime>, Error> {
        let backend = Runtime::constructed::<B>(options)?;
        open::check_types(B::NAME, backend.types())?;
        if options.narrow_floats && backend.has_every_type() {
            let option = OpenOption::NarrowFloats;
            return Err(Error::OpenOption { backend: B::NAME, option, takes: B::OPTIONS.to_vec() });
        }
        let name = open::instance_name(B::NAME, options.device.as_deref());
        Ok(backend.start(open::Start { name, narrow_floats: options.narrow_floats }))
    }

    /// Starts a backend without the derive, under a name, with only the primitives.
    ///
    /// The runtime then ignores native methods of extension families; use [`with_families`](Self::with_families) for
    /// them.
    pub fn named<B: Backend + 'static>(name: &'static str, backend: B) -> Arc<Runtime> {
        Runtime::with_families(name, backend, &[])
    }

    /// Starts a backend without the derive, under a name, with families, for example `bb::ext::nn::table()`.
    pub fn with_families<B: Backend + 'static>(
        name: &'static str,
        backend: B,
        families: &'static [FamilyTable<B>],
    ) -> Arc<Runtime> {
        Runtime::start(Arc::new(Owned { backend, tables: families }), Identity::unversioned::<B>(name))
    }

    /// Starts a backend without the derive, like [`with_families`](Self::with_families). If the backend lacks element
    /// types ([`Backend::types`]), the runtime emulates them, if the emulation is exact.
    pub fn erased<B: Backend + 'static>(
        name: &'static str,
        backend: B,
        families: &'static [FamilyTable<B>],
    ) -> Arc<Runtime> {
        start(backend, Identity::unversioned::<B>(name), families, false)
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
