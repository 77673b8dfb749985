//! The bytes of each token of a model, sorted in a trie for grammars.

use super::compile::apart;
use super::rules;
use crate::Error;
use crate::tokens::Tokens;
use llguidance::ParserFactory;
use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie,
};
use std::fmt;
use std::sync::Arc;
use tokenizers::{Decoder, DecoderWrapper};

/// The maximum size of a token that a grammar allows, in bytes. The trie is as deep as the longest token.
const TOKEN: usize = 255;

/// The tokens of a model, prepared for grammars.
pub(crate) struct Vocabulary {
    factory: ParserFactory,
    ends: Vec<u32>,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Sorts the `count` tokens that have a logit into a trie.
    pub(crate) fn new(tokens: &Tokens, count: usize) -> Result<Vocabulary, Error> {
        let count =
            u32::try_from(count).map_err(|_| Error::Internal { what: "a token is beyond 32 bits" })?;
        let words = words(tokens, count)?;
        let ends: Vec<u32> = (0..count).filter(|token| tokens.is_end(*token)).collect();
        let kept = ends.clone();
        let factory = apart(move || {
            let mut trie = TokTrie::from(&TokRxInfo::new(count, INVALID_TOKEN), &words);
            if !ends.is_empty() {
                trie = trie.with_eos_tokens(&ends);
            }
            // This environment does not force tokens, even if the grammar has only one continuation: each token is chosen by the
            // sampler.
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            // Tokens that may occur inside a JSON string are sorted separately, so that their mask is computed only once.
            let slices = SlicedBiasComputer::json_slices();
            let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
            factory.quiet();
            *factory.limits_mut() = limits();
            Ok(factory)
        });
        let factory = factory?.map_err(|source| Error::Tokenizer { source })?;
        Ok(Vocabulary { factory, ends: kept })
    }

    pub(super) fn factory(&self) -> &ParserFactory {
        &self.factory
    }

    /// Returns the end tokens.
    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }
}

/// The limits of a grammar.
///
/// Units: according to the library, a millisecond corresponds to 50,000 of `initial_lexer_fuel`, 14,000 of `step_lexer_fuel` or 20,000
/// of `step_max_items`. On a busy machine it corresponds to a third of that.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: rules::PLACE as usize,
        initial_lexer_fuel: 200_000,
        step_lexer_fuel: 100_000,
        step_max_items: 20_000,
        // Each answer has its own states, which take up to 2 KiB each.
        max_lexer_states: 10_000,
        max_grammar_size: rules::RULES as usize,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// Returns the bytes of each token. They are empty for a token that is never a part of a text.
fn words(tokens: &Tokens, count: u32) -> Result<Vec<Vec<u8>>, Error> {
    let mut steps = Vec::new();
    flatten(tokens.decoder(), &mut steps);
    check(&steps)?;
    let word = |token: u32| {
        let Some(name) = tokens.name(token) else { return Ok(Vec::new()) };
        if tokens.is_special(&name) {
            // The library marks special tokens with this byte, which does not occur in any text.
            return Ok([&[TokTrie::SPECIAL_TOKEN_MARKER][..], name.as_bytes()].concat());
        }
        bytes(&steps, name)
    };
    let word = |token: u32| Ok(Some(word(token)?).filter(|word| word.len() <= TOKEN).unwrap_or_default());
    (0..count).map(word).collect()
}

/// Lists the decoder steps that convert tokens to text, without nesting.
fn flatten<'a>(decoder: Option<&'a DecoderWrapper>, to: &mut Vec<&'a DecoderWrapper>) {
    match decoder {
        Some(DecoderWrapper::Sequence(sequence)) => {
            // The JSON parser limits the nesting of sequences, so this recursion is limited, too.
            sequence.get_decoders().iter().for_each(|decoder| flatten(Some(decoder), to));
        }
        Some(decoder) => to.push(decoder),
        None => {}
    }
}

/// Refuses decoder steps if the decoded text can differ from the concatenated texts of the tokens.
fn check(steps: &[&DecoderWrapper]) -> Result<(), Error> {
    let mut fused = false;
    for step in steps {
        let refused = match step {
            DecoderWrapper::ByteLevel(_)
            | DecoderWrapper::ByteFallback(_)
            | DecoderWrapper::Metaspace(_)
            | DecoderWrapper::Replace(_) => None,
            DecoderWrapper::Fuse(_) => {
                fused = true;
                None
            }
            // A strip of the start of the whole text is allowed, but not of the start of each token.
            DecoderWrapper::Strip(strip) if fused && strip.stop == 0 => None,
            DecoderWrapper::Strip(_) => Some("Strip"),
            DecoderWrapper::BPE(_) => Some("BPEDecoder"),
            DecoderWrapper::WordPiece(_) => Some("WordPiece"),
            DecoderWrapper::CTC(_) => Some("CTC"),
            DecoderWrapper::Sequence(_) => Some("Sequence"),
        };
        if let Some(found) = refused {
            return Err(Error::Vocabulary { found });
        }
    }
    if steps.is_empty() { Err(Error::Vocabulary { found: "none" }) } else { Ok(()) }
}

