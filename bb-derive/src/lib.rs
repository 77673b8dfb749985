//! The macros of `bb`.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Registers a struct as a backend.
#[proc_macro_derive(Backend, attributes(bb))]
pub fn derive_backend(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// Marks the methods written in an extension's `impl` as native.
#[proc_macro_attribute]
pub fn native(_options: TokenStream, item: TokenStream) -> TokenStream {
    item
}
