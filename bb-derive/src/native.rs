//! Expands `#[bb::native]`: an `impl` beside that of an extension family lists the methods that the family's
//! `impl` contains.
//!
//! This module only parses the head of the `impl` and the names of its methods. Rustc reports methods that
//! the family does not have.

use crate::ctxt::Ctxt;
use crate::expand;
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Generics, Path, Token, Type, WhereClause, braced, parse_quote};

/// An example of correct use, for messages.
const EXAMPLE: &str = "write `#[bb::native]` on an `impl bb::ext::Nn for MyBackend { … }`";

/// An `impl` of a trait: all its tokens and the parts of its head.
struct Impl {
    attributes: Vec<Attribute>,
    generics: Generics,
    of: Path,
    on: Type,
    bounds: Option<WhereClause>,
    body: TokenStream,
}

/// A method of the `impl` and the `cfg` conditions under which it is compiled.
struct Method {
    conditions: Vec<TokenStream>,
    name: Ident,
}

/// Expands `#[bb::native]`. Mistakes are added to the output, and the item itself stays unchanged.
pub(crate) fn native(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut ctxt = Ctxt::default();
    let bb = renamed.parse2(options).unwrap_or_else(|error| {
        ctxt.push(error);
        None
    });
    let rendered = Impl::parse.parse2(item.clone()).and_then(|parsed| {
        let family = parsed.family()?;
        let methods = methods(&parsed, &mut ctxt);
        Ok(render(&parsed, &bb.unwrap_or_else(|| parsed.bb()), &family, &methods))
    });
    let natives = rendered.unwrap_or_else(|error| {
        ctxt.push(error);
        TokenStream::new()
    });
    let mistakes = ctxt.into_compile_error();
    quote!(#mistakes #item #natives)
}

/// Renders an `impl` that lists the methods in the family's `impl`.
fn render(item: &Impl, bb: &Path, family: &Ident, methods: &[Method]) -> TokenStream {
    let Impl { attributes, generics, on, bounds, .. } = item;
    let bb = expand::located(bb, family.span());
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let natives = methods.iter().map(|Method { conditions, name }| {
        let method = name.unraw().to_string();
        quote!(#(#conditions)* #method)
    });
    quote_spanned! {family.span()=>
        #bb::__family! { natives #family [#(#conditions)*] [#generics] [#on] [#bounds] #(#natives)* }
    }
}

/// Parses the options of the attribute: nothing, or `crate = path`.
fn renamed(input: ParseStream<'_>) -> syn::Result<Option<Path>> {
    if input.is_empty() {
        return Ok(None);
    }
    let wrong =
        |error: syn::Error| syn::Error::new(error.span(), "expected nothing, or `crate = path::to::bb`");
    input.parse::<Token![crate]>().map_err(wrong)?;
    input.parse::<Token![=]>().map_err(wrong)?;
    let path = input.call(Path::parse_mod_style).map_err(wrong)?;
    if !input.is_empty() {
        return Err(wrong(input.error("")));
    }
    Ok(Some(path))
}

impl Impl {
    /// Returns the name of the family.
    fn family(&self) -> syn::Result<Ident> {
        match self.of.segments.last() {
            Some(last) if last.ident == "Backend" => Err(syn::Error::new_spanned(
                &self.of,
                "the primitives are native anyway: remove `#[bb::native]` from this `impl`",
            )),
            Some(last) => Ok(last.ident.clone()),
            None => Err(syn::Error::new_spanned(&self.of, EXAMPLE)),
        }
    }

    /// Returns the path of `bb`: the path before `ext::Family`, or the default path.
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
        input.parse::<Token![impl]>()?;
        let generics: Generics = if input.peek(Token![<]) { input.parse()? } else { Generics::default() };
        let of: Type = input.parse()?;
        if !input.peek(Token![for]) {
            return Err(syn::Error::new_spanned(of, format_args!("this `impl` is of no trait: {EXAMPLE}")));
        }
        let Type::Path(of) = of else { return Err(syn::Error::new_spanned(of, EXAMPLE)) };
        input.parse::<Token![for]>()?;
        let on: Type = input.parse()?;
        let bounds: Option<WhereClause> = input.parse()?;
        let content;
        braced!(content in input);
        Ok(Impl { attributes, generics, of: of.path, on, bounds, body: content.parse()? })
    }
}

/// Finds the methods: each `fn` outside of brackets, followed by a name.
fn methods(item: &Impl, ctxt: &mut Ctxt) -> Vec<Method> {
    let mut methods = Vec::new();
    let mut conditions = Vec::new();
    let mut tokens = item.body.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        match (&token, tokens.peek()) {
            (TokenTree::Punct(hash), Some(TokenTree::Group(group))) if hash.as_char() == '#' => {
                let condition = group.stream().into_iter().next().is_some_and(|t| t.to_string() == "cfg");
                if condition {
                    conditions.push(quote!(#hash #group));
                }
            }
            (TokenTree::Punct(bang), Some(TokenTree::Group(_))) if bang.as_char() == '!' => {
                ctxt.error(
                    token,
                    "`#[bb::native]` cannot see what a macro will write: write the methods out",
                );
            }
            (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) if keyword == "fn" => {
                methods.push(Method { conditions: std::mem::take(&mut conditions), name: name.clone() });
            }
            // An item ends here. If it was not a method, its conditions are dropped.
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Brace => conditions.clear(),
            (TokenTree::Punct(semicolon), _) if semicolon.as_char() == ';' => conditions.clear(),
            _ => {}
        }
    }
    methods
}
