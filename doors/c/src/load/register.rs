//! Registers the backend of a library by its name.

use super::library::OwnedOption;
use super::{BackendLibrary, LoadError};
use bb_core::ir::text::{BOOL_FORM, parse_bool};
use bb_core::layer::interned;
use bb_core::{
    Added, BackendOrigin, BoxError, BrokenPromise, Error, OpenOption, OpenOptions, OptionDefault, OwnOption,
    Registration, Registry,
};
use std::sync::{Mutex, PoisonError};

impl BackendLibrary {
    /// Registers the backend in the process, so that it can be opened by name: `bb::backend("mine")`, `first_of(mine, cpu)`,
    /// `metrics+mine`. The library then stays loaded.
    ///
    /// [`Registry::remove`](bb_core::Registry::remove) undoes this; open backends stay usable.
    ///
    /// Registering the same file again has no effect.
    ///
    /// # Errors
    ///
    /// [`LoadError::NameTaken`] if the backend of another library has the name; [`LoadError::Register`] if another backend of the program has
    /// it, or if the name is not allowed.
    pub fn register(&self) -> Result<(), LoadError> {
        let of = Added {
            name: self.0.name,
            version: interned(self.0.version.clone()),
            path: interned(self.0.identity.clone()),
            options: kept_options(self.0.options.iter().flat_map(open_option).collect()),
            origin: BackendOrigin::Loaded(interned(self.0.path.display().to_string())),
        };
        let path = || self.0.path.clone();
        let Err(source) = self.add(of) else { return Ok(()) };
        match Registry::global().added_origin(of.name) {
            Some(BackendOrigin::Loaded(holder)) if BackendOrigin::Loaded(holder) != of.origin => {
                Err(LoadError::NameTaken { path: path(), name: of.name.to_owned(), holder: holder.into() })
            }
            Some(_) if Registry::global().entries().any(|entry| is(&entry, &of)) => Ok(()),
            _ => Err(LoadError::Register { path: path(), source: Box::new(source) }),
        }
    }

    fn add(&self, of: Added) -> Result<(), Error> {
        let library = self.clone();
        let make =
            move |options: &OpenOptions| library.open(options).map_err(|error| library.unavailable(error));
        match self.0.table.devices {
            None => Registry::global().add(of, make),
            Some(_) => {
                let library = self.clone();
                Registry::global().add_with_devices(of, move || Ok(library.devices()?), make)
            }
        }
    }

    /// Converts an error of opening the backend to an error of `bb` of the same kind.
    fn unavailable(&self, error: LoadError) -> BoxError {
        match error {
            LoadError::Failed { kind, message, function, .. } => {
                Error::Loaded { backend: self.0.name, op: function, kind, message }.into()
            }
            // The error of the registry names the file.
            LoadError::Mismatch { what, expected, got, .. } => {
                let broken = BrokenPromise::new(self.0.name, "open", what.to_owned(), (expected, got));
                Error::from(broken).into()
            }
            other => other.into(),
        }
    }
}

/// Returns whether a registration belongs to a library.
fn is(entry: &Registration, of: &Added) -> bool {
    (entry.name, entry.version, entry.path) == (of.name, of.version, of.path)
}

/// Returns a list of options with a static lifetime. Each distinct list is leaked only once.
fn kept_options(options: Vec<OpenOption>) -> &'static [OpenOption] {
    static KEPT: Mutex<Vec<&'static [OpenOption]>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.iter().find(|known| **known == options) {
        return known;
    }
    let new: &'static [OpenOption] = options.leak();
    kept.push(new);
    new
}

/// The invalid part of an option: its description, the expected value, and the library's value.
pub(super) type WrongOption = (&'static str, &'static str, String);

/// Converts an option of a library. The strings of the result live as long as the program.
///
/// # Errors
///
/// The first invalid part of the option.
pub(super) fn open_option(option: &OwnedOption) -> Result<OpenOption, WrongOption> {
    let OwnedOption { name, kind, initial, about } = option;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(("name of an option", "letters, digits and `_`", name.clone()));
    }
    let common =
        [("device", OpenOption::Device), ("threads", OpenOption::Threads), ("memory", OpenOption::Memory)];
    if let Some((known, common)) = common.into_iter().find(|(known, _)| *known == name || *known == kind) {
        let expected =
            "`device`, `threads` or `memory` for the option of the same name, and another kind for others";
        return match known == name && name == kind {
            true => Ok(common),
            false => Err(("kind of an option", expected, kind.clone())),
        };
    }
    let (default, expected) = match kind.as_str() {
        "bool" => (parse_bool(initial).map(OptionDefault::Bool), BOOL_FORM),
        "i64" => (initial.parse().ok().map(OptionDefault::Int), "a whole number"),
        "u64" => (initial.parse().ok().map(OptionDefault::Count), "a whole number, at least 0"),
        "f64" => {
            let finite = initial.parse().ok().filter(|x: &f64| x.is_finite());
            (finite.map(OptionDefault::float), "a finite number")
        }
        "str" => (Some(OptionDefault::Text(interned(initial.clone()))), "a text"),
        _ => {
            let kinds = "`device`, `threads`, `memory`, `bool`, `i64`, `u64`, `f64` or `str`";
            return Err(("kind of an option", kinds, kind.clone()));
        }
    };
    let default = default.ok_or_else(|| ("default of an option", expected, initial.clone()))?;
    Ok(OpenOption::Own(OwnOption::new(interned(name.clone()), default, interned(about.clone()))))
}
