//! A registry of backends by name: the backends that are linked into the program, and the backends that it adds at run
//! time.
//!
//! Backends are sorted by name, because the link order is undefined. If two linked backends have the same name, every
//! lookup fails with an error that names both paths: a silent choice would make the result depend on the linker.

use super::added::Made;
use super::combined::{self, CombinedRegistration};
use super::instance_name::InstanceName;
use super::opening::{self, InstanceKey};
use super::stack::{LayerRegistration, Stacked, is_stack};
use super::{Added, BackendHandle, Declared, Device, OpenOptions, Registration, Runtime, State, named, open};
use crate::layer::{Erased, InnerBackend};
use crate::sync::RwLock;
use crate::{BackendOrigin, BoxError, Error, OpenOption};
use std::sync::{Arc, LazyLock, PoisonError};

/// The backends of a program. Each backend is opened on first use.
#[derive(Debug)]
pub struct Registry {
    slots: Vec<Arc<RegisteredBackend>>,
    /// The backends that were added at run time, sorted by name.
    added: RwLock<Vec<Arc<RegisteredBackend>>>,
    /// The backends with layers that were opened.
    stacked: Stacked,
    duplicate: Option<[Registration; 2]>,
}

/// A registered backend and its instances. Callers with the same options share an instance.
#[derive(Debug)]
struct RegisteredBackend {
    registration: Registration,
    opened: RwLock<Vec<(OpenOptions, BackendHandle)>>,
    /// Whether an instance that was shut down or lost its device is replaced. This is false if the caller passed a
    /// running backend.
    reopens: bool,
    /// The constructor of an added backend. A linked backend is constructed by its registration.
    made: Option<Made>,
}

/// A linked backend.
#[derive(Debug)]
#[non_exhaustive]
pub struct LinkedBackend {
    /// The name under which users open the backend.
    pub name: &'static str,
    /// The backend's version.
    pub version: &'static str,
    /// The path of its type.
    pub path: &'static str,
    /// The options that it accepts.
    pub options: &'static [OpenOption],
    /// Its devices, sorted by name, or the error of listing them; empty if the backend does not distinguish devices.
    pub devices: Result<Vec<Device>, Error>,
    /// The running backend, opened without options, or the error of opening it.
    pub backend: Result<BackendHandle, Error>,
}

/// The linked backends, sorted by name.
#[derive(Debug)]
pub struct LinkedBackends(Vec<LinkedBackend>);

impl std::ops::Deref for LinkedBackends {
    type Target = [LinkedBackend];

    fn deref(&self) -> &[LinkedBackend] {
        &self.0
    }
}

impl IntoIterator for LinkedBackends {
    type Item = LinkedBackend;
    type IntoIter = std::vec::IntoIter<LinkedBackend>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a LinkedBackends {
    type Item = &'a LinkedBackend;
    type IntoIter = std::slice::Iter<'a, LinkedBackend>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Builds a [`Registry`] with a custom set of backends.
#[derive(Debug, Default)]
pub struct RegistryBuilder {
    registrations: Vec<Registration>,
    running: Vec<(Registration, BackendHandle)>,
}

impl RegistryBuilder {
    /// Adds a declared backend, which is opened on first use.
    #[must_use]
    pub fn declared<B: Declared>(self) -> Self {
        self.registration(Registration::of::<B>())
    }

    /// Adds a registration, whose backend is opened on first use.
    #[must_use]
    pub fn registration(mut self, registration: Registration) -> Self {
        self.registrations.push(registration);
        self
    }

    /// Adds a running backend.
    #[must_use]
    pub fn running(mut self, runtime: Arc<Runtime>) -> Self {
        let handle = BackendHandle::new(runtime);
        let (version, path) = (handle.runtime().version(), handle.runtime().path());
        let of =
            Added { name: handle.name(), version, path, options: &[], origin: BackendOrigin::Registered };
        self.running.push((of.registration(), handle));
        self
    }

    /// Builds the registry.
    pub fn build(self) -> Registry {
        let running =
            self.running.into_iter().map(|(of, handle)| (of, vec![(OpenOptions::default(), handle)], false));
        let unopened = self.registrations.into_iter().map(|registration| (registration, Vec::new(), true));
        let mut slots: Vec<RegisteredBackend> = unopened
            .chain(running)
            .map(|(registration, opened, reopens)| RegisteredBackend {
                registration,
                opened: RwLock::new(opened),
                reopens,
                made: None,
            })
            .collect();
        slots.sort_by_key(|slot| (slot.registration.name, slot.registration.path, slot.registration.version));
        let duplicate = slots.iter().zip(slots.iter().skip(1)).map(|(a, b)| [a.registration, b.registration]);
        let duplicate = duplicate.into_iter().find(|[a, b]| a.name == b.name);
        let slots = slots.into_iter().map(Arc::new).collect();
        Registry { slots, added: RwLock::default(), stacked: Stacked::default(), duplicate }
    }
}

impl Registry {
    /// Returns the registry of the backends that use `#[derive(bb::Backend)]` in this program.
    pub fn global() -> &'static Registry {
        static GLOBAL: LazyLock<Registry> = LazyLock::new(|| {
            let all = inventory::iter::<Registration>.into_iter();
            all.fold(Registry::builder(), |builder, registration| builder.registration(*registration)).build()
        });
        &GLOBAL
    }

    /// Returns a builder, for tests and for targets whose linker does not collect registrations.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Iterates over the registrations of listed backends, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = Registration> + Clone + use<> {
        let listed = self.all().into_iter().map(|slot| slot.registration).filter(|of| of.listed);
        listed.collect::<Vec<_>>().into_iter()
    }

