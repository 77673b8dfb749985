//! Opens layers by name: `metrics+limit(memory=1G)+cpu` is a backend with two layers on top.
//!
//! A crate registers a layer with `bb::register_layer!`, like a backend. Each layer in a name wraps the part of the
//! name to its right as an [`Erased`] backend, so that the code of the layer is compiled only once.

use super::instance_name::InstanceName;
use super::opening::{self, InstanceKey};
use super::{BackendHandle, OpenOptions, Registry, layer_names, named, open, registry, start::start_erased};
use crate::contract::catch;
use crate::error::type_path;
use crate::layer::{Erased, FindLayerName, Layer, RegisteredLayers, has, interned, writes_operations};
use crate::{Backend, BoxError, Error, ErrorKind, OpenOption};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A layer with a name, for [`LayerRegistration::of`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no name: `bb::RegisteredLayer` is not implemented for it",
    label = "this layer is not registered by a name",
    note = "write `impl bb::RegisteredLayer for {Self} {{ … }}` with the layer's name and options",
    note = "a layer derives `bb::Backend` with `#[bb(delegate = field)]`, and implements `bb::Layer`"
)]
pub trait RegisteredLayer: Layer<Inner = Erased> + Sized {
    /// The name, which consists of lower-case letters, digits and `-`.
    const NAME: &'static str;

    /// A description in one sentence.
    const ABOUT: &'static str;

    /// The options that the layer accepts. Other options are refused.
    const OPTIONS: &'static [OpenOption] = &[];

    /// Builds the layer on a backend.
    ///
    /// # Errors
    ///
    /// The layer's own error, for example if an option is invalid.
    fn on(inner: Erased, options: &OpenOptions) -> Result<Self, BoxError>;
}

/// The registration of a layer that is linked into the program.
#[derive(Debug, Clone, Copy)]
pub struct LayerRegistration {
    /// The name.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// The options that the layer accepts.
    pub options: &'static [OpenOption],
    /// Returns the path of the layer's type.
    path: fn() -> &'static str,
    /// The names of the methods in the `impl` of [`Layer`].
    methods: &'static [&'static str],
    /// Whether the layer writes an operation, so that plans call it.
    writes_operations: bool,
    on: fn(Erased, &OpenOptions) -> Result<Erased, BoxError>,
}

inventory::collect!(LayerRegistration);

/// The methods of [`Layer`] that get whole graphs.
const GRAPH_METHODS: [&str; 3] = ["compile", "execute", "dispatch"];

/// Registers a layer that implements [`RegisteredLayer`](crate::RegisteredLayer), so that names of backends may contain
/// it.
///
/// The argument is the layer's type with [`bb::Erased`](crate::Erased) as its inner backend. The `impl` of the trait
/// defines the layer's name and options.
///
/// # Examples
///
/// ```text
/// bb::register_layer!(MyLayer<bb::Erased>);
/// ```
#[macro_export]
macro_rules! register_layer {
    ($layer:ty) => {
        $crate::__private::inventory::submit! { $crate::LayerRegistration::of::<$layer>() }
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "expected the type of a layer and nothing else: write `bb::register_layer!(MyLayer<bb::Erased>);`, and the name and the \
             options in `impl bb::RegisteredLayer for MyLayer<bb::Erased>`"
        );
    };
}

impl LayerRegistration {
    /// Returns the registration of a layer, for [`register_layer!`](crate::register_layer).
    ///
    /// The bound `RegisteredLayer` implies all other required traits, so that a type without these traits causes only
    /// one error.
    pub const fn of<L: RegisteredLayer>() -> LayerRegistration {
        const { L::ADOPTS };
        const { layer_names::check_name(L::NAME) };
        const { layer_names::check_options(L::OPTIONS) };
        LayerRegistration {
            name: L::NAME,
            about: L::ABOUT,
            options: L::OPTIONS,
            path: type_path::<L>,
            methods: L::METHODS,
            writes_operations: const { writes_operations::<L>() },
            on: |inner, options| Ok(Erased::new(L::on(inner, options)?)),
        }
    }

    /// Lists the linked layers, sorted by name.
    pub fn all() -> Vec<&'static LayerRegistration> {
        let mut all: Vec<_> = inventory::iter::<LayerRegistration>.into_iter().collect();
        all.sort_by_key(|layer| layer.name);
        all
    }

    /// Returns a method of `inner` that is never called if this layer is to the left of `inner`. A layer that writes operations
    /// gets graphs as single operations, unless it writes the method for graphs, too.
    fn hides(&self, inner: &LayerRegistration) -> Option<&'static str> {
        let is_hidden = |method: &&str| has(inner.methods, method) && !has(self.methods, method);
        GRAPH_METHODS.into_iter().filter(|_| self.writes_operations).find(is_hidden)
    }
}

impl FindLayerName for RegisteredLayers {
    fn name_of(&self, path: &str) -> Option<&'static str> {
        let mut all = inventory::iter::<LayerRegistration>.into_iter();
        all.find(|layer| (layer.path)() == path).map(|layer| layer.name)
    }
}

