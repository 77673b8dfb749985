//! The options for opening a backend, and the devices that it finds at run time.
//!
//! A backend declares the options that it accepts (`#[bb(open = path, options(threads))]`). Other options are refused
//! before its constructor is called, so that no option is silently ignored.

use super::{Declared, bridge};
use crate::error::OptionDefault;
use crate::{BackendOrigin, BoxError, Error, OpenOption};
use bb_ir::{DataType, DataTypes};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// The options for opening a backend. The backend chooses the value of an option that is `None`.
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
    /// The number of threads that the backend uses for computations; at most [`most_threads`].
    pub threads: Option<NonZeroUsize>,
    /// The maximum number of bytes of memory that the backend uses.
    pub memory: Option<u64>,
    /// Whether elements of float types that the backend lacks may be rounded: `f64` and the 16-bit floats are then
    /// stored as `f32`. The runtime implements this for every backend that lacks float types. For other backends the
    /// option is refused, because it would have no effect.
    pub narrow_floats: bool,
    /// The options that the backend declares itself, by name.
    pub(super) own: BTreeMap<String, String>,
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

    /// Returns the options with the permission to round floats of types that the backend lacks.
    #[must_use]
    pub fn with_narrow_floats(self) -> OpenOptions {
        OpenOptions { narrow_floats: true, ..self }
    }

    /// Returns the options with an option that the backend declares itself, for instance `tile`.
    ///
    /// The backend's declaration defines its type. Name and value are checked when the backend is opened.
    #[must_use]
    pub fn with_own(mut self, name: impl Into<String>, value: impl std::fmt::Display) -> OpenOptions {
        self.own.insert(name.into(), value.to_string());
        self
    }

    /// Returns the value of an option that the backend declares itself. A constructor gets the default of each option
    /// that is not set.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownOption`] if no option has this name; [`Error::OptionValue`] if `T` cannot represent the value,
    /// for example 300 as `u8`.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = bb::OpenOptions::default().with_own("tile", 128);
    /// assert_eq!(options.own::<usize>("tile")?, 128);
    /// # Ok::<(), bb::Error>(())
    /// ```
    pub fn own<T: std::str::FromStr>(&self, name: &str) -> Result<T, Error> {
        let Some(value) = self.own.get(name) else {
            let known = self.own.keys().map(String::as_str);
            return Err(Error::UnknownOption {
                backend: None,
                option: name.to_owned(),
                nearest: bb_ir::nearest(name, known.clone()).map(str::to_owned),
                takes: known.map(str::to_owned).collect(),
            });
        };
        value.parse().map_err(|_| Error::OptionValue {
            option: name.to_owned(),
            expected: std::any::type_name::<T>(),
            got: value.clone(),
        })
    }

    /// Returns all options that are set, as strings: their names and values.
    #[doc(hidden)]
    pub fn texts(&self) -> Vec<(String, String)> {
        let device = self.device.clone().map(|device| (OpenOption::Device, device));
        let threads = self.threads.map(|threads| (OpenOption::Threads, threads.to_string()));
        let memory = self.memory.map(|bytes| (OpenOption::Memory, bytes.to_string()));
        let shared = [device, threads, memory].into_iter().flatten();
        let shared = shared.map(|(option, value)| (option.name().to_owned(), value));
        shared.chain(self.own.clone()).collect()
    }

    /// Returns the common options that a backend accepts, without options that backends declare themselves.
    pub(super) fn kept(&self, takes: &[OpenOption]) -> OpenOptions {
        let has = |option| takes.contains(&option);
        OpenOptions {
            device: self.device.clone().filter(|_| has(OpenOption::Device)),
            threads: self.threads.filter(|_| has(OpenOption::Threads)),
            memory: self.memory.filter(|_| has(OpenOption::Memory)),
            ..OpenOptions::default()
        }
    }

    /// Iterates over the common options that are set, without options that backends declare themselves.
    pub fn given(&self) -> impl Iterator<Item = OpenOption> {
        let device = self.device.is_some().then_some(OpenOption::Device);
        let threads = self.threads.is_some().then_some(OpenOption::Threads);
        let memory = self.memory.is_some().then_some(OpenOption::Memory);
        let floats = self.narrow_floats.then_some(OpenOption::NarrowFloats);
        [device, threads, memory, floats].into_iter().flatten()
    }
}

