//! Writes answers in OpenAI's format, as a whole or as a stream of parts.

use super::error::Refused;
use super::events::{Told, Writing, data};
use super::{Counted, now};
use crate::language::Language;
use crate::refusal::Refusal;
use bb_generate::{End, Event, LogProbability, Piece};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The endpoint, which determines the format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Chat,
    Completion,
}

/// The numbers of tokens that an answer reports.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    prompt: usize,
    reused: usize,
    answer: usize,
}

/// The fields that all parts of an answer share, and the state of writing the answer.
pub(super) struct Writer {
    pub(super) form: Form,
    pub(super) model: Arc<Language>,
    id: String,
    created: u64,
    usage: Usage,
    /// The number of choices that have not ended.
    left: usize,
    include_usage: bool,
    counted: Option<Counted>,
    /// The length of the text that each choice has so far, in bytes.
    lengths: Vec<usize>,
}

/// One of the choices of an answer.
#[derive(Debug, Default)]
struct Choice {
    text: String,
    probabilities: Vec<Json>,
    completion: Probabilities,
    end: Option<End>,
}

/// Log-probabilities in the format of completions.
#[derive(Debug, Default)]
struct Probabilities {
    tokens: Vec<String>,
    chosen: Vec<f64>,
    top: Vec<Json>,
    offsets: Vec<usize>,
}

fn finished(end: End) -> &'static str {
    match end {
        End::Token | End::Stop => "stop",
        _ => "length",
    }
}

impl Writer {
    /// Creates a writer. `prompts` is the number of tokens of all prompts together.
    pub(super) fn new(
        form: Form,
        model: &Arc<Language>,
        counted: Counted,
        [prompts, choices]: [usize; 2],
        include_usage: bool,
    ) -> Writer {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (start, created) = (model.since, now());
        let kind = if form == Form::Chat { "chatcmpl" } else { "cmpl" };
        Writer {
            form,
            model: model.clone(),
            id: format!("{kind}-{start:x}-{created:x}-{number:x}"),
            created,
            usage: Usage { prompt: prompts, ..Usage::default() },
            left: choices,
            include_usage,
            counted: Some(counted),
            lengths: vec![0; choices],
        }
    }

