//! What `#[derive(bb::Backend)]` states about a type, and the record by which the registry finds it.
//!
//! Nothing here runs a backend; a record only knows how to make one.

use crate::runtime::{BackendRuntime, Runtime};
use crate::{Backend, BoxError, Error, ext::FamilyTable};
use std::sync::Arc;

/// A backend that can be found by name: what the derive writes.
pub trait Declared: Backend + Sized + 'static {
    /// The name by which users ask for the backend.
    const NAME: &'static str;

    /// The version of the backend; that of its package unless it says otherwise.
    const VERSION: &'static str;

    /// The type's path, which tells two backends of one name apart.
    const PATH: &'static str;

    /// The extension families that the backend adopted.
    const FAMILIES: &'static [FamilyTable<Self>];

    /// Makes the backend.
    ///
    /// # Errors
    ///
    /// The constructor's own, for instance if there is no device.
    fn create() -> Result<Self, BoxError>;
}

/// The record of a linked backend.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// The name by which users ask for the backend.
    pub name: &'static str,
    /// The backend's version.
    pub version: &'static str,
    /// The type's path.
    pub path: &'static str,
    /// Makes the backend and starts it.
    pub open: fn() -> Result<Arc<dyn BackendRuntime>, Error>,
}

impl Registration {
    /// Makes the record of a backend.
    pub const fn of<B: Declared>() -> Registration {
        Registration { name: B::NAME, version: B::VERSION, path: B::PATH, open: Runtime::<B>::open }
    }
}

inventory::collect!(Registration);
