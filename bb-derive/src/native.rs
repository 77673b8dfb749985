//! `#[bb::native]`: records which methods an extension family's `impl` writes.
//!
//! Only the `impl`'s head and the names of its methods are parsed; whether a family has a method is for rustc to
//! say.

use crate::ctxt::Ctxt;
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Generics, Path, Token, Type, WhereClause, braced, parse_quote};

/// What to write, for messages.
const EXAMPLE: &str = "write `#[bb::native]` on an `impl bb::ext::Nn for MyBackend { … }`";

/// An `impl` of a trait: its tokens up to the brace, the trait, and the methods.
struct Impl {
    attributes: Vec<Attribute>,
    head: TokenStream,
    of: Path,
    body: TokenStream,
    methods: Vec<Method>,
}

/// A method that is written, with the conditions under which it is compiled.
struct Method {
    conditions: Vec<TokenStream>,
    name: Ident,
}

/// Expands `#[bb::native]`; beside a mistake, the item stays as it is.
pub(crate) fn native(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut ctxt = Ctxt::default();
    let bb = renamed.parse2(options).unwrap_or_else(|error| {
        ctxt.push(error);
        None
    });
    let parsed = Impl::parse.parse2(item.clone()).map_err(|error| ctxt.push(error)).ok();
    let rendered = parsed.and_then(|item| {
        let family = item.family(&mut ctxt)?;
        Some(render(&item, &bb.unwrap_or_else(|| item.bb()), &family))
    });
    let mistakes = ctxt.into_compile_error();
    let item = rendered.unwrap_or(item);
    quote!(#mistakes #item)
}

fn render(item: &Impl, bb: &Path, family: &Ident) -> TokenStream {
    let Impl { attributes, head, body, methods, .. } = item;
    let at = family.span();
    let operation = quote_spanned!(at=> #bb::__family!(operation #family));
    let natives = methods.iter().map(|Method { conditions, name }| {
        let method = name.unraw().to_string();
        quote!(#(#conditions)* <#operation>::by_method(#method))
    });
    quote! {
        #(#attributes)*
        #head {
            const NATIVE: &'static [#operation] = &[#(#natives),*];
            #body
        }
    }
}

/// Parses the attribute's options: nothing, or `crate = path`.
fn renamed(input: ParseStream<'_>) -> syn::Result<Option<Path>> {
    if input.is_empty() {
        return Ok(None);
    }
    let wrong = |error: syn::Error| syn::Error::new(error.span(), "expected nothing, or `crate = path::to::bb`");
    input.parse::<Token![crate]>().map_err(wrong)?;
    input.parse::<Token![=]>().map_err(wrong)?;
    let path = input.call(Path::parse_mod_style).map_err(wrong)?;
    if !input.is_empty() {
        return Err(wrong(input.error("")));
    }
    Ok(Some(path))
}

impl Impl {
    /// Returns the family, unless the `impl` cannot be one of a family or has nothing to record.
    fn family(&self, ctxt: &mut Ctxt) -> Option<Ident> {
        let family = self.of.segments.last()?.ident.clone();
        if family == "Backend" {
            ctxt.error(&self.of, "the primitives are native anyway: remove `#[bb::native]` from this `impl`");
            return None;
        }
        if self.methods.is_empty() {
            let message = "no method is written here, so none is native: write one, or remove `#[bb::native]`";
            ctxt.error(&self.of, message);
            return None;
        }
        Some(family)
    }

    /// Returns the path of `bb`: what stands before `ext::Family`, or the usual.
    fn bb(&self) -> Path {
        let mut path = self.of.clone();
        path.segments.pop();
        match path.segments.pop() {
            Some(module) if module.ident == "ext" && !path.segments.is_empty() => {
                path.segments.pop_punct();
                path
            }
            _ => parse_quote!(::bb),
        }
    }

    fn parse(input: ParseStream<'_>) -> syn::Result<Impl> {
        let attributes = Attribute::parse_outer(input)?;
        if !input.peek(Token![impl]) {
            return Err(input.error(EXAMPLE));
        }
        let impl_token: Token![impl] = input.parse()?;
        let generics: Generics = if input.peek(Token![<]) { input.parse()? } else { Generics::default() };
        let of: Type = input.parse()?;
        if !input.peek(Token![for]) {
            return Err(syn::Error::new_spanned(of, format_args!("this `impl` is of no trait: {EXAMPLE}")));
        }
        let Type::Path(of) = of else { return Err(syn::Error::new_spanned(of, EXAMPLE)) };
        let for_token: Token![for] = input.parse()?;
        let on: Type = input.parse()?;
        let condition: Option<WhereClause> = input.parse()?;
        let content;
        braced!(content in input);
        let body: TokenStream = content.parse()?;
        let methods = methods(body.clone())?;
        let head = quote!(#impl_token #generics #of #for_token #on #condition);
        Ok(Impl { attributes, head, of: of.path, body, methods })
    }
}

/// Finds the methods: a `fn` and a name, outside of all brackets.
fn methods(body: TokenStream) -> syn::Result<Vec<Method>> {
    let mut methods = Vec::new();
    let mut conditions = Vec::new();
    let mut tokens = body.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match (&token, tokens.peek()) {
            (TokenTree::Punct(hash), Some(TokenTree::Group(group))) if hash.as_char() == '#' => {
                let condition = group.stream().into_iter().next().is_some_and(|t| t.to_string() == "cfg");
                if condition {
                    conditions.push(quote!(#hash #group));
                }
            }
            (TokenTree::Punct(bang), Some(TokenTree::Group(_))) if bang.as_char() == '!' => {
                let message = "`#[bb::native]` cannot see what a macro will write: write the methods out";
                return Err(syn::Error::new_spanned(token, message));
            }
            (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) if keyword == "fn" => {
                methods.push(Method { conditions: std::mem::take(&mut conditions), name: name.clone() });
            }
            (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) if keyword == "const" && name == "NATIVE" => {
                return Err(syn::Error::new_spanned(name, "`#[bb::native]` writes this: remove one of the two"));
            }
            // The end of an item: the conditions of anything but a method are not ours.
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Brace => conditions.clear(),
            (TokenTree::Punct(semicolon), _) if semicolon.as_char() == ';' => conditions.clear(),
            _ => {}
        }
    }
    Ok(methods)
}

