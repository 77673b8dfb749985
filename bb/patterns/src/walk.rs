//! Walks along a text with an automaton, whose states are built as the text needs them.
//!
//! The library's own search goes on to the end of the text. This one asks on the way whether to go on.

use bb_ir::pace::Pace;
use regex_automata::hybrid::{LazyStateID, dfa};
use regex_automata::nfa::thompson::NFA;
use regex_automata::{Anchored, Input, MatchKind};
use std::ops::Range;

/// The most bytes of the states that an automaton keeps.
const STATES: usize = 256 << 10;

/// The work up to which the library searches, which is faster. That takes a few milliseconds at most.
const SHORT: usize = 1 << 20;

/// The automaton met a character that it cannot tell from a letter.
#[derive(Debug)]
pub(super) struct GaveUp;

/// An automaton and the states that it has built.
pub(super) struct Automaton {
    dfa: dfa::DFA,
    cache: dfa::Cache,
}

impl Automaton {
    /// Makes an automaton; `None` for a pattern that no automaton matches.
    pub(super) fn new(nfa: &NFA, kind: MatchKind) -> Option<Automaton> {
        let config = dfa::DFA::config().match_kind(kind).unicode_word_boundary(true);
        // States that do not fit are computed again, so the time stays in proportion.
        let config = config.cache_capacity(STATES).skip_cache_capacity_check(true);
        let dfa = dfa::DFA::builder().configure(config).build_from_nfa(nfa.clone()).ok()?;
        let cache = dfa.create_cache();
        Some(Automaton { dfa, cache })
    }

    /// Returns the work of building a state, which consists of states of the pattern.
    fn states(&self) -> usize {
        self.dfa.get_nfa().states().len()
    }

    /// Finds where a match ends that starts at `from`, or behind it unless `anchored`.
    pub(super) fn end(
        &mut self,
        text: &str,
        from: usize,
        anchored: bool,
        pace: &mut Pace,
    ) -> Result<Option<usize>, GaveUp> {
        let range = from..text.len();
        let work = range.len().saturating_mul(self.states());
        if work <= SHORT {
            pace.step(work);
            let found = self.dfa.try_search_fwd(&mut self.cache, &input(text, range, anchored));
            return found.map(|found| found.map(|found| found.offset())).map_err(|_| GaveUp);
        }
        let mut from = from;
        loop {
            match self.forwards(text, from, anchored, pace)? {
                // A match of nothing inside a character is none.
                Some(end) if !text.is_char_boundary(end) => {
                    from = (end..).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
                }
                found => return Ok(found),
            }
        }
    }

    fn forwards(
        &mut self,
        text: &str,
        from: usize,
        anchored: bool,
        pace: &mut Pace,
    ) -> Result<Option<usize>, GaveUp> {
        let input = input(text, from..text.len(), anchored);
        let mut state = self.dfa.start_state_forward(&mut self.cache, &input).map_err(|_| GaveUp)?;
        let mut found = None;
        for (at, byte) in (from..).zip(text.as_bytes().get(from..).unwrap_or_default()) {
            state = self.next(state, *byte, pace)?;
            // A match shows one byte late.
            if state.is_match() {
                found = Some(at);
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        state = self.dfa.next_eoi_state(&mut self.cache, state).map_err(|_| GaveUp)?;
        Ok(if state.is_match() { Some(text.len()) } else { found })
    }

    /// Finds the first start of the matches that end with a range; the automaton is one that goes backwards.
    pub(super) fn start(
        &mut self,
        text: &str,
        range: Range<usize>,
        pace: &mut Pace,
    ) -> Result<Option<usize>, GaveUp> {
        let work = range.len().saturating_mul(self.states());
        let input = input(text, range.clone(), true);
        if work <= SHORT {
            pace.step(work);
            let found = self.dfa.try_search_rev(&mut self.cache, &input);
            return found.map(|found| found.map(|found| found.offset())).map_err(|_| GaveUp);
        }
        let bytes = text.as_bytes();
        let mut state = self.dfa.start_state_reverse(&mut self.cache, &input).map_err(|_| GaveUp)?;
        let mut found = None;
        for (at, byte) in range.clone().zip(bytes.get(range.clone()).unwrap_or_default()).rev() {
            state = self.next(state, *byte, pace)?;
            if state.is_match() {
                found = Some(at + 1);
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        state = match range.start.checked_sub(1).and_then(|before| bytes.get(before)) {
            Some(byte) => self.next(state, *byte, pace)?,
            None => self.dfa.next_eoi_state(&mut self.cache, state).map_err(|_| GaveUp)?,
        };
        Ok(if state.is_match() { Some(range.start) } else { found })
    }

    /// Goes on by a byte.
    #[inline]
    fn next(&mut self, state: LazyStateID, byte: u8, pace: &mut Pace) -> Result<LazyStateID, GaveUp> {
        if !state.is_tagged() {
            let known = self.dfa.next_state_untagged(&self.cache, state, byte);
            if !known.is_unknown() {
                pace.step(1);
                return if known.is_quit() { Err(GaveUp) } else { Ok(known) };
            }
        }
        pace.step(self.states());
        let next = self.dfa.next_state(&mut self.cache, state, byte).map_err(|_| GaveUp)?;
        if next.is_quit() { Err(GaveUp) } else { Ok(next) }
    }
}

fn input(text: &str, range: Range<usize>, anchored: bool) -> Input<'_> {
    Input::new(text).range(range).anchored(if anchored { Anchored::Yes } else { Anchored::No })
}
