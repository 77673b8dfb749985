//! Making the backend of a library known by its name.

use super::library::OwnedOption;
use super::{BackendLibrary, LoadError};
use bb_core::layer::interned;
use bb_core::runtime::{Erases, ListsDevices, Opens, start_found};
use bb_core::{Erased, Error, OpenOption, OpenOptions, OptionDefault, OwnOption, Registration, Registry};

impl BackendLibrary {
    /// Makes the backend known to everything in the process that opens backends by name: `bb::backend("mine")`,
    /// `first_of(mine, cpu)`, `metrics+mine`. The library then stays loaded.
    ///
    /// Registering the same version of a library again changes nothing.
    ///
    /// # Errors
    ///
    /// [`LoadError::Register`] if another backend has the name.
    pub fn register(&self) -> Result<(), LoadError> {
        // Texts and functions of a record live as long as the program. One that is known already costs nothing.
        let known = Registry::global().entries().any(|entry| {
            (entry.name, entry.version, entry.path) == (self.0.name, self.version(), self.0.identity.as_str())
        });
        if known {
            return Ok(());
        }
        let failed = |source| LoadError::Register { path: self.0.path.clone(), source: Box::new(source) };
        Registry::global().add(self.registration()).map_err(failed)
    }

    fn registration(&self) -> Registration {
        let name = self.0.name;
        let options: Vec<OpenOption> = self.0.options.iter().filter_map(open_option).collect();
        let takes: &'static [OpenOption] = options.leak();
        let path = interned(self.0.identity.clone());
        let version = interned(self.0.version.clone());
        let lists_devices = takes.contains(&OpenOption::Device) && self.0.table.devices.is_some();
        let library = self.clone();
        let devices: &'static ListsDevices =
            Box::leak(Box::new(move || library.devices().map_err(|e| unavailable(name, e))));
        let library = self.clone();
        let erased: &'static Erases = Box::leak(Box::new(move |options: &OpenOptions| {
            Ok(Erased::new(library.open(options).map_err(|e| unavailable(name, e))?))
        }));
        let mut record = Registration {
            name,
            version,
            path,
            options: takes,
            open: &|_| Err(Error::Abandoned),
            erased,
            lists_devices,
            listed: true,
            devices,
        };
        let (library, named) = (self.clone(), record);
        let open: &'static Opens = Box::leak(Box::new(move |options: &OpenOptions| {
            let backend = library.open(options).map_err(|e| unavailable(name, e))?;
            start_found(&named, backend, options)
        }));
        record.open = open;
        record
    }
}

fn unavailable(backend: &'static str, error: LoadError) -> Error {
    Error::Unavailable { backend, source: error.into() }
}

/// Returns an option as a record has it, whose texts live as long as the program; `None` if it is none.
pub(super) fn open_option(option: &OwnedOption) -> Option<OpenOption> {
    let OwnedOption { name, kind, initial, about } = option;
    let default = match kind.as_str() {
        "device" if name == "device" => return Some(OpenOption::Device),
        "threads" if name == "threads" => return Some(OpenOption::Threads),
        "memory" if name == "memory" => return Some(OpenOption::Memory),
        "bool" => OptionDefault::Bool(initial.parse().ok()?),
        "i64" => OptionDefault::Int(initial.parse().ok()?),
        "u64" => OptionDefault::Count(initial.parse().ok()?),
        "f64" => OptionDefault::float(initial.parse().ok().filter(|x: &f64| x.is_finite())?),
        "str" => OptionDefault::Text(interned(initial.clone())),
        _ => return None,
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = !name.is_empty() && name.chars().all(fits);
    named.then(|| OpenOption::Own(OwnOption::new(interned(name.clone()), default, interned(about.clone()))))
}
