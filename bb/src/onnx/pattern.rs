//! Regular expressions of the syntax of RE2.
//!
//! Matching takes time in proportion to the text and the pattern, whatever they are. Of the matches that start first the
//! longest counts.

#[cfg(feature = "regex")]
mod simulation;
#[cfg(feature = "regex")]
mod walk;

#[cfg(feature = "regex")]
pub(super) use with_feature::Pattern;
#[cfg(not(feature = "regex"))]
pub(super) use without_feature::Pattern;

/// What `\w`, `\d`, `\s` and `\b` are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Classes {
    /// ASCII, as RE2 has it.
    Ascii,
    /// Unicode, as ONNX's evaluator has it.
    Unicode,
}

/// What needs the feature refuses every pattern without it.
#[cfg(not(feature = "regex"))]
mod without_feature {
    use std::ops::Range;

    /// A compiled pattern, which cannot exist here.
    pub(in crate::onnx) enum Pattern {}

    impl Pattern {
        /// Says what is missing.
        pub(in crate::onnx) fn new(text: &str, _classes: super::Classes) -> Result<Pattern, String> {
            Err(format!("`{text}` needs the feature `regex` of `bb`"))
        }

        pub(in crate::onnx) fn find(&mut self, _text: &str, _from: usize) -> Option<Range<usize>> {
            match *self {}
        }

        pub(in crate::onnx) fn matches_all(&mut self, _text: &str) -> bool {
            match *self {}
        }
    }
}

#[cfg(feature = "regex")]
mod with_feature {
    use super::Classes;
    use super::simulation::Simulation;
    use super::walk::Automaton;
    use bb_ir::pace::Pace;
    use regex_automata::MatchKind;
    use regex_automata::nfa::thompson::{Compiler, Config as Limits, NFA, WhichCaptures};
    use std::ops::Range;
    use std::sync::Mutex;

    /// The most bytes that a compiled pattern takes.
    const MOST: usize = 10 << 20;

    /// A compiled pattern. When it is dropped, the next one of the same text takes its automata.
    pub(in crate::onnx) struct Pattern {
        text: String,
        classes: Classes,
        /// `None` only while it is dropped.
        engines: Option<Box<Engines>>,
        /// Counts the work of all searches.
        pace: Pace,
    }

    impl Pattern {
        /// Compiles a pattern, or says what is wrong with it.
        pub(in crate::onnx) fn new(text: &str, classes: Classes) -> Result<Pattern, String> {
            let engines = match idle::take(text, classes) {
                Some(engines) => engines,
                None => Box::new(Engines::new(text, classes)?),
            };
            Ok(Pattern { text: text.to_owned(), classes, engines: Some(engines), pace: Pace::new() })
        }

        /// Finds the first match at or after `from`, and of those the longest; what is before `from` counts as context.
        pub(in crate::onnx) fn find(&mut self, text: &str, from: usize) -> Option<Range<usize>> {
            let (engines, pace) = (self.engines.as_mut()?, &mut self.pace);
            let start = engines.start(text, from, pace)?;
            engines.longest_at(text, start, pace).map(|end| start..end)
        }

        /// Tells whether a match is all of the text.
        pub(in crate::onnx) fn matches_all(&mut self, text: &str) -> bool {
            let pace = &mut self.pace;
            self.engines.as_mut().is_some_and(|engines| engines.longest_at(text, 0, pace) == Some(text.len()))
        }
    }

    impl Drop for Pattern {
        fn drop(&mut self) {
            if let Some(engines) = self.engines.take() {
                idle::put(std::mem::take(&mut self.text), self.classes, engines);
            }
        }
    }

    /// Compiled patterns that nobody uses. Operators compile their patterns in each run, which takes longer than a short
    /// text.
    mod idle {
        use super::{Classes, Engines, Mutex};

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

    /// Finds where the first match starts, and where the longest match from a place ends.
    struct Engines {
        /// They give up where `\b` of Unicode meets other characters than ASCII, and at some patterns altogether.
        fast: Option<Fast>,
        slow: Simulation,
        /// The size without states.
        bytes: usize,
    }

    /// Automata, which are built as texts need their states.
    struct Fast {
        /// Finds the end of the first match.
        first: Automaton,
        /// Finds its start.
        backwards: Automaton,
        /// Finds the end of the longest match.
        longest: Automaton,
    }

