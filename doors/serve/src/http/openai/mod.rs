//! OpenAI's interface: chats, completions, embeddings and the list of models.

mod answer;
mod embeddings;
mod error;
mod events;
mod lists;
mod options;
mod request;
mod text;

pub(super) use error::Refused;

use super::body;
use crate::held_bytes::{HeldAnswer, Lease};
use crate::infer::{self, Shared};
use crate::language::Language;
use crate::log::Noted;
use crate::metrics::{LanguageMetrics, Protocol};
use crate::refusal::{Refusal, RefusalKind};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

type Result<T> = std::result::Result<T, Refused>;

/// Adds the routes of OpenAI's interface.
pub(super) fn routes(router: Router<Arc<Shared>>) -> Router<Arc<Shared>> {
    router
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/chat/completions", post(text::chat))
        .route("/v1/completions", post(text::complete))
        .route("/v1/embeddings", post(embeddings::embed))
}

/// Returns whether a path belongs to OpenAI's interface.
pub(super) fn is_path(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Returns the current time, in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Builds an answer whose bytes count as used until the client has read them.
fn held(value: &Json, lease: &Arc<Lease>) -> Result<Response> {
    let body = body::write(value, lease)?;
    let held = HeldAnswer::shared(lease.clone(), body.len());
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    response.extensions_mut().insert(held);
    Ok(response)
}

fn ok(value: &Json) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn described(model: &Language) -> Json {
    json!({
        "id": model.name,
        "object": "model",
        "created": model.since,
        "owned_by": "bb",
        "context_length": model.context,
    })
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let all: Vec<Json> = shared.languages.all().iter().map(|model| described(model)).collect();
    ok(&json!({ "object": "list", "data": all }))
}

async fn model(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Result<Response> {
    let found = shared.languages.find(&name);
    let found =
        found.inspect_err(|refusal| shared.metrics.others.count(Protocol::Http, Some(refusal.kind())))?;
    Ok(ok(&described(found)))
}

/// A request whose body was read.
struct Asked<T> {
    model: Arc<Language>,
    /// The parsed request, or the refusal if a field is wrong.
    body: std::result::Result<T, Refusal>,
    lease: Arc<Lease>,
    start: Instant,
    deadline: Instant,
}

/// The result of parsing: the model that the request names, and the parsed request or the refusal if a field is wrong.
type Parsed<T> = std::result::Result<(Arc<Language>, std::result::Result<T, Refusal>), Refusal>;

/// Reads the JSON body of a request, within the limits of all requests.
async fn read<T: Send + 'static>(
    shared: &Arc<Shared>,
    request: Request,
    parse: fn(&[u8], &Shared) -> Parsed<T>,
) -> Result<Asked<T>> {
    let start = Instant::now();
    let deadline = start + shared.timeout;
    if !shared.is_open() {
        return Err(Refusal::ShuttingDown.into());
    }
    let lease = shared.held_bytes.lease();
    let (head, body) = request.into_parts();
    let noted = head.extensions.get::<Arc<Noted>>().cloned();
    let limit = shared.request_bytes;
    let coding = body::check(&head.headers, limit)?;
    let reading = body::read(body, &head.headers, limit, &lease);
    let body: Bytes =
        tokio::time::timeout_at(deadline.into(), reading).await.map_err(|_| Refusal::Deadline)??;
    let size = if coding.is_some() { usize::MAX } else { body.len() };
    let of = shared.clone();
    let read = move || {
        let mut lease = lease;
        let body = super::unpacked(body, coding, limit, &lease)?;
        // Counts the bytes that parsing takes, and the bytes of the strings, which are copied from the body.
        super::json::hold_parsing(&body, &lease)?;
        lease.grow(body.len())?;
        let (model, parsed) = parse(&body, &of)?;
        lease.keep(body.len());
        Ok((model, parsed, lease))
    };
    let (model, body, lease) = infer::convert(size, deadline, read).await?;
    if let Some(noted) = noted {
        noted.note(&model.name, None);
    }
    Ok(Asked { model, body, lease: Arc::new(lease), start, deadline })
}

/// A guard that counts a request when it is dropped, whether the request succeeded or not.
struct Counted {
    model: Arc<Language>,
    start: Instant,
    refused: Option<RefusalKind>,
}

impl Counted {
    fn new(model: &Arc<Language>, start: Instant) -> Counted {
        // If the request is dropped without a recorded result, its client has left, so it counts as cancelled.
        Counted { model: model.clone(), start, refused: Some(RefusalKind::Cancelled) }
    }

    fn end(&mut self, refused: Option<RefusalKind>) {
        self.refused = refused;
    }

    fn ended<T>(mut self, result: std::result::Result<T, Refused>) -> std::result::Result<T, Refused> {
        self.refused = result.as_ref().err().map(Refused::kind);
        result
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let LanguageMetrics { requests, took } = &self.model.metrics;
        requests.count(Protocol::Http, self.refused);
        took.record(self.start.elapsed());
    }
}
