//! Parses the requests of clients.
//!
//! The fields of a request are parsed in two steps. The first step parses numbers, keeps lists and objects as JSON text, and skips fields
//! that are not supported. The second step parses the JSON text item by item, within the limits.

use super::lists::{each, is_empty, is_list, is_text, read};
use super::options::{biases, constraint, stops};
use crate::language::Language;
use crate::refusal::Refusal;
use bb_generate::{Constraint, Error as GenerateError, GenerateOptions, Message};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The maximum number of answers to one prompt.
const CHOICES: usize = 16;
/// The maximum number of tokens whose probability is reported.
const PROBABLE: usize = 20;
/// The number of generated tokens of a completion whose request has no `max_tokens`.
const COMPLETION: usize = 16;
/// The maximum number of messages of a chat.
const MESSAGES: usize = 4096;
/// The maximum number of content parts of a message.
const PARTS: usize = 1024;
/// The maximum number of texts in a request for embeddings.
const TEXTS: usize = 256;

/// A text, or its tokens.
#[derive(Debug)]
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: Option<bool>,
}

/// The fields of chats and completions.
#[derive(Debug, Deserialize)]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    pub(super) model: Cow<'a, str>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<usize>,
    min_p: Option<f64>,
    typical_p: Option<f64>,
    repetition_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    #[serde(borrow)]
    stop: Option<&'a RawValue>,
    seed: Option<i64>,
    n: Option<usize>,
    #[serde(borrow)]
    logit_bias: Option<&'a RawValue>,
    ignore_eos: Option<bool>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    functions: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    best_of: Option<usize>,
    #[serde(borrow)]
    suffix: Option<&'a RawValue>,
    echo: Option<bool>,
    /// Only in chats.
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    top_logprobs: Option<&'a RawValue>,
    /// Only in completions.
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    /// A boolean in chats, a number in completions.
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
}

/// The fields of a request for embeddings.
#[derive(Debug, Deserialize)]
pub(super) struct EmbeddingFields<'a> {
    #[serde(borrow)]
    pub(super) model: Cow<'a, str>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    encoding_format: Option<&'a RawValue>,
    dimensions: Option<usize>,
}

/// A parsed request for answers.
pub(super) struct Asking<P> {
    /// The messages of a chat, or the prompts of a completion.
    pub(super) prompts: P,
    /// The number of answers to each prompt.
    pub(super) count: usize,
    pub(super) options: GenerateOptions,
    pub(super) constraint: Option<Constraint>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
}

/// A parsed request for embeddings.
pub(super) struct Embeddings {
    pub(super) inputs: Vec<Prompt>,
    /// Whether vectors are encoded as Base64.
    pub(super) packed: bool,
    pub(super) dimensions: Option<usize>,
}

/// Returns the refusal for a field with a wrong value.
pub(super) fn wrong(name: &'static str, expected: &'static str) -> Refusal {
    Refusal::Field { name, expected }
}

impl Fields<'_> {
    /// Parses a chat request.
    pub(super) fn chat(&self) -> Result<Asking<Vec<Message>>, Refusal> {
        let logprobs = self.logprobs.map(read::<Option<bool>>).transpose()?.flatten().unwrap_or(false);
        let top_logprobs = self.top_logprobs.map(read::<Option<usize>>).transpose()?.flatten();
        if top_logprobs.is_some_and(|count| count > PROBABLE) {
            return Err(wrong("top_logprobs", "0 to 20"));
        }
        if top_logprobs.is_some() && !logprobs {
            return Err(wrong("top_logprobs", "`logprobs` with it"));
        }
        let expected = "1 to 4096 messages";
        let messages = self.messages.filter(|json| is_list(json)).ok_or(wrong("messages", expected))?;
        let mut asking = self.asking(usize::MAX, Vec::new())?;
        asking.options.log_probabilities = logprobs.then(|| top_logprobs.unwrap_or(0));
        each(messages, |json| {
            if asking.prompts.len() == MESSAGES {
                return Err(wrong("messages", expected));
            }
            asking.prompts.push(message(json)?);
            Ok(())
        })?;
        if asking.prompts.is_empty() {
            return Err(wrong("messages", expected));
        }
        Ok(asking)
    }

    /// Parses a completion request.
    pub(super) fn completion(&self, model: &Language) -> Result<Asking<Vec<Prompt>>, Refusal> {
        let logprobs = self.logprobs.map(read::<Option<usize>>).transpose()?.flatten();
        if logprobs.is_some_and(|count| count > PROBABLE) {
            return Err(wrong("logprobs", "0 to 20"));
        }
        let mut asking = self.asking(COMPLETION, Vec::new())?;
        asking.options.log_probabilities = logprobs;
        let expected = "a text, tokens, or several of either, with 1 to 16 answers to all of them together";
        let prompt = self.prompt.ok_or(wrong("prompt", expected))?;
        asking.prompts = prompts(prompt, model, CHOICES / asking.count, || wrong("prompt", expected))?;
        Ok(asking)
    }

    /// Parses the fields that chats and completions share.
    fn asking<P>(&self, most: usize, prompts: P) -> Result<Asking<P>, Refusal> {
        let given = |json: Option<&RawValue>| json.is_some_and(|json| !is_empty(json));
        if given(self.tools) {
            return Err(wrong("tools", "none, because tools are not served"));
        }
        if given(self.functions) {
            return Err(wrong("functions", "none, because functions are not served"));
        }
        if given(self.audio) {
            return Err(wrong("audio", "none, because audio is not served"));
        }
        if given(self.suffix) {
            return Err(wrong("suffix", "none, because texts are not inserted"));
        }
        if self.echo == Some(true) {
            return Err(wrong("echo", "`false`, because prompts are not repeated"));
        }
        let constraint = self.response_format.map(constraint).transpose()?.flatten();
        let count = self.n.unwrap_or(1);
        if !(1..=CHOICES).contains(&count) {
            return Err(wrong("n", "1 to 16"));
        }
        if self.best_of.is_some_and(|best| best != count) {
            return Err(wrong("best_of", "as many as `n`, because all answers are returned"));
        }
        let mut options = GenerateOptions::default();
        options.tokens = self.max_completion_tokens.or(self.max_tokens).unwrap_or(most);
        if options.tokens == 0 {
            return Err(wrong("max_tokens", "1 or more"));
        }
        options.stop = self.stop.map(stops).transpose()?.unwrap_or_default();
        options.ignore_end = self.ignore_eos == Some(true);
        let sampling = &mut options.sampling;
        // 1.0 is OpenAI's default.
        sampling.temperature = self.temperature.unwrap_or(1.0);
        for (to, from) in [
            (&mut sampling.top_p, self.top_p),
            (&mut sampling.min_p, self.min_p),
            (&mut sampling.typical, self.typical_p),
            (&mut sampling.repetition_penalty, self.repetition_penalty),
            (&mut sampling.presence_penalty, self.presence_penalty),
            (&mut sampling.frequency_penalty, self.frequency_penalty),
        ] {
            *to = from.unwrap_or(*to);
        }
        sampling.top_k = self.top_k.unwrap_or(0);
        sampling.seed = self.seed.map(i64::cast_unsigned);
        sampling.bias = self.logit_bias.map(biases).transpose()?.unwrap_or_default();
        let include_usage =
            self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true));
        Ok(Asking { prompts, count, options, constraint, stream: self.stream == Some(true), include_usage })
    }
}

