//! Expands `#[bb::native]` and `#[bb::layer]`. The expansion adds an `impl` that lists the methods that the `impl` of an
//! extension family contains.
//!
//! This module only parses the head of the `impl`, and the names of its methods. Rustc reports methods that the family does
//! not contain.

use crate::ctxt::Ctxt;
use crate::expand;
use crate::manifest;
use crate::nearest::did_you_mean;
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Attribute, GenericParam, Generics, Path, Token, Type, TypeParam, TypeParamBound, WhereClause, braced,
    parse_quote,
};

/// An example of correct use of `#[bb::native]`, for error messages.
const EXAMPLE: &str = "write `#[bb::native]` on an `impl bb::ext::Nn for MyBackend { … }`";

/// An example of correct use of `#[bb::layer]`, for error messages.
const LAYER_EXAMPLE: &str =
    "write `#[bb::layer]` on an `impl<B: bb::InnerBackend> bb::Layer for MyLayer<B> { … }`";

/// A parsed `impl` of a trait: its head, and the tokens of its body.
struct Impl {
    attributes: Vec<Attribute>,
    generics: Generics,
    of: Path,
    on: Type,
    bounds: Option<WhereClause>,
    body: TokenStream,
}

/// A method of the `impl`, with the `cfg` conditions of its compilation.
struct Method {
    conditions: Vec<TokenStream>,
    name: Ident,
}

