//! `bb coverage`, and the README's table, which is its output.

use crate::process::bb;
use std::collections::HashMap;

#[test]
fn every_version_of_every_operator_is_listed() {
    let json = bb(&["coverage", "--backend", "cpu", "--json"]).json();
    let rows = json["operators"].as_array().unwrap();
    let listed: HashMap<(&str, &str, i64), &serde_json::Value> = rows
        .iter()
        .map(|r| {
            let text = |key: &str| r[key].as_str().unwrap();
            ((text("domain"), text("operator"), r["since"].as_i64().unwrap()), r)
        })
        .collect();
    assert_eq!(listed.len(), rows.len(), "no version twice");
    for version in bb_ir::opset::versions().filter(|v| v.types.is_some()) {
        assert!(listed.contains_key(&(version.domain, version.name, version.since)), "{version:?}");
    }
    assert_eq!(listed[&("", "Add", 14)]["runs"], "native");
    assert!(listed[&("", "HardSwish", 14)]["runs"].as_str().unwrap().starts_with("lowered to "));
    assert_eq!(listed[&("", "NonZero", 13)]["runs"], "host");
    let types = |name: &str, since| listed[&("", name, since)]["types"].as_array().unwrap().len();
    assert_eq!((types("Sqrt", 6), types("Sqrt", 13), types("Add", 14)), (3, 4, 12));
}

/// To renew it: `cargo run -p bb-cli -- coverage --backend cpu --markdown`, between the markers.
#[test]
fn the_table_in_the_readme_is_what_the_command_prints() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("<!-- coverage -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- /coverage -->").unwrap();
    let printed = bb(&["coverage", "--backend", "cpu", "--markdown"]).out;
    assert!(table.trim() == printed.trim(), "README.md has another table than the command prints");
}