    /// Adds a backend at run time. `make` constructs the backend when it is opened, once for each combination of
    /// options.
    ///
    /// # Errors
    ///
    /// [`Error::BackendName`] if the name is not a valid name of a backend; [`Error::NameTaken`] if another backend, a
    /// layer or a combining backend has the name.
    pub fn add<B: InnerBackend>(
        &self,
        of: Added,
        make: impl Fn(&OpenOptions) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.insert(of, Made::new(of, make))
    }

    /// Adds a backend like [`add`](Self::add), with a function that lists its devices in any order. If its options
    /// contain [`OpenOption::Device`], a device can be opened by its name or its index.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn add_with_devices<B: InnerBackend>(
        &self,
        of: Added,
        devices: impl Fn() -> Result<Vec<Device>, BoxError> + Send + Sync + 'static,
        make: impl Fn(&OpenOptions) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.insert(of, Made::with_devices(of, devices, make))
    }

    fn insert(&self, of: Added, made: Made) -> Result<(), Error> {
        let slot = Arc::new(RegisteredBackend::added(of.registration(), made));
        let name = of.name;
        if !named::is_plain(name) {
            return Err(Error::BackendName { name: name.to_owned() });
        }
        let taken =
            |by: &str, added| Err(Error::NameTaken { name: name.to_owned(), by: by.to_owned(), added });
        if LayerRegistration::all().iter().any(|layer| layer.name == name) {
            return taken("a layer", false);
        }
        if CombinedRegistration::all().iter().any(|combined| combined.name == name) {
            return taken("a function of backends", false);
        }
        // One lock covers the check and the insertion, so if two threads add the same name, the second one fails.
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.slots.iter().chain(&*added).find(|known| known.registration.name == name) {
            return taken(known.registration.path, added.iter().any(|slot| slot.registration.name == name));
        }
        let at = added.partition_point(|known| known.registration.name < name);
        added.insert(at, slot);
        Ok(())
    }

    /// Returns how the program got the backend that [`add`](Self::add) added under a name; `None` if it added no backend
    /// of this name.
    pub fn added_origin(&self, name: &str) -> Option<BackendOrigin> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        let slot = added.iter().find(|slot| slot.registration.name == name)?;
        slot.made.as_ref().map(|made| made.origin)
    }

    /// Removes a backend that [`add`](Self::add) added, and returns whether there was one. Instances that are in use
    /// stay alive until they are dropped. The name is no longer found, neither by itself nor within names of layers and
    /// combining backends.
    pub fn remove(&self, name: &str) -> bool {
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = added.iter().position(|slot| slot.registration.name == name) else { return false };
        let removed = added.remove(at);
        drop(added);
        // The instances are dropped after the locks are released, because that runs their code.
        let stacks = self.stacked.forget(name);
        drop((removed, stacks));
        true
    }

    /// Closes the instances that only the registry refers to, because no handle and no compiled graph does: their threads end
    /// and their memory is freed. The next call of [`backend`](Self::backend) opens them again.
    ///
    /// A [`Value`](crate::Value) does not refer to its instance. Call this only if no values are used without a handle of
    /// their backend.
    pub fn close_unused(&self) {
        // A stack may refer to instances of backends, so stacks are dropped first.
        drop(self.stacked.take_unused());
        for slot in self.all().into_iter().filter(|slot| slot.reopens) {
            drop(slot.take_unused());
        }
    }

    /// Returns the backend called `name`. The first call opens it.
    ///
    /// The name may contain options in parentheses: `chip(tile=64, narrow_floats)`.
    ///
    /// Layers are written before the backend, the outermost first, each with its own options:
    /// `metrics+limit(memory=1G)+cpu`. `first_of(gpu, cpu)` combines several backends: each operation runs on the one
    /// that suits it.
    ///
    /// `gpu:1` is the device `1` of the backend `gpu`: the device with this name or, if there is none, the device with
    /// this index in the list of devices. Each device has its own instance. An instance that was shut down, or whose
    /// device is lost, is replaced by a new one. If another thread is opening the backend, the call waits for it.
    ///
    /// The constructor of a backend may open other backends, and list all of them. It must not wait for another thread
    /// that opens the backend under construction. This would deadlock, because the registry detects only cycles of its
    /// own waits.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateBackend`] if any two backends have the same name; [`Error::UnknownBackend`] with the linked
    /// names; [`Error::UnknownDevice`] with the devices that the backend lists; [`Error::OpenOption`] if the backend
    /// does not distinguish devices; [`Error::UnknownLayer`] with the linked layers; [`Error::Parentheses`] and
    /// [`Error::Stack`] for a name with a missing part, or with layers in an order that hides a method of one of them;
    /// [`Error::UnknownOption`], [`Error::UnknownLayerOption`] and [`Error::OptionValue`] for options in the name;
    /// [`Error::Unavailable`] if the constructor fails (the next call tries again); [`Error::OpenCycle`]
    /// if the caller is the constructor of this backend, or of a backend that this backend opens.
    pub fn backend(&self, name: &str) -> Result<BackendHandle, Error> {
        self.backend_with(name, &OpenOptions::default())
    }

    /// Returns the backend called `name`, opened with options. Callers with the same options share an instance.
    ///
    /// # Errors
    ///
    /// The errors of [`backend`](Self::backend); [`Error::OpenOption`] if the backend does not accept one of the
    /// options; [`Error::LayerOption`] if a layer of the name accepts it instead; [`Error::TwoDevices`] if the name and
    /// the options name different devices.
    pub fn backend_with(&self, name: &str, options: &OpenOptions) -> Result<BackendHandle, Error> {
        self.check()?;
        if let Some(slot) = self.slot(name) {
            return slot.open(options);
        }
        named::check_parentheses(name)?;
        if is_stack(name) {
            self.check_stack(name)?;
            let whole = name;
            return self.stacked.open(self, name, options, |name, options| {
                self.inner(name, options).map_err(|error| super::stack::of_stack(whole, error))
            });
        }
        if let Some(combined) = CombinedRegistration::of_name(name) {
            return combined.open(self, &self.stacked, name, options);
        }
        // If no backend of this name is linked, the name is the mistake, so its options are not checked.
        if self.slot(named::backend_of(name)).is_none() {
            return Err(self.missing(name));
        }
        let (backend, options) = named::split(name, options)?;
        match self.slot(backend) {
            Some(slot) => slot.open(&options),
            None => Err(self.missing(name)),
        }
    }

    /// Returns the running instance that [`backend`](Self::backend) would return for a name; `None` if there is none.
    pub(super) fn opened(&self, name: &str) -> Option<BackendHandle> {
        if let Some(slot) = self.slot(name) {
            return slot.opened(&slot.resolved(&OpenOptions::default()));
        }
        if is_stack(name) || CombinedRegistration::of_name(name).is_some() {
            return self.stacked.opened(&InstanceName::of(self, name, &OpenOptions::default()));
        }
        let (backend, options) = named::split(name, &OpenOptions::default()).ok()?;
        let slot = self.slot(backend)?;
        slot.opened(&slot.resolved(&options))
    }

    /// Returns the error for the name of a backend that is not linked.
    pub(super) fn missing(&self, name: &str) -> Error {
        let part = named::backend_of(name);
        let is_layer = super::stack::LayerRegistration::all().iter().any(|layer| layer.name == part);
        match is_layer {
            true => {
                let problem = format!("`{part}` is a layer, and a backend stands last, as in `{part}+cpu`");
                Error::Stack { name: name.to_owned(), problem }
            }
            false => match CombinedRegistration::meant_by(name).or_else(|| self.punctuated(name)) {
                Some(meant) => Error::UnknownBackend {
                    name: name.to_owned(),
                    nearest: Some(meant),
                    linked: self.entries().map(|entry| entry.name.to_owned()).collect(),
                },
                None => unknown(name, self.entries().map(|entry| entry.name)),
            },
        }
    }

    /// Returns the probable spelling of a name with wrong punctuation: `gpu(tile=64)` for `gpu tile=64`, `first_of(gpu,
    /// cpu)` for `gpu; cpu`, `log+cpu` for `log cpu`.
    fn punctuated(&self, name: &str) -> Option<String> {
        let (first, rest) = name.split_once([' ', ';', ','])?;
        let (first, rest) = (first.trim(), rest.trim_matches([' ', ';', ',', '(', ')']));
        if LayerRegistration::all().iter().any(|layer| layer.name == first) {
            return self.slot(rest).map(|_| format!("{first}+{rest}"));
        }
        self.slot(first)?;
        match rest.contains('=') {
            true => Some(format!("{first}({rest})")),
            false => self.slot(rest).map(|_| format!("first_of({first}, {rest})")),
        }
    }

    /// Checks that no part of a name is empty, and that no part before the last one is a backend.
    ///
    /// # Errors
    ///
    /// [`Error::Stack`].
    fn check_stack(&self, name: &str) -> Result<(), Error> {
        let parts = named::stack(name);
        let wrong = |problem| Err(Error::Stack { name: name.to_owned(), problem });
        if let Some(at) = parts.iter().position(|part| part.is_empty()) {
            let before = parts.get(..at).unwrap_or_default().join("+");
            return wrong(match before.is_empty() {
                true => "the name of a layer is missing before `+`".to_owned(),
                false => format!("a name is missing after `{before}+`"),
            });
        }
        let layers = super::stack::LayerRegistration::all();
        for part in parts.iter().rev().skip(1).map(|part| named::backend_of(part)) {
            if self.slot(part).is_some() && !layers.iter().any(|layer| layer.name == part) {
                return wrong(format!("`{part}` is a backend, which stands last, behind the layers"));
            }
        }
        Ok(())
    }

    /// Constructs the backend called `name` without the runtime's emulation of element types, for tests of the backend.
    ///
    /// # Errors
    ///
    /// The errors of [`backend`](Self::backend). Devices after a colon are not supported.
    #[doc(hidden)]
    pub fn as_written(&self, name: &str) -> Result<Erased, Error> {
        self.check()?;
        super::stack::layered(name, |backend| self.inner(backend, &OpenOptions::default()))
    }

    /// Constructs a backend as the base of layers.
    fn inner(&self, name: &str, options: &OpenOptions) -> Result<Erased, Error> {
        if let Some(combined) = CombinedRegistration::of_name(name) {
            return combined.erased(self, name, options);
        }
        let (backend, options) = named::split(name, options)?;
        let slot = self.slot(backend).ok_or_else(|| self.missing(name))?;
        let slot = &*slot;
        open::taken(slot.registration.name, slot.registration.options, &options)?;
        let options = slot.resolved(&options);
        // With this, a constructor that opens a layer on its own backend gets an error instead of recursing endlessly.
        let place = slot.place(&options);
        let _opening = loop {
            if let Some(begun) = opening::begin(&place)? {
                break begun;
            }
        };
        let erased = match &slot.made {
            Some(made) => (made.erased)(&options)?,
            None => (slot.registration.erased)(&options)?,
        };
        Ok(erased.with_floats(options.narrow_floats))
    }

    /// Returns the options that the backend below the layers of a name accepts.
    pub(super) fn takes(&self, name: &str) -> &'static [OpenOption] {
        let backend = named::stack(name).pop().unwrap_or_default();
        self.slot(named::backend_of(backend)).map_or(&[], |slot| slot.registration.options)
    }

    /// Returns whether [`backend`](Self::backend) would find a backend of this name, and of the device after a colon,
    /// if any. It opens nothing, so a backend that is found may still be unavailable.
    ///
    /// If a backend lists its devices, only listed devices are supported. If it accepts devices but lists none, all
    /// are.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!bb::Registry::global().supports_device("tpu:0"));
    /// ```
    pub fn supports_device(&self, name: &str) -> bool {
        if self.check().is_err() {
            return false;
        }
        if self.slot(name).is_some() {
            return true;
        }
        if let [layers @ .., backend] = &*named::stack(name)
            && !layers.is_empty()
        {
            let known =
                |layer: &&str| LayerRegistration::all().iter().any(|of| of.name == named::backend_of(layer));
            return layers.iter().all(known) && self.supports_device(backend);
        }
        if CombinedRegistration::of_name(name).is_some() {
            return combined::supported(self, name);
        }
        let Some((backend, device)) = name.split_once(':') else { return false };
        let Some(slot) = self.slot(backend) else { return false };
        let registration = slot.registration;
        if !registration.options.contains(&OpenOption::Device)
            || open::check_name(registration.name, device).is_err()
        {
            return false;
        }
        if !registration.lists_devices {
            return true;
        }
        let Ok(devices) = slot.devices() else { return false };
        // This must match how `backend` finds a device: by its name, or by its index.
        devices.iter().any(|known| known.name == device)
            || device.parse::<usize>().is_ok_and(|position| position < devices.len())
    }

    fn slot(&self, name: &str) -> Option<Arc<RegisteredBackend>> {
        let named = |slot: &&Arc<RegisteredBackend>| slot.registration.name == name;
        let linked = self.slots.iter().find(named);
        let added = || self.added.read().unwrap_or_else(PoisonError::into_inner).iter().find(named).cloned();
        linked.cloned().or_else(added)
    }

    /// Returns the linked backends and the added ones, sorted by name.
    fn all(&self) -> Vec<Arc<RegisteredBackend>> {
        let mut all = self.slots.clone();
        all.extend(self.added.read().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        all.sort_by_key(|slot| slot.registration.name);
        all
    }

    /// Opens every backend and lists the results, sorted by name, with devices. Unavailable backends are included.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateBackend`] if any two backends have the same name.
    pub fn backends(&self) -> Result<LinkedBackends, Error> {
        self.check()?;
        let list = |slot: Arc<RegisteredBackend>| {
            let Registration { name, version, path, options, .. } = slot.registration;
            let backend = slot.open(&OpenOptions::default());
            LinkedBackend { name, version, path, options, devices: slot.devices(), backend }
        };
        let listed = self.all().into_iter().filter(|slot| slot.registration.listed);
        Ok(LinkedBackends(listed.map(list).collect()))
    }

    fn check(&self) -> Result<(), Error> {
        match self.duplicate {
            None => Ok(()),
            Some([a, b]) => {
                // Two versions of the same crate have the same path, so the version is added.
                let told = |of: Registration| match a.path == b.path {
                    true => format!("{} {}", of.path, of.version),
                    false => of.path.to_owned(),
                };
                Err(Error::DuplicateBackend { name: a.name.to_owned(), first: told(a), second: told(b) })
            }
        }
    }
}

