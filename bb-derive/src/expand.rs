//! Renders the registration of a type. Decides nothing and cannot fail.

use crate::ctxt::Ctxt;
use crate::model::{Backend, Instance, New};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::DeriveInput;
use syn::spanned::Spanned;

/// Expands `#[derive(bb::Backend)]`: every mistake, and the registration as far as it was understood.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let mut ctxt = Ctxt::default();
    let model = Backend::from_input(input, &mut ctxt);
    let registration = backend(&model);
    let mistakes = ctxt.into_compile_error();
    quote!(#mistakes #registration)
}

fn backend(model: &Backend<'_>) -> TokenStream {
    let bb = &model.bb;
    let private = quote!(#bb::__private);
    let registrations = model.instances.iter().map(|of| instance(model, of, &private));
    quote! {
        const _: () = {
            #(#registrations)*
        };
    }
}

fn instance(model: &Backend<'_>, Instance { name, ty }: &Instance, private: &TokenStream) -> TokenStream {
    let bb = &model.bb;
    let version = match &model.version {
        Some(version) => quote!(#version),
        None => quote!(#private::env!("CARGO_PKG_VERSION")),
    };
    let create = match &model.new {
        New::Default => quote_spanned!(model.ident.span()=> #private::default::<Self>()),
        New::Path(path) => quote_spanned!(path.span()=> #private::Created::<Self>::created(#path())),
        New::Unknown => quote!(loop {}),
    };
    let families = model.families.iter().map(|family| quote_spanned!(family.span()=> #bb::__family!(table #family)));
    let at = model.ident.span();
    let registered = quote_spanned!(at=> #private::Registration::of::<#ty>());
    // What rustc finds missing of the type is said once, at the type's own name.
    let declared = quote_spanned!(at=> #private::Declared for #ty);
    let tables = quote_spanned!(at=> &'static [#private::FamilyTable<Self>]);
    quote! {
        #[automatically_derived]
        impl #declared {
            const NAME: &'static #private::str = #name;
            const VERSION: &'static #private::str = #version;
            const PATH: &'static #private::str = #private::concat!(
                #private::module_path!(), "::", #private::stringify!(#ty)
            );
            const FAMILIES: #tables = &[#(#families),*];

            fn create() -> #private::Result<Self, #private::BoxError> {
                #create
            }
        }
        #private::inventory::submit! { #registered }
    }
}
