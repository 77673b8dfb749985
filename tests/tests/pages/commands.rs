//! Tests that the commands of the README and of the pages build nothing twice.
//!
//! Cargo compiles a crate again for each other set of its features, and with it all crates that use it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate with its sets of features. A crate may have two sets: one for programs and one for macros.
type Selection = BTreeMap<String, BTreeSet<String>>;

/// The crates whose features differ between commands, because they choose the functions of the program.
const OWN: [&str; 4] = ["bb-cli", "bb-generate", "bb-serve", "train"];

/// The packages that commands of other tools build: `pip wheel`.
const WHEELS: [&str; 2] = ["bb-ort-cpu", "bb-python"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns Cargo's arguments in each `cargo run` and `cargo build` of a page that names a package, without the program's arguments.
fn builds(page: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut builds = Vec::new();
    for (at, _) in text.match_indices("cargo ") {
        let command = text.get(at..).unwrap().split(['`', '\n']).next().unwrap();
        let words = command.split_whitespace().skip(1).take_while(|word| !["--", "&&"].contains(word));
        let words: Vec<String> = words.map(str::to_owned).collect();
        let has = |option: &str| words.iter().any(|word| word == option);
        if ["run", "build"].contains(&&*words[0]) && has("--release") && package(&words).is_some() {
            builds.push(words);
        }
    }
    builds
}

/// Returns the argument after an option.
fn after<'a>(arguments: &'a [String], option: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|word| word == option)?;
    arguments.get(at + 1).map(String::as_str)
}

/// Returns the package that the arguments name.
fn package(arguments: &[String]) -> Option<&str> {
    after(arguments, "-p")
}

/// Asks Cargo for the crates that a package selects, and their features.
fn selection(package: &str, features: Option<&str>) -> Selection {
    let done = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p}|{f}"])
        .args(["--package", package, "--features", features.unwrap_or_default()])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut crates = Selection::new();
    for line in String::from_utf8(done.stdout).unwrap().lines() {
        let (name, features) = line.split_once('|').unwrap();
        let features = features.trim_end_matches("(*)").trim();
        crates.entry(name.to_owned()).or_default().insert(features.to_owned());
    }
    crates
}

#[test]
fn commands_build_no_crate_twice() {
    let mut pages = vec![PathBuf::from("README.md")];
    for entry in std::fs::read_dir(root().join("bb/docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    let mut commands: BTreeSet<(String, Option<String>)> =
        WHEELS.iter().map(|name| ((*name).to_owned(), None)).collect();
    for arguments in pages.iter().flat_map(|page| builds(page)) {
        let package = package(&arguments).unwrap().to_owned();
        // `NAME` is a crate of the reader. `bb-new` links nothing of `bb`, and examples are built for tests.
        let examples = arguments.iter().any(|word| word.starts_with("--example"));
        if package != "NAME" && package != "bb-new" && !examples {
            commands.insert((package, after(&arguments, "--features").map(str::to_owned)));
        }
    }
    assert!(commands.len() >= 15, "{commands:?}");
    // For each crate, each set of features with a command that has it.
    let mut sets: BTreeMap<String, BTreeMap<BTreeSet<String>, String>> = BTreeMap::new();
    for (package, features) in &commands {
        let command = format!("{package} {}", features.as_deref().unwrap_or_default());
        for (name, features) in selection(package, features.as_deref()) {
            sets.entry(name).or_default().entry(features).or_insert_with(|| command.clone());
        }
    }
    sets.retain(|name, sets| sets.len() > 1 && !OWN.contains(&name.split(' ').next().unwrap()));
    assert!(sets.is_empty(), "crates that are compiled twice: {sets:#?}");
}

/// A user of a model waits for the build of each crate.
#[test]
fn the_main_job_draws_in_nothing_else() {
    let main = builds(Path::new("README.md")).remove(0);
    let crates = selection(package(&main).unwrap(), None);
    let names: BTreeSet<&str> = crates.keys().filter_map(|name| name.split(' ').next()).collect();
    for other in [
        "clap",
        "tokenizers",
        "indicatif",
        "comfy-table",
        "bb-reference",
        "bb-whole-graph",
        "bb-cli",
        "bb-tests",
        "bb-onnx-cases",
        "bb-conformance",
        "bb-onnx-microsoft",
        "bb-onnx-ml",
        "bb-onnx-training",
        "bb-patterns",
        "bb-pictures",
        "image",
        "regex-automata",
        "ruzstd",
        "tar",
    ] {
        assert!(!names.contains(other), "{other}");
    }
    assert!(names.contains("bb") && names.contains("bb-cpu"), "{names:?}");
}

#[test]
fn the_readme_counts_the_crates_of_its_first_commands() {
    let commands = builds(Path::new("README.md"));
    let [first, second] = [0, 1].map(|at| selection(package(&commands[at]).unwrap(), None));
    let more = second.keys().filter(|name| !first.contains_key(*name)).count();
    let sentence = format!(
        "The first command builds {} crates, and the second builds {more} more. It does not build the {} that they share again.",
        first.len(),
        second.len() - more
    );
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(&sentence), "{sentence}");
}

/// Longer parts belong on pages of their own, because readers do not scroll through 8 kB.
#[test]
fn the_readme_is_short() {
    let bytes = std::fs::metadata(root().join("README.md")).unwrap().len();
    assert!(bytes <= 8 << 10, "README.md has {bytes} bytes, of which {} are allowed", 8 << 10);
}
