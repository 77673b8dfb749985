//! Tests that `bb/docs/operators.md` lists the operators as the code classifies them.

use bb::ir::opset;
use bb::onnx::{Class, operators};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const HEADER: &str = "# What each operator is made of

Written by the test `tests/tests/pages/operators.rs` from `bb::onnx::operators()`; run it with `BB_WRITE=1` to renew this file.
Numbers are the opsets that brought a version. A backend may have an operation of its own in place of any of these;
`bb coverage --backend NAME` tells.
";

/// The sections: a heading, why operators belong to the class, and the class.
const SECTIONS: [(&str, &str, Class); 5] = [
    (
        "Primitives",
        "A function made of the primitives and of extension methods, which are made of primitives in turn. The same text
runs on tensors and, on the tracer, lowers the operator.",
        Class::Primitives,
    ),
    (
        "Host by default",
        "Sorting, scattering, bits, random numbers and exact remainders of floats: primitives would say them badly or at
many times the cost. Types and extents of the results are known beforehand, so it is one step of a plan, which copies to
the host and back unless the backend overrides the extension method.",
        Class::HostByDefault,
    ),
    (
        "Host",
        "The extents of the results depend on the elements of the operands (as of NonZero), or the elements are no numbers
(strings). A plan ends before it, and goes on when the results are there.",
        Class::Host,
    ),
    (
        "Structure",
        "Nothing is computed: sequences, optionals and maps are put together and taken apart while a plan is made.",
        Class::Items,
    ),
    (
        "Control flow",
        "A part of the plan: branches that are known give way to their nodes, loops run plans of their bodies.",
        Class::ControlFlow,
    ),
];

fn list<'a>(rows: impl Iterator<Item = (&'a str, &'a str, i64)>) -> String {
    let mut versions: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (domain, name, since) in rows {
        versions.entry((domain, name)).or_default().push(since.to_string());
    }
    let mut out = String::new();
    for ((domain, name), since) in versions {
        let domain = if domain.is_empty() { String::new() } else { format!("`{domain}` ") };
        writeln!(out, "- {domain}{name}: {}", since.join(", ")).expect("a string takes any text");
    }
    out
}

fn written() -> String {
    let mut out = HEADER.to_owned();
    for (heading, why, class) in SECTIONS {
        let rows = operators().filter(|o| o.class == class).map(|o| (o.domain, o.name, o.since));
        let rows = list(rows);
        write!(out, "\n## {heading}\n\n{why}\n\n{rows}").expect("a string takes any text");
    }
    let known: BTreeSet<(&str, &str)> = operators().map(|o| (o.domain, o.name)).collect();
    let versions = opset::versions().filter(|v| v.types.is_some());
    let missing: Vec<_> = versions.filter(|v| !known.contains(&(v.domain, v.name))).collect();
    let missing = list(missing.into_iter().map(|v| (v.domain, v.name, v.since)));
    out += "\n## Unsupported\n\n";
    out += if missing.is_empty() { "None.\n" } else { &missing };
    out + &super::runtime::section()
}

#[test]
fn the_page_lists_the_operators_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../bb/docs/operators.md");
    if std::env::var_os("BB_WRITE").is_some() {
        std::fs::write(path, written()).expect("the folder can be written");
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        text == written(),
        "bb/docs/operators.md is not what the code says; run this test with BB_WRITE=1"
    );
}
