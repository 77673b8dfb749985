//! `bb new`: writes a crate for a backend. The crate compiles, and its tests report what to write next.
//!
//! This is a separate crate that does not depend on `bb`, so that `cargo run -p bb-new` builds in seconds.

mod error;
mod names;

pub use error::Error;

use names::Names;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Error>;

/// The methods of the primitives, without implementations. A test of the command line checks them against the table of primitives.
pub const STUBS: &str = include_str!("template/stubs.txt");

/// The names of the backends and layers of this repository.
const BACKENDS: &[&str] = &[
    "cpu",
    "ort",
    "ort-provider",
    "ort-strict",
    "reference",
    "replay",
    "rten",
    "rten-primitives",
    "rten-strict",
    "wgpu",
    "whole-graph",
];
const LAYERS: &[&str] = &["check", "fault", "limit", "log", "metrics", "record", "trace"];

/// The files of a new crate: their paths and texts. Placeholders `@…@` are replaced by names.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/cargo.txt")),
    ("README.md", include_str!("template/readme.txt")),
    (".gitignore", "/target\n"),
    (".github/workflows/ci.yml", include_str!("template/ci.txt")),
    ("src/error.rs", include_str!("template/error.txt")),
    ("src/tensor.rs", include_str!("template/tensor.txt")),
    ("src/main.rs", include_str!("template/main.txt")),
    ("tests/conformance.rs", include_str!("template/conformance.txt")),
];

/// The arguments of `bb new`.
#[derive(Debug, clap::Args)]
pub struct New {
    /// The name of the crate and of the backend: small letters, digits, `-` and `_`, which becomes `-` in the name of the backend
    pub name: String,
    /// Write a backend that runs whole graphs, instead of one method per primitive
    #[arg(long)]
    pub whole_graph: bool,
    /// The folder to write [default: one of the crate's name]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// A checkout of `bb` to depend on: this or `--git` is needed, because `bb` has no release
    #[arg(long, value_name = "DIR", conflicts_with = "git")]
    pub bb: Option<PathBuf>,
    /// The address of a git repository of `bb` to depend on
    #[arg(long, value_name = "URL")]
    pub git: Option<String>,
}

impl New {
    /// Writes the crate. Returns its folder.
    ///
    /// # Errors
    ///
    /// [`Error`] if the name is not allowed, if no source of `bb` was passed, or if the folder is not empty or cannot be written.
    pub fn write(&self) -> Result<PathBuf> {
        let library = match self.whole_graph {
            true => include_str!("template/graph.txt"),
            false => include_str!("template/kernels.txt"),
        };
        let files = FILES.iter().copied().chain([("src/lib.rs", library)]);
        let code = files.clone().filter(|(place, _)| place.ends_with(".rs")).map(|(_, text)| text);
        let names = Names::of(&self.name, code.chain([STUBS]))?;
        refuse_taken(&names.backend)?;
        let folder = self.folder.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        // A folder that is not empty is not overwritten.
        let taken = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
        if taken || folder.is_file() {
            return Err(Error::FolderTaken { path: folder });
        }
        let dependency = dependency(self.bb.as_deref(), self.git.as_deref(), &folder)?;
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        for (place, text) in files {
            let path = folder.join(place);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(io(parent))?;
            }
            std::fs::write(&path, filled(text, &names, &dependency)).map_err(io(&path))?;
        }
        Ok(folder)
    }
}

/// Returns the message for the user after a crate was written.
pub fn written(folder: &Path) -> String {
    format!("a crate that compiles is in `{}`; there, `cargo test` says what to write", folder.display())
}

/// Returns an error if a backend or a layer of this repository has the name, because no program could link both.
fn refuse_taken(name: &str) -> Result<()> {
    match bundled(name) {
        Some(holder) => Err(Error::NameTaken { name: name.to_owned(), holder }),
        None => Ok(()),
    }
}

/// Returns "backend" or "layer" if this repository has one with the name.
pub fn bundled(name: &str) -> Option<&'static str> {
    match name {
        _ if BACKENDS.contains(&name) => Some("backend"),
        _ if LAYERS.contains(&name) => Some("layer"),
        _ => None,
    }
}

