//! `#[bb::native]`: records which methods an extension family's `impl` writes.
//!
//! Only the `impl`'s head and the names of its methods are parsed; whether a family has a method is for rustc to
//! say.

use crate::ctxt::Ctxt;
use crate::expand;
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Generics, Path, Token, Type, WhereClause, braced, parse_quote};

/// What to write, for messages.
const EXAMPLE: &str = "write `#[bb::native]` on an `impl bb::ext::Nn for MyBackend { … }`";

/// An `impl` of a trait: its tokens up to the brace, the trait, and what the braces hold.
struct Impl {
    attributes: Vec<Attribute>,
    head: TokenStream,
    of: Path,
    body: TokenStream,
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
    let rendered = Impl::parse.parse2(item.clone()).and_then(|parsed| {
        let family = parsed.family()?;
        let methods = methods(&parsed)?;
        Ok(render(&parsed, &bb.unwrap_or_else(|| parsed.bb()), &family, &methods))
    });
    let rendered = rendered.unwrap_or_else(|error| {
        ctxt.push(error);
        item
    });
    let mistakes = ctxt.into_compile_error();
    quote!(#mistakes #rendered)
}

fn render(item: &Impl, bb: &Path, family: &Ident, methods: &[Method]) -> TokenStream {
    let Impl { attributes, head, body, .. } = item;
    let bb = expand::located(bb, family.span());
    let natives = methods.iter().map(|Method { conditions, name }| {
        let method = name.unraw().to_string();
        quote!(#(#conditions)* #method)
    });
    let natives = quote_spanned!(family.span()=> #bb::__family! { natives #family #(#natives)* });
    quote! {
        #(#attributes)*
        #head {
            #natives
            #body
        }
    }
}

/// Parses the attribute's options: nothing, or `crate = path`.
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
    /// Returns the family's name.
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
        let head = quote!(#impl_token #generics #of #for_token #on #condition);
        Ok(Impl { attributes, head, of: of.path, body })
    }
}

/// Finds the methods: a `fn` and a name, outside of all brackets.
fn methods(item: &Impl) -> syn::Result<Vec<Method>> {
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
                let message = "`#[bb::native]` cannot see what a macro will write: write the methods out";
                return Err(syn::Error::new_spanned(token, message));
            }
            (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) if keyword == "fn" => {
                methods.push(Method { conditions: std::mem::take(&mut conditions), name: name.clone() });
            }
            (TokenTree::Ident(keyword), Some(TokenTree::Ident(name)))
                if keyword == "const" && name == "NATIVE" =>
            {
                return Err(syn::Error::new_spanned(
                    name,
                    "`#[bb::native]` writes this: remove one of the two",
                ));
            }
            // The end of an item: the conditions of anything but a method are not ours.
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Brace => conditions.clear(),
            (TokenTree::Punct(semicolon), _) if semicolon.as_char() == ';' => conditions.clear(),
            _ => {}
        }
    }
    if methods.is_empty() {
        let message = "no method is written here, so none is native: write one, or remove `#[bb::native]`";
        return Err(syn::Error::new_spanned(&item.of, message));
    }
    Ok(methods)
}
