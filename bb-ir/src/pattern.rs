//! The interface between operators on strings and the crates that match regular expressions.
//!
//! A crate with a regular-expression engine submits a [`PatternEngine`]. A program links the crate with `use bb_patterns as _;`.
//! This crate contains no engine.

use std::ops::Range;
use std::sync::OnceLock;

/// A compiled pattern.
///
/// For all texts and patterns, the search time must be at most proportional to the product of their lengths. A search counts its work
/// with a [`Pace`](crate::pace::Pace), so it may unwind. A text may contain any bytes.
pub trait Pattern {
    /// Finds the first match that starts at `from` or later; if several matches start there, the longest. The text before `from` is
    /// context for assertions. An empty match inside a character is not reported.
    ///
    /// # Errors
    ///
    /// The reason why the engine gave up, as the end of a sentence.
    fn find(&mut self, text: &[u8], from: usize) -> Result<Option<Range<usize>>, String>;

    /// Returns whether the pattern matches the whole text.
    ///
    /// # Errors
    ///
    /// The reason why the engine gave up, as the end of a sentence.
    fn matches_all(&mut self, text: &[u8]) -> Result<bool, String>;
}

/// Compiles a pattern.
///
/// The pattern may be untrusted, so the function must not panic, and must limit its allocations.
///
/// # Errors
///
/// The problem of the pattern, as the end of a sentence: ``is `(`, which is no pattern: …``.
pub type Compile = fn(&str) -> Result<Box<dyn Pattern>, String>;

/// An engine for patterns in the syntax of RE2. A crate submits its engine with `inventory::submit!`.
#[derive(Debug, Clone, Copy)]
pub struct PatternEngine {
    /// The crate's name. If several engines are linked, the first one by name is used.
    pub name: &'static str,
    /// Compiles a pattern.
    pub compile: Compile,
}

inventory::collect!(PatternEngine);

/// Returns the linked engine, or `None` if no engine is linked.
pub fn engine() -> Option<&'static PatternEngine> {
    static ENGINE: OnceLock<Option<&'static PatternEngine>> = OnceLock::new();
    *ENGINE.get_or_init(|| inventory::iter::<PatternEngine>().min_by_key(|engine| engine.name))
}
