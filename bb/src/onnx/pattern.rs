//! Regular expressions of the syntax of RE2.
//!
//! Matching takes time in proportion to the text and the pattern, whatever they are. Of the matches that start first the
//! longest counts.

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
    use regex_automata::nfa::thompson::pikevm::{Builder, Cache, Config, PikeVM};
    use regex_automata::nfa::thompson::{Compiler, Config as Limits};
    use regex_automata::{Anchored, Input, MatchKind};
    use std::ops::Range;

    /// The most bytes that a compiled pattern takes.
    const MOST: usize = 10 << 20;

    /// A compiled pattern.
    pub(in crate::onnx) struct Pattern {
        /// Finds where the first match starts.
        first: (PikeVM, Cache),
        /// Finds where the longest match from a place ends.
        longest: (PikeVM, Cache),
    }

    impl Pattern {
        /// Compiles a pattern, or says what is wrong with it.
        pub(in crate::onnx) fn new(text: &str, classes: Classes) -> Result<Pattern, String> {
            let pattern = match classes {
                Classes::Ascii => translated(text),
                Classes::Unicode => text.to_owned(),
            };
            let compiled = Compiler::new()
                .configure(Limits::new().nfa_size_limit(Some(MOST)))
                .build(&pattern)
                .map_err(|e| format!("is `{text}`, which is no pattern: {}", reason(&e)))?;
            let engine = |kind| {
                let mut builder = Builder::new();
                builder.configure(Config::new().match_kind(kind)).build_from_nfa(compiled.clone()).ok()
            };
            let engines = (engine(MatchKind::LeftmostFirst), engine(MatchKind::All));
            let (Some(first), Some(longest)) = engines else {
                return Err(format!("is `{text}`, which cannot be compiled"));
            };
            let (first_cache, longest_cache) = (first.create_cache(), longest.create_cache());
            Ok(Pattern { first: (first, first_cache), longest: (longest, longest_cache) })
        }

        /// Finds the first match at or after `from`, and of those the longest; what is before `from` counts as context.
        pub(in crate::onnx) fn find(&mut self, text: &str, from: usize) -> Option<Range<usize>> {
            let (engine, cache) = &mut self.first;
            let start = engine.find_iter(cache, Input::new(text).range(from..)).next()?.start();
            self.longest_at(text, start).map(|end| start..end)
        }

        /// Tells whether a match is all of the text.
        pub(in crate::onnx) fn matches_all(&mut self, text: &str) -> bool {
            self.longest_at(text, 0) == Some(text.len())
        }

        fn longest_at(&mut self, text: &str, start: usize) -> Option<usize> {
            let (engine, cache) = &mut self.longest;
            let input = Input::new(text).range(start..).anchored(Anchored::Yes);
            let mut slots = [None, None];
            engine.search_slots(cache, &input, &mut slots)?;
            slots.last().copied().flatten().map(|end| end.get())
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

        #[test]
        fn what_is_no_pattern_is_refused() {
            for pattern in ["(", "[a", "*", r"(?=a)", r"\1", "a{100000}{100000}"] {
                assert!(ascii(pattern).is_err(), "{pattern}");
            }
        }
    }
}
