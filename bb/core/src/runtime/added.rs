//! Backends that a program registers at run time, for instance backends that are defined in another language or a
//! file.

use super::start::{Identity, start_as};
use super::{Device, OpenOptions, Registration, Runtime, bridge, open};
use crate::layer::{Erased, InnerBackend};
use crate::{BackendOrigin, BoxError, Error, OpenOption};
use std::sync::Arc;

/// The properties of a backend that [`Registry::add`](super::Registry::add) needs before the backend is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The name under which users open the backend.
    pub name: &'static str,
    /// The version of the backend.
    pub version: &'static str,
    /// A path that says where the backend is defined. A compiled model stores the path and version of its backend.
    pub path: &'static str,
    /// The options that the backend accepts. Other options are refused.
    pub options: &'static [OpenOption],
    /// How the program got the backend, for error messages.
    pub origin: BackendOrigin,
}

impl Added {
    /// Returns the registration. Its functions never open a backend, because [`Registry::add`](super::Registry::add)
    /// gets the constructor separately.
    pub(super) fn registration(self) -> Registration {
        let Added { name, version, path, options, .. } = self;
        Registration {
            name,
            version,
            path,
            options,
            open: |_| Err(Error::Abandoned),
            erased: |_| Err(Error::Abandoned),
            lists_devices: false,
            listed: true,
            devices: || Ok(Vec::new()),
        }
    }

    /// Sets the origin of the backend in [`Error::Unavailable`].
    fn with_origin<T>(self, made: Result<T, Error>) -> Result<T, Error> {
        made.map_err(|error| match error {
            Error::Unavailable { backend, source, .. } => {
                Error::Unavailable { backend, origin: self.origin, source }
            }
            other => other,
        })
    }
}

/// A function that lists the devices of a backend.
type ListDevices = Arc<dyn Fn() -> Result<Vec<Device>, Error> + Send + Sync>;

/// A function that constructs a backend with options, and returns it as a `T`.
type Make<T> = Box<dyn Fn(&OpenOptions) -> Result<T, Error> + Send + Sync>;

/// The functions that construct an added backend and list its devices.
pub(super) struct Made {
    /// Constructs the backend and starts it.
    pub(super) open: Make<Arc<Runtime>>,
    /// Constructs the backend as the base of layers.
    pub(super) erased: Make<Erased>,
    /// Lists the devices, sorted by name; `None` if the backend cannot list devices.
    devices: Option<ListDevices>,
    /// How the program got the backend.
    pub(super) origin: BackendOrigin,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl Made {
    pub(super) fn new<B: InnerBackend>(
        of: Added,
        make: impl Fn(&OpenOptions) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Made {
        Made::of(of, None, make)
    }

    /// Builds the functions for a backend that lists its devices.
    pub(super) fn with_devices<B: InnerBackend>(
        of: Added,
        devices: impl Fn() -> Result<Vec<Device>, BoxError> + Send + Sync + 'static,
        make: impl Fn(&OpenOptions) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Made {
        Made::of(of, Some(Arc::new(move || of.with_origin(open::checked_devices(of.name, &devices)))), make)
    }

    fn of<B: InnerBackend>(
        of: Added,
        devices: Option<ListDevices>,
        make: impl Fn(&OpenOptions) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Made {
        let listed = devices.clone();
        let make = Arc::new(move |options: &OpenOptions| {
            if let Some(device) = &options.device {
                let list = listed.as_deref().map(|list| list as &dyn Fn() -> Result<Vec<Device>, Error>);
                open::check_device(of.name, device, list)?;
            }
            of.with_origin(bridge::construct(of.name, || make(options)))
        });
        let other = make.clone();
        Made {
            open: Box::new(move |options| {
                let backend = make(options)?;
                let floats = options.narrow_floats;
                if floats && backend.has_every_type() {
                    let option = OpenOption::NarrowFloats;
                    return Err(Error::OpenOption { backend: of.name, option, takes: of.options.to_vec() });
                }
                let name = open::instance_name(of.name, options.device.as_deref());
                Ok(start_as(Identity { name, version: of.version, path: of.path }, backend, floats))
            }),
            erased: Box::new(move |options| Ok(Erased::new(other(options)?))),
            devices,
            origin: of.origin,
        }
    }

    /// Returns whether the backend can list its devices.
    pub(super) fn lists_devices(&self) -> bool {
        self.devices.is_some()
    }

    /// Lists the devices, sorted by name; empty if the backend cannot list them.
    pub(super) fn devices(&self) -> Result<Vec<Device>, Error> {
        self.devices.as_ref().map_or(Ok(Vec::new()), |list| list())
    }
}
