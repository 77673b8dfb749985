//! Renders the registration of a type. Decides nothing and cannot fail.

use crate::ctxt::Ctxt;
use crate::model::{Backend, Instance, New};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Path};

/// Expands `#[derive(bb::Backend)]`: every mistake, and the registration as far as it was understood.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let mut ctxt = Ctxt::default();
    let model = Backend::from_input(input, &mut ctxt);
    let registration = backend(&model);
    let mistakes = ctxt.into_compile_error();
    quote!(#mistakes #registration)
}

fn backend(model: &Backend<'_>) -> TokenStream {
    let registrations = model.instances.iter().map(|of| instance(model, of));
    quote! {
        const _: () = {
            #(#registrations)*
        };
    }
}

fn instance(model: &Backend<'_>, Instance { name, ty, spelled }: &Instance) -> TokenStream {
    let private = private(model, Span::call_site());
    let version = match &model.version {
        Some(version) => quote!(#version),
        None => quote!(#private::env!("CARGO_PKG_VERSION")),
    };
    let create = create(model);
    let families = families(model);
    // What rustc finds missing of the type is said once, at the type's own name.
    let at = model.ident.span();
    let here = self::private(model, at);
    let declared = quote_spanned!(at=> #here::Declared for #ty);
    let registration = quote_spanned!(at=> #here::Registration::of::<#ty>());
    quote! {
        #[automatically_derived]
        impl #declared {
            const NAME: &'static #private::str = #name;
            const VERSION: &'static #private::str = #version;
            const PATH: &'static #private::str = #private::concat!(#private::module_path!(), "::", #spelled);
            #families

            fn create() -> #private::Result<Self, #private::BoxError> {
                #create
            }
        }
        #private::inventory::submit! { #registration }
    }
}

/// Renders the families; without any, the trait's default says so.
fn families(model: &Backend<'_>) -> Option<TokenStream> {
    let private = private(model, Span::call_site());
    let tables = model.families.iter().map(|family| {
        let bb = located(&model.bb, family.span());
        quote_spanned!(family.span()=> #bb::__family!(table #family))
    });
    (!model.families.is_empty()).then(|| {
        quote! {
            const FAMILIES: &'static [#private::FamilyTable<Self>] = &[#(#tables),*];
        }
    })
}

fn create(model: &Backend<'_>) -> TokenStream {
    match &model.new {
        New::Default => {
            let at = model.ident.span();
            let here = private(model, at);
            quote_spanned!(at=> #here::default::<Self>())
        }
        New::Path(path) => {
            let here = private(model, path.span());
            quote_spanned!(path.span()=> #here::Created::<Self>::created(#path()))
        }
        New::Unknown => quote!(loop {}),
    }
}

/// Renders the path of what the derive names, as if it were written at `at`.
fn private(model: &Backend<'_>, at: Span) -> TokenStream {
    let bb = located(&model.bb, at);
    quote_spanned!(at=> #bb::__private)
}

/// Moves a path, so that a message about what it is part of points to `at`.
pub(crate) fn located(path: &Path, at: Span) -> TokenStream {
    let moved = path.to_token_stream().into_iter().map(|mut token| {
        token.set_span(at);
        token
    });
    moved.collect()
}
