//! Checks `tokenizer.json` before the library reads it.

use super::components::{self, Effect};
use super::refusal::Refusal;
use super::text::Texts;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use std::fmt;

/// The maximum length of a special token, and of a token in kinds of models that try all lengths, in bytes.
pub(super) const SPECIAL: usize = 512;
/// The maximum length of a token, in bytes.
pub(super) const TOKEN: usize = 4096;
/// The maximum size of all special tokens together, in bytes. The automaton that finds them takes about 80 bytes
/// per byte.
pub(super) const SPECIALS: usize = 1 << 20;
/// The maximum number of characters of a word in `WordPiece`, which tries all lengths at each position.
const WORD: u64 = 256;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Option<Vec<Added>>,
    #[serde(default)]
    normalizer: Json,
    #[serde(default)]
    pre_tokenizer: Json,
    #[serde(default)]
    post_processor: Json,
    #[serde(default)]
    decoder: Json,
    model: TokenizerModel,
}

#[derive(Deserialize)]
struct Added {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Deserialize)]
struct TokenizerModel {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    max_input_chars_per_word: Option<u64>,
}

/// The length of the longest token of a vocabulary. The vocabulary is a map from tokens to ids, or a list of
/// tokens with scores.
#[derive(Default)]
struct Vocabulary {
    longest: usize,
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Vocabulary, D::Error> {
        struct Lengths;
        impl<'de> Visitor<'de> for Lengths {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tokens to numbers, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut longest = 0;
                while let Some((token, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                    longest = longest.max(token.len());
                }
                Ok(Vocabulary { longest })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut longest = 0;
                while let Some((token, _)) = list.next_element::<(String, f64)>()? {
                    longest = longest.max(token.len());
                }
                Ok(Vocabulary { longest })
            }
        }
        from.deserialize_any(Lengths)
    }
}

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("it is not of the form of `tokenizers`")]
    Json(#[source] serde_json::Error),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Checks a file. Returns the properties that determine how texts are encoded.
pub(super) fn check(json: &[u8]) -> Result<Texts, FileError> {
    let file: File = serde_json::from_slice(json).map_err(FileError::Json)?;
    let normalizer = components::steps("normalizer", &file.normalizer)?;
    let pre_tokenizer = components::steps("pre-tokenizer", &file.pre_tokenizer)?;
    components::steps("decoder", &file.decoder)?;
    components::post_processor(&file.post_processor)?;
    let model = &file.model;
    let kind = model.kind.as_deref().unwrap_or_default();
    for affix in [&model.continuing_subword_prefix, &model.end_of_word_suffix] {
        components::affix(affix.as_deref())?;
    }
    Refusal::at_most("bytes of the unknown token", model.unk_token.as_deref().map_or(0, str::len), SPECIAL)?;
    let most = if kind == "BPE" { TOKEN } else { SPECIAL };
    Refusal::at_most("bytes of a token", model.vocab.longest, most)?;
    if let Some(word) = model.max_input_chars_per_word.filter(|word| *word > WORD) {
        let what = "characters of a word";
        return Err(Refusal::Count { what, found: word, most: WORD }.into());
    }
    let added = file.added_tokens.as_deref().unwrap_or_default();
    let special = specials(added.iter().map(|token| token.content.as_str()), normalizer.growth)?;
    let strips = added.iter().any(|token| token.single_word || token.lstrip || token.rstrip);
    let Effect { own_pattern, cuts, .. } = pre_tokenizer;
    Ok(Texts {
        longest: model.vocab.longest.max(special.longest),
        slow: own_pattern || normalizer.own_pattern || strips,
        cuts: cuts
            && normalizer.cuts
            && !file.pre_tokenizer.is_null()
            && kind == "BPE"
            && !strips
            && !special.spaces,
    })
}

/// The length of the longest special token, and whether a special token contains a space.
pub(super) struct Specials {
    longest: usize,
    pub(super) spaces: bool,
}

/// Checks the lengths of special tokens. `growth` is the maximum growth factor of each by normalization.
pub(super) fn specials<'a>(all: impl Iterator<Item = &'a str>, growth: usize) -> Result<Specials, Refusal> {
    let (mut longest, mut bytes, mut spaces) = (0, 0usize, false);
    for token in all {
        longest = longest.max(token.len());
        bytes = bytes.saturating_add(token.len().saturating_mul(growth));
        spaces |= token.contains(char::is_whitespace);
    }
    Refusal::at_most("bytes of a special token", longest, SPECIAL)?;
    Refusal::at_most("bytes of all special tokens", bytes, SPECIALS)?;
    Ok(Specials { longest, spaces })
}
