//! Tests that an operator's row, its rule and its functions stand in one file, as `CONTRIBUTING.md` says, and that the core does not name the
//! domains of other crates.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Where operators are.
const CRATES: &[&str] = &["bb/onnx", "bb/onnx-microsoft", "bb/onnx-ml", "bb/onnx-training"];

/// Collects the Rust files below a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the rows of a file: the lines in `operators! { … }` that begin with an operator.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let block = text.split_once("\noperators! {\n").map_or("", |(_, after)| after);
    let block = block.split_once("\n}\n").map_or(block, |(block, _)| block);
    block.lines().map(str::trim).filter(|line| line.ends_with(';'))
}

/// Returns the names in a row: its rule, if it is a function, and its functions, if they are not control flow.
fn named(row: &str) -> Vec<&str> {
    let (before, after) = row.split_once(", infer: ").unwrap();
    let mut names: Vec<&str> = Vec::new();
    for function in before.split("=> ").skip(1) {
        let (class, rest) = function.split_once('(').unwrap();
        if !matches!(class, "ControlFlow" | "Rounds") {
            names.push(rest.split([';', ')']).next().unwrap());
        }
    }
    names.extend(after.strip_prefix("By(").map(|rest| rest.split(')').next().unwrap()));
    names
}

/// Returns whether a line begins a function, or a line of a macro that defines one, as in `abs = abs(0);`.
fn defines(line: &str, name: &str) -> bool {
    let visible = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|word| line.strip_prefix(word));
    let of_macro = line.strip_prefix("    ").and_then(|line| line.strip_prefix(name));
    let function = visible.unwrap_or(line).strip_prefix("fn ").and_then(|line| line.strip_prefix(name));
    function.is_some_and(|rest| rest.starts_with(['(', '<']))
        || of_macro.is_some_and(|rest| rest.starts_with(" = "))
}

#[test]
fn the_core_names_no_domain_of_another_crate() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bb/core/src");
    let (mut files, mut found) = (Vec::new(), Vec::new());
    sources(&folder, &mut files);
    assert!(files.len() > 100, "{} files", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let names =
            |line: &&str| ["com.microsoft", "ai.onnx.ml", "ai.onnx.preview"].iter().any(|d| line.contains(d));
        found.extend(code.filter(names).map(|line| format!("{}: {line}", file.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn rules_and_functions_stand_beside_their_rows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut elsewhere, mut count) = (Vec::new(), 0);
    for of in CRATES {
        let mut files = Vec::new();
        sources(&root.join(of).join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for row in rows(&text) {
                count += 1;
                let missing =
                    named(row).into_iter().filter(|name| !text.lines().any(|line| defines(line, name)));
                elsewhere.extend(missing.map(|name| format!("{}: `{name}`", file.display())));
            }
        }
    }
    assert!(count > 300, "{count} rows");
    assert!(elsewhere.is_empty(), "what a row names stands in another file: {elsewhere:#?}");
}
