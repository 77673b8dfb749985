//! Texts of tokens as they come: characters and stops that several tokens make.

use crate::Error;
use crate::tokens::Tokens;

/// How many tokens a character may take before its bytes are given up.
const PATIENCE: usize = 8;

/// Turns tokens into text, and holds back what may be part of a character or of a stop.
#[derive(Debug, Default)]
pub(crate) struct TextStream {
    /// The last tokens: those whose text was taken, and behind them those whose text is not complete.
    tokens: Vec<u32>,
    taken: usize,
    stops: Vec<String>,
    /// Text that may be the beginning of a stop.
    held: String,
}

impl TextStream {
    pub(crate) fn new(stops: &[String]) -> TextStream {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        TextStream { stops, ..TextStream::default() }
    }

    /// Adds a token. Returns the text that is certain, and whether a stop ends it.
    pub(crate) fn push(&mut self, token: u32, tokens: &Tokens) -> Result<(String, bool), Error> {
        self.tokens.push(token);
        let before = tokens.decode(self.tokens.get(..self.taken).unwrap_or_default())?;
        let after = tokens.decode(&self.tokens)?;
        // A character whose bytes are not all there is shown as U+FFFD.
        let waits = after.ends_with('\u{fffd}') && self.tokens.len() - self.taken < PATIENCE;
        let Some(new) = after.strip_prefix(before.as_str()).filter(|_| !waits) else {
            return Ok((String::new(), false));
        };
        self.held.push_str(new);
        self.tokens.drain(..self.taken);
        self.taken = self.tokens.len();
        Ok(self.certain())
    }

    /// Returns the text up to a stop, or up to what may be the beginning of one.
    fn certain(&mut self) -> (String, bool) {
        let stop = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = stop {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let begins = |from: &usize| {
            let rest = self.held.get(*from..).unwrap_or_default();
            self.stops.iter().any(|stop| stop.starts_with(rest))
        };
        let places = self.held.char_indices().map(|(at, _)| at);
        let most = self.stops.iter().map(String::len).max().unwrap_or(0);
        let first = self.held.len().saturating_sub(most);
        let at = places.filter(|at| *at >= first).find(begins).unwrap_or(self.held.len());
        let rest = self.held.split_off(at);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// Returns the text that was held back.
    pub(crate) fn finish(&mut self, tokens: &Tokens) -> Result<String, Error> {
        let before = tokens.decode(self.tokens.get(..self.taken).unwrap_or_default())?;
        let after = tokens.decode(&self.tokens)?;
        self.held.push_str(after.strip_prefix(before.as_str()).unwrap_or_default());
        self.taken = self.tokens.len();
        let (mut text, stopped) = self.certain();
        if !stopped {
            text.push_str(&std::mem::take(&mut self.held));
        }
        Ok(text)
    }
}
