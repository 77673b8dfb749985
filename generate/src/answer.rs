//! Generates an answer to a prompt token by token: chooses a token, decodes its text, and decides whether it is the last token.

use crate::grammar::Matcher;
use crate::sampler::{LogProbability, Sampler, log_probabilities};
use crate::stops::Stops;
use crate::text::TextStream;
use crate::tokens::Tokens;
use crate::{Error, GenerateOptions};

/// The reason why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The model chose a token that ends the text.
    Token,
    /// The text contains one of the stop strings.
    Stop,
    /// The requested number of tokens is reached.
    Length,
    /// The sequence has the maximum length that the model supports.
    Context,
}

/// The next token of an answer and the text that it adds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Piece {
    /// The token.
    pub token: u32,
    /// The text that is certain after this token. It is empty if the token ends inside a character, or with a possible beginning of a
    /// stop string.
    pub text: String,
    /// The log-probability of the token and of the most probable tokens, if requested.
    pub log_probabilities: Option<(LogProbability, Vec<LogProbability>)>,
    /// The reason why this piece is the last one; `None` if more pieces follow.
    pub end: Option<End>,
}

/// An answer so far.
#[derive(Debug)]
pub(crate) struct Answer {
    sampler: Sampler,
    /// The maximum number of tokens; whether tokens that end the text are ignored; and the number of tokens whose log-probabilities
    /// are reported.
    most: usize,
    ignore_end: bool,
    log_probabilities: Option<usize>,
    prompt: Vec<u32>,
    generated: Vec<u32>,
    stream: TextStream,
    /// The state of the grammar after the generated text, if there is a grammar.
    matcher: Option<Matcher>,
}

impl Answer {
    /// Begins an answer to a prompt, with its grammar if there is one. `longest` is the length of the longest answer, in bytes.
    pub(crate) fn new(
        prompt: &[u32],
        options: &GenerateOptions,
        matcher: Option<Matcher>,
        longest: usize,
    ) -> Result<Answer, Error> {
        Ok(Answer {
            sampler: Sampler::new(&options.sampling)?,
            most: options.tokens,
            ignore_end: options.ignore_end,
            log_probabilities: options.log_probabilities,
            prompt: prompt.to_vec(),
            generated: Vec::new(),
            stream: TextStream::new(Stops::new(&options.stop, longest)?),
            matcher,
        })
    }

    /// Returns the tokens that were generated.
    pub(crate) fn generated(&self) -> &[u32] {
        &self.generated
    }

    /// Returns the maximum number of tokens.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Chooses the next token by its logits. `full` is true if the sequence has no room for another token.
    pub(crate) fn next(&mut self, logits: &[f32], tokens: &Tokens, full: bool) -> Result<Piece, Error> {
        let ignore_end = self.ignore_end;
        let possible = match &mut self.matcher {
            None => logits,
            Some(matcher) => matcher.masked(logits, ignore_end)?,
        };
        let token = self.sampler.choose(possible, &self.prompt, &self.generated)?;
        let log_probabilities = self.log_probabilities.map(|count| log_probabilities(logits, token, count));
        self.generated.push(token);
        // If the grammar allows only an end token, it ends the answer even with `ignore_end`.
        if (!ignore_end || self.matcher.is_some()) && tokens.is_end(token) {
            let text = self.stream.finish(tokens)?;
            return Ok(Piece { token, text, log_probabilities, end: Some(End::Token) });
        }
        let complete = match &mut self.matcher {
            None => false,
            Some(matcher) => matcher.take(token)?,
        };
        let (mut text, stopped) = self.stream.push(token, tokens)?;
        let mut end = (stopped || complete).then_some(End::Stop);
        if end.is_none() && self.generated.len() >= self.most {
            end = Some(End::Length);
        } else if end.is_none() && full {
            end = Some(End::Context);
        }
        if end.is_some() && !stopped {
            text.push_str(&self.stream.finish(tokens)?);
        }
        Ok(Piece { token, text, log_probabilities, end })
    }
}
