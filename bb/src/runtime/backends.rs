//! Several running backends side by side: each operation goes to the one that owns the operands.

use super::{BackendHandle, BackendId, DispatchResult, Registry, Typed, Value};
use crate::{Backend, Error};
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// The backends that code may call, the default first.
///
/// An operation runs on the backend of its first operand, and one without operands on the default.
#[derive(Debug, Clone, Default)]
pub struct Backends(SmallVec<[BackendHandle; 2]>);

impl Backends {
    /// Lists backends, the default first.
    pub fn new(handles: impl IntoIterator<Item = BackendHandle>) -> Backends {
        let mut backends = Backends::default();
        handles.into_iter().for_each(|handle| backends.bind(handle));
        backends
    }

    /// Adds a backend, unless the same instance is there.
    pub(crate) fn bind(&mut self, handle: BackendHandle) {
        if self.owner(handle.owner()).is_none() {
            self.0.push(handle);
        }
    }

    /// Iterates over the backends, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &BackendHandle> {
        self.0.iter()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|h| h.name().to_owned()).collect()
    }

    /// Returns the default.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if there is none at all.
    pub fn default_backend(&self) -> Result<&BackendHandle, Error> {
        self.0.first().ok_or_else(|| Error::NoBackend { linked: linked() })
    }

    /// Returns the backend called `name`.
    ///
    /// # Errors
    ///
    /// [`Error::NotBound`] if it is linked but not here, with the names of those that are; [`Error::UnknownBackend`] if
    /// it is not even linked, with the names of those that are.
    pub fn named(&self, name: &str) -> Result<&BackendHandle, Error> {
        self.0.iter().find(|h| h.name() == name).ok_or_else(|| {
            let (linked, backend) = (linked(), name.split(':').next().unwrap_or(name));
            match linked.iter().any(|known| known == name || known == backend) {
                true => Error::NotBound { name: name.to_owned(), bound: self.names() },
                false => Error::UnknownBackend { name: name.to_owned(), linked },
            }
        })
    }

    /// Returns the backend of type `B`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownBackendType`], with the names of those that are here.
    pub fn typed<B: Backend + 'static>(&self) -> Result<Typed<'_, B>, Error> {
        self.0
            .iter()
            .find_map(BackendHandle::typed)
            .ok_or_else(|| Error::UnknownBackendType { ty: std::any::type_name::<B>(), bound: self.names() })
    }

    /// Returns the backend that owns a value.
    #[inline]
    pub fn owner(&self, owner: BackendId) -> Option<&BackendHandle> {
        self.0.iter().find(|h| h.owner() == owner)
    }

    /// Calls an operation of any family on the backend that owns the first operand.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if operands have several owners, or one that is not here; the operation's own.
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
    /// Lists what is linked and available, by name.
    fn from(registry: &Registry) -> Backends {
        let names = registry.entries().map(|entry| entry.name);
        Backends::new(names.filter_map(|name| registry.backend(name).ok()))
    }
}
