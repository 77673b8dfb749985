//! Several running backends. Each operation runs on the backend that owns its operands.

use super::{
    BackendHandle, BackendId, CombinedRegistration, DispatchResult, Registry, TypedBackend, Value, named,
    stack,
};
use crate::{Backend, Error};
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// The running backends that code may call. The first one is the default.
///
/// A program creates the list from opened backends with [`Backends::new`], and the context of a component
/// contains it. [`linked_backends`](crate::linked_backends) lists the backends that a program could open.
///
/// An operation runs on the backend of its first operand; without operands, on the default backend.
#[derive(Debug, Clone, Default)]
pub struct Backends(SmallVec<[BackendHandle; 2]>);

impl Backends {
    /// Creates a list of backends; the first one is the default.
    pub fn new(handles: impl IntoIterator<Item = BackendHandle>) -> Backends {
        let mut backends = Backends::default();
        handles.into_iter().for_each(|handle| backends.bind(handle));
        backends
    }

    /// Adds a backend, unless the list already contains the same instance.
    pub fn bind(&mut self, handle: BackendHandle) {
        if self.owner(handle.owner()).is_none() {
            self.0.push(handle);
        }
    }

    /// Iterates over the backends, starting with the default.
    pub fn iter(&self) -> impl Iterator<Item = &BackendHandle> {
        self.0.iter()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|h| h.name().to_owned()).collect()
    }

    /// Returns the default backend.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if the list is empty.
    pub fn default_backend(&self) -> Result<&BackendHandle, Error> {
        self.0.first().ok_or_else(|| Error::NoBackend { linked: linked() })
    }

    /// Returns the backend called `name`. The name may be the one that the backend was opened by, with its layers and
    /// options: `half(most=2)+cpu(threads=1)`.
    ///
    /// # Errors
    ///
    /// [`Error::NotBound`] if the backend is linked but not in this list; [`Error::UnknownBackend`] and
    /// [`Error::UnknownLayer`] if it or one of its layers is not linked. All list the valid names.
    pub fn named(&self, name: &str) -> Result<&BackendHandle, Error> {
        let opened = || self.owner(Registry::global().opened(name)?.owner());
        self.0.iter().find(|h| h.name() == name).or_else(opened).ok_or_else(|| self.unbound(name))
    }

    /// Returns the error for a name of no backend in this list.
    fn unbound(&self, name: &str) -> Error {
        let mut layers = named::stack(name);
        let backend = layers.pop().unwrap_or_default();
        if let Some(error) = layers.iter().find_map(|part| stack::registered(named::backend_of(part)).err()) {
            return error;
        }
        let is_linked = |known: &str| known == backend || known == named::backend_of(backend);
        let registry = Registry::global();
        match CombinedRegistration::of_name(backend).is_some()
            || registry.entries().any(|entry| is_linked(entry.name))
        {
            true => Error::NotBound { name: name.to_owned(), bound: self.names() },
            false => registry.missing(backend),
        }
    }

    /// Returns the backend of type `B`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownBackendType`] with the names of the backends in this list.
    pub fn typed<B: Backend + 'static>(&self) -> Result<TypedBackend<'_, B>, Error> {
        self.0
            .iter()
            .find_map(BackendHandle::typed)
            .ok_or_else(|| Error::UnknownBackendType { ty: std::any::type_name::<B>(), bound: self.names() })
    }

    /// Returns the backend with this id, which is the owner of a value.
    #[inline]
    pub fn owner(&self, owner: BackendId) -> Option<&BackendHandle> {
        self.0.iter().find(|h| h.owner() == owner)
    }

    /// Calls an operation of any family on the backend that owns the first operand.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if operands belong to several backends, or to a backend that is not in this list;
    /// the operation's own errors.
    #[inline]
    pub fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        let handle = match inputs.iter().flatten().next() {
            None => self.default_backend()?,
            Some(first) => match self.owner(first.owner()) {
                Some(handle) => handle,
                None => {
                    let expected = self.default_backend()?.owner();
                    return Err(Error::ForeignTensor { op: op.method, expected, got: first.owner() });
                }
            },
        };
        handle.call(op, inputs, params)
    }
}

/// Lists the names of the backends that are linked into the program.
fn linked() -> Vec<String> {
    Registry::global().entries().map(|entry| entry.name.to_owned()).collect()
}

impl From<&Registry> for Backends {
    /// Lists the linked and available backends, sorted by name.
    fn from(registry: &Registry) -> Backends {
        let names = registry.entries().map(|entry| entry.name);
        Backends::new(names.filter_map(|name| registry.backend(name).ok()))
    }
}
