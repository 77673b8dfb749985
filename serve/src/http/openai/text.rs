//! Chats and completions.

use super::answer::{Form, Writer};
use super::events::{Streamed, Telling, Told};
use super::request::{Chat, Completion, Prompt, StreamOptions};
use super::{Asked, Counted, Result, ok, read};
use crate::connections::Connection;
use crate::infer::{self, Shared};
use crate::language::Language;
use crate::metrics::Protocol;
use crate::refusal::Refusal;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bb_generate::GenerateOptions;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

/// What is to be generated.
struct Wanted {
    /// The tokens of each prompt.
    prompts: Vec<Vec<u32>>,
    /// The number of answers to each.
    count: usize,
    options: GenerateOptions,
}

pub(super) async fn chat(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let asked = read::<Chat>(&shared, request).await.inspect_err(|refused| other(&shared, refused))?;
    let (name, stream) = (asked.body.common.model.clone(), streaming(&asked.body.common));
    let wanted = |model: &Language, body: Chat| {
        let (messages, count, generating) = body.read()?;
        let prompt = model.generator.chat(&messages).map_err(|source| model.refused(source))?;
        let options = generating.compile(model)?;
        Ok::<_, Refusal>(Wanted { prompts: vec![prompt], count, options })
    };
    answered(&shared, connection, Form::Chat, &name, stream, asked, wanted).await
}

pub(super) async fn complete(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let asked = read::<Completion>(&shared, request).await.inspect_err(|refused| other(&shared, refused))?;
    let (name, stream) = (asked.body.common.model.clone(), streaming(&asked.body.common));
    let wanted = |model: &Language, body: Completion| {
        let (prompts, count, generating) = body.read()?;
        let prompts =
            prompts.into_iter().map(|prompt| tokens(model, prompt)).collect::<std::result::Result<_, _>>()?;
        let options = generating.compile(model)?;
        Ok::<_, Refusal>(Wanted { prompts, count, options })
    };
    answered(&shared, connection, Form::Completion, &name, stream, asked, wanted).await
}

/// Returns the tokens of a prompt, with what the model begins a text with.
pub(super) fn tokens(model: &Language, prompt: Prompt) -> std::result::Result<Vec<u32>, Refusal> {
    match prompt {
        Prompt::Tokens(tokens) => Ok(tokens),
        Prompt::Text(text) => model.generator.tokens().encode(&text).map_err(|source| model.refused(source)),
    }
}

fn streaming(common: &super::request::Common) -> (bool, bool) {
    let usage = common.stream_options.as_ref().is_some_and(|StreamOptions { include_usage }| *include_usage);
    (common.stream, usage)
}

/// Counts a request that is refused before its model is known.
pub(super) fn other(shared: &Shared, refused: &super::Refused) {
    shared.metrics.others.count(Protocol::Http, Some(refused.kind()));
}

async fn answered<T: Send + 'static>(
    shared: &Shared,
    connection: Option<Arc<Connection>>,
    form: Form,
    name: &str,
    (stream, include_usage): (bool, bool),
    Asked { body, lease, start, noted }: Asked<T>,
    wanted: impl FnOnce(&Language, T) -> std::result::Result<Wanted, Refusal> + Send + 'static,
) -> Result<Response> {
    let connection = connection.ok_or(Refusal::Internal { what: "a request came past its connection" })?;
    let found = shared.languages.find(name).map_err(super::Refused::from);
    let model = found.inspect_err(|refused| other(shared, refused))?.clone();
    if let Some(noted) = noted {
        noted.note(&model.name, None);
    }
    let counted = Counted::new(&model, start);
    let computing = connection.computing();
    let of = model.clone();
    // Templates are programs of strangers, and grammars are compiled, which may take a second.
    let wanted = infer::convert(usize::MAX, move || wanted(&of, body)).await;
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(refusal) => return counted.ended(Err(refusal.into())),
    };
    let Wanted { prompts, count, options } = wanted;
    let tokens: usize = prompts.iter().map(Vec::len).sum();
    let choices = prompts.len() * count;
    let (to, mut events) = unbounded_channel::<Told>();
    let asked = async {
        for number in 0..choices {
            let prompt = prompts.get(number / count).cloned().unwrap_or_default();
            let mut options = options.clone();
            options.sampling.seed =
                options.sampling.seed.map(|seed| seed.wrapping_add((number % count) as u64));
            let telling = Telling { number, to: to.clone(), lease: lease.clone(), refused: false };
            model.generate(prompt, options, Box::new(telling)).await?;
        }
        Ok::<(), Refusal>(())
    };
    if let Err(refusal) = asked.await {
        return counted.ended(Err(refusal.into()));
    }
    drop(to);
    let first = match tokio::time::timeout_at((start + shared.timeout).into(), events.recv()).await {
        Ok(first) => first,
        Err(_) => return counted.ended(Err(Refusal::Deadline.into())),
    };
    let writer = Writer::new(form, &model, counted, [tokens, choices], include_usage);
    if !stream {
        let answer = writer.whole(events, first).await?;
        drop(computing);
        return Ok(ok(&answer));
    }
    let first = match first {
        // What fails before it begins has a status of its own.
        Some((_, Err(_) | Ok(bb_generate::Event::Failed(_)))) | None => {
            return Err(writer.whole(events, first).await.err().unwrap_or_else(|| Refusal::Cancelled.into()));
        }
        first => first,
    };
    let mut response = Response::new(Streamed::body(events, writer, first, computing));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
