//! Loads execution providers from other libraries. ONNX Runtime runs a model only on the provider, or refuses the model.

use crate::calls;
use crate::library::{LibraryError, absolute, environment, kind_of};
use bb_engines::{Fault, Refusal};
use ort::device::Device;
use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The text in ONNX Runtime's message if a node would run on the built-in CPU provider, which is disabled.
const FALLBACK: &str = "fallback to CPU EP has been explicitly disabled";

/// A device of an execution provider.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The name of the provider.
    name: String,
    /// The index of the device among the devices of the provider.
    number: usize,
}

/// The reason why a provider cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// ONNX Runtime cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),

    /// ONNX Runtime does not load the library of the provider.
    #[error("ONNX Runtime does not load `{}`; expected the library of a provider, which exports `CreateEpFactories`{}", .path.display(), .kind.map(|kind| format!(", but it is {kind}")).unwrap_or_default())]
    Register {
        /// The library.
        path: PathBuf,
        /// The kind of the library, if a function that it exports shows it.
        kind: Option<&'static str>,
        /// ONNX Runtime's own error.
        #[source]
        source: ort::Error,
    },

    /// The option `library` is missing.
    #[error("expected the option `library`, the file of a provider of ONNX Runtime")]
    NoLibrary,

    /// The provider has no device with this index.
    #[error("the provider of `{}` has no device {number}: {}", .path.display(), there_are(*.count))]
    NoDevice {
        /// The library.
        path: PathBuf,
        /// The number of devices.
        count: usize,
        /// The requested device index, counted from 0.
        number: usize,
    },
}

/// Returns a text with the valid device indices.
fn there_are(count: usize) -> String {
    match count.checked_sub(1) {
        None => "it finds no device on this machine".to_owned(),
        Some(0) => "its only device on this machine is 0".to_owned(),
        Some(last) => format!("its devices on this machine are 0 to {last}"),
    }
}

/// The reason why a provider runs no part of a model, if that is not a fault of the provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRun {
    /// The provider does not support some nodes.
    #[error("the provider declines {}", listed(.nodes))]
    Declined {
        /// The nodes as ONNX Runtime reports them, each as name and operator; empty if it does not report them.
        nodes: Vec<String>,
        /// ONNX Runtime's own error.
        #[source]
        source: ort::Error,
    },

    /// ONNX Runtime cannot load the model on its built-in CPU provider either.
    #[error("ONNX Runtime does not load the model")]
    NotLoaded(#[source] ort::Error),
}

/// Lists nodes for a message.
fn listed(nodes: &[String]) -> String {
    /// The number of nodes that a message lists.
    const SHOWN: usize = 5;

    let shown = nodes.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match nodes.len() {
        0 => "nodes of the model".to_owned(),
        1 => format!("the node {shown}"),
        2..=SHOWN => format!("the nodes {shown}"),
        count => format!("the nodes {shown} and {} others", count - SHOWN),
    }
}

impl NotRun {
    /// Searches the causes of an error for a [`NotRun`], or for the reason why this crate does not pass a model to ONNX Runtime.
    /// Returns it, and the component that cannot run the model.
    pub fn among<'e>(
        error: &'e (dyn std::error::Error + 'static),
    ) -> Option<(Without, &'e (dyn std::error::Error + 'static))> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| {
            let without = match (error.downcast_ref(), error.downcast_ref()) {
                (Some(NotRun::Declined { .. }), _) => Some(Without::Provider),
                (Some(NotRun::NotLoaded(_)), _) => Some(Without::Engine),
                (None, Some(Refusal::Load(_)) | None) => None,
                (None, Some(_)) => Some(Without::Caller),
            };
            without.map(|without| (without, error))
        })
    }
}

/// The component that cannot run a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// The provider.
    Provider,
    /// ONNX Runtime.
    Engine,
    /// This crate, which does not pass all values and opsets to ONNX Runtime.
    Caller,
}

