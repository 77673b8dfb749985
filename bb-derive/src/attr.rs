//! Parses `#[bb(…)]`. The module [`model`](crate::model) checks whether the options can be combined.

use crate::ctxt::Ctxt;
use crate::nearest::{did_you_mean, nearest};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Lit, LitStr, Member, Meta, Path, PathArguments, Token, Type, TypePath, parenthesized};

/// The state of an option: absent, present with a valid value, or present with an invalid value that was already
/// reported.
#[derive(Default)]
pub(crate) enum Given<T> {
    #[default]
    No,
    Wrong,
    Yes(T),
}

impl<T> Given<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        match self {
            Given::Yes(value) => Some(value),
            Given::No | Given::Wrong => None,
        }
    }

    /// Returns the value, if there is a valid one.
    pub(crate) fn valid(self) -> Option<T> {
        match self {
            Given::Yes(value) => Some(value),
            Given::No | Given::Wrong => None,
        }
    }
}

/// A named instance of a generic type, as in `"my-f32" = My<f32>`.
pub(crate) struct Named {
    pub(crate) name: LitStr,
    pub(crate) ty: Type,
}

/// An option that the constructor accepts.
pub(crate) struct OpenOption {
    pub(crate) name: Ident,
    /// The tokens after the name of an option that the backend defines itself: `: type = default => "purpose"`.
    pub(crate) own: Option<TokenStream>,
}

/// The backend that the type passes all calls to.
pub(crate) enum Delegate {
    /// The backend in a field of a struct.
    Field(Member),
    /// The backend in the current variant of an enum. The identifier is the option's name.
    Variants(Ident),
}

/// The options in `#[bb(…)]`.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Given<LitStr>,
    pub(crate) version: Given<LitStr>,
    pub(crate) bb: Given<Path>,
    pub(crate) new: Given<TypePath>,
    pub(crate) open: Given<TypePath>,
    pub(crate) options: Given<Vec<OpenOption>>,
    pub(crate) devices: Given<TypePath>,
    pub(crate) extensions: Given<Vec<Ident>>,
    pub(crate) vendors: Given<Vec<Path>>,
    pub(crate) instances: Given<Vec<Named>>,
    pub(crate) delegate: Given<Delegate>,
}

/// An example of instances of a generic type, for error messages.
const INSTANCES: &str = "(\"my-f32\" = My<f32>, \"my-f64\" = My<f64>)";

/// The options that every constructor can accept.
const COMMON: [&str; 3] = ["device", "threads", "memory"];

/// The names of all options.
const NAMES: [&str; 11] = [
    "name",
    "version",
    "crate",
    "new",
    "open",
    "options",
    "devices",
    "extensions",
    "vendors",
    "instances",
    "delegate",
];

/// The names of all options, for error messages.
const EXPECTED: &str = "`name`, `version`, `crate`, `new`, `open`, `options`, `devices`, `extensions`, `vendors`, `instances` or `delegate`";