/// Returns the maximum number of threads that a backend may be opened with: 16 for each processor, and at least 256.
///
/// More threads would only take memory, and a mistyped number could make a machine unresponsive.
pub fn most_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    processors.saturating_mul(16).max(256)
}

/// Returns an error if the number of threads is 0 or exceeds [`most_threads`].
///
/// # Errors
///
/// [`Error::ThreadCount`].
pub fn check_threads(threads: usize) -> Result<(), Error> {
    let most = most_threads();
    if (1..=most).contains(&threads) { Ok(()) } else { Err(Error::ThreadCount { got: threads, most }) }
}

/// The start settings of an instance of a backend.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The name of the instance: the name of the backend, optionally followed by a device.
    pub name: &'static str,
    /// [`OpenOptions::narrow_floats`].
    pub narrow_floats: bool,
}

impl Start {
    /// Returns the settings for a name, without options.
    pub const fn named(name: &'static str) -> Start {
        Start { name, narrow_floats: false }
    }
}

/// Maps a name in `options(…)` of the derive to its option.
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
    ($name:ident : $kind:ident = $default:expr => $about:literal) => {
        $crate::OpenOption::Own($crate::OwnOption::new(
            ::core::stringify!($name),
            $crate::__option_default!($kind, $default),
            $about,
        ))
    };
}

/// Maps a type in `options(…)` of the derive to the default of the option.
#[doc(hidden)]
#[macro_export]
macro_rules! __option_default {
    (bool, $default:expr) => {
        $crate::OptionDefault::Bool($default)
    };
    (i64, $default:expr) => {
        $crate::OptionDefault::Int($default)
    };
    (u64, $default:expr) => {
        $crate::OptionDefault::Count($default)
    };
    (f64, $default:expr) => {
        $crate::OptionDefault::float($default)
    };
    (str, $default:expr) => {
        $crate::OptionDefault::Text($default)
    };
    ($other:ident, $default:expr) => {
        ::core::compile_error!(::core::concat!(
            "an option cannot be of type `",
            ::core::stringify!($other),
            "`; write `bool`, `i64`, `u64`, `f64` or `str`"
        ))
    };
}

/// A device that a backend found at run time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The name under which users open the device, as in `bb::backend("gpu:1")`.
    pub name: String,
    /// A description for people to read.
    pub description: String,
}

impl Device {
    /// Creates the description of a device.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Device {
        Device { name: name.into(), description: description.into() }
    }
}

/// A result type of functions that list devices: the devices, or a `Result` with them.
#[diagnostic::on_unimplemented(
    message = "the function that lists devices returns `{Self}`",
    label = "expected `Vec<bb::Device>` or `Result<Vec<bb::Device>, E>`",
    note = "`#[bb(devices = path)]` takes a function `fn() -> Vec<bb::Device>` or `fn() -> Result<Vec<bb::Device>, E>` where `E: Into<bb::BoxError>`"
)]
pub trait Listed {
    /// Converts the value to a `Result`.
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
    checked_devices(B::NAME, B::devices)
}

/// Lists the devices of a backend with a function, and sorts them by name.
///
/// # Errors
///
/// As [`devices`].
pub(super) fn checked_devices(
    backend: &'static str,
    list: impl FnOnce() -> Result<Vec<Device>, BoxError>,
) -> Result<Vec<Device>, Error> {
    let mut devices = bridge::construct(backend, list)?;
    devices.sort();
    for device in &devices {
        check_name(backend, &device.name)?;
    }
    let twice = devices.iter().zip(devices.iter().skip(1)).find(|(a, b)| a.name == b.name);
    match twice {
        Some((device, _)) => Err(Error::DuplicateDevice { backend, device: device.name.clone() }),
        None => Ok(devices),
    }
}

