//! Renders the code that registers a type. This module makes no decisions and cannot fail.

use crate::attr::OpenOption;
use crate::ctxt::Ctxt;
use crate::model::{Backend, Inner, Instance, New, Variants};
use crate::nearest::did_you_mean;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, GenericParam, Generics, Path, Type, TypePath, parse_quote};

/// The expansion of `#[derive(bb::Backend)]`.
pub(crate) struct Derived {
    /// The mistakes in the input, as compile errors.
    pub(crate) mistakes: TokenStream,
    /// The registration, as far as the valid parts of the input allow it.
    pub(crate) registration: TokenStream,
    /// The path of `bb`.
    bb: Path,
}

impl Derived {
    /// Expands the derive. `other_name` is the name of `bb` in the author's `Cargo.toml`, if that name is not `bb`.
    pub(crate) fn of(input: &DeriveInput, other_name: Option<String>) -> Derived {
        let mut ctxt = Ctxt::default();
        let model = Backend::from_input(input, &mut ctxt);
        let misspelt = |name: &String| is_misspelt(&model.bb, name);
        let registration = match other_name.filter(|name| !model.names_bb || misspelt(name)) {
            Some(name) => {
                let message = format!("`Cargo.toml` has `bb` under the name `{name}`");
                match model.names_bb {
                    true => ctxt.error(&model.bb, format!("{message}: write `crate = {name}`")),
                    false => {
                        ctxt.error(
                            model.ident,
                            format!("{message}: write `#[bb(crate = {name})]` above the type"),
                        );
                    }
                }
                TokenStream::new()
            }
            None => backend(&model),
        };
        Derived { registration, bb: model.bb, mistakes: ctxt.into_compile_error() }
    }