    fn usage(&self) -> Json {
        let Usage { prompt, reused, answer } = self.usage;
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
            "prompt_tokens_details": { "cached_tokens": reused },
        })
    }

    fn object(&self, streamed: bool, choices: Vec<Json>) -> Json {
        let object = match (self.form, streamed) {
            (Form::Chat, true) => "chat.completion.chunk",
            (Form::Chat, false) => "chat.completion",
            (Form::Completion, _) => "text_completion",
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model.name,
            "system_fingerprint": null,
            "choices": choices,
        })
    }

    fn token(&self, token: u32) -> String {
        self.model.generator.tokens().decode(&[token]).unwrap_or_default()
    }

    /// Returns the log-probabilities of a token in the format of chats.
    fn of_chat(&self, (chosen, top): &(LogProbability, Vec<LogProbability>)) -> Json {
        let entry = |of: &LogProbability| {
            let text = self.token(of.token);
            json!({ "token": text, "logprob": finite(of.log_probability), "bytes": text.as_bytes() })
        };
        let mut entry_of = entry(chosen);
        if let Some(object) = entry_of.as_object_mut() {
            object.insert("top_logprobs".to_owned(), top.iter().map(entry).collect());
        }
        entry_of
    }

    /// Adds the log-probabilities of a token in the format of completions.
    fn of_completion(&self, of: &(LogProbability, Vec<LogProbability>), at: usize, to: &mut Probabilities) {
        let (chosen, top) = of;
        to.tokens.push(self.token(chosen.token));
        to.chosen.push(finite(chosen.log_probability));
        let entry = |of: &LogProbability| (self.token(of.token), Json::from(finite(of.log_probability)));
        to.top.push(Json::Object(top.iter().map(entry).collect()));
        to.offsets.push(at);
    }

    fn counts(&mut self, event: &Event) {
        match event {
            Event::Prompt { reused } => self.usage.reused += reused,
            Event::Piece(_) => self.usage.answer += 1,
            _ => {}
        }
    }

    fn failed(&mut self, refusal: Refusal) -> Refused {
        if let Some(mut counted) = self.counted.take() {
            counted.end(Some(refusal.kind()));
        }
        refusal.into()
    }

    /// Counts the request as answered.
    fn done(&mut self) {
        if let Some(mut counted) = self.counted.take() {
            counted.end(None);
        }
    }

    /// Collects all events into one answer.
    pub(super) async fn whole(
        mut self,
        mut events: tokio::sync::mpsc::UnboundedReceiver<Told>,
        first: Option<Told>,
    ) -> Result<Json, Refused> {
        let mut choices: Vec<Choice> = self.lengths.iter().map(|_| Choice::default()).collect();
        let mut next = first;
        loop {
            let (number, event) = match next.take() {
                Some(Told { number, event: Ok(event), .. }) => (number, event),
                Some(Told { event: Err(refusal), .. }) => return Err(self.failed(refusal)),
                None => {
                    let ended = self.model.ended();
                    return Err(self.failed(ended));
                }
            };
            self.counts(&event);
            match event {
                Event::Piece(piece) => {
                    if let Some(choice) = choices.get_mut(number) {
                        self.add(piece, choice);
                    }
                }
                Event::Failed(source) => {
                    let model = self.model.name.clone();
                    return Err(self.failed(Refusal::Generation { model, source }));
                }
                _ => {}
            }
            if self.left == 0 {
                break;
            }
            next = events.recv().await;
        }
        let choices =
            choices.into_iter().enumerate().map(|(index, choice)| self.choice(index, choice)).collect();
        let mut answer = self.object(false, choices);
        if let Some(object) = answer.as_object_mut() {
            object.insert("usage".to_owned(), self.usage());
        }
        self.done();
        Ok(answer)
    }

    fn add(&mut self, piece: Piece, choice: &mut Choice) {
        if let Some(of) = &piece.log_probabilities {
            match self.form {
                Form::Chat => choice.probabilities.push(self.of_chat(of)),
                Form::Completion => self.of_completion(of, choice.text.len(), &mut choice.completion),
            }
        }
        choice.text.push_str(&piece.text);
        choice.end = piece.end;
        self.left -= usize::from(piece.end.is_some());
    }

    fn choice(&self, index: usize, choice: Choice) -> Json {
        let end = choice.end.map(finished);
        match self.form {
            Form::Chat => {
                let probabilities = match choice.probabilities.is_empty() {
                    true => Json::Null,
                    false => json!({ "content": choice.probabilities, "refusal": null }),
                };
                let message = json!({ "role": "assistant", "content": choice.text, "refusal": null });
                json!({ "index": index, "message": message, "logprobs": probabilities, "finish_reason": end })
            }
            Form::Completion => {
                let probabilities = choice.completion.json();
                json!({ "index": index, "text": choice.text, "logprobs": probabilities, "finish_reason": end })
            }
        }
    }

    /// Writes a piece of a choice as a part of a stream.
    fn part(&mut self, number: usize, piece: &Piece) -> Json {
        let at = self.lengths.get(number).copied().unwrap_or(0);
        if let Some(length) = self.lengths.get_mut(number) {
            *length += piece.text.len();
        }
        let end = piece.end.map(finished);
        let choice = match self.form {
            Form::Chat => {
                let of = piece.log_probabilities.as_ref().map(|of| json!({ "content": [self.of_chat(of)] }));
                json!({ "index": number, "delta": { "content": piece.text }, "logprobs": of, "finish_reason": end })
            }
            Form::Completion => {
                let mut of = Probabilities::default();
                if let Some(given) = &piece.log_probabilities {
                    self.of_completion(given, at, &mut of);
                }
                json!({ "index": number, "text": piece.text, "logprobs": of.json(), "finish_reason": end })
            }
        };
        self.chunk(vec![choice])
    }

    fn chunk(&self, choices: Vec<Json>) -> Json {
        let mut part = self.object(true, choices);
        if let (true, Some(object)) = (self.include_usage, part.as_object_mut()) {
            object.insert("usage".to_owned(), Json::Null);
        }
        part
    }
}

impl Probabilities {
    fn json(self) -> Json {
        if self.tokens.is_empty() {
            return Json::Null;
        }
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.chosen,
            "top_logprobs": self.top,
            "text_offset": self.offsets,
        })
    }
}

/// Replaces infinity, which JSON does not have. For a token of probability 0, OpenAI writes this log-probability.
fn finite(x: f64) -> f64 {
    x.max(-9999.0)
}

impl Writing for Writer {
    fn write(&mut self, told: Option<Told>, to: &mut VecDeque<Bytes>) -> bool {
        let event = match told {
            Some(Told { number, event, .. }) => event.map(|event| (number, event)),
            None => Err(self.model.ended()),
        };
        let event = match event {
            Ok((_, Event::Failed(source))) => {
                Err(Refusal::Generation { model: self.model.name.clone(), source })
            }
            other => other,
        };
        let (number, event) = match event {
            Ok(event) => event,
            Err(refusal) => {
                to.push_back(data(&self.failed(refusal).json()));
                return true;
            }
        };
        self.counts(&event);
        match event {
            Event::Prompt { .. } if self.form == Form::Chat => {
                let delta = json!({ "role": "assistant", "content": "" });
                let first =
                    json!({ "index": number, "delta": delta, "logprobs": null, "finish_reason": null });
                to.push_back(data(&self.chunk(vec![first])));
            }
            // A piece that ends within a character or within a possible stop string adds no text yet.
            Event::Piece(piece)
                if piece.text.is_empty() && piece.end.is_none() && piece.log_probabilities.is_none() => {}
            Event::Piece(piece) => {
                to.push_back(data(&self.part(number, &piece)));
                self.left -= usize::from(piece.end.is_some());
            }
            _ => {}
        }
        if self.left > 0 {
            return false;
        }
        if self.include_usage {
            let mut last = self.object(true, Vec::new());
            if let Some(object) = last.as_object_mut() {
                object.insert("usage".to_owned(), self.usage());
            }
            to.push_back(data(&last));
        }
        to.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.done();
        true
    }
}
