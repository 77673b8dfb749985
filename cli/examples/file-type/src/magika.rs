//! Computes the input of Magika's model from a file, and interprets the model's scores.
//!
//! The module does not depend on how the model runs. The command-line example and the module for browsers share it.
//!
//! Source: Magika 1.0.3, "features extraction v2".

use std::collections::HashMap;

/// The fields of the authors' configuration that inference needs. The other fields concern training.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Config {
    target_labels_space: Vec<String>,
    thresholds: HashMap<String, f32>,
    overwrite_map: HashMap<String, String>,
    medium_confidence_threshold: f32,
    beg_size: usize,
    end_size: usize,
    block_size: usize,
    padding_token: i32,
    min_file_size_for_dl: usize,
}

/// A file type and the model's confidence in it, from 0 to 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Guess {
    pub(crate) label: String,
    pub(crate) score: f32,
}

/// An error: the number of scores differs from the number of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model gave {got} scores; expected one for each of {expected} labels")]
pub(crate) struct ScoreError {
    expected: usize,
    got: usize,
}

/// The features of a file.
enum Features {
    /// The file has no bytes.
    Empty,
    /// The file is too short for the model. `text` says whether it is UTF-8.
    TooShort { text: bool },
    /// The input of the model, with one token per byte and padding. `text` says whether the bytes that were read are UTF-8.
    Tokens { tokens: Vec<i32>, text: bool },
}

/// Converts files to tokens, and scores to labels.
#[derive(Debug)]
pub(crate) struct Identifier {
    config: Config,
}

impl Identifier {
    pub(crate) fn new(config: Config) -> Identifier {
        Identifier { config }
    }

    /// Returns the maximum length of the first and of the last block, in bytes.
    pub(crate) fn block_size(&self) -> usize {
        self.config.block_size
    }

    /// Guesses the type of a file from its first and its last block. `scores` runs the model on a row of tokens.
    ///
    /// # Errors
    ///
    /// The errors of `scores`; [`ScoreError`] if the number of scores differs from the number of labels.
    pub(crate) fn identify<E: From<ScoreError>>(
        &self,
        first: &[u8],
        last: &[u8],
        scores: impl FnOnce(&[i32]) -> Result<Vec<f32>, E>,
    ) -> Result<Guess, E> {
        let sure = |label: &str| Guess { label: label.to_owned(), score: 1.0 };
        let plain = |text: bool| if text { "txt" } else { "unknown" };
        let (tokens, text) = match self.features(first, last) {
            Features::Empty => return Ok(sure("empty")),
            Features::TooShort { text } => return Ok(sure(plain(text))),
            Features::Tokens { tokens, text } => (tokens, text),
        };
        let scores = scores(&tokens)?;
        let labels = &self.config.target_labels_space;
        let wrong = ScoreError { expected: labels.len(), got: scores.len() };
        let best = scores.into_iter().zip(labels).max_by(|a, b| a.0.total_cmp(&b.0));
        let (score, label) = best.filter(|_| wrong.expected == wrong.got).ok_or(wrong)?;
        let config = &self.config;
        let needed = config.thresholds.get(label).copied().unwrap_or(config.medium_confidence_threshold);
        let label =
            if score < needed { plain(text) } else { config.overwrite_map.get(label).unwrap_or(label) };
        Ok(Guess { label: label.to_owned(), score })
    }

    fn features(&self, first: &[u8], last: &[u8]) -> Features {
        let config = &self.config;
        if first.is_empty() {
            return Features::Empty;
        }
        // The end of the block may split a character, so an incomplete character at the end is accepted.
        let text = std::str::from_utf8(first).map_or_else(|e| e.error_len().is_none(), |_| true);
        let first = first.get(first.iter().position(|b| !is_space(*b)).unwrap_or(first.len())..);
        let first = first.unwrap_or_default();
        let last = last.get(..last.iter().rposition(|b| !is_space(*b)).map_or(0, |i| i + 1));
        let last = last.unwrap_or_default();
        if first.len() < config.min_file_size_for_dl {
            return Features::TooShort { text };
        }
        let padding = |n: usize| std::iter::repeat_n(config.padding_token, n);
        let tokens = |bytes: &[u8]| bytes.iter().map(|b| i32::from(*b)).collect::<Vec<_>>();
        let beginning = tokens(first.get(..config.beg_size).unwrap_or(first));
        let end = tokens(last.get(last.len().saturating_sub(config.end_size)..).unwrap_or_default());
        let mut all = beginning;
        all.extend(padding(config.beg_size - all.len()));
        all.extend(padding(config.end_size - end.len()));
        all.extend(end);
        Features::Tokens { tokens: all, text }
    }
}

/// Returns whether Python's `bytes.strip` strips the byte.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}