impl Provider {
    /// Registers the library of a provider, unless the process has already registered it.
    ///
    /// # Errors
    ///
    /// [`ProviderError`].
    pub fn open(path: &Path, number: usize) -> Result<Provider, ProviderError> {
        static REGISTERED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
        let environment = environment()?;
        // The system's loader searches for a relative path in other folders.
        let path = &absolute(path.to_owned());
        let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match registered.get(path) {
            Some(name) => name.clone(),
            None => {
                let name = register(environment, path)?;
                registered.insert(path.to_owned(), name.clone());
                name
            }
        };
        let count = of(environment, &name).count();
        if number >= count {
            return Err(ProviderError::NoDevice { path: path.to_owned(), count, number });
        }
        Ok(Provider { name, number })
    }

    /// Restricts a session to the provider.
    pub(crate) fn alone(
        &self,
        builder: SessionBuilder,
        environment: &'static Environment,
    ) -> Result<SessionBuilder, ort::Error> {
        let builder = self.beside_cpu(builder, environment)?;
        builder.with_disable_cpu_fallback().map_err(ort::Error::<()>::from)
    }

    /// Determines why a session could not be created for a model. `plain` creates one that may use ONNX Runtime's built-in CPU provider:
    /// together with this provider, or only the built-in one for `None`.
    pub(crate) fn blame(
        &self,
        error: ort::Error,
        plain: impl Fn(Option<&Provider>) -> Result<Session, ort::Error>,
    ) -> bb::BoxError {
        if error.message().contains(FALLBACK) {
            let nodes = plain(Some(self)).and_then(|session| calls::nodes_on_cpu(&session));
            // The nodes only make the message more precise, so an error of this session is not reported.
            return NotRun::Declined { nodes: nodes.unwrap_or_default(), source: error }.into();
        }
        match plain(None) {
            Ok(_) => Fault(error.into()).into(),
            Err(error) => NotRun::NotLoaded(error).into(),
        }
    }

    /// Lets a session use the provider and ONNX Runtime's built-in CPU provider, and record which of them runs each node.
    pub(crate) fn beside_cpu(
        &self,
        builder: SessionBuilder,
        environment: &'static Environment,
    ) -> Result<SessionBuilder, ort::Error> {
        let device = of(environment, &self.name).nth(self.number);
        let builder = builder.with_devices(device, None).map_err(ort::Error::<()>::from)?;
        builder.with_config_entry(calls::RECORD, "1").map_err(ort::Error::<()>::from)
    }
}

/// Registers a library, and returns the name of its provider. The name is empty if the provider has no device on this
/// machine.
fn register(environment: &Environment, path: &Path) -> Result<String, ProviderError> {
    let names = || -> Vec<String> {
        environment.devices().filter_map(|device| Some(device.ep().ok()?.to_owned())).collect()
    };
    let before = names();
    // ONNX Runtime uses the registration name only to unregister the library.
    let registered = environment.register_ep_library(path.to_string_lossy(), path);
    registered.map_err(|source| ProviderError::Register {
        path: path.to_owned(),
        kind: kind_of(path),
        source,
    })?;
    Ok(names().into_iter().find(|name| !before.contains(name)).unwrap_or_default())
}

/// Returns the devices of a provider.
fn of<'e>(environment: &'e Environment, name: &str) -> impl Iterator<Item = Device<'e>> {
    environment.devices().filter(move |device| device.ep().is_ok_and(|own| own == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lists_the_first_nodes() {
        let names = |count: usize| (0..count).map(|at| format!("`n{at}` (Exp)")).collect::<Vec<_>>();
        assert_eq!(listed(&[]), "nodes of the model");
        assert_eq!(listed(&names(1)), "the node `n0` (Exp)");
        assert_eq!(listed(&names(2)), "the nodes `n0` (Exp), `n1` (Exp)");
        assert!(listed(&names(7)).ends_with("`n4` (Exp) and 2 others"));
    }
}
