//! The names that a crate for a backend needs.

use crate::error::{Error, Result};

/// What a backend is called in different places.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// The crate, as in `my-chip`.
    pub(super) krate: String,
    /// The crate in paths, as in `my_chip`.
    pub(super) module: String,
    /// The name under which the backend is found, as in `my-chip`.
    pub(super) backend: String,
    /// The type, as in `MyChip`.
    pub(super) ty: String,
}

impl Names {
    /// Makes the names from that of the crate.
    ///
    /// # Errors
    ///
    /// [`Error::CrateName`] if Cargo or Rust would refuse it.
    pub(super) fn of(name: &str) -> Result<Names> {
        let letters =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'));
        let begins = name.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        let parts: Vec<&str> = name.split(['-', '_']).collect();
        let module = name.replace('-', "_");
        if !letters || !begins || parts.iter().any(|part| part.is_empty()) || TAKEN.contains(&module.as_str())
        {
            return Err(Error::CrateName { name: name.to_owned() });
        }
        let ty = parts.iter().map(|part| {
            part.get(..1).unwrap_or_default().to_ascii_uppercase() + part.get(1..).unwrap_or_default()
        });
        Ok(Names { krate: name.to_owned(), module, backend: name.replace('_', "-"), ty: ty.collect() })
    }
}

/// Names that other crates or Rust have.
const TAKEN: &[&str] = &[
    "alloc",
    "as",
    "async",
    "await",
    "bb",
    "bb_cli",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "dep",
    "do",
    "dyn",
    "else",
    "enum",
    "error",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "result",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "tensor",
    "test",
    "thiserror",
    "trait",
    "true",
    "try",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
    "yield",
];

/// Tells whether a text between two marks is a name of a mark.
#[cfg(test)]
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_that_of_the_crate() {
        let names = Names::of("my-chip_2").unwrap();
        assert_eq!((names.module.as_str(), names.ty.as_str()), ("my_chip_2", "MyChip2"));
        // Names of backends have no underscores.
        assert_eq!(names.backend, "my-chip-2");
    }

    #[test]
    fn names_that_cargo_or_rust_refuse_are_errors() {
        for name in ["", "2chip", "My", "a--b", "-a", "a b", "é", "type", "bb", "a/b", "tensor", ".."] {
            assert!(Names::of(name).is_err(), "{name}");
        }
    }
}
