//! The declaration that `#[derive(bb::Backend)]` writes for a type, and its registration.
//!
//! Nothing here runs a backend. A registration can only construct one.

use crate::OpenOption;
use crate::ext::{Extended, OpSet};
use crate::layer::{Erased, InnerBackend};
use crate::runtime::{Device, OpenOptions, Runtime, Start};
use crate::{Backend, BoxError, Error, Outputs, ext::FamilyTable};
use bb_ir::op::{Family, OpSpec, Param};
use std::sync::Arc;

/// A declared backend; the derive implements this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `#[derive(bb::Backend)]`",
    label = "write `#[derive(bb::Backend)]` above this type",
    note = "the derive gives the backend its name and registers it"
)]
pub trait Declared: Backend + Sized + 'static {
    /// The name under which users open the backend.
    const NAME: &'static str;

    /// The version of the backend; by default the version of its package.
    const VERSION: &'static str;

    /// The path of the type. It distinguishes two backends with the same name.
    const PATH: &'static str;

    /// The extension families that the backend implements.
    const FAMILIES: &'static [FamilyTable<Self>] = &[];

    /// The options that the constructor accepts. Other options are refused before the constructor is called.
    const OPTIONS: &'static [OpenOption] = &[];

    /// Whether [`devices`](Self::devices) lists the possible values of [`OpenOptions::device`].
    const LISTS_DEVICES: bool = false;

    /// Constructs the backend.
    ///
    /// # Errors
    ///
    /// The constructor's own error, for instance if there is no device.
    fn create(options: &OpenOptions) -> Result<Self, BoxError>;

    /// Starts the backend under a name, which is [`NAME`](Self::NAME), optionally with a device.
    ///
    /// The derive writes this method, so that the runtime's code for this type is compiled once, in the backend's
    /// crate, and not in each crate that starts the backend.
    fn start(self, how: Start) -> Arc<Runtime>;

    /// Lists the devices that are currently available, in any order.
    ///
    /// # Errors
    ///
    /// The backend's own error, for instance if a driver does not answer.
    fn devices() -> Result<Vec<Device>, BoxError> {
        Ok(Vec::new())
    }
}

#[diagnostic::do_not_recommend]
impl<B: Declared> InnerBackend for B {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        B::FAMILIES.iter().map(|table| (table.family(), table.native())).collect()
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        Extended::new(self, B::FAMILIES).call(spec, inputs, params)
    }

    fn version(&self) -> &'static str {
        B::VERSION
    }
}

/// A type with an `impl bb::Backend`. The derive writes this as a bound with a lifetime, which delays rustc's check of
/// the bound.
pub trait IsBackend<'it>: Backend {}

#[diagnostic::do_not_recommend]
impl<B: Backend> IsBackend<'_> for B {}

/// A type with the derive.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a backend: `bb::Backend` is not implemented for it",
    label = "this type has no `impl bb::Backend`",
    note = "write `impl bb::Backend for {Self}` with the primitives, or with `bb::forward_to_execute!(Self::run);`"
)]
pub trait DerivedStruct: Declared {}

#[diagnostic::do_not_recommend]
impl<B: Declared> DerivedStruct for B {}

/// An enum with the derive.
#[diagnostic::on_unimplemented(
    message = "the enum `{Self}` is not a backend: `bb::Backend` is not implemented for it",
    label = "this enum has no `impl bb::Backend`",
    note = "if each variant holds a backend, write `#[bb(delegate)]` above the enum: then it is the backend of its variant",
    note = "if it is a backend of its own, write `impl bb::Backend for {Self}`"
)]
pub trait DerivedEnum: Declared {}

#[diagnostic::do_not_recommend]
impl<B: Declared> DerivedEnum for B {}

/// A type that a constructor may return: the backend, or a result.
#[diagnostic::on_unimplemented(
    message = "the constructor of `{B}` returns `{Self}`",
    label = "expected `{B}` or `Result<{B}, E>`",
    note = "`#[bb(new = path)]` takes a function `fn() -> {B}` or `fn() -> Result<{B}, E>` where `E: Into<bb::BoxError>`; that of `#[bb(open = path)]` also takes `&bb::OpenOptions`"
)]
pub trait Created<B> {
    /// Converts the value to a result.
    ///
    /// # Errors
    ///
    /// The constructor's own error.
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

/// A type that is constructed with `Default`.
#[diagnostic::on_unimplemented(
    message = "`#[derive(bb::Backend)]` does not know how to make `{Self}`",
    label = "this type has no `Default`",
    note = "write `#[bb(new = path)]` with a function `fn() -> {Self}` or `fn() -> Result<{Self}, E>`, or derive `Default`"
)]
pub trait Constructed: Sized {
    /// Constructs the value.
    fn construct() -> Self;
}

#[diagnostic::do_not_recommend]
impl<B: Default> Constructed for B {
    fn construct() -> B {
        B::default()
    }
}

/// The registration of a linked backend.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// The name under which users open the backend.
    pub name: &'static str,
    /// The version of the backend.
    pub version: &'static str,
    /// The path of the type.
    pub path: &'static str,
    /// The options that the backend accepts.
    pub options: &'static [OpenOption],
    /// Constructs the backend and starts it.
    pub open: fn(&OpenOptions) -> Result<Arc<Runtime>, Error>,
    /// Constructs the backend as the base of layers.
    pub erased: fn(&OpenOptions) -> Result<Erased, Error>,
    /// Whether the backend lists its devices. A backend that accepts a device but does not list devices accepts any
    /// device name.
    pub lists_devices: bool,
    /// Whether the backend appears in lists. A backend that is useful only with options, like a recording, is found
    /// only by its name.
    pub listed: bool,
    /// Lists the devices of the backend, sorted by name.
    pub devices: fn() -> Result<Vec<Device>, Error>,
}

impl Registration {
    /// Returns the registration of a backend.
    pub const fn of<B: Declared>() -> Registration {
        Registration {
            name: B::NAME,
            version: B::VERSION,
            path: B::PATH,
            options: B::OPTIONS,
            open: Runtime::open_with::<B>,
            erased: |options| Ok(Erased::new(Runtime::constructed::<B>(options)?)),
            lists_devices: B::LISTS_DEVICES,
            listed: true,
            devices: super::open::devices::<B>,
        }
    }
}

inventory::collect!(Registration);
