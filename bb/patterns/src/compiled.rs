//! Compiled patterns, and the registration of the regular expression engine.

use crate::search::Engines;
use bb_ir::pace::Pace;
use bb_ir::pattern::{Pattern, PatternEngine};
use std::ops::Range;

inventory::submit! {
    PatternEngine { name: env!("CARGO_PKG_NAME"), compile }
}

/// Compiles a pattern. The error describes the pattern's fault.
fn compile(text: &str) -> Result<Box<dyn Pattern>, String> {
    Ok(Box::new(Compiled::new(text)?))
}

/// A compiled pattern. When it is dropped, its automata are kept for the next pattern with the same text.
pub(crate) struct Compiled {
    text: String,
    /// `None` only during `drop`.
    engines: Option<Box<Engines>>,
    /// Counts the work of all searches, to check regularly whether the run must end.
    pace: Pace,
}

impl Compiled {
    /// Compiles a pattern. The error describes the pattern's fault.
    pub(crate) fn new(text: &str) -> Result<Compiled, String> {
        let engines = match idle::take(text) {
            Some(engines) => engines,
            None => Box::new(Engines::new(text)?),
        };
        Ok(Compiled { text: text.to_owned(), engines: Some(engines), pace: Pace::new() })
    }
}

impl Pattern for Compiled {
    fn find(&mut self, text: &[u8], mut from: usize) -> Result<Option<Range<usize>>, String> {
        let (Some(engines), pace) = (self.engines.as_mut(), &mut self.pace) else { return Ok(None) };
        while let Some(start) = engines.start(text, from, pace)? {
            match engines.longest_at(text, start, pace)? {
                Some(end) if end == start && is_inside_a_character(text, start) => from = start + 1,
                end => return Ok(end.map(|end| start..end)),
            }
        }
        Ok(None)
    }

    fn matches_all(&mut self, text: &[u8]) -> Result<bool, String> {
        let (Some(engines), pace) = (self.engines.as_mut(), &mut self.pace) else { return Ok(false) };
        Ok(engines.longest_at(text, 0, pace)? == Some(text.len()))
    }
}

fn is_inside_a_character(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80)
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(engines) = self.engines.take() {
            idle::put(std::mem::take(&mut self.text), engines);
        }
    }
}

/// A cache of compiled patterns that are not in use. Operators compile their patterns in each run, which takes longer than the search in a
/// short string.
mod idle {
    use super::Engines;
    use std::sync::Mutex;

    /// The maximum number of cached patterns.
    const PATTERNS: usize = 16;
    /// The maximum size of a cached pattern, in bytes.
    const BYTES: usize = 1 << 20;

    /// The cached patterns. The most recently used pattern is the last.
    static PATTERNS_KEPT: Mutex<Vec<(String, Box<Engines>)>> = Mutex::new(Vec::new());

    pub(super) fn take(text: &str) -> Option<Box<Engines>> {
        let mut kept = PATTERNS_KEPT.lock().ok()?;
        let at = kept.iter().position(|(own, _)| own == text)?;
        Some(kept.remove(at).1)
    }

    pub(super) fn put(text: String, engines: Box<Engines>) {
        if engines.bytes > BYTES {
            return;
        }
        if let Ok(mut kept) = PATTERNS_KEPT.lock() {
            if kept.len() == PATTERNS {
                kept.remove(0);
            }
            kept.push((text, engines));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn compiled(pattern: &str) -> Result<Compiled, String> {
        Compiled::new(pattern)
    }

    fn all(pattern: &str, text: &str) -> Vec<String> {
        let (mut pattern, mut from, mut found) = (compiled(pattern).unwrap(), 0, Vec::new());
        while let Some(at) = pattern.find(text.as_bytes(), from).unwrap().filter(|at| !at.is_empty()) {
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
    fn an_empty_match_is_not_inside_a_character() {
        let mut pattern = compiled(r"\B").unwrap();
        assert_eq!(pattern.find("é".as_bytes(), 1), Ok(Some(2..2)));
        assert_eq!(compiled(r"\C").unwrap().find("é".as_bytes(), 1), Ok(Some(1..2)));
    }

    /// Tests a pattern whose automata need more states than the cache keeps.
    #[test]
    fn many_states_are_built_again() {
        let text: String = (0u32..20_000)
            .map(|i| if i.wrapping_mul(2_654_435_761) >> 31 == 0 { 'a' } else { 'b' })
            .collect();
        let mut pattern = compiled("a[ab]{13}c").unwrap();
        assert_eq!(pattern.find(text.as_bytes(), 0), Ok(None));
        let text = text + "abbbbbbbbbbbbbc";
        let found = pattern.find(text.as_bytes(), 0).unwrap();
        assert!(found.is_some_and(|at| at.end == text.len() && at.len() == 15));
    }

    #[test]
    fn patterns_are_kept_for_the_next_run() {
        let text = "kept for the next run|a";
        assert!(idle::take(text).is_none());
        drop(compiled(text).unwrap());
        assert!(idle::take(text).is_some());
        assert!(idle::take(text).is_none());
    }

    #[test]
    fn a_pattern_that_compiles_to_too_much_is_refused() {
        let problem = compiled(&r"(\pL{30}){30}".repeat(4)).err().unwrap();
        assert!(problem.contains("exceeded limit"), "{problem}");
    }
}
