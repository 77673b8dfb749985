//! The names that a crate for a backend needs.

use crate::{Error, Result};

/// The names of a backend in different contexts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The name of the crate, as in `my-chip`.
    pub(crate) krate: String,
    /// The name of the crate in Rust paths, as in `my_chip`.
    pub(crate) module: String,
    /// The name that users open the backend by, as in `my-chip`.
    pub(crate) backend: String,
    /// The name of the type, as in `MyChip`.
    pub(crate) ty: String,
}

impl Names {
    /// Derives the names from the crate's name. `texts` are the Rust files that will contain them.
    ///
    /// # Errors
    ///
    /// [`Error::CrateName`] and [`Error::WordTaken`] if the crate would not compile with this name.
    pub(crate) fn of<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> Result<Names> {
        let letters =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'));
        let begins = name.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        let parts: Vec<&str> = name.split(['-', '_']).collect();
        if !letters || !begins || parts.iter().any(|part| part.is_empty()) {
            return Err(Error::CrateName { name: name.to_owned() });
        }
        let module = name.replace('-', "_");
        let ty = parts.iter().map(|part| {
            part.get(..1).unwrap_or_default().to_ascii_uppercase() + part.get(1..).unwrap_or_default()
        });
        let ty: String = ty.collect();
        let reserved = RESERVED.iter().find(|(words, _)| words.contains(&module.as_str()));
        let reason = match reserved {
            Some((_, reason)) => (*reason).to_owned(),
            None if texts.into_iter().any(|text| uses(text, &ty)) => {
                format!("its type would be `{ty}`, which is another type in its code")
            }
            None => return Ok(Names { krate: name.to_owned(), module, backend: name.replace('_', "-"), ty }),
        };
        Err(Error::WordTaken { name: name.to_owned(), reason })
    }
}

/// Returns whether Rust code contains a word outside of comments.
fn uses(code: &str, word: &str) -> bool {
    let lines = code.lines().filter_map(|line| line.split("//").next());
    lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).any(|found| found == word)
}

/// Words that cannot name a crate, with the reasons.
const RESERVED: &[(&[&str], &str)] = &[
    (
        &[
            "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
            "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
            "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
            "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe",
            "unsized", "use", "virtual", "where", "while", "yield",
        ],
        "it is a keyword of Rust",
    ),
    (
        &[
            "alloc",
            "bb",
            "bb_cli",
            "bb_conformance",
            "bb_core",
            "bb_cpu",
            "bb_derive",
            "bb_ir",
            "bb_layers",
            "bb_onnx",
            "bb_onnx_cases",
            "bb_onnx_microsoft",
            "bb_onnx_ml",
            "bb_onnx_training",
            "bb_operators",
            "bb_patterns",
            "bb_pictures",
            "core",
            "proc_macro",
            "ruzstd",
            "std",
            "test",
            "thiserror",
        ],
        "another crate in its build has this name",
    ),
    (&["build", "deps", "examples", "incremental"], "Cargo has a folder of this name in each build"),
    (&["aux", "con", "nul", "prn"], "Windows has no folder of this name"),
];

/// Returns whether a text between two `@` is the name of a placeholder.
#[cfg(test)]
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_that_of_the_crate() {
        let names = Names::of("my-chip_2", []).unwrap();
        assert_eq!((names.module.as_str(), names.ty.as_str()), ("my_chip_2", "MyChip2"));
        // Names of backends contain no underscores.
        assert_eq!(names.backend, "my-chip-2");
    }

    #[test]
    fn names_that_cargo_or_rust_refuse_are_errors() {
        for name in ["", "2chip", "My", "a--b", "-a", "a b", "é", "a/b", ".."] {
            assert!(matches!(Names::of(name, []), Err(Error::CrateName { .. })), "{name}");
        }
        for name in ["type", "unsized", "bb-cli", "bb-core", "bb_layers", "proc_macro", "examples", "nul"] {
            assert!(matches!(Names::of(name, []), Err(Error::WordTaken { .. })), "{name}");
        }
    }

    #[test]
    fn types_of_the_new_code_are_no_names() {
        let code = "use bb::{RoundMode}; // of a Device";
        assert!(matches!(Names::of("round-mode", [code]), Err(Error::WordTaken { .. })));
        for name in ["device", "round", "bb2"] {
            assert!(Names::of(name, [code]).is_ok(), "{name}");
        }
    }
}