/// Returns the bytes that a token adds to a text.
fn bytes(steps: &[&DecoderWrapper], mut text: String) -> Result<Vec<u8>, Error> {
    for step in steps {
        match step {
            DecoderWrapper::ByteLevel(_) => {
                let all: Option<Vec<u8>> = text.chars().map(byte_of).collect();
                // The library leaves a token with other characters unchanged.
                return Ok(all.unwrap_or_else(|| text.into_bytes()));
            }
            DecoderWrapper::ByteFallback(_) => {
                let hex = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                let byte = hex.filter(|hex| hex.len() == 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                if let Some(byte) = byte {
                    return Ok(vec![byte]);
                }
            }
            DecoderWrapper::Metaspace(space) => {
                text = text.replace(space.get_replacement(), " ");
            }
            DecoderWrapper::Replace(replace) => {
                let decoded = replace.decode_chain(vec![text]);
                text = decoded.map_err(|source| Error::Tokenizer { source })?.concat();
            }
            _ => {}
        }
    }
    Ok(text.into_bytes())
}

/// Returns the byte that a character represents in byte-level tokens. Visible characters of Latin-1 represent themselves. The remaining
/// bytes are represented by the characters from U+0100 on, in order.
///
/// Source: `bytes_to_unicode` of GPT-2.
fn byte_of(c: char) -> Option<u8> {
    let hidden = [0..=0x20, 0x7f..=0xa0, 0xad..=0xad];
    match u32::from(c) {
        x @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(x).ok(),
        x => hidden.into_iter().flatten().nth(x.checked_sub(0x100)? as usize),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Returns the bytes of the tokens `names` in a tokenizer with these decoder steps.
    fn words_of(decoder: &str, names: &[&str]) -> Result<Vec<Vec<u8>>, Error> {
        let vocabulary: Vec<String> =
            names.iter().enumerate().map(|(i, name)| format!("{}:{i}", serde_json::json!(name))).collect();
        let special = format!(
            r#"{{"id":{},"content":"<|end|>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}}"#,
            names.len()
        );
        let json = format!(
            r#"{{"version":"1.0","added_tokens":[{special}],"decoder":{decoder},"model":{{"type":"BPE","vocab":{{{}}},"merges":[]}}}}"#,
            vocabulary.join(",")
        );
        let tokens = Tokens::from_json(json.as_bytes()).unwrap();
        words(&tokens, names.len() as u32 + 2)
    }

    /// Checks that all 256 bytes come from the same characters as in Python, and that no other character gives a byte.
    #[test]
    fn characters_stand_for_bytes_as_gpt_2_has_it() {
        let all: Vec<u8> = ('\0'..'\u{200}').filter_map(byte_of).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..=255).collect::<Vec<u8>>());
        // `bytes_to_unicode()` gives `Ġ` for 0x20, `Ċ` for 0x0a, `ġ` for 0x7f, and `Ń` for 0xad.
        assert_eq!(
            ['Ġ', 'Ċ', 'ġ', 'Ń', 'A', 'é'].map(byte_of),
            [0x20, 0x0a, 0x7f, 0xad, b'A', 0xe9].map(Some)
        );
        assert_eq!(byte_of('\u{2581}'), None);
    }

    #[test]
    fn tokens_are_the_bytes_that_their_decoder_makes_of_them() {
        let level = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}"#;
        let found = words_of(level, &["Ġthe", "Ã", "世"]).unwrap();
        let special = b"\xff<|end|>".to_vec();
        assert_eq!(found, [b" the".to_vec(), vec![0xc3], "世".as_bytes().to_vec(), special.clone(), vec![]]);
        let pieces = r#"{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
            {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}"#;
        let found = words_of(pieces, &["▁the▁", "<0xE9>", "<0xZZ>", "é"]).unwrap();
        let expected = [&b" the "[..], b"\xe9", b"<0xZZ>", "é".as_bytes(), &special, b""];
        assert_eq!(found, expected);
        let space = r#"{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}"#;
        assert_eq!(words_of(space, &["▁a"]).unwrap(), [&b" a"[..], &special, b""]);
        assert_eq!(words_of(level, &["a", &"b".repeat(256)]).unwrap(), [&b"a"[..], b"", &special, b""]);
    }

    #[test]
    fn decoders_that_join_tokens_otherwise_are_refused() {
        let piece = r#"{"type":"WordPiece","prefix":"\#\#","cleanup":true}"#.replace('\\', "");
        for (decoder, name) in [
            (piece.as_str(), "WordPiece"),
            ("null", "none"),
            (r#"{"type":"BPEDecoder","suffix":"</w>"}"#, "BPEDecoder"),
            (r#"{"type":"Strip","content":" ","start":1,"stop":0}"#, "Strip"),
        ] {
            let refused = words_of(decoder, &["a"]);
            assert!(matches!(&refused, Err(Error::Vocabulary { found }) if *found == name), "{refused:?}");
        }
    }
}
