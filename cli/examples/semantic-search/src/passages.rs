//! Splits texts into overlapping passages with a limited number of tokens.
//!
//! A passage ends where a reader would stop, if there is a suitable place in its second half: before a heading, at an empty line, at the
//! end of a line, at the end of a sentence, or at least between two words.

use crate::error::{Error, Result};
use tokenizers::Tokenizer;

/// The maximum number of tokens of a passage, without the model's special tokens.
pub(crate) const LENGTH: usize = 160;
/// The maximum number of tokens that a passage shares with the previous one.
pub(crate) const OVERLAP: usize = 32;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passage {
    /// The start and the end of the passage in the text, in bytes.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The number of the first line of the passage, counted from 1.
    pub(crate) line: u32,
    pub(crate) tokens: Vec<u32>,
}

/// A token, and its position in the text.
#[derive(Debug, Clone, Copy)]
struct Token {
    id: u32,
    start: usize,
    end: usize,
    /// Whether the token continues the word of the previous token.
    inside: bool,
}

/// Splits a text into passages. A text without words has none.
///
/// # Errors
///
/// [`Error::Tokens`] if the tokenizer fails.
pub(crate) fn cut(tokenizer: &Tokenizer, text: &str) -> Result<Vec<Passage>> {
    let tokens = tokens(tokenizer, text)?;
    let mut passages = Vec::new();
    let (mut first, mut line, mut counted) = (0, 1u32, 0);
    while first < tokens.len() {
        let end = end(text, &tokens, first);
        let part = tokens.get(first..end).unwrap_or_default();
        let (Some(a), Some(b)) = (part.first(), part.last()) else { break };
        line = line.saturating_add(lines(text, counted, a.start));
        counted = a.start;
        passages.push(Passage {
            start: a.start,
            end: b.end,
            line,
            tokens: part.iter().map(|token| token.id).collect(),
        });
        if end == tokens.len() {
            break;
        }
        first = next(text, &tokens, first, end);
    }
    Ok(passages)
}

/// Counts the line feeds between two byte offsets.
fn lines(text: &str, from: usize, to: usize) -> u32 {
    let between = text.as_bytes().get(from..to).unwrap_or_default();
    u32::try_from(between.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u32::MAX)
}

fn tokens(tokenizer: &Tokenizer, text: &str) -> Result<Vec<Token>> {
    let encoding = tokenizer.encode(text, false).map_err(Error::Tokens)?;
    let words = encoding.get_word_ids();
    let mut before = None;
    let all = encoding.get_ids().iter().zip(encoding.get_offsets()).zip(words);
    Ok(all
        .map(|((&id, &(start, end)), &word)| {
            let inside = word.is_some() && word == before;
            before = word;
            Token { id, start, end, inside }
        })
        .collect())
}

/// Rates how good it is to end a passage before the token at index `at`.
fn quality(text: &str, tokens: &[Token], at: usize) -> u8 {
    let (Some(before), Some(after)) = (at.checked_sub(1).and_then(|i| tokens.get(i)), tokens.get(at)) else {
        return 0;
    };
    if after.inside {
        return 0;
    }
    let gap = text.get(before.end..after.start).unwrap_or_default();
    let feeds = gap.bytes().filter(|byte| *byte == b'\n').count();
    let rest = text.get(after.start..).unwrap_or_default();
    let said = text.get(before.start..before.end).unwrap_or_default();
    match feeds {
        1.. if rest.starts_with('#') => 5,
        2.. => 4,
        1 => 3,
        0 if !gap.is_empty() && matches!(said, "." | "!" | "?") => 2,
        0 => 1,
    }
}

/// Returns the end of the passage that begins with the token at index `first`.
fn end(text: &str, tokens: &[Token], first: usize) -> usize {
    let most = first + LENGTH;
    if most >= tokens.len() {
        return tokens.len();
    }
    // Selects the last of the best places in the second half. A word that fills all of this half is split.
    let places = most - LENGTH / 2..=most;
    let best = places.max_by_key(|&at| (quality(text, tokens, at), at));
    best.filter(|&at| quality(text, tokens, at) > 0).unwrap_or(most)
}

/// Returns the start of the next passage, which is one of the token indices from `first` to `end`.
fn next(text: &str, tokens: &[Token], first: usize, end: usize) -> usize {
    // Text before a heading is unrelated to the text below it, so passages do not overlap across a heading.
    if quality(text, tokens, end) >= 5 {
        return end;
    }
    let least = end.saturating_sub(OVERLAP).max(first + 1);
    // Selects the first of the best places, so that the overlap is as large as possible.
    let best = (least..=end).rev().max_by_key(|&at| quality(text, tokens, at).min(3));
    best.unwrap_or(end)
}
