//! The interface between operators on strings and the crates that match regular expressions.
//!
//! A crate with an engine submits a [`PatternEngine`], and a program that uses it links the crate: `use bb_patterns as _;`. This crate
//! contains no engine.

use std::ops::Range;
use std::sync::OnceLock;

/// A compiled pattern.
///
/// The search time is proportional to the lengths of the text and the pattern, whatever they are. A search counts its work with a
/// [`Pace`](crate::pace::Pace), so that it may unwind. A text may be any bytes.
pub trait Pattern {
    /// Finds the first match at or after `from`; among the matches that start there, the longest. The text before `from` is context. An
    /// empty match inside a character does not count.
    ///
    /// # Errors
    ///
    /// The reason why the engine gave up, as the end of a sentence.
    fn find(&mut self, text: &[u8], from: usize) -> Result<Option<Range<usize>>, String>;

    /// Returns whether the whole text is a match.
    ///
    /// # Errors
    ///
    /// The reason why the engine gave up, as the end of a sentence.
    fn matches_all(&mut self, text: &[u8]) -> Result<bool, String>;
}

/// Compiles a pattern.
///
/// The pattern may be untrusted, so the function must neither panic nor allocate without a bound.
///
/// # Errors
///
/// The fault of the pattern, as the end of a sentence: ``is `(`, which is no pattern: …``.
pub type Compile = fn(&str) -> Result<Box<dyn Pattern>, String>;

/// An engine for patterns of the syntax of RE2, which a crate submits with `inventory::submit!`.
#[derive(Debug, Clone, Copy)]
pub struct PatternEngine {
    /// The crate's name. If several engines are linked, the first one by name is used.
    pub name: &'static str,
    /// Compiles a pattern.
    pub compile: Compile,
}

inventory::collect!(PatternEngine);

/// Returns the engine, if one is linked.
pub fn engine() -> Option<&'static PatternEngine> {
    static ENGINE: OnceLock<Option<&'static PatternEngine>> = OnceLock::new();
    *ENGINE.get_or_init(|| inventory::iter::<PatternEngine>().min_by_key(|engine| engine.name))
}
