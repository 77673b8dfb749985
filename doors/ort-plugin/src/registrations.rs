//! The registrations of this library.
//!
//! ONNX Runtime accepts a library under two names, and then refuses each session with the devices of both. So the second registration is
//! refused. The library stays in memory when it is unregistered, so the list does, too.

use crate::api::Result;
use crate::error::PluginError;
use std::sync::{Mutex, MutexGuard, PoisonError};

static REGISTRATIONS: Mutex<Registrations> = Mutex::new(Registrations(Vec::new()));

/// The registrations whose factories ONNX Runtime has not released.
#[derive(Debug)]
pub(crate) struct Registrations(Vec<Registered>);

#[derive(Debug)]
struct Registered {
    /// The address of the interface of ONNX Runtime. A process may have several versions, and each registers the library for itself.
    runtime: usize,
    /// The address of the factory.
    factory: usize,
    name: String,
}

impl Registrations {
    pub(crate) fn lock() -> MutexGuard<'static, Registrations> {
        REGISTRATIONS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if an ONNX Runtime has registered the library.
    ///
    /// # Errors
    ///
    /// [`PluginError::Registered`].
    pub(crate) fn expect_none(&self, runtime: usize) -> Result<()> {
        match self.0.iter().find(|registered| registered.runtime == runtime) {
            Some(registered) => Err(PluginError::Registered { name: registered.name.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn add(&mut self, runtime: usize, factory: usize, name: String) {
        self.0.push(Registered { runtime, factory, name });
    }

    /// Removes the registration that a factory was created for.
    pub(crate) fn remove(&mut self, factory: usize) {
        self.0.retain(|registered| registered.factory != factory);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_registered_once_per_runtime_until_its_factory_is_released() {
        let mut registrations = Registrations(Vec::new());
        registrations.add(1, 10, "a".to_owned());
        assert_eq!(
            registrations.expect_none(1).unwrap_err().to_string(),
            "this library is already registered as `a`: use the devices of that registration, or unregister it first"
        );
        registrations.expect_none(2).unwrap();
        registrations.remove(10);
        registrations.expect_none(1).unwrap();
    }
}
