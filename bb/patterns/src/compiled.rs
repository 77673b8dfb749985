//! Compiled patterns, and the engine that this crate submits.

use crate::search::Engines;
use bb_ir::pace::Pace;
use bb_ir::pattern::{Classes, Pattern, PatternEngine};
use std::ops::Range;

inventory::submit! {
    PatternEngine { name: env!("CARGO_PKG_NAME"), compile }
}

/// Compiles a pattern, or says what is wrong with it.
fn compile(text: &str, classes: Classes) -> Result<Box<dyn Pattern>, String> {
    Ok(Box::new(Compiled::new(text, classes)?))
}

/// A compiled pattern. When it is dropped, the next one of the same text takes its automata.
pub(crate) struct Compiled {
    text: String,
    classes: Classes,
    /// `None` only while it is dropped.
    engines: Option<Box<Engines>>,
    /// Counts the work of all searches.
    pace: Pace,
}

impl Compiled {
    /// Compiles a pattern, or says what is wrong with it.
    pub(crate) fn new(text: &str, classes: Classes) -> Result<Compiled, String> {
        let engines = match idle::take(text, classes) {
            Some(engines) => engines,
            None => Box::new(Engines::new(text, classes)?),
        };
        Ok(Compiled { text: text.to_owned(), classes, engines: Some(engines), pace: Pace::new() })
    }
}

impl Pattern for Compiled {
    fn find(&mut self, text: &str, from: usize) -> Option<Range<usize>> {
        let (engines, pace) = (self.engines.as_mut()?, &mut self.pace);
        let start = engines.start(text, from, pace)?;
        engines.longest_at(text, start, pace).map(|end| start..end)
    }

    fn matches_all(&mut self, text: &str) -> bool {
        let pace = &mut self.pace;
        self.engines.as_mut().is_some_and(|engines| engines.longest_at(text, 0, pace) == Some(text.len()))
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(engines) = self.engines.take() {
            idle::put(std::mem::take(&mut self.text), self.classes, engines);
        }
    }
}

/// Compiled patterns that nobody uses. Operators compile their patterns in each run, which takes longer than a short
/// text.
mod idle {
    use super::{Classes, Engines};
    use std::sync::Mutex;

    /// The most patterns that are kept.
    const PATTERNS: usize = 16;
    /// The most bytes of a pattern that is kept.
    const BYTES: usize = 1 << 20;

    /// The patterns, of which the last was used last.
    static PATTERNS_KEPT: Mutex<Vec<(String, Classes, Box<Engines>)>> = Mutex::new(Vec::new());

    pub(super) fn take(text: &str, classes: Classes) -> Option<Box<Engines>> {
        let mut kept = PATTERNS_KEPT.lock().ok()?;
        let at = kept.iter().position(|(own, own_classes, _)| own == text && *own_classes == classes)?;
        Some(kept.remove(at).2)
    }

    pub(super) fn put(text: String, classes: Classes, engines: Box<Engines>) {
        if engines.bytes > BYTES {
            return;
        }
        if let Ok(mut kept) = PATTERNS_KEPT.lock() {
            if kept.len() == PATTERNS {
                kept.remove(0);
            }
            kept.push((text, classes, engines));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ascii(pattern: &str) -> Result<Compiled, String> {
        Compiled::new(pattern, Classes::Ascii)
    }

    fn all(pattern: &str, text: &str) -> Vec<String> {
        let (mut pattern, mut from, mut found) = (ascii(pattern).unwrap(), 0, Vec::new());
        while let Some(at) = pattern.find(text, from).filter(|at| !at.is_empty()) {
            found.push(text[at.clone()].to_owned());
            from = at.end;
        }
        found
    }

    #[test]
    fn the_longest_of_the_first_matches_counts() {
        assert_eq!(all("a|ab", "xab"), ["ab"]);
        assert_eq!(all("a+?", "aaa"), ["aaa"]);
        assert_eq!(all("ab|bcd", "abcd"), ["ab"]);
    }

    #[test]
    fn classes_are_of_ascii_and_letters_of_unicode() {
        assert_eq!(all(r"\w+", "naïve_1"), ["na", "ve_1"]);
        assert_eq!(all(r"[\w-]+", "a-b é"), ["a-b"]);
        assert_eq!(all(r"\bab", "éab"), ["ab"]);
        assert_eq!(all(r"\pL+", "aЖ1"), ["aЖ"]);
        assert_eq!(all("(?i)é", "É"), ["É"]);
    }

    #[test]
    fn classes_of_unicode_are_of_all_letters() {
        let matches = |text: &str| Compiled::new(r"\w+", Classes::Unicode).unwrap().matches_all(text);
        assert!(matches("naïve_1") && !matches("a b"));
    }

    #[test]
    fn operators_of_the_engine_alone_are_letters() {
        assert_eq!(all("[--]", "a-b"), ["-"]);
        assert_eq!(all("[a&&b]+", "a&b"), ["a&b"]);
        assert_eq!(all("[[]", "a[b"), ["["]);
        assert_eq!(all("[]a]+", "a]b"), ["a]"]);
        assert_eq!(all(r"\Qa.<_\E+", "a.<__ axb"), ["a.<__"]);
        assert_eq!(all(r"\<b", "<b"), ["<b"]);
        assert_eq!(all("[[:alpha:]_]+", "a_1"), ["a_"]);
    }

    #[test]
    fn all_of_a_text_is_matched_or_not() {
        let matches = |pattern: &str, text: &str| ascii(pattern).unwrap().matches_all(text);
        assert!(matches("a|ab", "ab") && matches("", "") && matches("^a.c$", "abc"));
        assert!(!matches("a", "ab") && !matches("b", "ab") && !matches("a.c", "a\nc"));
    }

    /// A pattern whose automata need more states than are kept.
    #[test]
    fn many_states_are_built_again() {
        let text: String = (0u32..20_000)
            .map(|i| if i.wrapping_mul(2_654_435_761) >> 31 == 0 { 'a' } else { 'b' })
            .collect();
        let mut pattern = ascii("a[ab]{13}c").unwrap();
        assert_eq!(pattern.find(&text, 0), None);
        let text = text + "abbbbbbbbbbbbbc";
        assert!(pattern.find(&text, 0).is_some_and(|at| at.end == text.len() && at.len() == 15));
    }

    #[test]
    fn patterns_are_kept_for_the_next_run() {
        let text = "kept for the next run|a";
        drop(ascii(text).unwrap());
        assert!(idle::take(text, Classes::Unicode).is_none());
        assert!(idle::take(text, Classes::Ascii).is_some());
        assert!(idle::take(text, Classes::Ascii).is_none());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["(", "[a", "*", r"(?=a)", r"\1", "a{100000}{100000}"] {
            assert!(ascii(pattern).is_err(), "{pattern}");
        }
    }
}