impl EmbeddingFields<'_> {
    /// Parses the request.
    pub(super) fn embeddings(&self, model: &Language) -> Result<Embeddings, Refusal> {
        let expected = "1 to 256 texts, or lists of tokens";
        let input = self.input.ok_or(wrong("input", expected))?;
        let packed = match self.encoding_format.map(RawValue::get) {
            None | Some("null" | "\"float\"") => false,
            Some("\"base64\"") => true,
            Some(_) => return Err(wrong("encoding_format", "`float` or `base64`")),
        };
        let inputs = prompts(input, model, TEXTS, || wrong("input", expected))?;
        Ok(Embeddings { inputs, packed, dimensions: self.dimensions })
    }
}

/// Parses a message: its role, and its content, which is a string or a list of parts of the type `text`.
fn message(json: &RawValue) -> Result<Message, Refusal> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        role: String,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_calls: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct ContentPart<'a> {
        #[serde(borrow)]
        r#type: Option<Cow<'a, str>>,
        #[serde(borrow)]
        text: Option<Cow<'a, str>>,
    }
    if !json.get().starts_with('{') {
        return Err(wrong("messages", "objects with `role` and `content`"));
    }
    let Parts { role, content, tool_calls } = read(json)?;
    if tool_calls.is_some() {
        return Err(wrong("messages", "no calls of tools, because tools are not served"));
    }
    let content = match content {
        None => String::new(),
        Some(json) if is_text(json) => read(json)?,
        Some(json) if is_list(json) => {
            let (mut content, mut count) = (String::new(), 0);
            each(json, |part| {
                count += 1;
                if count > PARTS {
                    return Err(wrong("messages", "at most 1024 parts in a message"));
                }
                let part = Some(part).filter(|part| part.get().starts_with('{'));
                let part: Option<ContentPart<'_>> = part.map(read).transpose()?;
                let text =
                    part.filter(|part| part.r#type.as_deref() == Some("text")).and_then(|part| part.text);
                content.push_str(&text.ok_or(wrong("messages", "only parts of the type `text`"))?);
                Ok(())
            })?;
            content
        }
        Some(_) => return Err(wrong("messages", "a text, or parts, as `content`")),
    };
    Ok(Message::new(role, content))
}

/// Parses one prompt or a list of prompts. A prompt is a string or a list of tokens.
fn prompts(
    json: &RawValue,
    model: &Language,
    most: usize,
    wrong: impl Fn() -> Refusal,
) -> Result<Vec<Prompt>, Refusal> {
    if is_text(json) {
        return Ok(vec![Prompt::Text(read(json)?)]);
    }
    if !is_list(json) {
        return Err(wrong());
    }
    let (mut prompts, mut own) = (Vec::new(), Vec::new());
    each(json, |item| {
        let prompt = if is_text(item) {
            Prompt::Text(read(item)?)
        } else if is_list(item) {
            let mut tokens = Vec::new();
            each(item, |item| token(item, &mut tokens, model, &wrong))?;
            Prompt::Tokens(tokens)
        } else if prompts.is_empty() {
            return token(item, &mut own, model, &wrong);
        } else {
            return Err(wrong());
        };
        if prompts.len() == most || !own.is_empty() {
            return Err(wrong());
        }
        prompts.push(prompt);
        Ok(())
    })?;
    if !own.is_empty() {
        prompts.push(Prompt::Tokens(own));
    }
    if prompts.is_empty() || prompts.len() > most { Err(wrong()) } else { Ok(prompts) }
}

/// Parses a token and adds it, unless the sequence has no room for more tokens.
fn token(
    json: &RawValue,
    tokens: &mut Vec<u32>,
    model: &Language,
    wrong: impl Fn() -> Refusal,
) -> Result<(), Refusal> {
    let most = model.context;
    if tokens.len() == most {
        return Err(model.refused(GenerateError::Context { needed: most + 1, most }));
    }
    tokens.push(serde_json::from_str(json.get()).map_err(|_| wrong())?);
    Ok(())
}