/// Returns whether a name contains layers.
pub(crate) fn is_stack(name: &str) -> bool {
    named::stack(name).len() > 1
}

/// Converts an error from opening the innermost backend to an error about the whole name: an option may belong to a layer.
pub(super) fn of_stack(name: &str, error: Error) -> Error {
    let of_layer = |option: &str| layer_with(name, option);
    match error {
        Error::Stack { problem, .. } => Error::Stack { name: name.to_owned(), problem },
        Error::UnknownOption { backend: Some(backend), ref option, .. } => match of_layer(option) {
            Some(layer) => Error::LayerOption { backend, layer, option: option.clone() },
            None => error,
        },
        Error::OpenOption { backend, option, .. } => match of_layer(option.name()) {
            Some(layer) => Error::LayerOption { backend, layer, option: option.to_string() },
            None => error,
        },
        other => other,
    }
}

/// Returns the first layer of a name that takes the option.
fn layer_with(name: &str, option: &str) -> Option<&'static str> {
    let takes = |layer: &LayerRegistration| layer.options.iter().any(|known| known.name() == option);
    let layers = LayerRegistration::all();
    let of_part = |part: &str| layers.iter().find(|layer| layer.name == part && takes(layer));
    named::stack(name).into_iter().find_map(|part| Some(of_part(named::backend_of(part))?.name))
}

/// Constructs the layers of a name on top of the backend that `open` constructs.
///
/// # Errors
///
/// The errors of [`check_order`], of `open` and of the layers.
pub(super) fn layered(name: &str, open: impl FnOnce(&str) -> Result<Erased, Error>) -> Result<Erased, Error> {
    let mut parts = named::stack(name);
    let backend = parts.pop().unwrap_or_default();
    check_order(name, &parts, backend)?;
    let mut stack = open(backend)?;
    let floats = stack.floats;
    for part in parts.into_iter().rev() {
        stack = on(stack, part)?.with_floats(floats);
    }
    Ok(stack)
}

/// Checks that no layer writes a method for graphs that is never called, because a layer to its left writes operations. `parts` are
/// the layers, outermost first. Names that are no layers are skipped.
///
/// # Errors
///
/// [`Error::Stack`] with the order to write. If the other order would hide a method, too, there is no error.
fn check_order(name: &str, parts: &[&str], backend: &str) -> Result<(), Error> {
    let layers: Vec<_> = parts.iter().map(|part| registered(named::backend_of(part)).ok()).collect();
    for (inside, inner) in layers.iter().enumerate() {
        for (outside, outer) in layers.iter().enumerate().take(inside) {
            let (Some(inner), Some(outer)) = (inner, outer) else { continue };
            let Some(method) = outer.hides(inner).filter(|_| inner.hides(outer).is_none()) else { continue };
            let mut order = parts.to_vec();
            let moved = order.remove(inside);
            order.insert(outside, moved);
            order.push(backend);
            let (order, inner, outer) = (order.join("+"), inner.name, outer.name);
            let problem = format!(
                "`{inner}` writes `{method}`, and `{outer}` to its left writes operations, so `{method}` of `{inner}` would \
                 never be called: write `{order}`"
            );
            return Err(Error::Stack { name: name.to_owned(), problem });
        }
    }
    Ok(())
}

/// The opened backends with layers. Callers whose names and options have the same [`InstanceName`] share an instance.
#[derive(Debug, Default)]
pub(crate) struct Stacked(Mutex<OpenStacks>);

/// The data that the lock of [`Stacked`] protects.
#[derive(Debug, Default)]
struct OpenStacks {
    opened: Vec<Opened>,
    /// The number of removals of backends.
    removals: u64,
}

/// The identity and the handle of an opened instance.
type Opened = (InstanceName, BackendHandle);

/// Returns the usable instance with this identity.
fn found(opened: &[Opened], instance: &InstanceName) -> Option<BackendHandle> {
    let found = opened.iter().find(|(known, on)| known == instance && registry::is_usable(on));
    found.map(|(_, handle)| handle.clone())
}

impl Stacked {
    /// Returns the backend of a name with layers. `open` opens the innermost backend.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownLayer`], [`Error::DuplicateLayer`], [`Error::Stack`]; errors of options; [`Error::LayerUnavailable`]
    /// with a layer's own error.
    pub(crate) fn open(
        &self,
        registry: &Registry,
        name: &str,
        options: &OpenOptions,
        open: impl FnOnce(&str, &OpenOptions) -> Result<Erased, Error>,
    ) -> Result<BackendHandle, Error> {
        self.kept(InstanceName::of(registry, name, options), || {
            let stack = layered(name, |backend| open(backend, options))?;
            let floats = stack.floats;
            if floats && stack.types().is_all() {
                let (backend, option) = (interned(name.to_owned()), OpenOption::NarrowFloats);
                return Err(Error::OpenOption { backend, option, takes: registry.takes(name).to_vec() });
            }
            let name = interned(name.to_owned());
            Ok(BackendHandle::new(start_erased(name, stack, floats)))
        })
    }

