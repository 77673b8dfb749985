//! What clients send.

use crate::language::Language;
use crate::refusal::Refusal;
use bb_generate::{Constraint, GenerateOptions, Message};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The most answers to one prompt.
const CHOICES: usize = 16;
/// The most texts that end an answer.
const STOPS: usize = 16;
/// Of how many tokens the probability is told at most.
const PROBABLE: usize = 20;
/// How many tokens a completion has where the request does not say it.
const COMPLETION: usize = 16;
/// The most biases.
const BIASES: usize = 1024;

/// One or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Several<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Several<T> {
    fn list(self) -> Vec<T> {
        match self {
            Several::One(one) => vec![one],
            Several::Many(many) => many,
        }
    }
}

/// A text, or its tokens; one or several of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    ManyTokens(Vec<Vec<u32>>),
}

/// A text, or its tokens.
#[derive(Debug)]
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

impl Input {
    pub(super) fn list(self) -> Vec<Prompt> {
        match self {
            Input::Text(text) => vec![Prompt::Text(text)],
            Input::Texts(texts) => texts.into_iter().map(Prompt::Text).collect(),
            Input::Tokens(tokens) => vec![Prompt::Tokens(tokens)],
            Input::ManyTokens(many) => many.into_iter().map(Prompt::Tokens).collect(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    r#type: String,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatMessage {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Json>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: bool,
}

/// What chats and completions have in common.
#[derive(Debug, Deserialize)]
pub(super) struct Common {
    pub(super) model: String,
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
    stop: Option<Several<String>>,
    seed: Option<i64>,
    n: Option<usize>,
    logit_bias: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    ignore_eos: bool,
    #[serde(default)]
    pub(super) stream: bool,
    pub(super) stream_options: Option<StreamOptions>,
    response_format: Option<Json>,
    tools: Option<Json>,
    functions: Option<Json>,
    audio: Option<Json>,
    best_of: Option<usize>,
    suffix: Option<Json>,
    #[serde(default)]
    echo: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Chat {
    #[serde(flatten)]
    pub(super) common: Common,
    messages: Vec<ChatMessage>,
    #[serde(default)]
    logprobs: bool,
    top_logprobs: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Completion {
    #[serde(flatten)]
    pub(super) common: Common,
    pub(super) prompt: Input,
    logprobs: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Embeddings {
    pub(super) model: String,
    pub(super) input: Input,
    pub(super) encoding_format: Option<String>,
    pub(super) dimensions: Option<usize>,
}

/// How an answer is generated.
pub(super) struct Generating {
    options: GenerateOptions,
    constraint: Option<Constraint>,
}

impl Generating {
    /// Compiles what constrains the answer.
    pub(super) fn compile(self, model: &Language) -> Result<GenerateOptions, Refusal> {
        let Generating { mut options, constraint } = self;
        let compiled = constraint.map(|constraint| model.generator.grammar(&constraint)).transpose();
        options.grammar = compiled.map_err(|source| model.refused(source))?;
        Ok(options)
    }
}

/// Refuses a field.
pub(super) fn wrong(name: &'static str, expected: &'static str) -> Refusal {
    Refusal::Field { name, expected }
}

impl Common {
    /// Returns how many answers are wanted, and how they are generated; `seed` of the first.
    fn read(self, most: usize) -> Result<(usize, Generating), Refusal> {
        let given =
            |x: &Option<Json>| x.as_ref().is_some_and(|x| !x.is_null() && x != &Json::Array(Vec::new()));
        if given(&self.tools) {
            return Err(wrong("tools", "none, because tools are not served"));
        }
        if given(&self.functions) {
            return Err(wrong("functions", "none, because functions are not served"));
        }
        if given(&self.audio) {
            return Err(wrong("audio", "none, because audio is not served"));
        }
        if given(&self.suffix) {
            return Err(wrong("suffix", "none, because texts are not inserted"));
        }
        if self.echo {
            return Err(wrong("echo", "`false`, because prompts are not repeated"));
        }
        let constraint = self.response_format.as_ref().map(constraint).transpose()?.flatten();
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
        options.stop = self.stop.map(Several::list).unwrap_or_default();
        if options.stop.len() > STOPS {
            return Err(wrong("stop", "at most 16 texts"));
        }
        options.ignore_end = self.ignore_eos;
        let sampling = &mut options.sampling;
        // OpenAI's default.
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
        let biases = self.logit_bias.unwrap_or_default();
        if biases.len() > BIASES {
            return Err(wrong("logit_bias", "at most 1024 tokens"));
        }
        for (token, bias) in biases {
            let token = token
                .parse()
                .map_err(|_| wrong("logit_bias", "an object of tokens, as numbers, and biases"))?;
            sampling.bias.push((token, bias));
        }
        Ok((count, Generating { options, constraint }))
    }
}

/// Reads what an answer may be; `None` for any text.
fn constraint(format: &Json) -> Result<Option<Constraint>, Refusal> {
    let expected = "an object whose `type` is `text`, `json_object`, or `json_schema` with the schema as `json_schema.schema`";
    let wrong = || wrong("response_format", expected);
    if format.is_null() {
        return Ok(None);
    }
    match format.get("type").and_then(Json::as_str).ok_or_else(wrong)? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Constraint::JsonObject)),
        "json_schema" => {
            // `strict` makes no difference, because all of a schema is enforced, or it is refused.
            let schema = format.get("json_schema").and_then(|of| of.get("schema")).ok_or_else(wrong)?;
            Ok(Some(Constraint::JsonSchema(schema.to_string())))
        }
        _ => Err(wrong()),
    }
}

impl Chat {
    /// Returns the messages, how many answers are wanted, and how they are generated.
    pub(super) fn read(self) -> Result<(Vec<Message>, usize, Generating), Refusal> {
        let Chat { common, messages, logprobs, top_logprobs } = self;
        if messages.is_empty() {
            return Err(wrong("messages", "one message at least"));
        }
        if top_logprobs.is_some_and(|count| count > PROBABLE) {
            return Err(wrong("top_logprobs", "0 to 20"));
        }
        if top_logprobs.is_some() && !logprobs {
            return Err(wrong("top_logprobs", "`logprobs` with it"));
        }
        let (count, mut generating) = common.read(usize::MAX)?;
        generating.options.log_probabilities = logprobs.then(|| top_logprobs.unwrap_or(0));
        let message = |message: ChatMessage| {
            if message.tool_calls.is_some_and(|calls| !calls.is_null()) {
                return Err(wrong("messages", "no calls of tools, because tools are not served"));
            }
            let content = match message.content {
                None => String::new(),
                Some(Content::Text(text)) => text,
                Some(Content::Parts(parts)) => {
                    let text = |part: Part| part.text.filter(|_| part.r#type == "text");
                    let texts: Option<Vec<String>> = parts.into_iter().map(text).collect();
                    texts.ok_or_else(|| wrong("messages", "parts of the type `text` alone"))?.concat()
                }
            };
            Ok(Message::new(message.role, content))
        };
        let messages = messages.into_iter().map(message).collect::<Result<_, _>>()?;
        Ok((messages, count, generating))
    }
}

impl Completion {
    /// Returns the prompts, how many answers to each are wanted, and how they are generated.
    pub(super) fn read(self) -> Result<(Vec<Prompt>, usize, Generating), Refusal> {
        if self.logprobs.is_some_and(|count| count > PROBABLE) {
            return Err(wrong("logprobs", "0 to 20"));
        }
        let (count, mut generating) = self.common.read(COMPLETION)?;
        generating.options.log_probabilities = self.logprobs;
        let prompts = self.prompt.list();
        if prompts.is_empty() || prompts.len().saturating_mul(count) > CHOICES {
            return Err(wrong("prompt", "1 to 16 answers to all prompts together"));
        }
        Ok((prompts, count, generating))
    }
}