/// Returns an error if a device name is empty or contains white space or control characters.
pub(super) fn check_name(backend: &'static str, device: &str) -> Result<(), Error> {
    match device.is_empty() || device.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => Err(Error::DeviceName { backend, device: device.to_owned() }),
        false => Ok(()),
    }
}

/// Returns an error if a backend does not accept one of the options.
///
/// # Errors
///
/// [`Error::OpenOption`]; [`Error::ThreadCount`].
pub(super) fn taken(
    backend: &'static str,
    takes: &'static [OpenOption],
    options: &OpenOptions,
) -> Result<(), Error> {
    // Only construction shows whether a backend lacks element types, so `narrow_floats` is not refused here.
    let of_runtime = Some(OpenOption::NarrowFloats);
    let all = takes.iter().copied().chain(of_runtime);
    if let Some(option) = options.given().find(|option| !all.clone().any(|known| known == *option)) {
        return Err(Error::OpenOption { backend, option, takes: all.collect() });
    }
    let unknown = |option: &str, nearest, takes| Error::UnknownOption {
        backend: Some(backend),
        option: option.to_owned(),
        nearest,
        takes,
    };
    known_only(takes, of_runtime, options, unknown)
}

/// Returns an error if an option of a backend's or a layer's own is not declared, or has a wrong value. `unknown` constructs the error
/// for an option that is not declared, from the option, the most similar one and all declared ones.
fn known_only(
    takes: &'static [OpenOption],
    of_runtime: Option<OpenOption>,
    options: &OpenOptions,
    unknown: impl Fn(&str, Option<String>, Vec<String>) -> Error,
) -> Result<(), Error> {
    let all = || takes.iter().copied().chain(of_runtime);
    let declared = |name: &str| takes.iter().filter_map(|option| option.own()).find(|own| own.name == name);
    for (name, value) in &options.own {
        let Some(own) = declared(name) else {
            if all().any(|option| option.name() == name) {
                return Err(Error::CommonOption { option: name.clone() });
            }
            let (nearest, takes) = among(name, all());
            return Err(unknown(name, nearest, takes));
        };
        if own.default.normal(value).is_none() {
            let expected = own.default.values();
            return Err(Error::OptionValue { option: name.clone(), expected, got: value.clone() });
        }
    }
    options.threads.map_or(Ok(()), |threads| check_threads(threads.get()))
}

/// Returns the options with a value for each option that the backend declares itself: the default if it is not set,
/// otherwise the value in its normal form.
pub(super) fn complete(takes: &[OpenOption], options: &OpenOptions) -> OpenOptions {
    let mut all = options.clone();
    for own in takes.iter().filter_map(|option| option.own()) {
        let given = all.own.get(own.name).and_then(|value| OptionDefault::normal(own.default, value));
        all.own.insert(own.name.to_owned(), given.unwrap_or_else(|| own.default.to_string()));
    }
    all
}

/// Returns the options without those that equal the default that the backend or the layer declares. The other options that
/// it declares itself have their normal form.
pub(super) fn without_defaults(takes: &[OpenOption], options: &OpenOptions) -> OpenOptions {
    let mut rest = options.clone();
    for own in takes.iter().filter_map(|option| option.own()) {
        let Some(value) = rest.own.get_mut(own.name) else { continue };
        let Some(normal) = own.default.normal(value) else { continue };
        if normal == own.default.to_string() {
            rest.own.remove(own.name);
        } else {
            *value = normal;
        }
    }
    rest
}

