//! Regular expressions in the syntax of RE2, matched by the linked engine.
//!
//! Matching takes time proportional to the lengths of the text and the pattern. Of the matches that start first, the
//! longest is returned.

use bb_core::error::Library;
pub(super) use bb_ir::pattern::Pattern;
use bb_ir::pattern::{PatternEngine, engine};

/// Returns the description of the missing engine, if none is linked.
pub fn unlinked() -> Option<Library> {
    let library = Library { what: "an engine of patterns", feature: "regex", package: "bb_patterns" };
    engine().is_none().then_some(library)
}

/// Compiles a pattern. The error says why the pattern is invalid, or that no engine is linked.
pub fn compiled(text: &str) -> Result<Box<dyn Pattern>, String> {
    compiled_by(engine(), text)
}

fn compiled_by(engine: Option<&PatternEngine>, text: &str) -> Result<Box<dyn Pattern>, String> {
    match engine {
        Some(engine) => (engine.compile)(text),
        None => Err(format!(
            "is `{text}`, which needs an engine of patterns: the feature `regex` of `bb`, or `use bb_patterns as _;`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_the_error_says_what_to_write() {
        let problem = compiled_by(None, "a+").err().unwrap_or_default();
        for text in ["`a+`", "the feature `regex` of `bb`", "`use bb_patterns as _;`"] {
            assert!(problem.contains(text), "{problem}");
        }
    }
}
