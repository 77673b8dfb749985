//! Text generation, with the feature `generate`, for language models in GGUF files.
//!
//! Each call does a bounded amount of work: it runs some tokens of a prompt, or generates one token. So JavaScript can stop between two
//! calls. A language model has one sequence. The next prompt reuses its cache as far as the tokens are the same.

mod exports;
mod random;

use crate::failure::Failure;
use bb_generate::{
    End, GenerateOptions, Generation, Generator, Message, OpenOptions, Piece, Sampling, TokenSequence,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::cell::Cell;

/// The number of prompt tokens that a call runs.
const PART: usize = 64;

thread_local! {
    /// The time in seconds since 1970, from JavaScript's last request.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Options that JavaScript passes when it opens a language model.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct JsModelOptions {
    /// The maximum number of tokens of a sequence.
    context: Option<usize>,
}

/// A request to generate text: the prompt and the options of sampling.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    /// A conversation. The model generates its next message.
    messages: Option<Vec<Message>>,
    /// A text. The model continues it.
    prompt: Option<String>,
    max_tokens: Option<usize>,
    temperature: Option<f64>,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    seed: u64,
    #[serde(default)]
    stop: Vec<String>,
    /// The current time in seconds since 1970.
    now: u64,
}

impl Request {
    fn options(&self) -> GenerateOptions {
        let mut options = GenerateOptions::default();
        let none = Sampling::default();
        options.sampling.temperature = self.temperature.unwrap_or(none.temperature);
        options.sampling.top_k = self.top_k.unwrap_or(none.top_k);
        options.sampling.top_p = self.top_p.unwrap_or(none.top_p);
        options.sampling.min_p = self.min_p.unwrap_or(none.min_p);
        options.sampling.repetition_penalty = self.repetition_penalty.unwrap_or(none.repetition_penalty);
        options.sampling.seed = Some(self.seed);
        options.tokens = self.max_tokens.unwrap_or(options.tokens);
        options.stop.clone_from(&self.stop);
        options
    }
}

/// The state of the sequence.
enum SequenceState {
    /// No generation is running.
    Idle(TokenSequence),
    /// A part of the prompt has been run.
    Reading { sequence: TokenSequence, prompt: Vec<u32>, options: Box<GenerateOptions> },
    /// The whole prompt has been run.
    Writing(Box<Generation<TokenSequence>>),
}

impl SequenceState {
    fn into_sequence(self) -> TokenSequence {
        match self {
            SequenceState::Idle(sequence) | SequenceState::Reading { sequence, .. } => sequence,
            SequenceState::Writing(generation) => generation.into_sequence(),
        }
    }
}

/// A language model, and its sequence.
pub(crate) struct LanguageModel {
    generator: Generator,
    state: SequenceState,
    /// The number of the last generation.
    last: u32,
}

impl LanguageModel {
    /// Opens a GGUF file, with options as JSON.
    ///
    /// # Errors
    ///
    /// Errors of the options, and the errors of [`Generator::from_bytes`].
    fn open(model: Bytes, options: &[u8]) -> Result<LanguageModel, Failure> {
        let options: JsModelOptions = serde_json::from_slice(options)
            .map_err(|source| Failure::Json { what: "the options of a language model", source })?;
        let mut open = OpenOptions::default().with_clock(|| NOW.get());
        open.context = options.context;
        let generator = Generator::from_bytes(model, &bb::backend("cpu")?, &open)?;
        Ok(LanguageModel { state: SequenceState::Idle(generator.sequence()), generator, last: 0 })
    }

    fn describe(&self) -> Json {
        json!({
            "context": self.generator.context(), "vocabulary": self.generator.vocabulary(),
            "chats": self.generator.template().is_some(),
        })
    }

    /// Returns the state, and replaces it by an idle sequence without a cache. That sequence stays if an error drops the returned one.
    fn take(&mut self) -> SequenceState {
        std::mem::replace(&mut self.state, SequenceState::Idle(self.generator.sequence()))
    }

    /// Begins a generation, with a request as JSON. Ends the previous generation. Returns the number of the generation, and the number of
    /// prompt tokens.
    ///
    /// # Errors
    ///
    /// Errors of the request, of its messages and of the tokenizer; [`bb_generate::Error::Context`] if the prompt is too long.
    fn begin(&mut self, request: &[u8]) -> Result<Json, Failure> {
        let request: Request = serde_json::from_slice(request)
            .map_err(|source| Failure::Json { what: "the request of a generation", source })?;
        NOW.set(request.now);
        let options = request.options();
        options.sampling.check()?;
        let prompt = match (&request.messages, &request.prompt) {
            (Some(messages), None) => self.generator.chat(messages)?,
            (None, Some(text)) => self.generator.tokens().encode(text)?,
            _ => return Err(Failure::Prompt),
        };
        let most = self.generator.context();
        if prompt.len() > most {
            return Err(bb_generate::Error::Context { needed: prompt.len(), most }.into());
        }
        let count = prompt.len();
        let sequence = self.take().into_sequence();
        self.state = SequenceState::Reading { sequence, prompt, options: Box::new(options) };
        self.last = self.last.wrapping_add(1);
        Ok(json!({ "generation": self.last, "prompt": count }))
    }