/// Returns all options of a layer, after checking that it accepts the options that are set.
///
/// # Errors
///
/// [`Error::UnknownLayerOption`], [`Error::OptionValue`], [`Error::ThreadCount`].
pub(super) fn checked(
    layer: &'static str,
    takes: &'static [OpenOption],
    options: &OpenOptions,
) -> Result<OpenOptions, Error> {
    let unknown = |option: &str, nearest, takes| Error::UnknownLayerOption {
        layer,
        option: option.to_owned(),
        nearest,
        takes,
    };
    if let Some(option) = options.given().find(|option| !takes.contains(option)) {
        let (nearest, takes) = among(option.name(), takes.iter().copied());
        return Err(unknown(option.name(), nearest, takes));
    }
    known_only(takes, None, options, unknown)?;
    Ok(complete(takes, options))
}

/// Returns the most similar name of an option, and all names.
fn among(option: &str, all: impl Iterator<Item = OpenOption> + Clone) -> (Option<String>, Vec<String>) {
    let nearest = bb_ir::nearest(option, all.clone().map(OpenOption::name)).map(str::to_owned);
    (nearest, all.map(|option| option.name().to_owned()).collect())
}

/// Checks that a backend declares the minimum set of element types ([`Backend::types`](crate::Backend::types)).
///
/// # Errors
///
/// [`Error::Unavailable`] if a type is missing.
pub fn check_types(backend: &'static str, types: DataTypes) -> Result<(), Error> {
    let has_integers = types.has(DataType::I32) || types.has(DataType::I64);
    if types.has(DataType::F32) && types.has(DataType::Bool) && has_integers {
        return Ok(());
    }
    let declares = if types == DataTypes::NONE { "nothing".to_owned() } else { types.to_string() };
    let problem = format!(
        "`fn types` declares {declares}; every backend has at least f32, bool, and i32 or i64: \
         `DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool])`"
    );
    Err(Error::Unavailable { backend, origin: BackendOrigin::Linked, source: problem.into() })
}

/// Checks that a backend accepts the options and has the device.
///
/// # Errors
///
/// [`Error::OpenOption`]; [`Error::UnknownDevice`]; the errors of [`devices`].
pub(super) fn check<B: Declared>(options: &OpenOptions) -> Result<(), Error> {
    taken(B::NAME, B::OPTIONS, options)?;
    let Some(device) = &options.device else { return Ok(()) };
    let list: Option<&dyn Fn() -> Result<Vec<Device>, Error>> =
        if B::LISTS_DEVICES { Some(&devices::<B>) } else { None };
    check_device(B::NAME, device, list)
}

/// Checks the name of a device, and that the backend lists the device, if it lists devices.
///
/// # Errors
///
/// [`Error::DeviceName`]; [`Error::UnknownDevice`]; the errors of the list.
pub(super) fn check_device(
    backend: &'static str,
    device: &str,
    list: Option<&dyn Fn() -> Result<Vec<Device>, Error>>,
) -> Result<(), Error> {
    check_name(backend, device)?;
    let Some(list) = list else { return Ok(()) };
    let found = list()?;
    if found.iter().any(|known| known.name == device) {
        return Ok(());
    }
    let found = found.into_iter().map(|device| device.name).collect();
    Err(Error::UnknownDevice { backend, device: device.to_owned(), found })
}

/// Returns the name of an instance: the name of the backend, followed by the device if one was chosen.
///
/// The name is leaked, once per distinct name, so that errors and values can refer to it without an allocation.
pub(super) fn instance_name(backend: &'static str, device: Option<&str>) -> &'static str {
    device.map_or(backend, |device| crate::layer::interned(format!("{backend}:{device}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_has_the_least_element_types() {
        use DataType as D;
        for least in [&[D::F32, D::I32, D::Bool][..], &[D::F32, D::I64, D::Bool], DataType::ALL] {
            assert!(check_types("chip", DataTypes::of(least)).is_ok(), "{least:?}");
        }
        for few in [&[D::F32][..], &[D::F32, D::I32], &[D::I32, D::Bool], &[D::F32, D::Bool, D::U8]] {
            let refused = check_types("chip", DataTypes::of(few));
            assert!(matches!(refused, Err(Error::Unavailable { backend: "chip", .. })), "{few:?}");
        }
    }

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