impl RegisteredBackend {
    /// Returns the entry of an added backend.
    fn added(registration: Registration, made: Made) -> RegisteredBackend {
        let registration = Registration { lists_devices: made.lists_devices(), ..registration };
        RegisteredBackend { registration, opened: RwLock::default(), reopens: true, made: Some(made) }
    }

    /// Lists the devices of the backend, sorted by name.
    fn devices(&self) -> Result<Vec<Device>, Error> {
        match &self.made {
            Some(made) => made.devices(),
            None => (self.registration.devices)(),
        }
    }

    /// Returns the key that identifies an instance while it is opened.
    fn place(&self, options: &OpenOptions) -> InstanceKey {
        let entry = std::ptr::from_ref(self).addr();
        InstanceKey { entry, backend: self.registration.name.into(), options: options.clone() }
    }

    fn opened(&self, options: &OpenOptions) -> Option<BackendHandle> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened
            .iter()
            .find(|(known, handle)| known == options && (!self.reopens || is_usable(handle)))
            .map(|(_, handle)| handle.clone())
    }

    fn open(&self, options: &OpenOptions) -> Result<BackendHandle, Error> {
        if let Some(handle) = self.opened(options) {
            return Ok(handle);
        }
        let Registration { name, options: takes, .. } = self.registration;
        open::taken(name, takes, options)?;
        let options = &self.resolved(options);
        if let Some(handle) = self.opened(options) {
            return Ok(handle);
        }
        let place = self.place(options);
        let _opening = loop {
            let begun = opening::begin(&place)?;
            if let Some(handle) = self.opened(options) {
                return Ok(handle);
            }
            // If the thread that opened the backend has failed, this thread tries.
            if let Some(begun) = begun {
                break begun;
            }
        };
        let runtime = match &self.made {
            Some(made) => (made.open)(options)?,
            None => (self.registration.open)(options)?,
        };
        let handle = BackendHandle::new(runtime);
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // An instance that was shut down or lost its device is removed. It is dropped after the lock is released,
        // because that runs its code.
        let unusable: Vec<_> = opened.extract_if(.., |(known, _)| known == options).collect();
        opened.push((options.clone(), handle.clone()));
        drop(opened);
        drop(unusable);
        Ok(handle)
    }

    /// Removes and returns the instances that only this entry refers to. The caller drops them, because that runs their code.
    fn take_unused(&self) -> Vec<(OpenOptions, BackendHandle)> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.extract_if(.., |(_, handle)| is_unused(handle)).collect()
    }

    /// Returns the options with defaults for options that the backend declares. If the device is an index in the list
    /// of devices, it is replaced by the name of the device.
    fn resolved(&self, options: &OpenOptions) -> OpenOptions {
        let options = &open::complete(self.registration.options, options);
        let by_position = || {
            let position: usize = options.device.as_deref()?.parse().ok()?;
            let devices = self.devices().ok()?;
            let named = devices.iter().any(|device| Some(&device.name) == options.device.as_ref());
            let device = devices.into_iter().nth(position).filter(|_| !named)?;
            Some(options.clone().with_device(device.name))
        };
        by_position().unwrap_or_else(|| options.clone())
    }
}