    impl Engines {
        fn new(text: &str, classes: Classes) -> Result<Engines, String> {
            let pattern = match classes {
                Classes::Ascii => translated(text),
                Classes::Unicode => text.to_owned(),
            };
            let compiled = |reverse| {
                let limits = Limits::new().reverse(reverse).nfa_size_limit(Some(MOST));
                let limits = limits.which_captures(WhichCaptures::None);
                let compiled = Compiler::new().configure(limits).build(&pattern);
                compiled.map_err(|e| format!("is `{text}`, which is no pattern: {}", reason(&e)))
            };
            let (forwards, backwards): (NFA, NFA) = (compiled(false)?, compiled(true)?);
            // The simulation has two lists of places, of 24 bytes for each state.
            let bytes = forwards.memory_usage() + backwards.memory_usage() + 48 * forwards.states().len();
            let fast = || {
                Some(Fast {
                    first: Automaton::new(&forwards, MatchKind::LeftmostFirst)?,
                    backwards: Automaton::new(&backwards, MatchKind::All)?,
                    longest: Automaton::new(&forwards, MatchKind::All)?,
                })
            };
            Ok(Engines { fast: fast(), slow: Simulation::new(&forwards), bytes })
        }

        /// Finds where the first match at or after `from` starts.
        fn start(&mut self, text: &str, from: usize, pace: &mut Pace) -> Option<usize> {
            if let Some(Fast { first, backwards, .. }) = &mut self.fast
                && let Ok(end) = first.end(text, from, false, pace)
            {
                match end.map(|end| backwards.start(text, from..end, pace)) {
                    None => return None,
                    Some(Ok(start)) => return start,
                    Some(Err(_)) => {}
                }
            }
            self.slow.start(text, from, pace)
        }

        /// Finds where the longest match that starts at a place ends.
        fn longest_at(&mut self, text: &str, start: usize, pace: &mut Pace) -> Option<usize> {
            if let Some(Fast { longest, .. }) = &mut self.fast
                && let Ok(end) = longest.end(text, start, true, pace)
            {
                return end;
            }
            self.slow.longest(text, start, pace)
        }
    }

    /// The innermost reason, which says where in the pattern the trouble is.
    fn reason(error: &dyn std::error::Error) -> String {
        match error.source() {
            Some(cause) => reason(cause),
            None => {
                error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
            }
        }
    }

    /// Rewrites what means something else to the engine than to RE2.
    fn translated(pattern: &str) -> String {
        let mut out = String::with_capacity(pattern.len() + 16);
        let mut rest = pattern;
        // How many characters of a class in brackets are behind; the first one may be a bracket that closes nothing.
        let mut class: Option<usize> = None;
        while let Some(c) = rest.chars().next() {
            let (one, after) = rest.split_at(c.len_utf8());
            let two = after.chars().next();
            let taken = match (c, two) {
                ('\\', Some('Q')) => {
                    let quoted = after.get(1..).unwrap_or_default();
                    let (text, next) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                    text.chars().for_each(|c| escaped(&mut out, c));
                    rest = next;
                    continue;
                }
                ('\\', Some(escape)) => {
                    match (escape, class) {
                        ('d', _) => out.push_str("[0-9]"),
                        ('D', _) => out.push_str("[^0-9]"),
                        ('w', _) => out.push_str("[0-9A-Za-z_]"),
                        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
                        ('s', _) => out.push_str("[\\t\\n\\f\\r ]"),
                        ('S', _) => out.push_str("[^\\t\\n\\f\\r ]"),
                        ('b', None) => out.push_str("(?-u:\\b)"),
                        ('B', None) => out.push_str("(?-u:\\B)"),
                        ('<' | '>', _) => out.push(escape),
                        _ => out.extend(['\\', escape]),
                    }
                    1 + escape.len_utf8()
                }
                ('[', _) if class.is_none() => {
                    class = Some(0);
                    out.push('[');
                    if two == Some('^') {
                        out.push('^');
                    }
                    rest = after.strip_prefix('^').unwrap_or(after);
                    continue;
                }
                ('[', Some(':')) => match after.find(":]") {
                    Some(end) => {
                        let end = one.len() + end + 2;
                        out.push_str(rest.get(..end).unwrap_or_default());
                        end
                    }
                    None => {
                        out.push_str("\\[");
                        1
                    }
                },
                ('[', _) => {
                    out.push_str("\\[");
                    1
                }
                (']', _) if class.is_some_and(|count| count > 0) => {
                    out.push(']');
                    class = None;
                    rest = after;
                    continue;
                }
                // Doubled, they join classes.
                ('-' | '&' | '~', Some(next)) if class.is_some() && next == c => {
                    out.extend([c, '\\', c]);
                    2
                }
                _ => {
                    out.push(c);
                    one.len()
                }
            };
            class = class.map(|count| count + 1);
            rest = rest.get(taken..).unwrap_or_default();
        }
        out
    }

