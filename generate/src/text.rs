//! Decodes a stream of tokens to text. A character or a stop string may consist of several tokens.

use crate::Error;
use crate::stops::Stops;
use crate::tokens::Tokens;

/// The maximum number of tokens to wait for the complete bytes of a character.
const PATIENCE: usize = 8;

/// Converts tokens to text. Text that may be part of an incomplete character or of a stop string is held back.
#[derive(Debug, Default)]
pub(crate) struct TextStream {
    /// The last tokens. The first `taken` tokens have already been converted; the text of the others is not complete.
    tokens: Vec<u32>,
    taken: usize,
    stops: Stops,
    /// Text that may be the beginning of a stop string.
    held: String,
}

impl TextStream {
    pub(crate) fn new(stops: Stops) -> TextStream {
        TextStream { stops, ..TextStream::default() }
    }

    /// Adds a token. Returns the text that is now certain, and whether a stop string ends it.
    pub(crate) fn push(&mut self, token: u32, tokens: &Tokens) -> Result<(String, bool), Error> {
        self.tokens.push(token);
        let (before, after) = self.texts(tokens)?;
        let patient = self.tokens.len() - self.taken < PATIENCE;
        let Some(new) = after.strip_prefix(before.as_str()) else {
            // The new tokens change the text of the tokens before them. After waiting long enough, decode the new tokens separately,
            // so that their number stays limited.
            if patient {
                return Ok((String::new(), false));
            }
            let new = tokens.decode(self.tokens.get(self.taken..).unwrap_or_default())?;
            return Ok(self.certain(&new));
        };
        // A character with incomplete bytes is decoded to U+FFFD.
        if new.ends_with('\u{fffd}') && patient {
            return Ok((String::new(), false));
        }
        Ok(self.certain(new))
    }

    /// Returns the text of the tokens that have already been converted, and the text of all tokens.
    fn texts(&self, tokens: &Tokens) -> Result<(String, String), Error> {
        let before = tokens.decode(self.tokens.get(..self.taken).unwrap_or_default())?;
        Ok((before, tokens.decode(&self.tokens)?))
    }

    /// Marks all tokens as converted. Returns the text up to a stop string, or up to a possible beginning of one.
    fn certain(&mut self, new: &str) -> (String, bool) {
        self.tokens.drain(..self.taken);
        self.taken = self.tokens.len();
        self.held.push_str(new);
        let stop = self.stops.push(new);
        let kept = stop.unwrap_or_else(|| self.stops.begun());
        let rest = self.held.split_off(self.held.len().saturating_sub(kept));
        (std::mem::replace(&mut self.held, rest), stop.is_some())
    }

    /// Returns the text that was held back, at the end of the generation.
    pub(crate) fn finish(&mut self, tokens: &Tokens) -> Result<String, Error> {
        let (before, after) = self.texts(tokens)?;
        let (mut text, stopped) = self.certain(after.strip_prefix(before.as_str()).unwrap_or_default());
        if !stopped {
            text.push_str(&std::mem::take(&mut self.held));
        }
        Ok(text)
    }
}
