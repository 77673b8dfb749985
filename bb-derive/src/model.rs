//! Checks the options of a type, and adds their defaults.
//!
//! A mistake does not stop the analysis. The valid parts are still rendered, so that rustc reports its own errors in the same build.

use crate::attr::{Delegate, Given, Named, OpenOption, Options};
use crate::ctxt::Ctxt;
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{
    Attribute, Data, DataEnum, DeriveInput, Fields, GenericArgument, GenericParam, Generics, LitStr, Member,
    Path, PathArguments, PathSegment, Type, TypeParamBound, TypePath, Visibility, parse_quote,
};

/// A type to register.
pub(crate) struct Backend<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) bb: Path,
    /// Whether an option contains the path of `bb`.
    pub(crate) names_bb: bool,
    pub(crate) is_enum: bool,
    pub(crate) version: Option<LitStr>,
    pub(crate) new: New,
    pub(crate) options: Vec<OpenOption>,
    pub(crate) devices: Option<TypePath>,
    pub(crate) families: Vec<Ident>,
    /// The traits of vendors' operations.
    pub(crate) vendors: Vec<Path>,
    /// Whether `families` contains every family that the derive lists; false if some of them were invalid.
    pub(crate) all_families: bool,
    pub(crate) instances: Vec<Instance>,
    /// The inner backend, if the type is a layer.
    pub(crate) inner: Option<Inner<'a>>,
    /// The variants, if the type is an enum of backends.
    pub(crate) variants: Option<Variants<'a>>,
}

/// The variants of an enum of backends.
pub(crate) struct Variants<'a> {
    pub(crate) visibility: &'a Visibility,
    pub(crate) variants: Vec<(&'a Ident, &'a Type)>,
}

/// The field that contains the inner backend of a layer.
pub(crate) struct Inner<'a> {
    pub(crate) field: Member,
    pub(crate) ty: &'a Type,
    pub(crate) generics: &'a Generics,
}

/// The constructor of a backend.
pub(crate) enum New {
    /// The constructor is `Default::default`.
    Default,
    /// A function that takes no arguments.
    Path(TypePath),
    /// A function that takes options.
    Open(TypePath),
    /// The option could not be parsed.
    Unknown,
}

/// A concrete type, and the name under which it is registered.
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// The type as people write it, without its module.
    pub(crate) spelled: String,
}

impl<'a> Backend<'a> {
    /// Reads the options of the type, and reports mistakes to `ctxt`.
    pub(crate) fn from_input(input: &'a DeriveInput, ctxt: &mut Ctxt) -> Backend<'a> {
        let options = Options::parse(&input.attrs, ctxt);
        misplaced(&input.data, ctxt);
        let is_layer = !matches!(options.delegate, Given::No);
        if is_layer {
            unregistered(&options, matches!(input.data, Data::Enum(_)), ctxt);
        }
        let version = options.version.valid();
        if let Some(empty) = version.as_ref().filter(|version| version.value().is_empty()) {
            ctxt.error(empty, "the version is empty: write `version = \"1.2.0\"`, or leave it out");
        }
        let (new, taken, devices) =
            opening(options.new, options.open, options.options, options.devices, ctxt);
        let all_families = !matches!(options.extensions, Given::Wrong);
        let families = each_once(options.extensions, Ident::to_token_stream, ctxt);
        let vendors = each_once(options.vendors, Path::to_token_stream, ctxt);
        let (inner, variants) = match options.delegate.valid() {
            Some(Delegate::Field(field)) => (inner(input, field, ctxt), None),
            Some(Delegate::Variants(key)) => match &input.data {
                Data::Enum(data) => (None, variants(input, data, ctxt)),
                _ => {
                    ctxt.error(&key, "name the field that holds the inner backend: write `delegate = inner`");
                    (supposed(input), None)
                }
            },
            None if is_layer => (supposed(input), None),
            None => (None, None),
        };
        let instances =
            if is_layer { Vec::new() } else { instances(input, options.name, options.instances, ctxt) };
        Backend {
            ident: &input.ident,
            names_bb: !matches!(options.bb, Given::No),
            is_enum: matches!(input.data, Data::Enum(_)),
            bb: options.bb.valid().unwrap_or_else(|| parse_quote!(::bb)),
            version,
            new,
            options: taken,
            devices,
            families,
            vendors,
            all_families,
            instances,
            inner,
            variants,
        }
    }
}

/// Finds the backends in the variants of an enum.
fn variants<'a>(input: &'a DeriveInput, data: &'a DataEnum, ctxt: &mut Ctxt) -> Option<Variants<'a>> {
    if !input.generics.params.is_empty() {
        ctxt.error(&input.generics, "an enum of backends is not generic: name the backends in its variants");
        return None;
    }
    let mut found = Vec::new();
    for variant in &data.variants {
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                found.extend(fields.unnamed.iter().map(|field| (&variant.ident, &field.ty)));
            }
            _ => {
                let message = format!("each variant holds one backend: write `{}(MyBackend)`", variant.ident);
                ctxt.error(&variant.ident, message);
                return None;
            }
        }
    }
    if found.is_empty() {
        ctxt.error(&input.ident, "an enum of backends has variants: write `Cpu(MyBackend)`");
        return None;
    }
    Some(Variants { visibility: &input.vis, variants: found })
}

