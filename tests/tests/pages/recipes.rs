//! Tests that the recipes in `CONTRIBUTING.md` name the files that exist, and all that list the primitives.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the paths in backquotes of a text. A path has a slash, and only characters of file names.
fn paths(text: &str) -> BTreeSet<&str> {
    let is_path = |part: &&str| {
        part.contains('/')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
    };
    text.split('`').skip(1).step_by(2).filter(is_path).collect()
}

/// Returns the part of the page before the commands: the recipes and the table of tests.
fn recipes() -> String {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    page.split_once("\n## Commands\n").unwrap().0.to_owned()
}

#[test]
fn files_of_the_recipes_exist() {
    let recipes = recipes();
    let named = paths(&recipes);
    assert!(named.len() > 40, "{named:?}");
    // `cli/src/NAME.rs` is the file that the recipe writes.
    let missing: Vec<_> =
        named.iter().filter(|path| !path.contains("NAME") && !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md names what does not exist: {missing:?}");
}

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

/// A file that names every primitive must change for another one, so that the recipe lists it.
#[test]
fn the_recipe_of_a_primitive_lists_the_files_that_name_all_primitives() {
    let root = root();
    let mut files = Vec::new();
    for folder in [
        "bb-ir/src",
        "bb",
        "bb-derive/src",
        "backends",
        "cli/src",
        "doors/python/src",
        "doors/serve/src",
        "doors/web/src",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let recipes = recipes();
    let recipe = recipes.split_once("## Adding a primitive\n").unwrap().1.split_once("\n## ").unwrap().0;
    let listed = paths(recipe);
    let mut unlisted = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let place = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        // The file that a command generates from ONNX's schemas names all operators.
        let generated = place == "bb-ir/src/opset/schemas.rs";
        let names_all = bb::Primitive::ALL.iter().all(|primitive| words.contains(primitive.spec().name));
        if names_all && !generated && !listed.contains(place.as_str()) {
            unlisted.push(place);
        }
    }
    assert!(unlisted.is_empty(), "the recipe of a primitive lacks {unlisted:?}");
}
