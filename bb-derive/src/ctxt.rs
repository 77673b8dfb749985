//! Collects the mistakes in the input, so that one build reports all of them.

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes that have been found so far.
#[derive(Default)]
pub(crate) struct Ctxt(Option<syn::Error>);

impl Ctxt {
    /// Adds a mistake at the span of the tokens `at`.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(at, message));
    }

    /// Adds a mistake that already has a span.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Renders each mistake as a `compile_error!`.
    pub(crate) fn into_compile_error(self) -> TokenStream {
        self.0.map(|errors| errors.into_compile_error()).unwrap_or_default()
    }
}