/// Finds the field that contains the inner backend.
fn inner<'a>(input: &'a DeriveInput, field: Member, ctxt: &mut Ctxt) -> Option<Inner<'a>> {
    let Data::Struct(data) = &input.data else {
        ctxt.error(&field, "a layer is a struct: only a struct has a field that holds the inner backend");
        return None;
    };
    let found = data.fields.members().zip(&data.fields).find(|(member, _)| *member == field);
    let Some((_, found)) = found else {
        let names: Vec<String> =
            data.fields.members().map(|member| format!("`{}`", member.to_token_stream())).collect();
        let fields =
            if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        let message = format!("`{}` has no field `{}`; {fields}", input.ident, field.to_token_stream());
        ctxt.error(&field, message);
        return supposed(input);
    };
    Some(Inner { field, ty: &found.ty, generics: &input.generics })
}

/// Returns the field that probably contains the inner backend of a layer whose option is wrong: the first field whose type is a
/// parameter, or the only field. With this field, rustc does not report in addition that the struct is not a layer.
fn supposed(input: &DeriveInput) -> Option<Inner<'_>> {
    let Data::Struct(data) = &input.data else { return None };
    let mut fields = data.fields.members().zip(&data.fields);
    let only = data.fields.len() == 1;
    let (field, found) = fields.find(|(_, field)| only || is_param(&field.ty, input))?;
    Some(Inner { field, ty: &found.ty, generics: &input.generics })
}

/// Reports options that are only for registered backends, because a layer is not registered.
fn unregistered(options: &Options, is_enum: bool, ctxt: &mut Ctxt) {
    let message = match is_enum {
        true => {
            "an enum of backends is not registered: remove this; `bb::BackendHandle::start(\"name\", MyEnum::Cpu(…))` \
             starts it under a name"
        }
        false => {
            "a layer is not registered as a backend: remove this; to give it a name, implement \
             `bb::RegisteredLayer` and write `bb::register_layer!`"
        }
    };
    let Options { name, new, open, devices, instances, .. } = options;
    let names = [name.get(), instances.get().and_then(|list| list.first()).map(|first| &first.name)];
    names.into_iter().flatten().for_each(|name| ctxt.error(name, message));
    let functions = [new.get(), open.get(), devices.get()];
    functions.into_iter().flatten().for_each(|path| ctxt.error(path, message));
}

