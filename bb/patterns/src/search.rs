//! Searches in text with automata.

use crate::re2;
use crate::walk::{Automaton, reason};
use bb_ir::pace::Pace;
use regex_automata::MatchKind;
use regex_automata::nfa::thompson::{Compiler, Config as Limits, NFA, WhichCaptures};

/// The maximum size of a compiled pattern, in bytes.
const MOST: usize = 32 << 20;

/// The automata of a pattern. Their states are built when a text needs them.
pub(crate) struct Engines {
    /// Finds the end of the match that starts first.
    first: Automaton,
    /// Finds the start of that match.
    backwards: Automaton,
    /// Finds the end of the longest match.
    longest: Automaton,
    /// The size of the pattern without the states of the automata, in bytes.
    pub(crate) bytes: usize,
}

impl Engines {
    pub(crate) fn new(text: &str) -> Result<Engines, String> {
        let wrong = |problem: String| format!("is `{text}`, which is no pattern: {problem}");
        let pattern = re2::parsed(text).map_err(wrong)?;
        let compiled = |reverse| {
            // A text may consist of any bytes, and `\C` matches a single byte of a character.
            let limits = Limits::new().utf8(false).reverse(reverse).nfa_size_limit(Some(MOST));
            let limits = limits.which_captures(WhichCaptures::None);
            let compiled = Compiler::new().configure(limits).build_from_hir(&pattern);
            compiled.map_err(|error| wrong(reason(&error)))
        };
        let (forwards, backwards): (NFA, NFA) = (compiled(false)?, compiled(true)?);
        let bytes = forwards.memory_usage() + backwards.memory_usage();
        Ok(Engines {
            first: Automaton::new(&forwards, MatchKind::LeftmostFirst)?,
            backwards: Automaton::new(&backwards, MatchKind::All)?,
            longest: Automaton::new(&forwards, MatchKind::All)?,
            bytes,
        })
    }

    /// Finds the start of the first match at or after `from`.
    pub(crate) fn start(
        &mut self,
        text: &[u8],
        from: usize,
        pace: &mut Pace,
    ) -> Result<Option<usize>, String> {
        match self.first.end(text, from, false, pace)? {
            Some(end) => self.backwards.start(text, from..end, pace),
            None => Ok(None),
        }
    }

    /// Finds the end of the longest match that starts at `start`.
    pub(crate) fn longest_at(
        &mut self,
        text: &[u8],
        start: usize,
        pace: &mut Pace,
    ) -> Result<Option<usize>, String> {
        self.longest.end(text, start, true, pace)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use regex_automata::nfa::thompson::pikevm::{Builder, Config, PikeVM};
    use regex_automata::{Anchored, Input};

    /// Returns another engine of the library, which tracks all states of a pattern simultaneously.
    fn by_library(pattern: &str, kind: MatchKind) -> PikeVM {
        let pattern = Compiler::new()
            .configure(Limits::new().utf8(false))
            .build_from_hir(&re2::parsed(pattern).unwrap())
            .unwrap();
        Builder::new().configure(Config::new().match_kind(kind)).build_from_nfa(pattern).unwrap()
    }

    #[test]
    fn all_engines_find_what_the_library_finds() {
        let texts = ["", "a", "naïve_1 words, é", "aab ab\u{301} 12-3", "ЖЖ a.b\nc", "x  y\tz__é"];
        // This text is too long for the library's own search, so this crate's search is used.
        let long = "é, aab_1 ".repeat(4000) + "x-naïve 7";
        for pattern in [
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
            r"\C,",
            r"\pL+",
        ] {
            let mut engines = Engines::new(pattern).unwrap();
            let (first, longest) =
                (by_library(pattern, MatchKind::LeftmostFirst), by_library(pattern, MatchKind::All));
            let mut check = |text: &[u8], from: usize| {
                let input = Input::new(text).range(from..);
                let start = first.find_iter(&mut first.create_cache(), input.clone()).next();
                let mut slots = [None, None];
                let anchored = input.anchored(Anchored::Yes);
                longest.search_slots(&mut longest.create_cache(), &anchored, &mut slots);
                let want = (start.map(|m| m.start()), slots[1].map(|end| end.get()));
                let pace = &mut Pace::new();
                let got =
                    (engines.start(text, from, pace).unwrap(), engines.longest_at(text, from, pace).unwrap());
                assert_eq!(got, want, "{pattern} from {from} of {}", text.len());
            };
            for text in texts {
                (0..=text.len()).for_each(|from| check(text.as_bytes(), from));
            }
            check(b"a\xFFb \xC3", 0);
            [0, 2, 10, long.len() - 6, long.len() - 4, long.len()]
                .into_iter()
                .for_each(|from| check(long.as_bytes(), from));
        }
    }

    /// Expected are at least two checks whether to continue, one for each search.
    #[test]
    fn long_texts_ask_whether_to_go_on() {
        thread_local! {
            static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
        }
        let text = "ab".repeat(20_000).into_bytes();
        let mut engines = Engines::new("(?:[ab]{0,100}){0,10}c").unwrap();
        let find = |engines: &mut Engines| {
            assert_eq!(engines.longest_at(&text, 0, &mut Pace::new()), Ok(None));
            assert_eq!(engines.start(&text, 0, &mut Pace::new()), Ok(None));
        };
        bb_ir::pace::asked(|| ASKED.set(ASKED.get() + 1), || find(&mut engines));
        assert!(ASKED.get() >= 2, "{}", ASKED.get());
    }
}
