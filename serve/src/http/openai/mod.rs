//! OpenAI's interface: chats, completions, embeddings and the list of models.

mod answer;
mod embeddings;
mod error;
mod events;
mod request;
mod text;

pub(super) use error::Refused;

use super::body;
use crate::budget::Lease;
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
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

type Result<T> = std::result::Result<T, Refused>;

/// Adds the routes.
pub(super) fn routes(router: Router<Arc<Shared>>) -> Router<Arc<Shared>> {
    router
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/chat/completions", post(text::chat))
        .route("/v1/completions", post(text::complete))
        .route("/v1/embeddings", post(embeddings::embed))
}

/// Tells whether a path is one of this interface.
pub(super) fn is_path(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
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
    body: T,
    lease: Arc<Lease>,
    start: Instant,
    noted: Option<Arc<Noted>>,
}

/// Reads the JSON of a request, within the bounds of all requests.
async fn read<T: DeserializeOwned + Send + 'static>(shared: &Shared, request: Request) -> Result<Asked<T>> {
    let start = Instant::now();
    if !shared.is_open() {
        return Err(Refusal::ShuttingDown.into());
    }
    let lease = shared.budget.lease();
    let (head, body) = request.into_parts();
    let noted = head.extensions.get::<Arc<Noted>>().cloned();
    let limit = shared.request_bytes;
    let coding = body::check(&head.headers, limit)?;
    let reading = body::read(body, &head.headers, limit, &lease);
    let body = tokio::time::timeout_at((start + shared.timeout).into(), reading).await;
    let body: Bytes = body.map_err(|_| Refusal::Deadline)??;
    let size = if coding.is_some() { usize::MAX } else { body.len() };
    let read = move || {
        let body = super::unpacked(body, coding, limit, &lease)?;
        let parsed: T = serde_json::from_slice(&body).map_err(Refusal::Json)?;
        Ok((parsed, lease))
    };
    let (body, lease) = infer::convert(size, read).await?;
    Ok(Asked { body, lease: Arc::new(lease), start, noted })
}

/// Counts a request when it ends, however it ends.
struct Counted {
    model: Arc<Language>,
    start: Instant,
    refused: Option<RefusalKind>,
}

impl Counted {
    fn new(model: &Arc<Language>, start: Instant) -> Counted {
        // If nothing says otherwise, the client went away.
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