impl Method {
    /// Renders the name as a string literal, under the conditions of the method.
    fn name(&self) -> TokenStream {
        let (conditions, method) = (&self.conditions, self.name.unraw().to_string());
        quote!(#(#conditions)* #method)
    }
}

/// Expands an attribute of an `impl`. The item itself is not changed, and mistakes are added to the output.
fn attribute(
    options: TokenStream,
    item: TokenStream,
    example: &str,
    render: impl FnOnce(&Impl, AttributeOptions, &mut Ctxt) -> syn::Result<TokenStream>,
) -> TokenStream {
    let mut ctxt = Ctxt::default();
    let options = AttributeOptions::parse.parse2(options).unwrap_or_else(|error| {
        ctxt.push(error);
        AttributeOptions::default()
    });
    let parsed = (|input: ParseStream<'_>| Impl::parse(input, example)).parse2(item.clone());
    let rendered = parsed.and_then(|parsed| render(&parsed, options, &mut ctxt));
    let rendered = rendered.unwrap_or_else(|error| {
        ctxt.push(error);
        TokenStream::new()
    });
    let mistakes = ctxt.into_compile_error();
    quote!(#mistakes #item #rendered)
}

/// Expands `#[bb::native]`.
pub(crate) fn native(options: TokenStream, item: TokenStream) -> TokenStream {
    let parse = |input: ParseStream<'_>| Impl::parse(input, EXAMPLE);
    if let Ok(Impl { of, .. }) = parse.parse2(item.clone())
        && of.segments.last().is_some_and(|last| last.ident == "Layer")
    {
        let message =
            "the `impl` of a layer is marked by `#[bb::layer]`: write it instead of `#[bb::native]`";
        // The other attribute is expanded too, so that rustc does not report in addition that it is missing.
        return mistake_and(&of, message, layer(options, item));
    }
    native_item(options, item)
}

/// Renders a mistake, followed by the rest of the expansion.
fn mistake_and(at: &Path, message: &str, expansion: TokenStream) -> TokenStream {
    let mistake = syn::Error::new_spanned(at, message).into_compile_error();
    quote!(#mistake #expansion)
}

/// Expands `#[bb::native]` for an item that is not an `impl` of a layer.
fn native_item(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute(options, item, EXAMPLE, |parsed, options, ctxt| {
        let family = parsed.family()?;
        let methods = methods(parsed, "#[bb::native]", ctxt);
        let bb = options.bb.unwrap_or_else(|| parsed.bb(&["ext"]));
        Ok(match &options.operations {
            Some(operations) => render_vendor(parsed, &bb, operations, &methods),
            None => render(parsed, &bb, &family, &methods),
        })
    })
}

/// Renders an `impl` that lists the methods in the family's `impl`.
fn render(item: &Impl, bb: &Path, family: &Ident, methods: &[Method]) -> TokenStream {
    let Impl { generics, on, bounds, .. } = item;
    let bb = expand::located(bb, family.span());
    let conditions = item.conditions();
    let natives = methods.iter().map(Method::name);
    quote_spanned! {family.span()=>
        #bb::__family! { natives #family [#(#conditions)*] [#generics] [#on] [#bounds] #(#natives)* }
    }
}

/// Renders an `impl` that lists the methods of a vendor's `impl`, and an assertion that the derive of the backend lists the
/// vendor's trait.
fn render_vendor(item: &Impl, bb: &Path, operations: &Path, methods: &[Method]) -> TokenStream {
    let Impl { generics, on, bounds, .. } = item;
    let at = operations.span();
    let bb = expand::located(bb, at);
    let conditions = item.conditions();
    let natives = methods.iter().map(|Method { conditions, name }| {
        let method = name.unraw().to_string();
        quote!(#(#conditions)* #operations::written(#method))
    });
    // Of a generic type, only a layer is checked, because the instances of a backend are unknown here.
    let named = match item.inner() {
        _ if generics.params.is_empty() => {
            Some(quote_spanned! {at=> #(#conditions)* #bb::__vendor_named! { #on, #operations } })
        }
        Some(inner) => Some(
            quote_spanned! {at=> #(#conditions)* #bb::__vendor_named! { generic #inner #on, #operations } },
        ),
        None => None,
    };
    quote_spanned! {at=>
        #(#conditions)*
        #[automatically_derived]
        impl #generics #bb::ext::Native<#operations> for #on #bounds {
            const NATIVE: &'static [#operations] = &[#(#natives),*];
        }
        #named
    }
}

/// Expands `#[bb::layer]`: lists the methods that the `impl` of `bb::Layer` contains.
pub(crate) fn layer(options: TokenStream, item: TokenStream) -> TokenStream {
    let parse = |input: ParseStream<'_>| Impl::parse(input, LAYER_EXAMPLE);
    if let Ok(mut parsed) = parse.parse2(item.clone()) {
        let of = &parsed.of;
        // The `impl` is omitted, because rustc would also report each operation as missing.
        if of.segments.last().is_some_and(|last| last.ident == "Backend") {
            let message = "a layer has an `impl bb::Layer`, which has the same methods: write `bb::Layer` instead of `bb::Backend`";
            return syn::Error::new_spanned(of, message).into_compile_error();
        }
        if of.segments.iter().any(|segment| segment.ident == "ext") {
            let message = "the `impl` of an extension family is marked by `#[bb::native]`: write it instead of `#[bb::layer]`";
            // The other attribute is expanded too, so that rustc does not report in addition that it is missing.
            return mistake_and(of, message, native_item(options, item));
        }
        if let Some(param) = parsed.without_bounds() {
            let name = &param.ident;
            let message = format!("`{name}` has no bounds: write `impl<{name}: bb::InnerBackend>`");
            let mistake = syn::Error::new_spanned(&*param, message).into_compile_error();
            // The bound is added, so that rustc does not report in addition that the parameter has no `Tensor`.
            let bb = options_of(options.clone()).bb.unwrap_or_else(|| parsed.bb(&[]));
            parsed
                .without_bounds()
                .into_iter()
                .for_each(|param| param.bounds.push(parse_quote!(#bb::InnerBackend)));
            let bounded = layer_item(options, parsed.tokens());
            return quote!(#mistake #bounded);
        }
    }
    layer_item(options, item)
}

/// Expands `#[bb::layer]` for an `impl` with a valid head.
fn layer_item(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute(options, item, LAYER_EXAMPLE, |parsed, options, ctxt| {
        let Impl { generics, of, on, bounds, .. } = parsed;
        if of.segments.last().is_none_or(|last| last.ident != "Layer") {
            let message = format!("`#[bb::layer]` is for `bb::Layer`: {LAYER_EXAMPLE}");
            return Err(syn::Error::new_spanned(of, message));
        }
        let methods = methods(parsed, "#[bb::layer]", ctxt);
        let names = methods.iter().map(Method::name);
        let methods = methods.iter().map(|method| &method.name);
        let bb = expand::located(&options.bb.unwrap_or_else(|| parsed.bb(&[])), of.span());
        let conditions = parsed.conditions();
        Ok(quote_spanned! {of.span()=>
            #(#conditions)*
            #[automatically_derived]
            impl #generics #bb::__private::WrittenMethods for #on #bounds {
                const METHODS: &'static [&'static #bb::__private::str] = &[#(#names),*];
            }
            #bb::__layer_methods! { #(#methods)* }
        })
    })
}

/// Returns the options of the attribute; the defaults if they are invalid.
fn options_of(options: TokenStream) -> AttributeOptions {
    AttributeOptions::parse.parse2(options).unwrap_or_default()
}

/// The options of the attribute.
#[derive(Default)]
struct AttributeOptions {
    bb: Option<Path>,
    /// The enum of a vendor's operations.
    operations: Option<Path>,
}

impl AttributeOptions {
    /// Parses the options: nothing, `crate = path`, `operations = path`, or both.
    fn parse(input: ParseStream<'_>) -> syn::Result<AttributeOptions> {
        let expected = "expected nothing, `crate = path::to::bb`, or `operations = path::to::AcmeOp`";
        let wrong = |error: syn::Error| syn::Error::new(error.span(), expected);
        let mut options = AttributeOptions::default();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any).map_err(wrong)?;
            let place = match key.to_string().as_str() {
                "crate" => &mut options.bb,
                "operations" => &mut options.operations,
                other => {
                    let nearest = did_you_mean(other, ["crate", "operations"]);
                    let message = format!("unknown option `{other}`{nearest}; {expected}");
                    return Err(syn::Error::new(key.span(), message));
                }
            };
            input.parse::<Token![=]>().map_err(wrong)?;
            *place = Some(input.call(Path::parse_mod_style).map_err(wrong)?);
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(wrong)?;
            }
        }
        Ok(options)
    }
}

impl Impl {
    /// Returns the name of the family, which is the last segment of the trait's path.
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

    /// Returns the path of `bb`: the segments before the module and the trait; if there are none, the default path.
    fn bb(&self, module: &[&str]) -> Path {
        let mut path = self.of.clone();
        path.segments.pop();
        let inside = module.iter().all(|name| path.segments.pop().is_some_and(|last| last.ident == name));
        if !inside || path.segments.is_empty() {
            let name = manifest::other_name().unwrap_or_else(|| "bb".to_owned());
            let name = Ident::new(&name, self.of.span());
            return parse_quote!(::#name);
        }
        path.segments.pop_punct();
        path
    }

    /// Returns the first type parameter; `None` if a type parameter has bounds.
    fn without_bounds(&mut self) -> Option<&mut TypeParam> {
        let bounded = self.generics.type_params().any(|param| !param.bounds.is_empty());
        if bounded || self.bounds.is_some() {
            return None;
        }
        self.generics.type_params_mut().next()
    }

    /// Returns the name of the only parameter if its only bound is `InnerBackend`, as in the `impl` of a layer.
    fn inner(&self) -> Option<&Ident> {
        let mut params = self.generics.params.iter();
        let (Some(GenericParam::Type(param)), None, None) = (params.next(), params.next(), &self.bounds)
        else {
            return None;
        };
        let mut bounds = param.bounds.iter();
        let (Some(TypeParamBound::Trait(bound)), None) = (bounds.next(), bounds.next()) else { return None };
        bound.path.segments.last().filter(|last| last.ident == "InnerBackend").map(|_| &param.ident)
    }

    /// Renders the `impl`.
    fn tokens(&self) -> TokenStream {
        let Impl { attributes, generics, of, on, bounds, body } = self;
        quote!(#(#attributes)* impl #generics #of for #on #bounds { #body })
    }

    /// Returns the `cfg` attributes of the `impl`.
    fn conditions(&self) -> Vec<&Attribute> {
        self.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect()
    }

    /// Parses an `impl` of a trait. `example` is the error message for other items.
    fn parse(input: ParseStream<'_>, example: &str) -> syn::Result<Impl> {
        let attributes = Attribute::parse_outer(input)?;
        if !input.peek(Token![impl]) {
            return Err(input.error(example));
        }
        input.parse::<Token![impl]>()?;
        let generics: Generics = if input.peek(Token![<]) { input.parse()? } else { Generics::default() };
        let of: Type = input.parse()?;
        if !input.peek(Token![for]) {
            return Err(syn::Error::new_spanned(of, format_args!("this `impl` is of no trait: {example}")));
        }
        let Type::Path(of) = of else { return Err(syn::Error::new_spanned(of, example)) };
        input.parse::<Token![for]>()?;
        let on: Type = input.parse()?;
        let bounds: Option<WhereClause> = input.parse()?;
        let content;
        braced!(content in input);
        Ok(Impl { attributes, generics, of: of.path, on, bounds, body: content.parse()? })
    }
}

/// Finds the methods of the `impl`: each `fn` that is not inside brackets and is followed by a name.
fn methods(item: &Impl, attribute: &str, ctxt: &mut Ctxt) -> Vec<Method> {
    let mut methods = Vec::new();
    let mut conditions = Vec::new();
    let mut tokens = item.body.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        match (&token, tokens.peek()) {
            (TokenTree::Punct(hash), Some(TokenTree::Group(group)))
                if hash.as_char() == '#'
                    && group.stream().into_iter().next().is_some_and(|first| first.to_string() == "cfg") =>
            {
                conditions.push(quote!(#hash #group));
            }
            (TokenTree::Punct(bang), Some(TokenTree::Group(_))) if bang.as_char() == '!' => {
                let message =
                    format!("`{attribute}` cannot see what a macro will write: write the methods out");
                ctxt.error(token, message);
            }
            (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) if keyword == "fn" => {
                methods.push(Method { conditions: std::mem::take(&mut conditions), name: name.clone() });
            }
            // At the end of an item, conditions that did not precede a method are discarded.
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Brace => conditions.clear(),
            (TokenTree::Punct(semicolon), _) if semicolon.as_char() == ';' => conditions.clear(),
            _ => {}
        }
    }
    methods
}