/// Determines the constructor of a backend, its options, and the function that lists its devices.
fn opening(
    new: Given<TypePath>,
    open: Given<TypePath>,
    options: Given<Vec<OpenOption>>,
    devices: Given<TypePath>,
    ctxt: &mut Ctxt,
) -> (New, Vec<OpenOption>, Option<TypePath>) {
    if let (Given::No, Given::Yes(open), Given::No) = (&new, &open, &options) {
        let message = "say which options the constructor takes: write `options(device, threads, memory)`";
        ctxt.error(open, message);
    }
    if let (Given::No, Some([option, ..])) = (&open, options.get().map(Vec::as_slice)) {
        ctxt.error(&option.name, "options need a constructor that takes them: write `open = Self::open`");
    }
    let unopened = !matches!(options, Given::No);
    let are_wrong = matches!(options, Given::Wrong);
    let options = each_once(options, |option| option.name.to_token_stream(), ctxt);
    let devices = devices.valid();
    // Wrong options have already been reported, and `device` may be among them.
    let has_device = are_wrong || options.iter().any(|option| option.name == "device");
    if let (Some(devices), false) = (&devices, has_device) {
        let message = "a device is opened by the option `device`: write `open = Self::open, options(device)`";
        ctxt.error(devices, message);
    }
    let new = match (new, open) {
        (Given::Yes(_), Given::Yes(open)) => {
            ctxt.error(&open, "`new` and `open` both name the constructor; remove one");
            New::Open(open)
        }
        (_, Given::Yes(open)) => New::Open(open),
        (Given::Wrong, _) | (_, Given::Wrong) => New::Unknown,
        (Given::Yes(new), Given::No) => New::Path(new),
        // The missing constructor has already been reported.
        (Given::No, Given::No) if unopened => New::Unknown,
        (Given::No, Given::No) => New::Default,
    };
    (new, options, devices)
}

/// Returns the list, or an empty list if there is no valid one, and reports names that occur more than once.
fn each_once<T>(list: Given<Vec<T>>, named: fn(&T) -> TokenStream, ctxt: &mut Ctxt) -> Vec<T> {
    let spelled = |name: &T| named(name).to_string().replace(' ', "");
    let mut once: Vec<T> = Vec::new();
    for name in list.valid().unwrap_or_default() {
        let own = spelled(&name);
        if once.iter().any(|other| spelled(other) == own) {
            ctxt.error(named(&name), format_args!("`{own}` is listed twice; remove one"));
        } else {
            once.push(name);
        }
    }
    once
}

