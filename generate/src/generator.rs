//! Models that generate text, their sequences, and the generation loop.

use crate::answer::{Answer, End, Piece};
use crate::clock::Stopwatch;
use crate::files::{self, Opened};
use crate::grammar::Matcher;
use crate::network::{Network, Store};
use crate::onnx::EncoderInput;
use crate::statistics::Statistics;
use crate::template::{ChatTemplate, Message};
use crate::tokens::Tokens;
use crate::{Error, GenerateOptions, OpenOptions};
use bb::ir::memory;
use bb::{BackendHandle, TensorData};
use bytes::Bytes;
use std::borrow::BorrowMut;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "grammar")]
use {
    crate::grammar::{Constraint, Grammar, Vocabulary},
    std::sync::OnceLock,
};

#[derive(Debug)]
struct Model {
    network: Network,
    tokens: Tokens,
    template: Option<ChatTemplate>,
    /// The bytes of the tokens, set when the first grammar is compiled.
    #[cfg(feature = "grammar")]
    vocabulary: OnceLock<Arc<Vocabulary>>,
}

/// A language model on a backend, with its tokenizer and its template.
///
/// # Examples
///
/// ```no_run
/// use bb_generate::{GenerateOptions, Generator, Message, OpenOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let generator = Generator::open("model.gguf", &bb::backend("cpu")?, &OpenOptions::default())?;
/// let prompt = generator.chat(&[Message::new("user", "Which planet is the largest?")])?;
/// for piece in generator.sequence().generate(&prompt, &GenerateOptions::default())? {
///     print!("{}", piece?.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Generator {
    model: Arc<Model>,
}

impl Generator {
    /// Opens a GGUF file, or a folder with a model in ONNX's format, and compiles it for a backend.
    ///
    /// # Errors
    ///
    /// [`Error`] for files that cannot be read, and for models with unknown parts.
    pub fn open(
        path: impl AsRef<Path>,
        on: &BackendHandle,
        options: &OpenOptions,
    ) -> Result<Generator, Error> {
        Ok(Generator::new(files::open(path.as_ref(), on, options)?))
    }

    /// Opens a GGUF file whose bytes are in memory, and compiles it for a backend.
    ///
    /// # Errors
    ///
    /// [`Error`] for bytes that are not a GGUF file, and for models with unknown parts.
    pub fn from_bytes(
        bytes: impl Into<Bytes>,
        on: &BackendHandle,
        options: &OpenOptions,
    ) -> Result<Generator, Error> {
        Ok(Generator::new(files::from_bytes(bytes.into(), on, options)?))
    }

    fn new(Opened { network, tokens, template }: Opened) -> Generator {
        let model = Model {
            network,
            tokens,
            template,
            #[cfg(feature = "grammar")]
            vocabulary: OnceLock::new(),
        };
        Generator { model: Arc::new(model) }
    }

    /// Returns the network, which computes logits.
    pub(crate) fn network(&self) -> &Network {
        &self.model.network
    }

    /// Returns the tokenizer.
    pub fn tokens(&self) -> &Tokens {
        &self.model.tokens
    }

