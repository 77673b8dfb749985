//! Tests of the words in sources and pages: a name of a type says which one it is, and a sentence has a noun as its subject.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many modules may define a public or crate-visible type of one name.
const MODULES: usize = 3;

/// Names that each crate may define once, because Rust's convention is that the crate's path says which one it is.
const OF_EACH_CRATE: [&str; 2] = ["Error", "Result"];

/// Phrases that stand where a noun belongs, word by word.
///
/// `whoever writes` is `the kernel that writes`, `as good as left out` is `treated like an absent one`, and `is none of the words` is
/// `is not one of the words`.
const PHRASES: [&[&str]; 16] = [
    &["what", "has"],
    &["whoever"],
    &["as", "good", "as"],
    &["nobody", "reads"],
    &["in", "vain"],
    &["is", "none", "of"],
    &["are", "none", "of"],
    &["be", "none", "of"],
    &["has", "none", "of"],
    &["have", "none", "of"],
    &["takes", "none", "of"],
    &["in", "none", "of"],
    &["and", "none", "of"],
    &["or", "none", "of"],
    &["there", "is", "none", "of"],
    &["there", "are", "none", "of"],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Collects the files below a folder that have one of the extensions. Builds, packages of others and hidden folders are left out.
fn files(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | "node_modules" | "corpus" | "shared")
                && !name.starts_with('.')
            {
                files(&path, extensions, found);
            }
        } else if path.extension().is_some_and(|own| extensions.iter().any(|one| own == *one)) {
            found.push(path);
        }
    }
}

/// Returns the files that people write, with their places in the repository and their texts.
fn sources(extensions: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    files(&root, extensions, &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let place = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        // Generated files: the expansions of the derive, the crates of `bb new`, and the schemas.
        let written = place.ends_with(".expanded.rs")
            || place.starts_with("tests/tests/authors/started_")
            || place == "bb-ir/src/opset/schemas.rs";
        let text = (!written).then(|| fs::read_to_string(&path).ok()).flatten()?;
        let generated = text.lines().take(3).any(|line| line.contains("@generated"));
        (!generated).then_some((place, text))
    };
    let sources: Vec<_> = found.into_iter().filter_map(read).collect();
    assert!(sources.len() > 50, "{} files", sources.len());
    sources
}

/// Returns the name of the type that a line defines for other modules of its crate or for all.
fn defined(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))?;
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let kinds = ["struct ", "enum ", "union ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Returns the folder of the crate of a file: the part of the path before `src`, `tests` and the like.
fn crate_of(place: &str) -> &str {
    ["/src/", "/tests/", "/benches/", "/examples/"]
        .iter()
        .filter_map(|part| place.rfind(part))
        .max()
        .map_or(place, |end| place.get(..end).unwrap_or(place))
}

#[test]
fn a_name_is_that_of_few_types() {
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // Each file of `ui-tests` is a program of an author of its own.
    for (place, text) in sources(&["rs"]).into_iter().filter(|(place, _)| !place.starts_with("ui-tests/")) {
        for name in text.lines().filter_map(defined) {
            modules.entry(name.to_owned()).or_default().insert(place.clone());
        }
    }
    assert!(modules.len() > 500, "{} names", modules.len());
    let mut wrong = Vec::new();
    for (name, places) in &modules {
        let crates: BTreeSet<&str> = places.iter().map(|place| crate_of(place)).collect();
        let fits = if OF_EACH_CRATE.contains(&name.as_str()) {
            crates.len() == places.len()
        } else {
            places.len() <= MODULES
        };
        if !fits {
            wrong.push(format!("`{name}`: {}", places.iter().cloned().collect::<Vec<_>>().join(", ")));
        }
    }
    assert!(wrong.is_empty(), "names of too many types:\n{}", wrong.join("\n"));
}

/// Splits a text into lower-case words with their lines. Marks of comments are no words, so that phrases go on in the next line; a
/// stop or a comma ends a phrase.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim_start().trim_start_matches(['/', '!', '#', '*']);
        for word in text.split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            if !bare.is_empty() {
                words.push((line, bare.to_lowercase()));
            }
            if word.ends_with(['.', ',', ';', ':', '"', '`', ')']) {
                words.push((line, String::new()));
            }
        }
    }
    words
}

#[test]
fn phrases_have_nouns() {
    let mut wrong = Vec::new();
    let kinds = ["rs", "md", "py", "pyi", "js", "mjs", "ts"];
    // This file lists the phrases.
    for (place, text) in
        sources(&kinds).into_iter().filter(|(place, _)| place != "tests/tests/pages/words.rs")
    {
        let words = words(&text);
        for phrase in PHRASES {
            for window in words.windows(phrase.len()) {
                if window.iter().map(|(_, word)| word.as_str()).eq(phrase.iter().copied())
                    && let [(line, _), ..] = window
                {
                    wrong.push(format!("{place}:{line}: {}", phrase.join(" ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} phrases without a noun:\n{}", wrong.len(), wrong.join("\n"));
}
