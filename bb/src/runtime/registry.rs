//! Which backends are linked into the program, by name.
//!
//! Sorted, because link order is not defined. Two backends of one name make every lookup fail, with both
//! paths: to choose one silently would make the answer depend on the linker.

use super::{BackendHandle, BackendRuntime, Declared, Registration};
use crate::Error;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

/// The backends of a program, opened on first use.
#[derive(Debug)]
pub struct Registry {
    slots: Vec<Slot>,
    duplicate: Option<[Registration; 2]>,
}

/// A linked backend and its instance, once it is open.
#[derive(Debug)]
struct Slot {
    registration: Registration,
    handle: OnceLock<BackendHandle>,
    opening: Mutex<()>,
}

/// A linked backend.
#[derive(Debug)]
#[non_exhaustive]
pub struct Linked {
    /// The name by which users ask for the backend.
    pub name: &'static str,
    /// The backend's version.
    pub version: &'static str,
    /// The path of its type.
    pub path: &'static str,
    /// The running backend, or why it is not available.
    pub backend: Result<BackendHandle, Error>,
}

/// Collects backends for a [`Registry`] of one's own.
#[derive(Debug, Default)]
pub struct RegistryBuilder {
    registrations: Vec<Registration>,
    running: Vec<(Registration, BackendHandle)>,
}

impl RegistryBuilder {
    /// Adds a declared backend, to be opened on first use.
    #[must_use]
    pub fn declared<B: Declared>(self) -> Self {
        self.registration(Registration::of::<B>())
    }

    /// Adds a record, to be opened on first use.
    #[must_use]
    pub fn registration(mut self, registration: Registration) -> Self {
        self.registrations.push(registration);
        self
    }

    /// Adds a backend that runs.
    #[must_use]
    pub fn running(mut self, runtime: Arc<dyn BackendRuntime>) -> Self {
        let handle = BackendHandle::new(runtime);
        let (name, version, path) = (handle.name(), handle.runtime().version(), handle.runtime().path());
        let open = || Err(Error::UnknownBackend { name: String::new(), linked: Vec::new() });
        self.running.push((Registration { name, version, path, open }, handle));
        self
    }

    /// Sorts what was added.
    pub fn build(self) -> Registry {
        let opened =
            self.running.into_iter().map(|(registration, handle)| (registration, OnceLock::from(handle)));
        let unopened = self.registrations.into_iter().map(|registration| (registration, OnceLock::new()));
        let mut slots: Vec<Slot> = unopened
            .chain(opened)
            .map(|(registration, handle)| Slot { registration, handle, opening: Mutex::default() })
            .collect();
        slots.sort_by_key(|slot| (slot.registration.name, slot.registration.path));
        let duplicate = slots.iter().zip(slots.iter().skip(1)).map(|(a, b)| [a.registration, b.registration]);
        let duplicate = duplicate.into_iter().find(|[a, b]| a.name == b.name);
        Registry { slots, duplicate }
    }
}

impl Registry {
    /// Returns the backends that `#[derive(bb::Backend)]` registered in this program.
    pub fn global() -> &'static Registry {
        static GLOBAL: LazyLock<Registry> = LazyLock::new(|| {
            let all = inventory::iter::<Registration>.into_iter();
            all.fold(Registry::builder(), |builder, registration| builder.registration(*registration)).build()
        });
        &GLOBAL
    }

    /// Starts a registry for tests, or for targets whose linker collects nothing.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Iterates over the records, by name.
    pub fn entries(&self) -> impl Iterator<Item = &Registration> {
        self.slots.iter().map(|slot| &slot.registration)
    }

    /// Returns the backend called `name`; the first call opens it.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateBackend`] if any two have one name, [`Error::UnknownBackend`] with the names that
    /// are linked, [`Error::Unavailable`] if the constructor fails (the next call tries again).
    pub fn backend(&self, name: &str) -> Result<BackendHandle, Error> {
        self.check()?;
        match self.slots.iter().find(|slot| slot.registration.name == name) {
            Some(slot) => slot.open(),
            None => Err(Error::UnknownBackend {
                name: name.to_owned(),
                linked: self.entries().map(|r| r.name.to_owned()).collect(),
            }),
        }
    }

    /// Opens every backend and lists them by name, available or not.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateBackend`] if any two have one name.
    pub fn backends(&self) -> Result<Vec<Linked>, Error> {
        self.check()?;
        let list = |slot: &Slot| {
            let Registration { name, version, path, .. } = slot.registration;
            Linked { name, version, path, backend: slot.open() }
        };
        Ok(self.slots.iter().map(list).collect())
    }

    fn check(&self) -> Result<(), Error> {
        match self.duplicate {
            None => Ok(()),
            Some([a, b]) => Err(Error::DuplicateBackend {
                name: a.name.to_owned(),
                first: a.path.to_owned(),
                second: b.path.to_owned(),
            }),
        }
    }
}

impl Slot {
    fn open(&self) -> Result<BackendHandle, Error> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle.clone());
        }
        let _one_at_a_time = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = self.handle.get() {
            return Ok(handle.clone());
        }
        let handle = BackendHandle::new((self.registration.open)()?);
        Ok(self.handle.get_or_init(|| handle).clone())
    }
}

/// Returns the linked backend called `name`, one instance per program.
///
/// # Errors
///
/// As [`Registry::backend`].
pub fn backend(name: &str) -> Result<BackendHandle, Error> {
    Registry::global().backend(name)
}

/// Lists the linked backends by name, available or not.
///
/// # Errors
///
/// As [`Registry::backends`].
pub fn backends() -> Result<Vec<Linked>, Error> {
    Registry::global().backends()
}