/// Returns the sources of `bb` and `bb-cli` for a manifest, which are paths in a checkout or a git repository.
///
/// There is no default, because the crate `bb` in the registry is another project.
fn dependency(checkout: Option<&Path>, git: Option<&str>, folder: &Path) -> Result<[String; 2]> {
    match (checkout, git) {
        (Some(checkout), _) => in_checkout(checkout, folder),
        (None, Some(url)) if url.contains("://") => {
            let source = format!("git = {}", quoted(url));
            Ok([source.clone(), source])
        }
        (None, Some(url)) => Err(Error::GitUrl { url: url.to_owned() }),
        (None, None) => Err(Error::NoSource),
    }
}

/// Returns the sources in a checkout. A relative path to the checkout is converted to a path relative to the crate's folder.
fn in_checkout(checkout: &Path, folder: &Path) -> Result<[String; 2]> {
    let found = checkout.join("bb/Cargo.toml").is_file() && checkout.join("cli/Cargo.toml").is_file();
    let absolute = checkout.canonicalize().ok().filter(|_| found);
    let absolute = absolute.ok_or_else(|| Error::NoCheckout { path: checkout.to_owned() })?;
    let from = std::path::absolute(folder).ok().filter(|_| checkout.is_relative());
    let path = from.map_or(absolute.clone(), |from| seen_from(&from, &absolute));
    let text = path.to_string_lossy().replace('\\', "/");
    Ok(["bb", "cli"].map(|part| format!("path = {}", quoted(&format!("{text}/{part}")))))
}

/// Returns the relative path from one absolute folder to another.
fn seen_from(from: &Path, to: &Path) -> PathBuf {
    let from = plain(from);
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    // Without a common prefix, the folders are on different drives, so there is no relative path.
    if common == 0 {
        return to.to_owned();
    }
    let up = from.components().skip(common).map(|_| "..");
    up.map(PathBuf::from)
        .chain(to.components().skip(common).map(|part| PathBuf::from(part.as_os_str())))
        .collect()
}

/// Resolves the links in the existing part of a path, and `..` in the rest.
fn plain(path: &Path) -> PathBuf {
    for parent in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (parent.canonicalize(), path.strip_prefix(parent)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

/// Formats a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Replaces the placeholders in a text.
fn filled(text: &str, names: &Names, [bb, cli]: &[String; 2]) -> String {
    text.replace("@name@", &names.backend)
        .replace("@crate@", &names.krate)
        .replace("@module@", &names.module)
        .replace("@Type@", &names.ty)
        .replace("@stubs@", STUBS.trim_end())
        .replace("@bb@", bb)
        .replace("@cli@", cli)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The generated files are equal to the committed files, which other tests compile.
    #[test]
    fn the_tests_compile_what_is_written() {
        let dependency = dependency(None, Some("https://example.org/bb.git"), Path::new("x")).unwrap();
        for (text, committed) in [
            (include_str!("template/kernels.txt"), "started_kernels/lib.rs"),
            (include_str!("template/graph.txt"), "started_graph/lib.rs"),
            (include_str!("template/error.txt"), "started_kernels/error.rs"),
            (include_str!("template/error.txt"), "started_graph/error.rs"),
            (include_str!("template/tensor.txt"), "started_kernels/tensor.rs"),
            (include_str!("template/tensor.txt"), "started_graph/tensor.rs"),
        ] {
            let names = Names::of(committed.split_once('/').unwrap().0, []).unwrap();
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tests/authors").join(committed);
            let written = filled(text, &names, &dependency);
            if std::env::var_os("BB_WRITE").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &written).unwrap();
            }
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(there, written, "{committed}; BB_WRITE=1 writes it");
        }
    }

    #[test]
    fn a_checkout_is_seen_from_the_folder_of_the_crate() {
        let root = std::env::temp_dir().canonicalize().unwrap();
        for (from, to, expected) in
            [("a/chip", "a/bb", "../bb"), ("chip", "a/bb", "../a/bb"), ("a/bb/chips/one", "a/bb", "../..")]
        {
            assert_eq!(seen_from(&root.join(from), &root.join(to)), Path::new(expected), "{from}");
        }
    }

    #[test]
    fn strings_of_manifests_are_quoted() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\u000ad""#);
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let names = Names::of("my-chip", []).unwrap();
        let dependency = dependency(None, Some("https://example.org/bb.git"), Path::new("x")).unwrap();
        for (place, text) in FILES {
            let text = filled(text, &names, &dependency);
            assert!(!text.split('@').skip(1).step_by(2).any(names::is_word), "{place}: {text}");
        }
    }
}