/// Determines the types to register and their names.
fn instances(
    input: &DeriveInput,
    name: Given<LitStr>,
    given: Given<Vec<Named>>,
    ctxt: &mut Ctxt,
) -> Vec<Instance> {
    let ident = &input.ident;
    if let Data::Union(data) = &input.data {
        ctxt.error(data.union_token, "a union cannot be a backend: write a struct or an enum");
        return Vec::new();
    }
    if input.generics.params.is_empty() {
        let message = format!("`{ident}` is not generic: write `name = \"…\"` instead of `instances`");
        given.valid().into_iter().flatten().for_each(|named| ctxt.error(named.ty, &message));
        let name = match name {
            Given::Yes(name) => checked(&name, ctxt),
            Given::No => default_name(ident, ctxt),
            Given::Wrong => String::new(),
        };
        return vec![Instance { name, ty: parse_quote!(#ident), spelled: ident.to_string() }];
    }
    let example = example(input);
    if let Given::Yes(name) = &name {
        let advice = match given {
            Given::No => format!("write `instances({example})`"),
            Given::Yes(_) | Given::Wrong => "remove `name`, because `instances` has the names".to_owned(),
        };
        ctxt.error(name, format_args!("`{ident}` is generic, and each instance has a name: {advice}"));
    }
    if let (Given::No, Given::No) = (&given, &name) {
        let list = format!("list what to register with `#[bb(instances({example}))]`");
        let advice = match held(input) {
            Some(field) => {
                let delegate = format!("write `#[bb(delegate = {field})]`");
                format!("if it is a layer over the backend in `{field}`, {delegate}; otherwise {list}")
            }
            None if is_over_backend(input) => {
                format!("if it is a layer, write `#[bb(delegate = FIELD)]`; otherwise {list}")
            }
            None => list,
        };
        ctxt.error(&input.generics, format_args!("`{ident}` is generic: {advice}"));
    }
    named(input, given.valid().unwrap_or_default(), &example, ctxt)
}

/// Returns the name or the number of the first field whose type is a type parameter of the struct.
fn held(input: &DeriveInput) -> Option<String> {
    let Data::Struct(data) = &input.data else { return None };
    let (index, field) = data.fields.iter().enumerate().find(|(_, field)| is_param(&field.ty, input))?;
    Some(field.ident.as_ref().map_or_else(|| index.to_string(), Ident::to_string))
}

/// Returns whether a type parameter is bounded by `InnerBackend`, as in a layer.
fn is_over_backend(input: &DeriveInput) -> bool {
    let is_named = |path: &Path| path.segments.last().is_some_and(|last| last.ident == "InnerBackend");
    let is_backend =
        |bound: &TypeParamBound| matches!(bound, TypeParamBound::Trait(bound) if is_named(&bound.path));
    input.generics.type_params().any(|param| param.bounds.iter().any(is_backend))
}

/// Returns whether a type is a type parameter of the input's type.
fn is_param(ty: &Type, input: &DeriveInput) -> bool {
    let Type::Path(path) = ty else { return false };
    input.generics.type_params().any(|param| path.path.is_ident(&param.ident))
}

/// Checks the listed instances of a generic type.
fn named(input: &DeriveInput, list: Vec<Named>, example: &str, ctxt: &mut Ctxt) -> Vec<Instance> {
    let ident = &input.ident;
    let mut instances: Vec<Instance> = Vec::new();
    for Named { name, ty } in list {
        let last = match &ty {
            Type::Path(path) => path.path.segments.last().filter(|last| last.ident == *ident),
            _ => None,
        };
        let Some(last) = last else {
            ctxt.error(&ty, format_args!("this is no instance of `{ident}`: write `{example}`"));
            continue;
        };
        if let Some(argument) = undeclared(last, input) {
            let text = argument.to_token_stream();
            ctxt.error(
                argument,
                format_args!(
                    "`{text}` is not declared here: write an instance without parameters, such as `{example}`"
                ),
            );
            continue;
        }
        let checked = checked(&name, ctxt);
        if instances.iter().any(|other| other.name == checked) {
            ctxt.error(&name, format_args!("two instances are called `{checked}`; rename one"));
        }
        instances.push(Instance { name: checked, spelled: spelled(last), ty });
    }
    instances
}

/// Returns the first generic argument of an instance that is a parameter of the input's type, or a lifetime other than `'static`.
fn undeclared<'a>(last: &'a PathSegment, input: &DeriveInput) -> Option<&'a GenericArgument> {
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find(|argument| match argument {
        GenericArgument::Type(ty) => is_param(ty, input),
        GenericArgument::Lifetime(lifetime) => lifetime.ident != "static",
        _ => false,
    })
}

/// Formats a path segment as people write it, with spaces only between words and after commas.
fn spelled(segment: &PathSegment) -> String {
    let tokens = segment.to_token_stream().to_string();
    let mut spelled = String::new();
    let mut words = tokens.split(' ').peekable();
    while let Some(word) = words.next() {
        spelled.push_str(word);
        let letter = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
        let touches = word.ends_with(letter) && words.peek().is_some_and(|next| next.starts_with(letter));
        if words.peek().is_some() && (touches || word == ",") {
            spelled.push(' ');
        }
    }
    spelled
}

/// Formats an example of an instance of the type, for error messages.
fn example(input: &DeriveInput) -> String {
    let ident = &input.ident;
    let arguments: Vec<&str> = input
        .generics
        .params
        .iter()
        .map(|param| match param {
            GenericParam::Lifetime(_) => "'static",
            GenericParam::Type(_) => "f32",
            GenericParam::Const(_) => "1",
        })
        .collect();
    format!("\"{}\" = {ident}<{}>", kebab(&ident.to_string()), arguments.join(", "))
}

/// The rule for names, for error messages.
const RULE: &str = "lower-case letters, digits and `-`, starting with a letter";

/// Checks a name that the user wrote.
fn checked(name: &LitStr, ctxt: &mut Ctxt) -> String {
    let text = name.value();
    let like = match kebab(&text) {
        like if is_name(&like) => like,
        _ => "my-backend".to_owned(),
    };
    if text.is_empty() {
        ctxt.error(name, format_args!("the name is empty: write {RULE}, such as `{like}`"));
    } else if !is_name(&text) {
        ctxt.error(name, format_args!("`{text}` is not a name: write {RULE}, such as `{like}`"));
    }
    text
}

/// Derives a backend name from the name of the type.
fn default_name(ident: &Ident, ctxt: &mut Ctxt) -> String {
    let name = kebab(ident.to_string().trim_start_matches("r#"));
    if !is_name(&name) {
        ctxt.error(
            ident,
            format_args!("no name can be made of `{ident}`: write `#[bb(name = \"…\")]` with {RULE}"),
        );
    }
    name
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Converts a name to kebab case. A word starts at a capital letter that is after or before a small letter.
fn kebab(text: &str) -> String {
    let mut kebab = String::new();
    let mut before: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let separator = matches!(c, '_' | ' ' | '.' | '/' | '-');
        let starts = c.is_uppercase()
            && before
                .is_some_and(|b| !b.is_uppercase() || chars.peek().is_some_and(|next| next.is_lowercase()));
        if (separator || starts) && !kebab.is_empty() && !kebab.ends_with('-') {
            kebab.push('-');
        }
        if !separator {
            kebab.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    kebab
}

/// Reports `#[bb(…)]` on fields and variants, where it would have no effect.
fn misplaced(data: &Data, ctxt: &mut Ctxt) {
    let mut report = |attrs: &[Attribute]| {
        for attr in attrs.iter().filter(|a| a.path().is_ident("bb")) {
            ctxt.error(attr.to_token_stream(), "options belong on the type: write `#[bb(…)]` above it");
        }
    };
    let mut fields = |fields: &Fields| fields.iter().for_each(|field| report(&field.attrs));
    match data {
        Data::Struct(data) => fields(&data.fields),
        Data::Enum(data) => {
            data.variants.iter().for_each(|variant| fields(&variant.fields));
            data.variants.iter().for_each(|variant| report(&variant.attrs));
        }
        Data::Union(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_spelled_as_a_reader_would() {
        let Ok(Type::Path(path)) = syn::parse_str("my::Of<'static, &'static mut [f32; 4], Vec<u8>>") else {
            panic!("a type");
        };
        let last = path.path.segments.last().map(spelled);
        assert_eq!(last.as_deref(), Some("Of<'static, &'static mut[f32;4], Vec<u8>>"));
    }

    #[test]
    fn names_are_in_kebab_case() {
        for (ident, name) in [
            ("Cpu", "cpu"),
            ("MyBackend", "my-backend"),
            ("GPU", "gpu"),
            ("GPUBackend", "gpu-backend"),
            ("Cuda12Device", "cuda12-device"),
            ("snake_case", "snake-case"),
            ("My Backend", "my-backend"),
        ] {
            assert_eq!(kebab(ident), name);
            assert!(is_name(name));
        }
        for not_a_name in ["", "-a", "1a", "A", "a_b", "größe", "a b"] {
            assert!(!is_name(not_a_name));
        }
    }
}