/// Returns the error for a name that no linked backend has.
fn unknown(name: &str, linked: impl Iterator<Item = &'static str> + Clone) -> Error {
    Error::UnknownBackend {
        name: name.to_owned(),
        nearest: bb_ir::nearest(named::backend_of(name), linked.clone()).map(str::to_owned),
        linked: linked.map(str::to_owned).collect(),
    }
}

/// Returns whether an instance accepts calls.
pub(super) fn is_usable(handle: &BackendHandle) -> bool {
    handle.runtime().state() != State::ShutDown && !handle.runtime().is_lost()
}

/// Returns whether this handle is the only reference to its instance. The caller holds the lock under which the handle can be
/// cloned.
pub(super) fn is_unused(handle: &BackendHandle) -> bool {
    Arc::strong_count(handle.runtime()) == 1
}

/// Returns the linked backend called `name`. The program has one instance of it. `gpu:1` selects one of its devices.
///
/// # Errors
///
/// The errors of [`Registry::backend`].
pub fn backend(name: &str) -> Result<BackendHandle, Error> {
    Registry::global().backend(name)
}

/// Returns the linked backend called `name`, opened with options. The program has one instance for each combination of
/// options.
///
/// # Errors
///
/// The errors of [`Registry::backend_with`].
pub fn backend_with(name: &str, options: &OpenOptions) -> Result<BackendHandle, Error> {
    Registry::global().backend_with(name, options)
}

/// Returns whether [`backend`] would find a linked backend of this name, and of the device after a colon, as in
/// `gpu:1`. It opens nothing; see [`Registry::supports_device`].
pub fn supports_device(name: &str) -> bool {
    Registry::global().supports_device(name)
}

/// Lists the linked backends, sorted by name, including unavailable ones.
///
/// This differs from [`Backends`](crate::Backends), which contains the running backends that a program passes to
/// components.
///
/// # Errors
///
/// The errors of [`Registry::backends`].
pub fn linked_backends() -> Result<LinkedBackends, Error> {
    Registry::global().backends()
}
