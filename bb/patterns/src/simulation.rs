//! Matches a pattern by keeping track of all places in it at once, for texts at which automata give up.
//!
//! The time is in proportion to the text and the pattern, and the work asks on the way whether to go on.

use bb_ir::pace::Pace;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

/// A pattern, and the places in it.
pub(super) struct Simulation {
    pattern: NFA,
    now: Places,
    next: Places,
    /// Places that are reached, but whose own ways on were not followed yet.
    pending: Vec<StateID>,
}

/// Different places in a pattern, each with the start of its match, the earliest start first.
#[derive(Default)]
struct Places {
    entries: Vec<(StateID, usize)>,
    /// For each state of the pattern, where among the entries it may be.
    at: Vec<usize>,
}

impl Places {
    fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a place, and tells whether it was not there.
    fn insert(&mut self, state: StateID, start: usize) -> bool {
        let Some(at) = self.at.get_mut(state.as_usize()) else { return false };
        if self.entries.get(*at).is_some_and(|(known, _)| *known == state) {
            return false;
        }
        *at = self.entries.len();
        self.entries.push((state, start));
        true
    }
}

impl Simulation {
    pub(super) fn new(pattern: &NFA) -> Simulation {
        let places = || Places { entries: Vec::new(), at: vec![0; pattern.states().len()] };
        Simulation { pattern: pattern.clone(), now: places(), next: places(), pending: Vec::new() }
    }

    /// Finds where the first match at or after `from` starts.
    pub(super) fn start(&mut self, text: &str, from: usize, pace: &mut Pace) -> Option<usize> {
        let mut first: Option<usize> = None;
        self.now.clear();
        for at in from..=text.len() {
            if first.is_none() && text.is_char_boundary(at) {
                self.begin(text, at, pace);
            }
            for (state, start) in &self.now.entries {
                let matches = matches!(self.pattern.state(*state), State::Match { .. });
                if matches && text.is_char_boundary(at) && first.is_none_or(|first| *start < first) {
                    first = Some(*start);
                }
            }
            if let Some(first) = first {
                // Only those that started before it can be the first.
                self.now.entries.retain(|(_, start)| *start < first);
                if self.now.entries.is_empty() {
                    break;
                }
            }
            self.step(text, at, pace);
        }
        first
    }

    /// Finds where the longest match that starts at a place ends.
    pub(super) fn longest(&mut self, text: &str, start: usize, pace: &mut Pace) -> Option<usize> {
        let mut end = None;
        self.now.clear();
        self.begin(text, start, pace);
        for at in start..=text.len() {
            if self.now.entries.is_empty() {
                break;
            }
            let mut states = self.now.entries.iter().map(|(state, _)| self.pattern.state(*state));
            if states.any(|state| matches!(state, State::Match { .. })) && text.is_char_boundary(at) {
                end = Some(at);
            }
            self.step(text, at, pace);
        }
        end
    }

    /// Begins a match here, beside those under way.
    fn begin(&mut self, text: &str, at: usize, pace: &mut Pace) {
        let start = self.pattern.start_anchored();
        reach(&self.pattern, &mut self.pending, &mut self.now, (start, at), (text, at), pace);
    }

    /// Goes on by a byte.
    fn step(&mut self, text: &str, at: usize, pace: &mut Pace) {
        self.next.clear();
        if let Some(&byte) = text.as_bytes().get(at) {
            for &(state, start) in &self.now.entries {
                pace.step(1);
                let to = match self.pattern.state(state) {
                    State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                    State::Sparse(ways) => ways.matches_byte(byte),
                    State::Dense(ways) => ways.matches_byte(byte),
                    _ => None,
                };
                if let Some(to) = to {
                    let here = (text, at + 1);
                    reach(&self.pattern, &mut self.pending, &mut self.next, (to, start), here, pace);
                }
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }
}

/// Adds a place and all that are reached from it without a character.
fn reach(
    pattern: &NFA,
    pending: &mut Vec<StateID>,
    places: &mut Places,
    (state, start): (StateID, usize),
    (text, at): (&str, usize),
    pace: &mut Pace,
) {
    pending.push(state);
    while let Some(state) = pending.pop() {
        pace.step(1);
        if !places.insert(state, start) {
            continue;
        }
        match pattern.state(state) {
            State::Look { look, next } => {
                if pattern.look_matcher().matches(*look, text.as_bytes(), at) {
                    pending.push(*next);
                }
            }
            State::Union { alternates } => pending.extend_from_slice(alternates),
            State::BinaryUnion { alt1, alt2 } => pending.extend([*alt1, *alt2]),
            State::Capture { next, .. } => pending.push(*next),
            State::ByteRange { .. }
            | State::Sparse(_)
            | State::Dense(_)
            | State::Fail
            | State::Match { .. } => {}
        }
    }
}
