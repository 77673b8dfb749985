//! Encodes texts to tokens, and decodes tokens to texts.

mod components;
mod content;
mod file;
mod from_gguf;
mod refusal;
mod text;

use crate::Error;
use crate::gguf::Gguf;
use content::Controls;
use refusal::Refusal;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use text::{Reading, Texts};
use tokenizers::Tokenizer;

/// The names of tokens that end a text or a message.
///
/// Source: `llama-vocab.cpp` of llama.cpp, MIT licence.
const ENDS: [&str; 13] = [
    "</s>",
    "<EOT>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<eos>",
    "<|end_of_text|>",
    "<|end|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|return|>",
    "[EOS]",
];

/// The tokenizer of a model.
#[derive(Debug)]
pub struct Tokens {
    tokenizer: Tokenizer,
    /// The first token of a text, if the tokenizer does not add it itself.
    begin: Option<u32>,
    /// Whether `begin` is inserted before texts that are not messages.
    begins: bool,
    ends: BTreeSet<u32>,
    texts: Texts,
    /// The control tokens, set when the first user's text is encoded.
    controls: OnceLock<Controls>,
}

impl Tokens {
    /// Reads `tokenizer.json`, the format of Hugging Face's `tokenizers`. Padding and truncation in the file are ignored, because they
    /// are for batches.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`], also if the components of the file may make a text much longer.
    pub fn from_json(json: &[u8]) -> Result<Tokens, Error> {
        let texts = file::check(json).map_err(refused)?;
        let mut tokenizer = guarded(|| Tokenizer::from_bytes(json))?;
        tokenizer.with_padding(None);
        guarded(|| tokenizer.with_truncation(None).map(|_| ()))?;
        Ok(Tokens::new(tokenizer, texts))
    }

    /// Creates the tokenizer that a GGUF file describes.
    ///
    /// # Errors
    ///
    /// [`Error::TokenizerKind`] for an unknown kind; [`Error::Tokenizer`] and [`Error::Gguf`] for a file that does not conform to the
    /// kind.
    pub fn from_gguf(file: &Gguf) -> Result<Tokens, Error> {
        from_gguf::read(file)
    }

    fn new(tokenizer: Tokenizer, texts: Texts) -> Tokens {
        let ends = ENDS.iter().filter_map(|text| {
            let id = tokenizer.token_to_id(text)?;
            // An ordinary token may have the text of an end token by chance. So only special tokens are ends.
            tokenizer.get_added_vocabulary().is_special_token(text).then_some(id)
        });
        Tokens {
            ends: ends.collect(),
            begin: None,
            begins: false,
            tokenizer,
            texts,
            controls: OnceLock::new(),
        }
    }

    /// Adds tokens that end a text.
    pub(crate) fn add_ends(&mut self, ends: impl IntoIterator<Item = u32>) {
        self.ends.extend(ends);
    }

    /// Returns the tokens of a text that is not a message, beginning with the token that the model requires at the start.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.encode_within(text, usize::MAX)
    }

    /// Inserts the token that begins a text, unless it is already there.
    fn begin_with(&self, tokens: &mut Vec<u32>) {
        if let Some(begin) = self.begin.filter(|begin| self.begins && tokens.first() != Some(begin)) {
            tokens.insert(0, begin);
        }
    }

    /// Returns the tokens of a text that a template rendered. This text already contains all special tokens.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`].
    pub fn encode_messages(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.encode_messages_within(text, usize::MAX)
    }

    /// Returns the length of the longest token, in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.texts.longest
    }

    fn encoded(&self, text: &str, reading: Reading) -> Result<Vec<u32>, Error> {
        if !reading.controls {
            return self.encoded_plain(text, reading.after, reading.around);
        }
        let encoding = guarded(|| self.tokenizer.encode_fast(text, reading.around))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Decodes tokens to text, without special tokens. Invalid UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        guarded(|| self.tokenizer.decode(tokens, true))
    }

    /// Returns the name of a token in the vocabulary; `None` if the token does not exist.
    pub fn name(&self, token: u32) -> Option<String> {
        self.tokenizer.id_to_token(token)
    }

    /// Returns whether a token ends a text.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Returns the decoder, which converts tokens to text.
    #[cfg(feature = "grammar")]
    pub(crate) fn decoder(&self) -> Option<&tokenizers::DecoderWrapper> {
        self.tokenizer.get_decoder()
    }

    /// Returns whether the token of this name is omitted from decoded texts.
    #[cfg(feature = "grammar")]
    pub(crate) fn is_special(&self, name: &str) -> bool {
        self.tokenizer.get_added_vocabulary().is_special_token(name)
    }

    /// Returns the text of the token that begins a text.
    pub(crate) fn begin_text(&self) -> Option<String> {
        self.begin.and_then(|token| self.name(token))
    }
}

/// Calls the library. Its panics become errors, because it uses values from the file as indices.
fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|source| Error::Tokenizer { source }),
        Err(_) => Err(refused(Refusal::Panic)),
    }
}

fn refused(why: impl Into<bb_ir::BoxError>) -> Error {
    Error::Tokenizer { source: why.into() }
}
