//! Tests that each package uses the crates that it depends on.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the folders of the workspace's members, from its manifest.
fn members() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let list = manifest.split_once("\nmembers = [").unwrap().1.split_once(']').unwrap().0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Collects the words in the Rust files of a package below a folder, and in the pages whose programs they test. A folder with a
/// manifest is another package.
fn words(folder: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.join("Cargo.toml").exists() && !path.ends_with("target") {
                words(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let included = text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split_once('"'));
            let pages = included.map(|(page, _)| path.with_file_name(page));
            let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
            for text in
                std::iter::once(text.clone()).chain(pages.map(|page| fs::read_to_string(page).unwrap()))
            {
                let split = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                found.extend(split.map(str::to_owned));
            }
        }
    }
}

/// Returns the names of the crates in the sections of a manifest whose title the condition accepts, except those that are there only for
/// their features, which other crates use.
fn asked_for(manifest: &str, section: impl Fn(&str) -> bool) -> Vec<String> {
    let mut within = false;
    let mut crates = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = section(line.trim_matches(['[', ']']));
        } else if within
            && line.starts_with(|c: char| c.is_ascii_alphabetic())
            && !line.ends_with("# only for its features")
        {
            crates.push(line.split(['.', ' ', '=']).next().unwrap().to_owned());
        }
    }
    crates
}

#[test]
fn packages_use_the_crates_that_they_ask_for() {
    let mut unused = Vec::new();
    for member in members() {
        let folder = root().join(&member);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let (mut library, mut all) = (BTreeSet::new(), BTreeSet::new());
        words(&folder.join("src"), &mut library);
        words(&folder, &mut all);
        let normal = |title: &str| title.ends_with("dependencies") && !title.ends_with("dev-dependencies");
        for name in asked_for(&manifest, normal) {
            if !library.contains(&name.replace('-', "_")) {
                unused.push(format!("{member}: {name}"));
            }
        }
        for name in asked_for(&manifest, |title| title.ends_with("dev-dependencies")) {
            if !all.contains(&name.replace('-', "_")) {
                unused.push(format!("{member}, for tests: {name}"));
            }
        }
    }
    assert!(unused.is_empty(), "crates that no line names: {unused:#?}");
}
