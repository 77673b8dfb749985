//! The macros of `bb`: a derive that registers a type as a backend, and attributes that mark the native methods of an extension family and
//! the methods of a layer.
//!
//! The module `attr` parses, `model` checks, `expand` renders, and `ctxt` collects mistakes. This crate contains no list of operations or
//! families: the generated code looks up their names in `bb`.
#![forbid(unsafe_code)]

mod attr;
mod ctxt;
mod expand;
mod manifest;
mod model;
mod native;
mod nearest;
mod rows;
#[cfg(test)]
mod snapshots;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Registers a type that implements `bb::Backend`, so that users can open it by a name.
///
/// The type may be a struct or an enum. Options are written in one or more `#[bb(…)]`:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `name = "my-backend"` | the name under which users open the backend: lower-case letters, digits, `-` | the type's name in kebab case |
/// | `version = "1.2.0"` | the version of the backend | the version of the package |
/// | `new = path` | the constructor, `fn() -> Self` or `fn() -> Result<Self, E>` | `Default::default` |
/// | `open = path` | a constructor that takes options: `fn(&OpenOptions) -> Self` or `-> Result<Self, E>` | |
/// | `options(device, threads, memory)` | the options that this constructor accepts; others are refused | |
/// | `options(tile: u64 = 128 => "rows of a tile")` | an option of the backend's own: its type (`bool`, `i64`, `u64`, `f64` or `str`), default and purpose | |
/// | `devices = path` | the function that lists the available devices: `fn() -> Vec<Device>` or `-> Result<Vec<Device>, E>` | |
/// | `extensions(Nn, Llm)` | the extension families that the type implements | none |
/// | `vendors(acme::Acme)` | the traits of vendors' operations (`bb::vendor!`) that the type implements | none |
/// | `instances("f32" = My<f32>, "f64" = My<f64>)` | the instances of a generic type and their names | |
/// | `crate = path` | the path of `bb`, if it was renamed | `::bb` |
/// | `delegate = field` | the struct is a layer on the backend in this field: see `#[bb::layer]` | |
/// | `delegate` | each variant of the enum holds a backend, and a value of the enum is the backend of its variant | |
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
    let input = parse_macro_input!(input as DeriveInput);
    expand::Derived::of(&input, manifest::other_name()).into_tokens().into()
}

/// Marks the methods in the `impl` of an extension family as native. Every `impl` of a family needs this
/// attribute.
///
/// Rust code cannot detect whether an `impl` overrides a default method. This attribute parses the `impl`, and records exactly the methods
/// that it contains. An empty `impl` adopts the family with the default bodies of all methods. The derive must list the family too, in
/// `extensions(…)`. If `bb` was renamed and the trait is imported, write `#[native(crate = path)]`.
///
/// For the trait of a vendor's operations (`bb::vendor!`), write `#[bb::native(operations = acme::AcmeOp)]` with the path of the enum, and
/// list the trait in `vendors(…)` of the derive.
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

/// Marks the `impl` of `bb::Layer` for a struct whose derive has `delegate = field`.
///
/// A layer is a backend around an inner backend. Methods that the `impl` does not contain call the inner backend. Rust code cannot detect
/// which methods an `impl` contains. This attribute parses the `impl`, so that plans use the inner backend's kernels for all other
/// operations. An empty `impl` passes all calls to the inner backend. If `bb` was renamed and the trait is imported, write
/// `#[layer(crate = path)]`.
///
/// # Examples
///
/// ```text
/// #[derive(bb::Backend)]
/// #[bb(delegate = inner)]
/// struct Checked<B> { inner: B }
///
/// #[bb::layer]
/// impl<B: bb::InnerBackend> bb::Layer for Checked<B> {
///     fn matmul(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
///         self.inner.matmul(a, b)
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn layer(options: TokenStream, item: TokenStream) -> TokenStream {
    native::layer(options.into(), item.into()).into()
}

/// Sets the span of code to the span of the tokens in its first brackets, so that errors in the code are reported at these tokens. Macros
/// of `bb` expand to this macro.
#[doc(hidden)]
#[proc_macro]
pub fn at(tokens: TokenStream) -> TokenStream {
    rows::at(tokens.into()).into()
}

/// Reports the methods of a layer that are operations of a family. `#[bb::layer]` expands to this macro, with the rows of each family.
#[doc(hidden)]
#[proc_macro]
pub fn not_of_layer(tokens: TokenStream) -> TokenStream {
    rows::not_of_layer(tokens.into()).into()
}

/// Checks the rows of `bb::vendor!`, which expands to this macro, and passes the rows on.
#[doc(hidden)]
#[proc_macro]
pub fn vendor_rows(tokens: TokenStream) -> TokenStream {
    rows::vendor(tokens.into()).into()
}
