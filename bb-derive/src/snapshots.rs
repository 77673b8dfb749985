//! Compares the expansions of the macros with `tests/snapshots/*.expanded.rs`, which contain the code that
//! one would write by hand.
//!
//! `BLESS=1 cargo test -p bb-derive` writes the snapshots again.

use proc_macro2::TokenStream;
use std::path::Path;

/// Expands a test case: an `impl` by the attribute, and a type by the derive.
fn expand(source: &str) -> TokenStream {
    let Some(item) = source.split_once("#[bb::native]\n").map(|(_, item)| item) else {
        let derived = crate::expand::Derived::of(&syn::parse_str(source).expect("a type"), None);
        return [derived.mistakes, derived.registration].into_iter().collect();
    };
    crate::native::native(TokenStream::new(), item.parse().expect("tokens"))
}

fn compare(case: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let source = std::fs::read_to_string(folder.join(format!("{case}.rs"))).expect("the case");
    let expansion = syn2::parse2(expand(&source)).expect("an expansion that parses");
    let got = prettyplease::unparse(&expansion);
    let snapshot = folder.join(format!("{case}.expanded.rs"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&snapshot, &got).expect("a snapshot");
    }
    let expected = std::fs::read_to_string(&snapshot).expect("the snapshot");
    assert!(got == expected, "`{case}` expands to\n{got}\nexpected\n{expected}");
}

#[test]
fn a_type_without_options() {
    compare("plain");
}

#[test]
fn another_name_in_the_manifest_is_one_mistake() {
    let derived = |source: &str| {
        crate::expand::Derived::of(&syn::parse_str(source).expect("a type"), Some("tensors".to_owned()))
    };
    let wrong = derived("#[bb(name = \"cpu\")] struct Cpu;");
    assert!(wrong.registration.is_empty());
    let text = wrong.mistakes.to_string();
    assert!(text.contains("write `#[bb(crate = tensors)]` above the type"), "{text}");
    assert!(derived("#[bb(crate = tensors)] struct Cpu;").mistakes.is_empty());
    let text = derived("#[bb(crate = tensor)] struct Cpu;").mistakes.to_string();
    assert!(
        text.contains("`Cargo.toml` has `bb` under the name `tensors`: write `crate = tensors`"),
        "{text}"
    );
    // An imported name may be any name.
    for import in ["bb", "contract", "crate::tensor", "self::tensor"] {
        assert!(derived(&format!("#[bb(crate = {import})] struct Cpu;")).mistakes.is_empty(), "{import}");
    }
}

#[test]
fn every_option() {
    compare("options");
}

#[test]
fn a_constructor_with_options() {
    compare("open");
}

#[test]
fn instances_of_a_generic_type() {
    compare("instances");
}

#[test]
fn mistakes_are_reported_beside_the_valid_registration() {
    compare("mistakes");
}

#[test]
fn native_methods() {
    compare("native");
}

#[test]
fn vendors() {
    compare("vendors");
}

#[test]
fn a_layer() {
    compare("layer");
}

#[test]
fn an_enum_of_backends() {
    compare("either");
}