    /// Returns the usable instance with this identity; `None` if it was not opened.
    pub(super) fn opened(&self, instance: &InstanceName) -> Option<BackendHandle> {
        found(&self.lock().opened, instance)
    }

    /// Removes and returns the instances whose names contain the backend.
    pub(super) fn forget(&self, backend: &str) -> Vec<BackendHandle> {
        let mut kept = self.lock();
        kept.removals += 1;
        let gone = kept.opened.extract_if(.., |(instance, _)| named::mentions(&instance.name, backend));
        gone.map(|(_, handle)| handle).collect()
    }

    /// Removes and returns the instances that only this cache refers to. The caller drops them, because that runs their code.
    pub(super) fn take_unused(&self) -> Vec<BackendHandle> {
        let unused =
            self.lock().opened.extract_if(.., |(_, handle)| registry::is_unused(handle)).collect::<Vec<_>>();
        unused.into_iter().map(|(_, handle)| handle).collect()
    }

    fn lock(&self) -> MutexGuard<'_, OpenStacks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached instance with this identity. If there is none, creates it with `make`.
    ///
    /// # Errors
    ///
    /// The errors of `make`; [`Error::OpenCycle`] if `make` needs the instance itself.
    pub(super) fn kept(
        &self,
        instance: InstanceName,
        make: impl FnOnce() -> Result<BackendHandle, Error>,
    ) -> Result<BackendHandle, Error> {
        let entry = std::ptr::from_ref(self).addr();
        let InstanceName { name, options } = instance.clone();
        let place = InstanceKey { entry, backend: name.into(), options };
        let (_opening, removals) = loop {
            let kept = self.lock();
            if let Some(handle) = found(&kept.opened, &instance) {
                return Ok(handle);
            }
            let removals = kept.removals;
            drop(kept);
            // If the thread that opened the stack has failed, this thread tries.
            if let Some(begun) = opening::begin(&place)? {
                break (begun, removals);
            }
        };
        let handle = make()?;
        // The lock was not held while the backend was constructed, because a constructor may open other stacks. If
        // another thread opened the same stack in the meantime, its instance is used.
        let mut kept = self.lock();
        if let Some(other) = found(&kept.opened, &instance) {
            return Ok(other);
        }
        // If a backend was removed in the meantime, this instance may contain it, so the instance is not cached.
        if kept.removals != removals {
            return Ok(handle);
        }
        let unusable: Vec<_> = kept.opened.extract_if(.., |(known, _)| *known == instance).collect();
        kept.opened.push((instance, handle.clone()));
        drop(kept);
        // Instances that were shut down are dropped after the lock is released, because that runs their code.
        drop(unusable);
        Ok(handle)
    }
}

/// Builds the layer that a part of a name describes on top of a backend.
fn on(inner: Erased, part: &str) -> Result<Erased, Error> {
    let layer = registered(named::backend_of(part))?;
    let unavailable = |source: BoxError| Error::LayerUnavailable { layer: layer.name, source };
    let (_, given) = named::split(part, &OpenOptions::default())?;
    if let Some(device) = &given.device {
        let name = layer.name;
        let problem = format!(
            "the layer has no devices; the device stands behind the backend, as in `{name}+gpu:{device}`"
        );
        return Err(Error::Stack { name: part.to_owned(), problem });
    }
    let options = open::checked(layer.name, layer.options, &given)?;
    catch(|| (layer.on)(inner, &options))
        .unwrap_or_else(|message| {
            let panicked = format!("it panicked: {message}");
            Err(Error::layer(layer.name, "on", ErrorKind::Device, panicked).into())
        })
        .map_err(unavailable)
}

/// Returns the registration of the layer called `name`.
///
/// # Errors
///
/// [`Error::UnknownLayer`]; [`Error::DuplicateLayer`]; [`Error::LayerNamedAsBackend`].
pub(super) fn registered(name: &str) -> Result<&'static LayerRegistration, Error> {
    let all = LayerRegistration::all();
    let mut found = all.iter().filter(|layer| layer.name == name);
    let Some(layer) = found.next() else {
        let linked = || all.iter().map(|layer| layer.name);
        return Err(Error::UnknownLayer {
            name: name.to_owned(),
            nearest: bb_ir::nearest(name, linked()).map(str::to_owned),
            linked: linked().map(str::to_owned).collect(),
        });
    };
    if let Some(other) = found.next() {
        let mut paths = [(layer.path)(), (other.path)()];
        paths.sort_unstable();
        let [first, second] = paths;
        return Err(Error::DuplicateLayer { name: layer.name, first, second });
    }
    if let Some(backend) = Registry::global().entries().find(|backend| backend.name == layer.name) {
        let (layer_path, backend) = ((layer.path)(), backend.path);
        return Err(Error::LayerNamedAsBackend { name: layer.name, layer: layer_path, backend });
    }
    Ok(layer)
}
