//! The macros of `bb`: how a type becomes a registered backend, and which methods of a family are its own.
//!
//! `attr` parses, `model` checks, `expand` renders, `ctxt` collects what is wrong. Nothing here knows an
//! operation or a family: their names are looked up in `bb`, by what the macros expand to.
#![forbid(unsafe_code)]

mod attr;
mod ctxt;
mod expand;
mod model;
mod native;
#[cfg(test)]
mod snapshots;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Registers a type that implements `bb::Backend`, so that it is found by name.
///
/// Works for structs and enums. Options go into one or more `#[bb(…)]`:
///
/// | option | says | default |
/// |---|---|---|
/// | `name = "my-backend"` | the name users ask for: lower-case letters, digits, `-` | the type's, in kebab case |
/// | `version = "1.2.0"` | the backend's version | the package's |
/// | `new = path` | the constructor, `fn() -> Self` or `fn() -> Result<Self, E>` | `Default::default` |
/// | `open = path` | the constructor, where it takes options: `fn(&OpenOptions) -> Self` or `-> Result<Self, E>` | |
/// | `options(device, threads, memory)` | those that the constructor takes; others are refused | |
/// | `devices = path` | lists the devices that are there: `fn() -> Vec<Device>` or `-> Result<Vec<Device>, E>` | |
/// | `extensions(Nn, Llm)` | the extension families that the type implements | none |
/// | `instances("f32" = My<f32>, "f64" = My<f64>)` | the instances of a generic type, each with its name | |
/// | `crate = path` | where `bb` is, if it was renamed | `::bb` |
///
/// # Examples
///
/// ```text
/// #[derive(bb::Backend)]
/// #[bb(name = "gpu", new = Gpu::first_device, extensions(Nn))]
/// struct Gpu { device: Device }
/// ```
#[proc_macro_derive(Backend, attributes(bb))]
pub fn derive_backend(input: TokenStream) -> TokenStream {
    expand::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Marks the methods written in an extension family's `impl` as native; every `impl` of a family stands under it.
///
/// Rust cannot ask whether a default method was overridden; this attribute sees it, and records exactly the
/// methods that are written. An empty `impl` adopts the family with the default body of every method. The derive names
/// the family too, in `extensions(…)`. If `bb` was renamed and the trait is imported, say so: `#[native(crate = path)]`.
///
/// # Examples
///
/// ```text
/// #[bb::native]
/// impl bb::ext::Nn for Gpu {
///     fn relu(&self, x: &GpuTensor) -> Result<GpuTensor, GpuError> {
///         self.launch("relu", x)
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn native(options: TokenStream, item: TokenStream) -> TokenStream {
    native::native(options.into(), item.into()).into()
}