impl Options {
    /// Parses every `#[bb(…)]` among the attributes, and reports all invalid parts.
    pub(crate) fn parse(attrs: &[Attribute], ctxt: &mut Ctxt) -> Options {
        let mut options = Options::default();
        let mut seen = Vec::new();
        for attr in attrs.iter().filter(|a| a.path().is_ident("bb")) {
            let Meta::List(list) = &attr.meta else {
                ctxt.error(attr, "write the options in parentheses: `#[bb(name = \"…\")]`");
                continue;
            };
            let parsed = list.parse_args_with(|input: ParseStream<'_>| {
                while !input.is_empty() {
                    options.option(input, &mut seen, ctxt);
                    next(input);
                }
                Ok(())
            });
            if let Err(error) = parsed {
                ctxt.push(error);
            }
        }
        options
    }

    fn option(&mut self, input: ParseStream<'_>, seen: &mut Vec<Ident>, ctxt: &mut Ctxt) {
        let Ok(key) = input.call(Ident::parse_any) else {
            ctxt.push(input.error(format_args!("expected an option: {EXPECTED}")));
            return;
        };
        let option = key.to_string();
        let duplicate = seen.contains(&key);
        if duplicate {
            let mend = match option.as_str() {
                "options" | "extensions" | "vendors" | "instances" => "write one list",
                _ => "remove one",
            };
            ctxt.error(&key, format_args!("`{option}` is given twice; {mend}"));
        }
        // The value of a duplicate option is parsed too, so that an invalid value is also reported.
        let first = !duplicate;
        match option.as_str() {
            "name" => given(&mut self.name, first, value(input, &key, "\"my-backend\"", string, ctxt)),
            "version" => given(&mut self.version, first, value(input, &key, "\"1.2.0\"", string, ctxt)),
            "crate" => given(&mut self.bb, first, value(input, &key, "path::to::bb", crate_path, ctxt)),
            "new" => given(&mut self.new, first, value(input, &key, "Self::new", constructor, ctxt)),
            "open" => given(&mut self.open, first, value(input, &key, "Self::open", opener, ctxt)),
            "options" => given(&mut self.options, first, list(input, &key, "(threads)", open_option, ctxt)),
            "devices" => {
                given(&mut self.devices, first, value(input, &key, "Self::devices", constructor, ctxt))
            }
            "extensions" => given(&mut self.extensions, first, list(input, &key, "(Nn, Llm)", family, ctxt)),
            "vendors" => given(&mut self.vendors, first, list(input, &key, "(acme::Acme)", vendor, ctxt)),
            "instances" => given(&mut self.instances, first, list(input, &key, INSTANCES, instance, ctxt)),
            "delegate" => given(&mut self.delegate, first, delegate(input, &key, ctxt)),
            _ => {
                match option.as_str() {
                    "types" => ctxt.error(
                        &key,
                        "`types` is not an option: write `fn types(&self) -> bb::DataTypes` in `impl bb::Backend`",
                    ),
                    _ => {
                        let meant = did_you_mean(&option, NAMES);
                        ctxt.error(&key, format_args!("unknown option `{option}`{meant}; expected {EXPECTED}"));
                        self.misspelt(nearest(&option, NAMES));
                    }
                }
                return;
            }
        }
        seen.push(key);
    }

    /// Marks an option as present because its name is misspelt, so that it is not reported as missing too.
    fn misspelt(&mut self, option: Option<&str>) {
        match option {
            Some("new") => wrong(&mut self.new),
            Some("open") => wrong(&mut self.open),
            Some("options") => wrong(&mut self.options),
            Some("instances") => wrong(&mut self.instances),
            Some("delegate") => wrong(&mut self.delegate),
            _ => {}
        }
    }
}

fn wrong<T>(slot: &mut Given<T>) {
    if matches!(slot, Given::No) {
        *slot = Given::Wrong;
    }
}

fn given<T>(slot: &mut Given<T>, first: bool, value: Option<T>) {
    if first {
        *slot = value.map_or(Given::Wrong, Given::Yes);
    }
}

