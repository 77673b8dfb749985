//! Names of backends that combine several backends: `first_of(gpu, cpu)`.

use super::instance_name::InstanceName;
use super::stack::Stacked;
use super::{BackendHandle, OpenOptions, Registry, named, start::start_inner};
use crate::layer::{Erased, InnerBackend, interned};
use crate::{Error, OpenOption};

/// A backend that combines several backends and can be opened by name.
pub trait Combined: InnerBackend {
    /// The name before the parentheses.
    const NAME: &'static str;

    /// A description in one sentence.
    const ABOUT: &'static str;

    /// Builds the backend from running backends and from the other entries in the parentheses, which are pairs of name
    /// and value.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownOption`] and [`Error::OptionValue`]; the backend's own errors.
    fn of(backends: Vec<BackendHandle>, entries: &[(&str, &str)]) -> Result<Self, Error>;
}

/// The registration of a [`Combined`].
#[derive(Debug, Clone, Copy)]
pub struct CombinedRegistration {
    /// The name before the parentheses.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    start: fn(&'static str, Members<'_>) -> Result<BackendHandle, Error>,
    erased: fn(Members<'_>) -> Result<Erased, Error>,
}

inventory::collect!(CombinedRegistration);

/// The maximum nesting depth of parentheses in a name. It is limited because opening recurses into the parentheses.
const DEEPEST: usize = 16;

/// The parsed contents of the parentheses.
struct Members<'a> {
    backends: Vec<BackendHandle>,
    entries: Vec<(&'a str, &'a str)>,
}

impl CombinedRegistration {
    /// Returns the registration of a type.
    pub const fn of<C: Combined>() -> CombinedRegistration {
        CombinedRegistration {
            name: C::NAME,
            about: C::ABOUT,
            start: |name, of| {
                Ok(BackendHandle::new(start_inner(name, C::of(of.backends, &of.entries)?, false)))
            },
            erased: |of| Ok(Erased::new(C::of(of.backends, &of.entries)?)),
        }
    }

    /// Lists the linked combining backends, sorted by name.
    pub fn all() -> Vec<&'static CombinedRegistration> {
        let mut all: Vec<_> = inventory::iter::<CombinedRegistration>.into_iter().collect();
        all.sort_by_key(|combined| combined.name);
        all
    }

    /// Finds the combining backend that a name begins with. Returns `None` if the parentheses are nested too deeply.
    pub(super) fn of_name(name: &str) -> Option<&'static CombinedRegistration> {
        if named::depth(name) > DEEPEST {
            return None;
        }
        let (first, _) = name.strip_suffix(')')?.split_once('(')?;
        inventory::iter::<CombinedRegistration>.into_iter().find(|combined| combined.name == first.trim())
    }

    /// Opens the backends in a name, and starts the backend that combines them. Callers whose names and
    /// options have the same [`InstanceName`] share one instance.
    pub(super) fn open(
        &self,
        registry: &Registry,
        stacked: &Stacked,
        name: &str,
        options: &OpenOptions,
    ) -> Result<BackendHandle, Error> {
        stacked.kept(InstanceName::of(registry, name, options), || {
            let members = members(registry, name, options)?;
            (self.start)(interned(name.to_owned()), members)
        })
    }

    /// Returns the probably intended name, for example for `first_off(gpu, cpu)` or `first_of gpu, cpu`.
    pub(super) fn meant_by(name: &str) -> Option<String> {
        let (head, rest) = name.split_once(['(', ' '])?;
        let all = inventory::iter::<CombinedRegistration>.into_iter().map(|combined| combined.name);
        let meant = bb_ir::nearest(head, all)?;
        Some(format!("{meant}({})", rest.trim_end_matches(')')))
    }

    /// Opens the backends in a name, and returns the backend that combines them as the base of layers.
    pub(super) fn erased(
        &self,
        registry: &Registry,
        name: &str,
        options: &OpenOptions,
    ) -> Result<Erased, Error> {
        (self.erased)(members(registry, name, options)?)
    }
}

/// Returns whether a registry has all backends in a combined name.
pub(super) fn supported(registry: &Registry, name: &str) -> bool {
    let (backends, _) = named::members(name);
    !backends.is_empty() && backends.iter().all(|backend| registry.supports_device(backend))
}

/// Opens the backends in a name. Each backend gets only the options that it accepts.
fn members<'a>(registry: &Registry, name: &'a str, options: &OpenOptions) -> Result<Members<'a>, Error> {
    let (names, entries) = named::members(name);
    let (mut taken, mut takes): (Vec<OpenOption>, Vec<OpenOption>) = Default::default();
    let mut backends = Vec::with_capacity(names.len());
    for member in names {
        let given = match CombinedRegistration::of_name(member) {
            Some(_) => options.clone(),
            None => {
                // A member's own options are passed only in the member's own parentheses.
                takes.extend(registry.takes(member).iter().filter(|option| option.own().is_none()));
                options.kept(registry.takes(member))
            }
        };
        taken.extend(given.given());
        backends.push(registry.backend_with(member, &given)?);
    }
    match options.given().find(|option| !taken.contains(option)) {
        Some(option) => {
            takes.sort_by_key(|option| option.name());
            takes.dedup_by_key(|option| option.name());
            Err(Error::OpenOption { backend: interned(name.to_owned()), option, takes })
        }
        None => Ok(Members { backends, entries }),
    }
}
