//! The options with which a backend is opened, and the devices that it finds at run time.
//!
//! A backend declares the options that it accepts (`#[bb(open = path, options(threads))]`). Other options are
//! refused before its constructor is called, so that no option is ignored silently.

use super::{Declared, bridge};
use crate::OpenOption;
use crate::{BoxError, Error};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// The options with which a backend is opened. If an option is `None`, the backend decides.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// use bb::OpenOptions;
/// let one = std::num::NonZeroUsize::MIN;
/// let alone = bb::backend_with("cpu", &OpenOptions::default().with_threads(one))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The name of the device, as the backend lists it.
    pub device: Option<String>,
    /// The number of threads that the backend computes with; at most [`most_threads`].
    pub threads: Option<NonZeroUsize>,
    /// The greatest number of bytes of memory that the backend uses.
    pub memory: Option<u64>,
    /// Whether a backend that lacks a float type may hold its elements in another float, which rounds them: `f64` and the
    /// 16-bit floats as `f32`. The runtime does this for every backend that lacks float types; for others the option is
    /// refused, because it would have no effect.
    pub narrow_floats: bool,
}

impl OpenOptions {
    /// Returns the options with a device.
    #[must_use]
    pub fn with_device(self, device: impl Into<String>) -> OpenOptions {
        OpenOptions { device: Some(device.into()), ..self }
    }

    /// Returns the options with a number of threads.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> OpenOptions {
        OpenOptions { threads: Some(threads), ..self }
    }

    /// Returns the options with a memory limit.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn with_memory(self, bytes: u64) -> OpenOptions {
        OpenOptions { memory: Some(bytes), ..self }
    }

    /// Returns the options with leave to round floats of types that the backend lacks.
    #[must_use]
    pub fn with_narrow_floats(self) -> OpenOptions {
        OpenOptions { narrow_floats: true, ..self }
    }

    /// Iterates over the options that are set.
    pub fn given(&self) -> impl Iterator<Item = OpenOption> {
        let device = self.device.is_some().then_some(OpenOption::Device);
        let threads = self.threads.is_some().then_some(OpenOption::Threads);
        let memory = self.memory.is_some().then_some(OpenOption::Memory);
        let floats = self.narrow_floats.then_some(OpenOption::NarrowFloats);
        [device, threads, memory, floats].into_iter().flatten()
    }
}

/// Returns the greatest number of threads that a backend may be opened with: 16 for each processor, and at least 256.
///
/// More would only take memory, and a mistyped number could stop a machine.
pub fn most_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    processors.saturating_mul(16).max(256)
}

/// Refuses more threads than [`most_threads`], and none.
///
/// # Errors
///
/// [`Error::ThreadCount`].
pub fn check_threads(threads: usize) -> Result<(), Error> {
    let most = most_threads();
    if (1..=most).contains(&threads) { Ok(()) } else { Err(Error::ThreadCount { got: threads, most }) }
}

/// How an instance of a backend starts.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The name of the instance: the name of the backend, or this name and a device.
    pub name: &'static str,
    /// [`OpenOptions::narrow_floats`].
    pub narrow_floats: bool,
}

impl Start {
    /// Starts an instance under a name, without options.
    pub const fn named(name: &'static str) -> Start {
        Start { name, narrow_floats: false }
    }
}

/// Returns the option with a name from `options(…)` of the derive.
#[doc(hidden)]
#[macro_export]
macro_rules! __open_option {
    (device) => {
        $crate::OpenOption::Device
    };
    (threads) => {
        $crate::OpenOption::Threads
    };
    (memory) => {
        $crate::OpenOption::Memory
    };
    ($unknown:ident) => {
        ::core::compile_error!(::core::concat!(
            "no option `",
            ::core::stringify!($unknown),
            "`; a constructor may take `device`, `threads` and `memory`"
        ))
    };
}

/// A device that a backend found at run time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The name under which users open it, as in `bb::backend("gpu:1")`.
    pub name: String,
    /// A description for people.
    pub description: String,
}

impl Device {
    /// Makes the record of a device.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Device {
        Device { name: name.into(), description: description.into() }
    }
}

/// A type that a function that lists devices may return: the devices, or a result.
#[diagnostic::on_unimplemented(
    message = "the function that lists devices returns `{Self}`",
    label = "expected `Vec<bb::Device>` or `Result<Vec<bb::Device>, E>`",
    note = "`#[bb(devices = path)]` takes a function `fn() -> Vec<bb::Device>` or `fn() -> Result<Vec<bb::Device>, E>` where `E: Into<bb::BoxError>`"
)]
pub trait Listed {
    /// Converts to a result.
    ///
    /// # Errors
    ///
    /// The function's own error.
    fn listed(self) -> Result<Vec<Device>, BoxError>;
}