    /// Returns the template for messages; `None` if the model has none.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.model.template.as_ref()
    }

    /// Returns the maximum number of tokens of a sequence.
    pub fn context(&self) -> usize {
        self.model.network.positions()
    }

    /// Returns the number of logits of a token.
    pub fn vocabulary(&self) -> usize {
        self.model.network.vocabulary()
    }

    /// Returns the tokens of messages, followed by the tokens that begin an answer. The names of control tokens in messages are plain
    /// text, so that no message can end itself or begin another message.
    ///
    /// # Errors
    ///
    /// [`Error::NoTemplate`]; [`Error::Template`] and [`Error::LongTemplate`]; [`Error::Tokenizer`]; [`Error::Context`] for messages with
    /// more tokens than a sequence can have.
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>, Error> {
        let template = self.template().ok_or(Error::NoTemplate)?;
        self.tokens().encode_chat(template, messages, self.context())
    }

    /// Returns the tokens of a text that is not a message, beginning with the token that the model expects first. Encoding stops soon
    /// after the maximum number of tokens is exceeded.
    ///
    /// # Errors
    ///
    /// [`Error::Context`] for a text with more tokens than a sequence can have; [`Error::Tokenizer`]; [`Error::Model`] after the deadline
    /// of the thread.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.tokens().encode_within(text, self.context())
    }

    /// Returns the length of the longest answer, in bytes.
    pub(crate) fn longest_answer(&self) -> usize {
        self.context().saturating_mul(self.tokens().longest().max(1))
    }

    /// Refuses tokens that do not exist.
    pub(crate) fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        let most = self.vocabulary();
        match tokens.iter().find(|token| **token as usize >= most) {
            Some(&token) => Err(Error::Token { token, most: most.saturating_sub(1) }),
            None => Ok(()),
        }
    }

    /// Compiles a constraint for the tokens of this model. The first call for a model also sorts its tokens, which takes some tenths of a
    /// second if there are many. If several threads make the first call at the same time, each sorts the tokens, and one of the results is
    /// kept.
    ///
    /// # Errors
    ///
    /// [`Error::Grammar`] for a constraint that is invalid, that has an unknown part, or that requires too much work;
    /// [`Error::GrammarSize`] for a constraint that is too long; [`Error::Busy`] while too many other constraints are being compiled;
    /// [`Error::Vocabulary`] if the bytes of the model's tokens are unknown.
    #[cfg(feature = "grammar")]
    pub fn grammar(&self, constraint: &Constraint) -> Result<Grammar, Error> {
        constraint.check()?;
        let Model { vocabulary, tokens, .. } = &*self.model;
        let vocabulary = match vocabulary.get() {
            Some(vocabulary) => vocabulary,
            None => {
                let made = Arc::new(Vocabulary::new(tokens, self.vocabulary())?);
                vocabulary.get_or_init(|| made)
            }
        };
        Grammar::compile(constraint, vocabulary)
    }

    /// Begins the grammar of an answer, if the options have one.
    #[cfg(feature = "grammar")]
    pub(crate) fn matcher(&self, options: &GenerateOptions) -> Result<Option<Matcher>, Error> {
        let vocabulary = self.model.vocabulary.get();
        options.grammar.as_ref().map(|grammar| grammar.matcher(vocabulary)).transpose()
    }

    /// Returns `None`: in a build without grammars, no answer has a grammar.
    #[cfg(not(feature = "grammar"))]
    pub(crate) fn matcher(&self, _: &GenerateOptions) -> Result<Option<Matcher>, Error> {
        Ok(None)
    }

    /// Begins a sequence.
    pub fn sequence(&self) -> TokenSequence {
        TokenSequence { generator: self.clone(), store: self.model.network.store(), tokens: Vec::new() }
    }

    /// Returns whether the model has an encoder, so that its sequences begin with [`sequence_of`](Self::sequence_of).
    pub fn has_encoder(&self) -> bool {
        self.model.network.has_encoder()
    }

    /// Returns the decoder start token, if the model defines one.
    pub fn start(&self) -> Option<u32> {
        self.model.network.start()
    }

    /// Begins a sequence that is conditioned on the input of an encoder. The encoder runs once.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] for a model without an encoder, or whose encoder reads another kind of input; [`Error::NoTokens`] and
    /// [`Error::Token`]; [`Error::Model`].
    pub fn sequence_of(&self, source: EncoderInput<'_>) -> Result<TokenSequence, Error> {
        if let EncoderInput::Tokens(tokens) = source {
            self.check(tokens)?;
            if tokens.is_empty() {
                return Err(Error::NoTokens);
            }
        }
        let store = self.model.network.read(source)?;
        Ok(TokenSequence { generator: self.clone(), store, tokens: Vec::new() })
    }
}

/// A sequence of tokens so far, with the caches of their keys and values. If the next prompt begins with the same tokens, this prefix is
/// not computed again.
#[derive(Debug)]
pub struct TokenSequence {
    generator: Generator,
    store: Store,
    tokens: Vec<u32>,
}

impl TokenSequence {
    /// Returns the tokens whose keys and values are cached.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the size of the caches in bytes.
    pub fn cache_bytes(&self) -> usize {
        self.store.bytes()
    }

    fn truncate(&mut self, length: usize) -> Result<(), Error> {
        self.store.truncate(length)?;
        self.tokens.truncate(length);
        Ok(())
    }

    /// Runs new tokens. Returns the logits after the tokens at the indices `rows`.
    fn step(&mut self, tokens: &[u32], rows: &[i64]) -> Result<TensorData, Error> {
        self.generator.check(tokens)?;
        let logits = self.generator.model.network.step(tokens, rows, &mut self.store)?;
        self.tokens.extend_from_slice(tokens);
        debug_assert_eq!(self.tokens.len(), self.store.len());
        Ok(logits)
    }

    /// Replaces the content of the sequence by these tokens, and keeps the common prefix. Returns the logits after the last token, and the
    /// number of tokens that were kept.
    ///
    /// # Errors
    ///
    /// [`Error::NoTokens`] if there are no tokens; [`Error::Token`] for a token that does not exist; [`Error::Context`] for too many
    /// tokens; [`Error::Model`].
    pub fn prompt(&mut self, tokens: &[u32], chunk: usize) -> Result<(Vec<f32>, usize), Error> {
        let (logits, common) = self.continued(tokens, chunk)?;
        Ok((copied(&logits)?, common))
    }

