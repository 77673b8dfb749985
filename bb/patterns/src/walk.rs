//! Runs an automaton over a text. The states of the automaton are built when the text needs them.
//!
//! The library's own search always continues to the end of the text. This search regularly checks whether to
//! continue.

use bb_ir::pace::Pace;
use regex_automata::hybrid::{LazyStateID, dfa};
use regex_automata::nfa::thompson::NFA;
use regex_automata::{Anchored, Input, MatchKind};
use std::ops::Range;

/// The maximum size of the states that an automaton keeps, in bytes.
const STATES: usize = 256 << 10;

/// The maximum work for the library's own search, which is faster but cannot be stopped. It takes a few
/// milliseconds at most.
const SHORT: usize = 1 << 20;

/// An automaton and the states that it has built.
pub(super) struct Automaton {
    dfa: dfa::DFA,
    cache: dfa::Cache,
}

impl Automaton {
    pub(super) fn new(nfa: &NFA, kind: MatchKind) -> Result<Automaton, String> {
        // States that do not fit the cache are computed again, so the time stays proportional to the lengths
        // of the text and the pattern.
        let config = dfa::DFA::config().match_kind(kind);
        let config = config.cache_capacity(STATES).skip_cache_capacity_check(true);
        let built = dfa::DFA::builder().configure(config).build_from_nfa(nfa.clone());
        let dfa = built.map_err(|error| reason(&error))?;
        let cache = dfa.create_cache();
        Ok(Automaton { dfa, cache })
    }

    /// Returns the work of building a state of the automaton, which is a set of states of the pattern.
    fn states(&self) -> usize {
        self.dfa.get_nfa().states().len()
    }

    /// Finds the end of a match that starts at `from`, or at a later index unless `anchored`.
    pub(super) fn end(
        &mut self,
        text: &[u8],
        from: usize,
        anchored: bool,
        pace: &mut Pace,
    ) -> Result<Option<usize>, String> {
        let range = from..text.len();
        let work = range.len().saturating_mul(self.states());
        if work <= SHORT {
            pace.step(work);
            let found = self.dfa.try_search_fwd(&mut self.cache, &input(text, range, anchored));
            return found.map(|found| found.map(|found| found.offset())).map_err(|error| reason(&error));
        }
        self.forwards(text, range, anchored, pace)
    }

    fn forwards(
        &mut self,
        text: &[u8],
        range: Range<usize>,
        anchored: bool,
        pace: &mut Pace,
    ) -> Result<Option<usize>, String> {
        let input = input(text, range.clone(), anchored);
        let mut state =
            self.dfa.start_state_forward(&mut self.cache, &input).map_err(|error| reason(&error))?;
        let mut found = None;
        for (at, byte) in range.clone().zip(text.get(range).unwrap_or_default()) {
            state = self.next(state, *byte, pace)?;
            // The automaton reports a match one byte late.
            if state.is_match() {
                found = Some(at);
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        state = self.dfa.next_eoi_state(&mut self.cache, state).map_err(|error| reason(&error))?;
        Ok(if state.is_match() { Some(text.len()) } else { found })
    }

    /// Finds the first start of the matches that end at the end of the range. The automaton must be one that
    /// reads backwards.
    pub(super) fn start(
        &mut self,
        text: &[u8],
        range: Range<usize>,
        pace: &mut Pace,
    ) -> Result<Option<usize>, String> {
        let work = range.len().saturating_mul(self.states());
        let input = input(text, range.clone(), true);
        if work <= SHORT {
            pace.step(work);
            let found = self.dfa.try_search_rev(&mut self.cache, &input);
            return found.map(|found| found.map(|found| found.offset())).map_err(|error| reason(&error));
        }
        let mut state =
            self.dfa.start_state_reverse(&mut self.cache, &input).map_err(|error| reason(&error))?;
        let mut found = None;
        for (at, byte) in range.clone().zip(text.get(range.clone()).unwrap_or_default()).rev() {
            state = self.next(state, *byte, pace)?;
            if state.is_match() {
                found = Some(at + 1);
            } else if state.is_dead() {
                return Ok(found);
            }
        }
        state = match range.start.checked_sub(1).and_then(|before| text.get(before)) {
            Some(byte) => self.next(state, *byte, pace)?,
            None => self.dfa.next_eoi_state(&mut self.cache, state).map_err(|error| reason(&error))?,
        };
        Ok(if state.is_match() { Some(range.start) } else { found })
    }

    /// Returns the state after a byte.
    #[inline]
    fn next(&mut self, state: LazyStateID, byte: u8, pace: &mut Pace) -> Result<LazyStateID, String> {
        if !state.is_tagged() {
            let known = self.dfa.next_state_untagged(&self.cache, state, byte);
            if !known.is_unknown() {
                pace.step(1);
                return if known.is_quit() { Err(quit()) } else { Ok(known) };
            }
        }
        pace.step(self.states());
        let next = self.dfa.next_state(&mut self.cache, state, byte).map_err(|error| reason(&error))?;
        if next.is_quit() { Err(quit()) } else { Ok(next) }
    }
}

/// Returns the error for a quit state. The automata accept all bytes, so this does not occur.
#[cold]
fn quit() -> String {
    "the engine gave up".to_owned()
}

fn input(text: &[u8], range: Range<usize>, anchored: bool) -> Input<'_> {
    Input::new(text).range(range).anchored(if anchored { Anchored::Yes } else { Anchored::No })
}

/// Returns the innermost reason of an error.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => reason(cause),
        None => error.to_string(),
    }
}