impl Listed for Vec<Device> {
    fn listed(self) -> Result<Vec<Device>, BoxError> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Listed for Result<Vec<Device>, E> {
    fn listed(self) -> Result<Vec<Device>, BoxError> {
        self.map_err(Into::into)
    }
}

/// Lists the devices of a backend, sorted by name; empty if the backend does not distinguish devices.
///
/// # Errors
///
/// [`Error::Unavailable`] if the backend cannot list them; [`Error::DeviceName`] or
/// [`Error::DuplicateDevice`] if users could not select a device by its name.
pub(super) fn devices<B: Declared>() -> Result<Vec<Device>, Error> {
    let mut devices = bridge::construct(B::NAME, B::devices)?;
    devices.sort();
    for device in &devices {
        check_name(B::NAME, &device.name)?;
    }
    let twice = devices.iter().zip(devices.iter().skip(1)).find(|(a, b)| a.name == b.name);
    match twice {
        Some((device, _)) => Err(Error::DuplicateDevice { backend: B::NAME, device: device.name.clone() }),
        None => Ok(devices),
    }
}

/// Refuses a device name that is empty or contains white space or control characters.
fn check_name(backend: &'static str, device: &str) -> Result<(), Error> {
    match device.is_empty() || device.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => Err(Error::DeviceName { backend, device: device.to_owned() }),
        false => Ok(()),
    }
}

/// Refuses options that a backend does not accept.
///
/// # Errors
///
/// [`Error::OpenOption`]; [`Error::ThreadCount`].
pub(super) fn taken(
    backend: &'static str,
    takes: &'static [OpenOption],
    options: &OpenOptions,
) -> Result<(), Error> {
    // What backends lack is known once they are constructed.
    let of_backend = |option: &OpenOption| *option != OpenOption::NarrowFloats;
    match options.given().filter(of_backend).find(|option| !takes.contains(option)) {
        Some(option) => Err(Error::OpenOption { backend, option, takes }),
        None => options.threads.map_or(Ok(()), |threads| check_threads(threads.get())),
    }
}

/// Checks that a backend accepts the options and has the device.
///
/// # Errors
///
/// [`Error::OpenOption`]; [`Error::UnknownDevice`]; the errors of [`devices`].
pub(super) fn check<B: Declared>(options: &OpenOptions) -> Result<(), Error> {
    taken(B::NAME, B::OPTIONS, options)?;
    let Some(device) = &options.device else { return Ok(()) };
    check_name(B::NAME, device)?;
    if !B::LISTS_DEVICES {
        return Ok(());
    }
    let found = devices::<B>()?;
    if found.iter().any(|known| known.name == *device) {
        return Ok(());
    }
    let found = found.into_iter().map(|device| device.name).collect();
    Err(Error::UnknownDevice { backend: B::NAME, device: device.clone(), found })
}

/// Returns the name of an instance: the name of the backend, and of the device if one was chosen.
///
/// The name lives as long as the program, so that errors and values can refer to it without an allocation.
/// Each name is leaked once.
pub(super) fn instance_name(backend: &'static str, device: Option<&str>) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let Some(device) = device else { return backend };
    let name = format!("{backend}:{device}");
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

/// Splits a name such as `gpu:1` into the name of the backend and options with the device.
///
/// # Errors
///
/// [`Error::TwoDevices`] if the options name another device.
pub(super) fn split<'a>(name: &'a str, options: &OpenOptions) -> Result<(&'a str, OpenOptions), Error> {
    let Some((backend, device)) = name.split_once(':') else { return Ok((name, options.clone())) };
    match &options.device {
        Some(other) if other != device => {
            Err(Error::TwoDevices { name: name.to_owned(), other: other.clone() })
        }
        _ => Ok((backend, options.clone().with_device(device))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_threads_as_a_machine_may_have_are_taken_and_no_more() {
        let most = most_threads();
        assert!(most >= 256);
        assert!(check_threads(1).is_ok() && check_threads(most).is_ok());
        for got in [0, most + 1, usize::MAX] {
            let error = check_threads(got).err();
            assert!(matches!(error, Some(Error::ThreadCount { got: g, most: m }) if (g, m) == (got, most)));
        }
        let of =
            |threads: usize| OpenOptions { threads: NonZeroUsize::new(threads), ..OpenOptions::default() };
        let takes = &[OpenOption::Threads];
        assert!(taken("cpu", takes, &of(most)).is_ok());
        assert!(matches!(
            taken("cpu", takes, &of(1_000_000)),
            Err(Error::ThreadCount { got: 1_000_000, .. })
        ));
    }
}
