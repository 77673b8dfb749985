//! Texts of tokens as they come: characters and stops that several tokens make.

use crate::Error;
use crate::stops::Stops;
use crate::tokens::Tokens;

/// How many tokens a character may take before its bytes are given up.
const PATIENCE: usize = 8;

/// Turns tokens into text, and holds back what may be part of a character or of a stop.
#[derive(Debug, Default)]
pub(crate) struct TextStream {
    /// The last tokens: those whose text was taken, and behind them those whose text is not complete.
    tokens: Vec<u32>,
    taken: usize,
    stops: Stops,
    /// Text that may be the beginning of a stop.
    held: String,
}

impl TextStream {
    pub(crate) fn new(stops: Stops) -> TextStream {
        TextStream { stops, ..TextStream::default() }
    }

    /// Adds a token. Returns the text that is certain, and whether a stop ends it.
    pub(crate) fn push(&mut self, token: u32, tokens: &Tokens) -> Result<(String, bool), Error> {
        self.tokens.push(token);
        let (before, after) = self.texts(tokens)?;
        let patient = self.tokens.len() - self.taken < PATIENCE;
        let Some(new) = after.strip_prefix(before.as_str()) else {
            // The text of the tokens before is another one with these tokens behind them. They are decoded apart, so that they do not
            // become more and more.
            if patient {
                return Ok((String::new(), false));
            }
            let new = tokens.decode(self.tokens.get(self.taken..).unwrap_or_default())?;
            return Ok(self.certain(&new));
        };
        // A character whose bytes are incomplete is decoded as U+FFFD.
        if new.ends_with('\u{fffd}') && patient {
            return Ok((String::new(), false));
        }
        Ok(self.certain(new))
    }

    /// Returns the text of the tokens that were taken, and the text of all tokens.
    fn texts(&self, tokens: &Tokens) -> Result<(String, String), Error> {
        let before = tokens.decode(self.tokens.get(..self.taken).unwrap_or_default())?;
        Ok((before, tokens.decode(&self.tokens)?))
    }

    /// Takes the text of all tokens. Returns it up to a stop, or up to what may be the beginning of one.
    fn certain(&mut self, new: &str) -> (String, bool) {
        self.tokens.drain(..self.taken);
        self.taken = self.tokens.len();
        self.held.push_str(new);
        let stop = self.stops.push(new);
        let kept = stop.unwrap_or_else(|| self.stops.begun());
        let rest = self.held.split_off(self.held.len().saturating_sub(kept));
        (std::mem::replace(&mut self.held, rest), stop.is_some())
    }

    /// Returns the text that was held back.
    pub(crate) fn finish(&mut self, tokens: &Tokens) -> Result<String, Error> {
        let (before, after) = self.texts(tokens)?;
        let (mut text, stopped) = self.certain(after.strip_prefix(before.as_str()).unwrap_or_default());
        if !stopped {
            text.push_str(&std::mem::take(&mut self.held));
        }
        Ok(text)
    }
}
