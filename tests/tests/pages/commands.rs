//! Tests that the commands in the README build nothing twice.
//!
//! Cargo compiles a crate again for each other set of its features, and with it all crates that use it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate with its sets of features. A crate may have two sets: one for programs and one for macros.
type Selection = BTreeMap<String, BTreeSet<String>>;

/// The programs that need more of a shared library than the others; their page says so.
const APART: [&str; 2] = ["llm", "semantic-search"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns Cargo's arguments in each `cargo run` of a page that chooses no features, without the program's arguments.
fn runs(page: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut runs = Vec::new();
    for (at, _) in text.match_indices("cargo run ") {
        let command = text.get(at..).unwrap().split(['`', '\n']).next().unwrap();
        let words = command.split_whitespace().skip(2).take_while(|word| *word != "--");
        runs.push(words.map(str::to_owned).collect());
    }
    runs
}

/// Returns the package that the arguments name.
fn package(arguments: &[String]) -> &str {
    let at = arguments.iter().position(|word| word == "-p");
    at.and_then(|at| arguments.get(at + 1)).unwrap_or_else(|| panic!("no package: cargo run {arguments:?}"))
}

/// Asks Cargo for the crates that a package selects, and their features.
fn selection(package: &str) -> Selection {
    let done = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}|{f}",
            "--package",
        ])
        .arg(package)
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
fn commands_agree_on_the_features_of_what_they_share() {
    let mut commands = runs("README.md");
    assert!(commands.len() >= 2, "{commands:?}");
    commands.extend(runs("bb/docs/programs.md"));
    let mut packages = BTreeSet::new();
    for arguments in &commands {
        assert!(arguments.iter().any(|word| word == "--release"), "another profile: {arguments:?}");
        packages.insert(package(arguments));
    }
    packages.retain(|package| !APART.contains(package));
    let selections: Vec<(&str, Selection)> =
        packages.into_iter().map(|name| (name, selection(name))).collect();
    let mut differences = Vec::new();
    for (n, (one, crates)) in selections.iter().enumerate() {
        for (other, others) in selections.iter().skip(n + 1) {
            for (name, features) in crates {
                let Some(theirs) = others.get(name) else { continue };
                if !features.is_subset(theirs) && !theirs.is_subset(features) {
                    differences.push(format!("{name}: {one} {features:?}, {other} {theirs:?}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "crates that are compiled twice:\n{}", differences.join("\n"));
}

/// A user of a model waits for the build of each crate.
#[test]
fn the_main_job_draws_in_nothing_else() {
    let main = runs("README.md").remove(0);
    let crates = selection(package(&main));
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
    let commands = runs("README.md");
    let [first, second] = [0, 1].map(|at| selection(package(&commands[at])));
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