    /// Performs the next step of a generation. Returns null at its end; else the number of prompt tokens run so far, or a token and its
    /// text.
    ///
    /// # Errors
    ///
    /// The errors of [`TokenSequence::into_generation`]; [`Failure::Ended`] if another generation began.
    fn next(&mut self, generation: u32) -> Result<Json, Failure> {
        if generation != self.last {
            return Err(Failure::Ended);
        }
        match self.take() {
            SequenceState::Idle(sequence) => {
                self.state = SequenceState::Idle(sequence);
                Ok(Json::Null)
            }
            SequenceState::Reading { sequence, prompt, options } => self.read(sequence, prompt, options),
            SequenceState::Writing(generation) => self.write(generation),
        }
    }

    fn read(
        &mut self,
        mut sequence: TokenSequence,
        prompt: Vec<u32>,
        options: Box<GenerateOptions>,
    ) -> Result<Json, Failure> {
        let common = sequence.tokens().iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        if let Some(part) = prompt.get(..common + PART)
            && part.len() < prompt.len()
        {
            sequence.prompt(part, 0)?;
            let answer = json!({ "read": part.len(), "of": prompt.len() });
            self.state = SequenceState::Reading { sequence, prompt, options };
            return Ok(answer);
        }
        let answer = json!({ "read": prompt.len(), "of": prompt.len() });
        self.state = SequenceState::Writing(Box::new(sequence.into_generation(&prompt, &options)?));
        Ok(answer)
    }

    fn write(&mut self, mut generation: Box<Generation<TokenSequence>>) -> Result<Json, Failure> {
        let piece = generation.next();
        self.state = match &piece {
            Some(Ok(Piece { end: None, .. })) => SequenceState::Writing(generation),
            _ => SequenceState::Idle(generation.into_sequence()),
        };
        let Some(piece) = piece.transpose()? else { return Ok(Json::Null) };
        Ok(json!({ "token": piece.token, "text": piece.text, "end": piece.end.map(name) }))
    }

    /// Ends a generation, if it is the most recent one. The cache is kept for the next prompt.
    fn stop(&mut self, generation: u32) {
        if generation == self.last {
            self.state = SequenceState::Idle(self.take().into_sequence());
        }
    }
}

/// Returns a word for the reason why a generation ended.
fn name(end: End) -> &'static str {
    match end {
        End::Token => "token",
        End::Stop => "stop",
        End::Length => "length",
        End::Context => "context",
        // The enum is non-exhaustive.
        _ => "other",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    const MODEL: &[u8] = include_bytes!("../../../../cli/examples/llm/model.gguf");

    fn opened() -> LanguageModel {
        LanguageModel::open(Bytes::from_static(MODEL), b"{}").unwrap()
    }

    fn begun(model: &mut LanguageModel, prompt: &str) -> u32 {
        let request = json!({ "prompt": prompt, "maxTokens": 20, "seed": 1, "now": 0 }).to_string();
        let answer = model.begin(request.as_bytes()).unwrap();
        u32::try_from(answer["generation"].as_u64().unwrap()).unwrap()
    }

    /// Returns the generated tokens, and the numbers of prompt tokens that the calls reported.
    fn finished(model: &mut LanguageModel, generation: u32) -> (Vec<u64>, Vec<u64>) {
        let (mut tokens, mut read) = (Vec::new(), Vec::new());
        loop {
            let part = model.next(generation).unwrap();
            if part.is_null() {
                return (tokens, read);
            }
            tokens.extend(part["token"].as_u64());
            read.extend(part["read"].as_u64());
        }
    }

    #[test]
    fn a_prompt_in_parts_has_the_answer_of_the_whole_one() {
        let prompt = "A plan is made of steps, and each step calls one operation. ".repeat(3);
        let mut model = opened();
        let generation = begun(&mut model, &prompt);
        let (tokens, read) = finished(&mut model, generation);
        assert_eq!(read, [64, 128, 180]);
        let mut options = GenerateOptions::default();
        options.tokens = 20;
        let whole = model.generator.tokens().encode(&prompt).unwrap();
        let expected: Vec<u64> = model
            .generator
            .sequence()
            .generate(&whole, &options)
            .unwrap()
            .map(|piece| piece.unwrap().token.into())
            .collect();
        assert_eq!(tokens, expected);
        // The prompt is cached except its last token.
        let generation = begun(&mut model, &prompt);
        assert_eq!(finished(&mut model, generation), (expected, vec![180]));
    }

    #[test]
    fn a_generation_ends_the_one_before_it() {
        let mut model = opened();
        let first = begun(&mut model, "A plan ");
        assert!(model.next(first).is_ok());
        let second = begun(&mut model, "A backend ");
        assert!(matches!(model.next(first), Err(Failure::Ended)));
        // Stopping the first generation must not stop the second.
        model.stop(first);
        assert_eq!(finished(&mut model, second).0.len(), 20);
        assert!(model.next(second).unwrap().is_null());
    }
}