    /// Writes a character that stands for itself.
    fn escaped(out: &mut String, c: char) {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        // An underscore and the angles are no operators, and no escape either.
        if matches!(c, '<' | '>' | '_') {
            out.pop();
        }
        out.push(c);
    }

    #[cfg(test)]
    #[expect(clippy::unwrap_used, reason = "tests")]
    mod tests {
        use super::*;

        fn ascii(pattern: &str) -> Result<Pattern, String> {
            Pattern::new(pattern, Classes::Ascii)
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
            let matches = |text: &str| Pattern::new(r"\w+", Classes::Unicode).unwrap().matches_all(text);
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

        /// Where the first match at or after `from` starts, and where the longest match at `from` ends, by the library's engine
        /// that gives up nowhere.
        fn by_library(pattern: &str, text: &str, from: usize) -> (Option<usize>, Option<usize>) {
            use regex_automata::nfa::thompson::pikevm::{Config, PikeVM};
            use regex_automata::{Anchored, Input};
            let engine = |kind| {
                let config = Config::new().match_kind(kind);
                PikeVM::builder().configure(config).build(pattern).unwrap()
            };
            let (first, longest) = (engine(MatchKind::LeftmostFirst), engine(MatchKind::All));
            let input = Input::new(text).range(from..);
            let start = first.find_iter(&mut first.create_cache(), input.clone()).next().map(|m| m.start());
            let mut slots = [None, None];
            let input = input.anchored(Anchored::Yes);
            longest.search_slots(&mut longest.create_cache(), &input, &mut slots);
            (start, slots[1].map(|end| end.get()))
        }

        #[test]
        fn all_engines_find_what_the_library_finds() {
            let texts = ["", "a", "naïve_1 words, é", "aab ab\u{301} 12-3", "ЖЖ a.b\nc", "x  y\tz__é"];
            // So long that the library does not search it.
            let long = "é, aab_1 ".repeat(4000) + "x-naïve 7";
            let patterns = [
                r"\w+",
                r"\b\w\w+\b",
                "[a-z]*",
                "a|ab|",
                r"[^\s,.]+",
                "(?i)É",
                "",
                r"\s",
                "(ab?)+",
                "^a",
                "c$",
                "(?:[ab]{0,50}){0,3}c",
                "(?s).*v.*",
                "x-.*",
            ];
            for (pattern, classes) in
                patterns.iter().flat_map(|p| [(p, Classes::Ascii), (p, Classes::Unicode)])
            {
                let mut fast = Engines::new(pattern, classes).unwrap();
                let mut slow = Engines { fast: None, ..Engines::new(pattern, classes).unwrap() };
                assert!(fast.fast.is_some(), "{pattern}");
                let own = if classes == Classes::Ascii { translated(pattern) } else { (*pattern).to_owned() };
                let mut check = |text: &str, from: usize| {
                    let want = by_library(&own, text, from);
                    for engines in [&mut fast, &mut slow] {
                        let pace = &mut Pace::new();
                        let got = (engines.start(text, from, pace), engines.longest_at(text, from, pace));
                        assert_eq!(got, want, "{pattern} from {from} of {}", text.len());
                    }
                };
                for text in texts {
                    text.char_indices().chain([(text.len(), ' ')]).for_each(|(from, _)| check(text, from));
                }
                // Starts of characters, the last of them `ï`, `v` and the end.
                [0, 2, 10, long.len() - 6, long.len() - 4, long.len()]
                    .into_iter()
                    .for_each(|from| check(&long, from));
            }
        }

        /// Expected: as many questions as the text and the pattern are long.
        #[test]
        fn long_texts_ask_whether_to_go_on() {
            thread_local! {
                static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
            }
            let text = "ab".repeat(20_000);
            for (pattern, fast) in [("(?:[ab]{0,100}){0,20}c", true), ("(?:[ab]{0,20}){0,5}c", false)] {
                let mut engines = Engines::new(pattern, Classes::Unicode).unwrap();
                engines.fast = engines.fast.filter(|_| fast);
                ASKED.set(0);
                let find = |engines: &mut Engines| {
                    assert_eq!(engines.longest_at(&text, 0, &mut Pace::new()), None);
                    assert_eq!(engines.start(&text, 0, &mut Pace::new()), None);
                };
                bb_ir::pace::asked(|| ASKED.set(ASKED.get() + 1), || find(&mut engines));
                assert!(ASKED.get() >= 2, "{pattern}: {}", ASKED.get());
            }
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
}
