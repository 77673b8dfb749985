//! What `#[derive(bb::Backend)]` states about a type, and the record by which the registry finds it.
//!
//! Nothing here runs a backend; a record only knows how to make one.

use crate::runtime::{BackendRuntime, Device, OpenOption, OpenOptions, Runtime};
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
    const FAMILIES: &'static [FamilyTable<Self>] = &[];

    /// The options that the constructor takes; others are refused before it is called.
    const OPTIONS: &'static [OpenOption] = &[];

    /// Whether [`devices`](Self::devices) lists what [`OpenOptions::device`] may be.
    const LISTS_DEVICES: bool = false;

    /// Makes the backend.
    ///
    /// # Errors
    ///
    /// The constructor's own, for instance if there is no device.
    fn create(options: &OpenOptions) -> Result<Self, BoxError>;

    /// Lists the devices that are there now, in any order.
    ///
    /// # Errors
    ///
    /// The backend's own, for instance if a driver does not answer.
    fn devices() -> Result<Vec<Device>, BoxError> {
        Ok(Vec::new())
    }
}

/// What a constructor may return: the backend, or a result.
#[diagnostic::on_unimplemented(
    message = "the constructor of `{B}` returns `{Self}`",
    label = "expected `{B}` or `Result<{B}, E>`",
    note = "`#[bb(new = path)]` takes a function `fn() -> {B}` or `fn() -> Result<{B}, E>` where `E: Into<bb::BoxError>`; that of `#[bb(open = path)]` also takes `&bb::OpenOptions`"
)]
pub trait Created<B> {
    /// Converts.
    ///
    /// # Errors
    ///
    /// The constructor's own.
    fn created(self) -> Result<B, BoxError>;
}

impl<B> Created<B> for B {
    fn created(self) -> Result<B, BoxError> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<B, E: Into<BoxError>> Created<B> for Result<B, E> {
    fn created(self) -> Result<B, BoxError> {
        self.map_err(Into::into)
    }
}

/// What is made without a constructor.
#[diagnostic::on_unimplemented(
    message = "`#[derive(bb::Backend)]` does not know how to make `{Self}`",
    label = "this type has no `Default`",
    note = "write `#[bb(new = path)]` with a function `fn() -> {Self}` or `fn() -> Result<{Self}, E>`, or derive `Default`"
)]
pub trait Constructed: Sized {
    /// Makes one.
    fn construct() -> Self;
}

#[diagnostic::do_not_recommend]
impl<B: Default> Constructed for B {
    fn construct() -> B {
        B::default()
    }
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
    /// The options that the backend takes.
    pub options: &'static [OpenOption],
    /// Makes the backend and starts it.
    pub open: fn(&OpenOptions) -> Result<Arc<dyn BackendRuntime>, Error>,
    /// Lists the backend's devices, by name.
    pub devices: fn() -> Result<Vec<Device>, Error>,
}

impl Registration {
    /// Makes the record of a backend.
    pub const fn of<B: Declared>() -> Registration {
        Registration {
            name: B::NAME,
            version: B::VERSION,
            path: B::PATH,
            options: B::OPTIONS,
            open: Runtime::<B>::open_with,
            devices: super::open::devices::<B>,
        }
    }
}

inventory::collect!(Registration);