    /// Renders the expansion. The registration goes through a macro of `bb`, so that rustc reports a wrong path of `bb` once instead of at
    /// each use.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let Derived { mistakes, registration, bb } = self;
        let bb = located(&bb, Span::call_site());
        let registration = (!registration.is_empty()).then(|| quote!(#bb::__derived! { #registration }));
        quote!(#mistakes #registration)
    }
}

/// Returns whether a path of `bb` is probably a misspelling of `name`. An imported name may be any name, even `bb`.
fn is_misspelt(bb: &Path, name: &str) -> bool {
    let Some(given) = bb.segments.first().filter(|_| bb.segments.len() == 1) else { return false };
    let given = given.ident.unraw().to_string();
    given != name
        && !["bb", "crate", "self"].contains(&given.as_str())
        && !did_you_mean(&given, [name]).is_empty()
}

fn backend(model: &Backend<'_>) -> TokenStream {
    let registrations = model.instances.iter().enumerate().map(|(index, of)| instance(model, index, of));
    let layer = model.inner.as_ref().map(|inner| layer(model, inner));
    let either = model.variants.as_ref().map(|variants| either(model, variants));
    quote! {
        #either
        const _: () = {
            #(#registrations)*
            #layer
        };
    }
}

/// Renders an enum of backends: its tensor type, its error type, and an implementation of the contract that calls the variant's backend.
fn either(model: &Backend<'_>, Variants { visibility, variants }: &Variants<'_>) -> TokenStream {
    let at = model.ident.span();
    let bb = located(&model.bb, at);
    let ident = model.ident;
    let name = |what: &str| Ident::new(&format!("{}{what}", ident.unraw()), at);
    let (tensor, error, compiled) = (name("Tensor"), name("Error"), name("Compiled"));
    let variants = variants.iter().map(|(variant, ty)| quote!(#variant(#ty)));
    quote_spanned! {at=>
        #bb::__either! { [#visibility #ident, #tensor, #error, #compiled] #(#variants),* }
    }
}

/// Renders a layer: its inner backend, the families that it adopts itself, and an implementation of the contract that calls the methods of
/// `bb::Layer`.
fn layer(model: &Backend<'_>, Inner { field, ty, generics }: &Inner<'_>) -> TokenStream {
    let at = model.ident.span();
    let (bb, private, held) = (located(&model.bb, at), private(model, at), private(model, ty.span()));
    let (version, ident, tables) = (version(model), model.ident, tables(model));
    let (_, arguments, _) = generics.split_for_impl();
    // Without a parameter or a lifetime in a bound, rustc would report the bound in each `impl` where it is not satisfied.
    let is_held_by_param = has_param(ty.to_token_stream(), generics);
    let is_inner = match is_held_by_param {
        true => quote!(#ty: #held::InnerBackend),
        false => quote!(for<'held> #ty: #held::IsInner<'held>),
    };
    let is_layer = match generics.params.is_empty() {
        true => {
            let layer_of = quote!(#private::layer::LayerOf<#ident>);
            quote!(for<'it> #layer_of: #private::IsLayer<'it, On = #ident>)
        }
        false => quote!(#ident #arguments: #private::Layer),
    };
    let mut bounded = (*generics).clone();
    bounded.make_where_clause().predicates.push(parse_quote!(#is_inner));
    if generics.params.len() > usize::from(is_held_by_param) {
        // Without these bounds, rustc would report a parameter without bounds in each `impl`.
        let shared = quote!(#ident #arguments: ::core::marker::Send + ::core::marker::Sync + 'static);
        bounded.make_where_clause().predicates.push(parse_quote!(#shared));
    }
    let mut layered = bounded.clone();
    layered.make_where_clause().predicates.push(parse_quote!(#is_layer));
    let (params, _, bounds) = bounded.split_for_impl();
    let (_, _, layered) = layered.split_for_impl();
    // The bounds of generic backends are checked at each use of an instance.
    let is_inner = quote_spanned!(ty.span()=> #held::layer::is_inner::<#ty>());
    let asserted = match generics.params.is_empty() {
        true => Some(
            quote_spanned!(at=> const _: fn() = || { #private::layer::is_layer::<#ident>(); #is_inner };),
        ),
        false => (!is_held_by_param).then(|| quote_spanned!(at=> const _: fn() = || { #is_inner };)),
    };
    quote_spanned! {at=>
        #asserted
        #bb::__layer! { [#params] [#ident #arguments] [#bounds] [#layered] [#(#tables),*] #field: #ty, #version }
    }
}

/// Returns whether a type contains one of the parameters.
fn has_param(ty: TokenStream, generics: &Generics) -> bool {
    ty.into_iter().any(|token| match token {
        TokenTree::Group(group) => has_param(group.stream(), generics),
        TokenTree::Ident(ident) => generics.params.iter().any(|param| match param {
            GenericParam::Type(param) => param.ident == ident,
            GenericParam::Const(param) => param.ident == ident,
            GenericParam::Lifetime(param) => param.lifetime.ident == ident,
        }),
        _ => false,
    })
}

fn version(model: &Backend<'_>) -> TokenStream {
    let private = private(model, Span::call_site());
    match &model.version {
        Some(version) => quote!(#version),
        None => quote!(#private::env!("CARGO_PKG_VERSION")),
    }
}

fn instance(model: &Backend<'_>, index: usize, Instance { name, ty, spelled }: &Instance) -> TokenStream {
    let private = private(model, Span::call_site());
    let version = version(model);
    let create = create(model);
    let families = families(model);
    let options = options(model);
    let devices = devices(model);
    // All tokens of the registration have the span of the type's name, so that rustc reports a missing bound once, at this name.
    let at = model.ident.span();
    let here = self::private(model, at);
    // The alias ensures that an instance with an unknown type gives only one error.
    let is_generic = !matches!(ty, Type::Path(path) if path.path.is_ident(model.ident));
    let alias = Ident::new(&format!("__Instance{index}"), at);
    let aliased = is_generic.then(|| quote!(type #alias = #ty;));
    let ty = if is_generic { alias.to_token_stream() } else { ty.to_token_stream() };
    let declared = quote_spanned!(at=> #here::Declared for #ty);
    // With this bound, rustc reports a missing `Sync` only at the author's `impl`, and reports here only a missing `impl`. Without a
    // lifetime, rustc would check the bound immediately, and report it twice.
    let is_backend = quote_spanned!(at=> for<'it> #ty: #here::IsBackend<'it>);
    let of = if model.is_enum { quote_spanned!(at=> of_enum) } else { quote_spanned!(at=> of_struct) };
    let registration = quote_spanned!(at=> #here::#of::<#ty>());
    // This code is outside of the `impl`, because the bound of the `impl` states that the type is a backend.
    let makes = matches!(model.new, New::Default)
        .then(|| quote_spanned!(at=> const _: fn() = || #here::Makes::<#ty>::NEW.by_default();));
    let bb = located(&model.bb, at);
    let named = model.all_families.then(|| quote_spanned!(at=> #bb::__families_named! { #ty }));
    quote! {
        #aliased
        #[automatically_derived]
        impl #declared where #is_backend {
            const NAME: &'static #private::str = #name;
            const VERSION: &'static #private::str = #version;
            const PATH: &'static #private::str = #private::concat!(#private::module_path!(), "::", #spelled);
            #families
            #options

            #create

            #[inline(never)]
            fn start(self, how: #private::Start) -> #private::Arc<#private::Runtime> {
                #private::start(self, how)
            }

            #devices
        }
        #makes
        #private::inventory::submit! { #registration }
        #named
    }
}

/// Renders the families; returns `None` if there are none, because the trait's default is an empty list.
fn families(model: &Backend<'_>) -> Option<TokenStream> {
    let private = private(model, Span::call_site());
    let tables = tables(model);
    (!tables.is_empty())
        .then(|| quote!(const FAMILIES: &'static [#private::FamilyTable<Self>] = &[#(#tables),*];))
}

/// Renders the tables of the families and of the vendors' operations.
fn tables(model: &Backend<'_>) -> Vec<TokenStream> {
    let tables = model.families.iter().map(|family| {
        let bb = located(&model.bb, family.span());
        quote_spanned!(family.span()=> #bb::__family!(table #family))
    });
    // The function that returns a vendor's table has the same path as the vendor's trait.
    let vendors = model.vendors.iter().map(|vendor| {
        let at = vendor.span();
        quote_spanned!(at=> #vendor::<Self>())
    });
    tables.chain(vendors).collect()
}

/// Renders the options of the constructor; returns `None` if there are none, because the trait's default is an empty list.
fn options(model: &Backend<'_>) -> Option<TokenStream> {
    let private = private(model, Span::call_site());
    let options = model.options.iter().map(|OpenOption { name, own }| {
        let bb = located(&model.bb, name.span());
        quote_spanned!(name.span()=> #bb::__open_option!(#name #own))
    });
    (!model.options.is_empty())
        .then(|| quote!(const OPTIONS: &'static [#private::OpenOption] = &[#(#options),*];))
}

fn create(model: &Backend<'_>) -> TokenStream {
    let private = private(model, Span::call_site());
    let created = |path: &TypePath, given: TokenStream| {
        let here = self::private(model, path.span());
        quote_spanned!(path.span()=> #here::Created::<Self>::created(#here::#given))
    };
    let (options, body) = match &model.new {
        New::Default => {
            let here = self::private(model, model.ident.span());
            (quote!(_), quote_spanned!(model.ident.span()=> #here::ByDefault::<Self>::NEW.made()))
        }
        New::Path(path) => {
            let here = self::private(model, path.span());
            let made = quote_spanned! {path.span()=>
                let new = #here::NewFunction::<Self, _>::of(#path);
                new.signature().constructs::<Self>();
                #here::Created::<Self>::created(new.made())
            };
            (quote!(_), made)
        }
        New::Open(path) => {
            // A path that comes from a macro has another hygiene than the parameter `options`, so the parameter gets the span of the call
            // site.
            let options = Ident::new("options", Span::call_site());
            (quote!(#options), created(path, quote_spanned!(path.span()=> opened_by(#path, #options))))
        }
        New::Unknown => (quote!(_), quote!(loop {})),
    };
    quote! {
        fn create(#options: &#private::OpenOptions) -> #private::Result<Self, #private::BoxError> {
            #body
        }
    }
}

/// Renders the function that lists the devices; returns `None` if there is none, because the trait has a default.
fn devices(model: &Backend<'_>) -> Option<TokenStream> {
    let private = private(model, Span::call_site());
    model.devices.as_ref().map(|path| {
        let here = self::private(model, path.span());
        let listed = quote_spanned!(path.span()=> #here::Listed::listed(#path()));
        quote! {
            const LISTS_DEVICES: #private::bool = true;

            fn devices() -> #private::Result<#private::Vec<#private::Device>, #private::BoxError> {
                #listed
            }
        }
    })
}

/// Renders the path of the private module that generated code uses, with the span `at`.
fn private(model: &Backend<'_>, at: Span) -> TokenStream {
    let bb = located(&model.bb, at);
    quote_spanned!(at=> #bb::__private)
}

/// Sets the span of all tokens of a path to `at`, so that messages about the generated code refer to this location.
pub(crate) fn located(path: &Path, at: Span) -> TokenStream {
    let moved = path.to_token_stream().into_iter().map(|mut token| {
        token.set_span(at);
        token
    });
    moved.collect()
}
