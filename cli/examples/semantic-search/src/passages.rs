//! Cuts texts into passages of a bounded number of tokens, which overlap.
//!
//! A passage ends where a reader would stop, if there is such a place in its last part: before a heading, at an empty line, at
//! the end of a line, at the end of a sentence, or at least between two words.

use crate::error::{Error, Result};
use tokenizers::Tokenizer;

/// The greatest number of tokens of a passage, without those that the model puts around it.
pub(crate) const LENGTH: usize = 160;
/// How many tokens a passage has in common with the one before it, at most.
pub(crate) const OVERLAP: usize = 32;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passage {
    /// Where it begins and ends, in bytes.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The line on which it begins, from 1.
    pub(crate) line: u32,
    pub(crate) tokens: Vec<u32>,
}

/// A token, and what it stands for.
#[derive(Debug, Clone, Copy)]
struct Token {
    id: u32,
    start: usize,
    end: usize,
    /// Whether it continues the word of the token before it.
    inside: bool,
}

/// Cuts a text into passages. A text without words has none.
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

/// Counts the line feeds between two places.
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

/// How good a place is to stop before the token at `at`.
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

/// Returns where the passage from the token `first` on ends.
fn end(text: &str, tokens: &[Token], first: usize) -> usize {
    let most = first + LENGTH;
    if most >= tokens.len() {
        return tokens.len();
    }
    // The last of the best places in the last half; a word that fills all of it is cut.
    let places = most - LENGTH / 2..=most;
    let best = places.max_by_key(|&at| (quality(text, tokens, at), at));
    best.filter(|&at| quality(text, tokens, at) > 0).unwrap_or(most)
}

/// Returns where the passage begins that follows one of the tokens from `first` to `end`.
fn next(text: &str, tokens: &[Token], first: usize, end: usize) -> usize {
    // What ends before a heading has nothing to do with what is below the heading.
    if quality(text, tokens, end) >= 5 {
        return end;
    }
    let least = end.saturating_sub(OVERLAP).max(first + 1);
    // The first of the best places, so that more is in both.
    let best = (least..=end).rev().max_by_key(|&at| quality(text, tokens, at).min(3));
    best.unwrap_or(end)
}