/// Parses `= value`; returns `None` if the value is invalid.
fn value<T>(
    input: ParseStream<'_>,
    key: &Ident,
    example: &str,
    parse: fn(ParseStream<'_>) -> syn::Result<T>,
    ctxt: &mut Ctxt,
) -> Option<T> {
    if !input.peek(Token![=]) {
        ctxt.error(key, format_args!("`{key}` needs a value: write `{key} = {example}`"));
        return None;
    }
    match input.parse::<Token![=]>().and_then(|_| parse(input)) {
        Ok(value) => end(input).map_err(|error| ctxt.push(error)).is_ok().then_some(value),
        Err(error) => {
            ctxt.push(syn::Error::new(error.span(), format_args!("{error}: write `{key} = {example}`")));
            None
        }
    }
}

/// Parses `(element, …)`; returns `None` if an element is invalid.
fn list<T>(
    input: ParseStream<'_>,
    key: &Ident,
    example: &str,
    parse: fn(ParseStream<'_>) -> syn::Result<T>,
    ctxt: &mut Ctxt,
) -> Option<Vec<T>> {
    let content = match (|| {
        let content;
        parenthesized!(content in input);
        Ok::<_, syn::Error>(content)
    })() {
        Ok(content) => content,
        Err(_) => {
            ctxt.error(key, format_args!("`{key}` needs a list: write `{key}{example}`"));
            return None;
        }
    };
    if content.is_empty() {
        ctxt.error(key, format_args!("`{key}` is empty: write `{key}{example}`, or leave it out"));
    }
    let mut elements = Vec::new();
    let mut whole = true;
    while !content.is_empty() {
        match parse(&content).and_then(|element| end(&content).map(|()| element)) {
            Ok(element) => elements.push(element),
            Err(error) => {
                whole = false;
                // Some messages already contain an example.
                let example = match error.to_string().contains(": write `") {
                    true => String::new(),
                    false => format!(": write `{key}{example}`"),
                };
                ctxt.push(syn::Error::new(error.span(), format_args!("{error}{example}")));
            }
        }
        next(&content);
    }
    whole.then_some(elements)
}

/// Returns an error if an element is followed by another token than a comma.
fn end(input: ParseStream<'_>) -> syn::Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        Ok(())
    } else {
        Err(input.error("expected `,` before what follows"))
    }
}

/// Skips all tokens up to and including the next comma.
fn next(input: ParseStream<'_>) {
    while !input.is_empty() {
        if input.parse::<Token![,]>().is_ok() || input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

/// Parses a token. If this fails, the error message is `wrong`.
fn parsed<T: Parse>(input: ParseStream<'_>, wrong: &str) -> syn::Result<T> {
    input.parse().map_err(|error| syn::Error::new(error.span(), wrong))
}

/// Parses a path without generic arguments. If this fails, the error message is `wrong`.
fn plain_path(input: ParseStream<'_>, wrong: &str) -> syn::Result<Path> {
    input.call(Path::parse_mod_style).map_err(|error| syn::Error::new(error.span(), wrong))
}

fn string(input: ParseStream<'_>) -> syn::Result<LitStr> {
    parsed(input, "expected a string")
}

fn crate_path(input: ParseStream<'_>) -> syn::Result<Path> {
    plain_path(input, if input.peek(LitStr) { "expected a path without quotes" } else { "expected a path" })
}

fn constructor(input: ParseStream<'_>) -> syn::Result<TypePath> {
    function(input, "expected the path of a function that takes nothing")
}

fn opener(input: ParseStream<'_>) -> syn::Result<TypePath> {
    function(input, "expected the path of a function that takes `&bb::OpenOptions`")
}

/// Parses a path that may have generic arguments, with or without `::` before them.
fn function(input: ParseStream<'_>, wrong: &str) -> syn::Result<TypePath> {
    let mut path: TypePath = parsed(input, wrong)?;
    end(input).map_err(|error| syn::Error::new(error.span(), wrong))?;
    for segment in &mut path.path.segments {
        if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
            arguments.colon2_token.get_or_insert_with(Default::default);
        }
    }
    Ok(path)
}

/// Parses `= field`; without a value, the option is for the variants of an enum.
fn delegate(input: ParseStream<'_>, key: &Ident, ctxt: &mut Ctxt) -> Option<Delegate> {
    match input.is_empty() || input.peek(Token![,]) {
        true => Some(Delegate::Variants(key.clone())),
        false => value(input, key, "inner", member, ctxt).map(Delegate::Field),
    }
}

fn member(input: ParseStream<'_>) -> syn::Result<Member> {
    parsed(input, "expected the field that holds the inner backend")
}

fn family(input: ParseStream<'_>) -> syn::Result<Ident> {
    alone(input, "expected the family's name alone")
}

fn vendor(input: ParseStream<'_>) -> syn::Result<Path> {
    plain_path(input, "expected the path of the trait that `bb::vendor!` declares")
}

fn open_option(input: ParseStream<'_>) -> syn::Result<OpenOption> {
    let wrong = "expected the option's name, or `tile: u64 = 128 => \"what it is for\"`";
    if let Ok(quoted) = input.fork().parse::<LitStr>() {
        let message = format_args!("expected a name without quotes: write `options({})`", quoted.value());
        return Err(syn::Error::new(quoted.span(), message));
    }
    let name = alone(input, wrong)?;
    if input.is_empty() || input.peek(Token![,]) {
        let text = name.to_string();
        if !COMMON.contains(&text.as_str()) {
            let nearest = did_you_mean(&text, COMMON);
            let message = format_args!(
                "no option `{text}`{nearest}; there are `device`, `threads` and `memory`; for one of your own: write \
                 `{text}: u64 = 128 => \"what it is for\"`"
            );
            return Err(syn::Error::new(name.span(), message));
        }
        return Ok(OpenOption { name, own: None });
    }
    if COMMON.contains(&name.to_string().as_str()) || name == "narrow_floats" {
        let message = format_args!(
            "`{name}` is an option of all programs: write `options({name})`, or choose another name"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    if input.peek(Token![=]) {
        let message =
            format_args!("`{name}` lacks its type: write `{name}: u64 = 128 => \"what it is for\"`");
        return Err(syn::Error::new(name.span(), message));
    }
    let (colon, kind) = (parsed::<Token![:]>(input, wrong)?, parsed::<Ident>(input, wrong)?);
    if input.peek(Token![=>]) {
        let example = example_of(&kind.to_string()).unwrap_or("128");
        let message = format_args!(
            "`{name}` lacks its default: write `{name}: {kind} = {example} => \"what it is for\"`"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    let equals: Token![=] = parsed(input, wrong)?;
    let mut default = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![=>]) && !input.peek(Token![,]) {
        if !default.is_empty()
            && let Ok(about) = input.fork().parse::<LitStr>()
        {
            let spelled = format!("{name}: {kind} = {default} => {}", about.token());
            let message = format_args!("`=>` stands before the purpose: write `{spelled}`");
            return Err(syn::Error::new(about.span(), message));
        }
        default.extend([input.parse::<TokenTree>()?]);
    }
    if !default.is_empty() && !input.peek(Token![=>]) {
        let spelled = format!("{name}: {kind} = {default}");
        let message = format_args!("`{name}` lacks its purpose: write `{spelled} => \"what it is for\"`");
        return Err(syn::Error::new(name.span(), message));
    }
    let (arrow, about) = (parsed::<Token![=>]>(input, wrong)?, parsed::<LitStr>(input, wrong)?);
    if default.is_empty() {
        return Err(syn::Error::new(arrow.span(), wrong));
    }
    if let Some(example) = example_of_default(&kind, &default) {
        let message = format_args!("this is no `{kind}`: write `{name}: {kind} = {example}`, for example");
        return Err(syn::Error::new_spanned(default, message));
    }
    Ok(OpenOption { name, own: Some(quote!(#colon #kind #equals #default #arrow #about)) })
}

/// Returns an example of a default value, if the default is a literal of a wrong type. Rustc checks all other defaults.
fn example_of_default(kind: &Ident, default: &TokenStream) -> Option<String> {
    let kind = kind.to_string();
    let example = example_of(&kind)?;
    if let Ok(word) = syn::parse2::<Ident>(default.clone()) {
        // Constants contain upper-case letters, so a word that begins in lower case is probably a string without
        // quotation marks.
        let word = word.to_string();
        return (kind == "str" && word.starts_with(char::is_lowercase)).then(|| format!("\"{word}\""));
    }
    let literal: Lit = syn::parse2(default.clone()).ok()?;
    let fits = match kind.as_str() {
        "bool" => matches!(literal, Lit::Bool(_)),
        "i64" | "u64" => matches!(literal, Lit::Int(_)),
        "f64" => matches!(literal, Lit::Float(_)),
        _ => matches!(literal, Lit::Str(_)),
    };
    (!fits).then(|| example.to_owned())
}

/// Returns an example of a default value for a type that options can have.
fn example_of(kind: &str) -> Option<&'static str> {
    match kind {
        "bool" => Some("true"),
        "i64" | "u64" => Some("128"),
        "f64" => Some("1.0"),
        "str" => Some("\"fast\""),
        _ => None,
    }
}

/// Parses a single name. A path is an error.
fn alone(input: ParseStream<'_>, wrong: &str) -> syn::Result<Ident> {
    let name = parsed(input, wrong)?;
    if input.peek(Token![::]) {
        return Err(input.error(wrong));
    }
    Ok(name)
}

fn instance(input: ParseStream<'_>) -> syn::Result<Named> {
    let name = parsed(input, "each instance needs a name of its own")?;
    input.parse::<Token![=]>()?;
    Ok(Named { name, ty: input.parse()? })
}
