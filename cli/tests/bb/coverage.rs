//! Tests `bb coverage`, and that the table in the documentation is its output.

use crate::process::{bb, folder, write};
use bb_tests::model::{model, node};
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
    // `Col2Im` sums elements, which has no meaning for strings on any backend.
    let refused = listed[&("", "Col2Im", 18)]["refused"].as_array().unwrap();
    let strings = refused.iter().find(|refused| refused["type"] == "string").unwrap();
    assert_eq!(strings["by"], "operator");
    assert!(strings["reason"].as_str().unwrap().contains("string"), "{strings}");
}

#[test]
fn an_unknown_operator_is_reported_with_a_similar_name() {
    let folder = folder("unknown-operator");
    let nodes = vec![node("Rellu", &["x"], &["a"]), node("Upsample", &["a"], &["y"])];
    let path = write(&folder, "model.onnx", &model(&[("x", &[2])], nodes, &[("y", &[2])]));
    for command in [&["run", &path, "--random", "1"][..], &["bench", &path], &["inspect", &path]] {
        let ended = bb(command);
        assert_eq!(ended.code(), 1);
        let text = format!("{}{}", ended.out, ended.err);
        for part in [
            "cannot run on `cpu`: \n",
            "`Rellu_a` is `Rellu` of `ai.onnx` 23: `ai.onnx` has no such operator; the nearest name is `Relu`\n",
            "`Upsample_y` is `Upsample` of `ai.onnx` 23: `ai.onnx` took it away with opset 10\n",
        ] {
            assert!(text.contains(part), "{command:?}: {text}");
        }
    }
}

/// `BB_WRITE=1` writes the table.
#[test]
fn the_table_in_the_documentation_is_what_the_command_prints() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../bb/docs/coverage.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- coverage -->\n").unwrap();
    let (table, after) = rest.split_once("<!-- /coverage -->").unwrap();
    let printed = bb(&["coverage", "--backend", "cpu", "--markdown"]).out;
    if std::env::var_os("BB_WRITE").is_some() {
        let page = format!("{before}<!-- coverage -->\n{}\n<!-- /coverage -->{after}", printed.trim());
        std::fs::write(&path, page).unwrap();
    } else {
        assert!(
            table.trim() == printed.trim(),
            "coverage.md has another table than the command prints; BB_WRITE=1 writes it"
        );
    }
}
