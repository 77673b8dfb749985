//! Searches with automata, and with the simulation where they give up.

use crate::simulation::Simulation;
use crate::syntax::{reason, translated};
use crate::walk::Automaton;
use bb_ir::pace::Pace;
use bb_ir::pattern::Classes;
use regex_automata::MatchKind;
use regex_automata::nfa::thompson::{Compiler, Config as Limits, NFA, WhichCaptures};

/// The most bytes that a compiled pattern takes.
const MOST: usize = 10 << 20;

/// Finds where the first match starts, and where the longest match from a place ends.
pub(crate) struct Engines {
    /// They give up where `\b` of Unicode meets other characters than ASCII, and at some patterns altogether.
    fast: Option<Fast>,
    slow: Simulation,
    /// The size without states.
    pub(crate) bytes: usize,
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
    pub(crate) fn new(text: &str, classes: Classes) -> Result<Engines, String> {
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
    pub(crate) fn start(&mut self, text: &str, from: usize, pace: &mut Pace) -> Option<usize> {
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
    pub(crate) fn longest_at(&mut self, text: &str, start: usize, pace: &mut Pace) -> Option<usize> {
        if let Some(Fast { longest, .. }) = &mut self.fast
            && let Ok(end) = longest.end(text, start, true, pace)
        {
            return end;
        }
        self.slow.longest(text, start, pace)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

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
        for (pattern, classes) in patterns.iter().flat_map(|p| [(p, Classes::Ascii), (p, Classes::Unicode)]) {
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
}
