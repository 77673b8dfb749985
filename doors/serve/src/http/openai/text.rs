//! The endpoints for chats and completions.

use super::answer::{Form, Writer};
use super::events::{Streamed, Telling, Told};
use super::request::{Asking, Fields, Prompt};
use super::{Asked, Counted, Parsed, Result, held, read};
use crate::connections::Connection;
use crate::held_bytes::Lease;
use crate::http::json::Object;
use crate::infer::Shared;
use crate::language::Language;
use crate::metrics::Protocol;
use crate::refusal::Refusal;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bb_generate::{GenerateOptions, Message};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::unbounded_channel;

/// The tokenized prompts, and the options of the answers.
struct Wanted {
    /// The tokens of each prompt.
    prompts: Vec<Vec<u32>>,
    /// The number of answers to each prompt.
    count: usize,
    options: GenerateOptions,
}

pub(super) async fn chat(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let asked = read(&shared, request, chat_of).await.inspect_err(|refused| other(&shared, refused))?;
    let tokens = async |model: Arc<Language>, messages: Vec<Message>, deadline, lease| {
        let size = messages.iter().map(|message| message.content.len()).sum();
        let of = model.clone();
        let work = move || {
            // Keeps the lease of the request's bytes until the work has ended.
            let _lease: Arc<Lease> = lease;
            of.generator.chat(&messages).map_err(|source| of.refused(source))
        };
        model.preparing.prompts(size, deadline, work).await.map(|tokens| vec![tokens])
    };
    answered(connection, Form::Chat, asked, tokens).await
}

pub(super) async fn complete(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let asked = read(&shared, request, completion_of).await.inspect_err(|refused| other(&shared, refused))?;
    let tokens = async |model: Arc<Language>, texts: Vec<Prompt>, deadline, lease: Arc<Lease>| {
        prompts(&model, texts, false, deadline, &lease).await
    };
    answered(connection, Form::Completion, asked, tokens).await
}

fn chat_of(json: &[u8], shared: &Shared) -> Parsed<Asking<Vec<Message>>> {
    let Object(fields): Object<Fields<'_>> = serde_json::from_slice(json).map_err(Refusal::Json)?;
    Ok((shared.languages.find(&fields.model)?.clone(), fields.chat()))
}

fn completion_of(json: &[u8], shared: &Shared) -> Parsed<Asking<Vec<Prompt>>> {
    let Object(fields): Object<Fields<'_>> = serde_json::from_slice(json).map_err(Refusal::Json)?;
    let model = shared.languages.find(&fields.model)?.clone();
    let read = fields.completion(&model);
    Ok((model, read))
}

/// Tokenizes prompts and adds the model's token for the begin of a text. If `content` is true, names of control tokens are plain text, else
/// they become control tokens.
pub(super) async fn prompts(
    model: &Arc<Language>,
    prompts: Vec<Prompt>,
    content: bool,
    deadline: Instant,
    lease: &Arc<Lease>,
) -> std::result::Result<Vec<Vec<u32>>, Refusal> {
    let size = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Tokens(_) => 0,
    };
    let size = prompts.iter().map(size).sum();
    let (of, lease) = (model.clone(), lease.clone());
    let work = move || {
        let _lease = lease;
        let tokens = |prompt| match prompt {
            Prompt::Tokens(tokens) => Ok(tokens),
            Prompt::Text(text) => {
                let (tokens, most) = (of.generator.tokens(), of.context);
                let encoded = match content {
                    true => tokens.encode_content_within(&text, most),
                    false => tokens.encode_within(&text, most),
                };
                encoded.map_err(|source| of.refused(source))
            }
        };
        prompts.into_iter().map(tokens).collect()
    };
    model.preparing.prompts(size, deadline, work).await
}

/// Counts a request that is refused before its model is known.
pub(super) fn other(shared: &Shared, refused: &super::Refused) {
    shared.metrics.others.count(Protocol::Http, Some(refused.kind()));
}

async fn answered<P>(
    connection: Option<Arc<Connection>>,
    form: Form,
    Asked { model, body, lease, start, deadline }: Asked<Asking<P>>,
    tokens: impl AsyncFnOnce(Arc<Language>, P, Instant, Arc<Lease>) -> std::result::Result<Vec<Vec<u32>>, Refusal>,
) -> Result<Response> {
    let connection = connection.ok_or(Refusal::Internal { what: "a request came past its connection" })?;
    let counted = Counted::new(&model, start);
    let computing = connection.computing();
    let prepared = async {
        let Asking { prompts, count, mut options, constraint, stream, include_usage } = body?;
        let prompts = tokens(model.clone(), prompts, deadline, lease.clone()).await?;
        if let Some(constraint) = constraint {
            options.grammar = Some(model.grammar(constraint, deadline, lease.clone()).await?);
        }
        Ok::<_, Refusal>((Wanted { prompts, count, options }, stream, include_usage))
    };
    let (wanted, stream, include_usage) = match prepared.await {
        Ok(wanted) => wanted,
        Err(refusal) => return counted.ended(Err(refusal.into())),
    };
    let Wanted { prompts, count, options } = wanted;
    let tokens: usize = prompts.iter().map(Vec::len).sum();
    let choices = prompts.len() * count;
    let (to, mut events) = unbounded_channel::<Told>();
    let asked = async {
        let prompts: Vec<Arc<Vec<u32>>> = prompts.into_iter().map(Arc::new).collect();
        // Counts the prompt and the options again, because the engine copies them for each answer.
        let copied =
            options.stop.iter().map(String::len).sum::<usize>() + size_of_val(&*options.sampling.bias);
        lease.grow(count * tokens * size_of::<u32>() + choices * copied)?;
        let (first, options) = (options.sampling.seed, Arc::new(options));
        for (at, prompt) in prompts.iter().enumerate() {
            for answer in 0..count {
                let seed = first.map(|seed| seed.wrapping_add(answer as u64));
                let mut telling = Telling::new(at * count + answer, to.clone(), lease.clone());
                telling.whole = !stream;
                model.generate(prompt.clone(), options.clone(), seed, Box::new(telling)).await?;
            }
        }
        Ok::<(), Refusal>(())
    };
    match tokio::time::timeout_at(deadline.into(), asked).await {
        Ok(Ok(())) => {}
        Ok(Err(refusal)) => return counted.ended(Err(refusal.into())),
        Err(_) => return counted.ended(Err(Refusal::Deadline.into())),
    }
    drop(to);
    let first = match tokio::time::timeout_at(deadline.into(), events.recv()).await {
        Ok(first) => first,
        Err(_) => return counted.ended(Err(Refusal::Deadline.into())),
    };
    let writer = Writer::new(form, &model, counted, [tokens, choices], include_usage);
    if !stream {
        let answer = writer.whole(events, first).await?;
        drop(computing);
        return held(&answer, &lease);
    }
    let first = match first {
        // An error before the first token is not streamed, so that the response has the status of the error.
        Some(Told { event: Err(_) | Ok(bb_generate::Event::Failed(_)), .. }) | None => {
            return Err(writer.whole(events, first).await.err().unwrap_or_else(|| Refusal::Cancelled.into()));
        }
        first => first,
    };
    let mut response = Response::new(Streamed::body(events, writer, first, computing, lease));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