    /// Runs like [`prompt`](Self::prompt), without a copy of the logits.
    fn continued(&mut self, tokens: &[u32], chunk: usize) -> Result<(TensorData, usize), Error> {
        if tokens.len() > self.generator.context() {
            return Err(Error::Context { needed: tokens.len(), most: self.generator.context() });
        }
        let common = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // The last token is run in any case, for its logits.
        let common = common.min(tokens.len().checked_sub(1).ok_or(Error::NoTokens)?);
        self.truncate(common)?;
        let rest = tokens.get(common..).unwrap_or_default();
        let mut logits = None;
        for part in rest.chunks(if chunk == 0 { rest.len() } else { chunk }) {
            logits = Some(self.step(part, &[part.len() as i64 - 1])?);
        }
        Ok((logits.ok_or(Error::NoTokens)?, common))
    }

    /// Computes the logits after each of these tokens, for a new sequence: `[tokens, vocabulary]`.
    ///
    /// # Errors
    ///
    /// The errors of [`prompt`](Self::prompt).
    pub fn all_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        if tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        self.truncate(0)?;
        let rows: Vec<i64> = (0..tokens.len() as i64).collect();
        copied(&self.step(tokens, &rows)?)
    }

    /// Generates the continuation of a prompt.
    ///
    /// # Errors
    ///
    /// The errors of [`prompt`](Self::prompt), which runs before this returns; [`Error::Option`]; [`Error::GrammarModel`].
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<Generation<&mut Self>, Error> {
        Generation::begin(self, prompt, options)
    }

    /// Generates the continuation of a prompt, and owns the sequence until the generation ends.
    ///
    /// # Errors
    ///
    /// The errors of [`generate`](Self::generate).
    pub fn into_generation(
        self,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<Generation<Self>, Error> {
        Generation::begin(self, prompt, options)
    }
}

/// Copies floats out of a tensor.
fn copied(logits: &TensorData) -> Result<Vec<f32>, Error> {
    Ok(memory::copied("logits", logits.as_slice::<f32>()?)?)
}

/// A generation, which is an iterator over the pieces of a text. Dropping it ends the generation.
#[derive(Debug)]
pub struct Generation<S> {
    /// A [`TokenSequence`], or a reference to one.
    session: S,
    answer: Answer,
    /// The logits of the next token.
    logits: TensorData,
    statistics: Statistics,
    end: Option<End>,
}

impl<S: BorrowMut<TokenSequence>> Generation<S> {
    fn begin(mut session: S, prompt: &[u32], options: &GenerateOptions) -> Result<Self, Error> {
        let generator = &session.borrow_mut().generator;
        let answer = Answer::new(prompt, options, generator.matcher(options)?, generator.longest_answer())?;
        let start = Stopwatch::start();
        let (logits, reused) = session.borrow_mut().continued(prompt, options.chunk)?;
        let statistics = Statistics {
            prompt_tokens: prompt.len(),
            reused_tokens: reused,
            prompt_time: start.elapsed(),
            answer_tokens: 0,
            answer_time: Duration::ZERO,
        };
        Ok(Generation { session, answer, logits, statistics, end: None })
    }

    /// Returns the number of tokens so far, and the time that they took.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns the tokens that were generated.
    pub fn tokens(&self) -> &[u32] {
        self.answer.generated()
    }

    /// Ends the generation, and returns the sequence with its caches.
    pub fn into_sequence(self) -> S {
        self.session
    }

    fn advance(&mut self) -> Result<Piece, Error> {
        let session = self.session.borrow_mut();
        let generator = &session.generator;
        let full = session.tokens.len() >= generator.context();
        let piece = self.answer.next(self.logits.as_slice::<f32>()?, generator.tokens(), full)?;
        if piece.end.is_none() {
            self.logits = session.step(&[piece.token], &[0])?;
        }
        Ok(piece)
    }
}

impl<S: BorrowMut<TokenSequence>> Iterator for Generation<S> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Result<Piece, Error>> {
        if self.end.is_some() || self.answer.most() == 0 {
            return None;
        }
        let start = Stopwatch::start();
        let piece = self.advance();
        self.statistics.answer_time += start.elapsed();
        self.statistics.answer_tokens = self.answer.generated().len();
        // Generation cannot continue after an error.
        self.end = match &piece {
            Ok(piece) => piece.end,
            Err(_) => Some(End::Stop),
        };
        Some(piece)
    }
}
