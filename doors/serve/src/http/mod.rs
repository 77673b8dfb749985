//! The inference protocol over HTTP, with the extension for binary tensors.

mod body;
mod json;
mod models;
#[cfg(feature = "generate")]
mod openai;

use crate::compression::{self, Coding};
use crate::connections::Connection;
use crate::elements::{self, List};
use crate::held_bytes::{HeldAnswer, Lease};
use crate::infer::{self, Ask, Counted, Shared};
use crate::labels;
use crate::log::Noted;
use crate::metrics::Protocol;
use crate::metrics_text;
use crate::model::Model;
use crate::refusal::{Refusal, RefusalKind, shown};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use bb::TensorData;
use body::Parts;
use bytes::Bytes;
use json::{InferRequest, Object, Output};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// The header with the length of the JSON part of a body, which is followed by the binary part.
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";

/// Builds the routes.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    let router = Router::new();
    #[cfg(feature = "generate")]
    let router = openai::routes(router);
    router
        .route("/v2", get(server))
        .route("/v2/", get(server))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/stats", get(models::all_statistics))
        .route("/v2/models/{model}", get(models::described))
        .route("/v2/models/{model}/config", get(models::config))
        .route("/v2/models/{model}/stats", get(models::statistics))
        .route("/v2/models/{model}/trace/setting", any(models::no_trace))
        .route("/v2/models/{model}/ready", get(models::model_ready))
        .route("/v2/models/{model}/infer", post(run))
        .route("/v2/models/{model}/versions/{version}", get(models::described))
        .route("/v2/models/{model}/versions/{version}/ready", get(models::model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(run))
        .route("/v2/models/{model}/versions/{version}/config", get(models::config))
        .route("/v2/models/{model}/versions/{version}/stats", get(models::statistics))
        .route("/v2/repository/index", post(models::index))
        .route("/v2/repository/models/{model}/load", post(models::load))
        .route("/v2/repository/models/{model}/unload", post(models::unload))
        .route("/v2/trace/setting", any(models::no_trace))
        .route("/v2/logging", any(models::no_logging))
        .route("/v2/systemsharedmemory/{*rest}", any(models::no_shared_memory))
        .route("/v2/cudasharedmemory/{*rest}", any(models::no_shared_memory))
        .route("/metrics", get(counters))
        .fallback(nothing)
        .method_not_allowed_fallback(method)
        .with_state(shared)
}

/// A refusal, as an error response of HTTP.
struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = answer(status(self.0.kind()), &json!({ "error": self.0.text() }));
        if self.0.kind() == RefusalKind::Busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.0.kind() == RefusalKind::NoToken {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

fn status(kind: RefusalKind) -> StatusCode {
    match kind {
        RefusalKind::Invalid => StatusCode::BAD_REQUEST,
        RefusalKind::NoToken => StatusCode::UNAUTHORIZED,
        RefusalKind::Forbidden => StatusCode::FORBIDDEN,
        RefusalKind::Absent | RefusalKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::Method => StatusCode::METHOD_NOT_ALLOWED,
        RefusalKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalKind::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RefusalKind::Busy => StatusCode::TOO_MANY_REQUESTS,
        RefusalKind::Deadline => StatusCode::GATEWAY_TIMEOUT,
        RefusalKind::Cancelled | RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

type Result<T> = std::result::Result<T, Refused>;

fn answer(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn nothing(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path();
    let Refused(refusal) = refuse(&shared, Refusal::UnknownPath { path: shown(path) });
    refused(path, refusal)
}

async fn method(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path();
    let posts = ["/infer", "/index", "/load", "/unload", "/completions", "/embeddings"]
        .iter()
        .any(|end| path.ends_with(end));
    let expected = if posts { "POST" } else { "GET" };
    let method = shown(request.method().as_str());
    let Refused(refusal) = refuse(&shared, Refusal::Method { path: shown(path), method, expected });
    refused(path, refusal)
}

/// Counts a refusal of a request that concerns no model.
fn refuse(shared: &Shared, refusal: Refusal) -> Refused {
    shared.metrics.others.count(Protocol::Http, Some(refusal.kind()));
    Refused(refusal)
}

async fn server() -> Response {
    let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    answer(
        StatusCode::OK,
        &json!({ "name": name, "version": version, "extensions": crate::grpc::EXTENSIONS }),
    )
}

async fn live() -> Response {
    answer(StatusCode::OK, &json!({ "live": true }))
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    readiness(&shared, json!({ "ready": shared.is_ready() }))
}

fn readiness(shared: &Shared, value: serde_json::Value) -> Response {
    let status = if shared.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, &value)
}

/// The name and the optional version of a model in a path.
#[derive(serde::Deserialize)]
struct Named {
    model: String,
    #[serde(default)]
    version: String,
}

type InPath = std::result::Result<Path<Named>, PathRejection>;

fn named(path: InPath) -> std::result::Result<Named, Refusal> {
    let named = path.map(|Path(named)| named);
    named.map_err(|_| Refusal::UnknownPath { path: "a path that is not UTF-8".to_owned() })
}

fn find(shared: &Shared, path: InPath) -> std::result::Result<Arc<Model>, Refusal> {
    let named = named(path)?;
    shared.repository.model(&named.model, &named.version)
}

async fn counters(State(shared): State<Arc<Shared>>) -> Response {
    let text = metrics_text::text(&shared.metrics, shared.held_bytes.held(), &shared.repository.models());
    #[cfg(feature = "generate")]
    let text = text + &metrics_text::language_text(shared.languages.all());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn run(State(shared): State<Arc<Shared>>, path: InPath, request: Request) -> Result<Response> {
    let mut counted = Counted::new(&shared, Protocol::Http);
    let start = counted.start();
    let model = match find(&shared, path) {
        Ok(model) => model,
        Err(refusal) => return Ok(counted.end(Err(refusal))?),
    };
    counted.of(&model);
    let result = infer(&shared, &model, start, request).await;
    Ok(counted.end(result)?)
}

/// The format of the answer to a request.
struct Form {
    id: Option<String>,
    /// Whether each output is binary, in the order of the answer.
    binary: Vec<bool>,
    /// For each output, the number of classes to answer instead of the output.
    classes: Vec<Option<usize>>,
    /// The compression of the answer.
    coding: Option<Coding>,
}

fn accepted(headers: &HeaderMap) -> Option<Coding> {
    Coding::accepted(headers.get(header::ACCEPT_ENCODING)?.to_str().ok()?)
}

/// Decompresses a body, and counts the decompressed bytes as used.
fn unpacked(
    body: Bytes,
    coding: Option<Coding>,
    limit: usize,
    lease: &Lease,
) -> std::result::Result<Bytes, Refusal> {
    match coding {
        Some(coding) => compression::unpack(coding, &body, limit, |bytes| lease.grow(bytes)),
        None => Ok(body),
    }
}

async fn infer(
    shared: &Arc<Shared>,
    model: &Arc<Model>,
    start: Instant,
    request: Request,
) -> std::result::Result<Response, Refusal> {
    if !shared.is_open() {
        return Err(Refusal::ShuttingDown);
    }
    let deadline = start + shared.timeout;
    let lease = shared.held_bytes.lease();
    let (head, body) = request.into_parts();
    let connection = head.extensions.get::<Arc<Connection>>();
    let connection = connection.ok_or(Refusal::Internal { what: "a request came past its connection" })?;
    let json_length = body::json_length(&head.headers)?;
    let noted = head.extensions.get::<Arc<Noted>>().cloned();
    let (limit, accepted) = (shared.request_bytes, accepted(&head.headers));
    let coding = body::check(&head.headers, limit)?;
    let reading = body::read(body, &head.headers, shared.request_bytes, &lease);
    let body = tokio::time::timeout_at(deadline.into(), reading).await.map_err(|_| Refusal::Deadline)??;
    let computing = connection.computing();
    let of = model.clone();
    let read = move || {
        let body = unpacked(body, coding, limit, &lease)?;
        let (json, binary) = body::divide(&body, json_length)?;
        let parsing = json::hold_parsing(&json, &lease)?;
        let Object(request): Object<InferRequest<'_>> =
            serde_json::from_slice(&json).map_err(Refusal::Json)?;
        let parsed = request.read(&of, binary, &lease)?;
        lease.give_back(parsing);
        let deadline = parsed.timeout.map_or(deadline, |timeout| deadline.min(start + timeout));
        let ask = Ask { inputs: parsed.inputs, wanted: parsed.wanted, deadline, lease };
        if let Some(noted) = noted {
            noted.note(&of.name, parsed.id.as_deref());
            if let Some(warning) = of.contradicted(&ask.inputs) {
                noted.warn(&warning);
            }
        }
        let (id, binary, classes) = (parsed.id, parsed.binary, parsed.classes);
        Ok((ask, Form { id, binary, classes, coding: accepted }))
    };
    let size = head.headers.get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse().ok());
    // The decompressed size is unknown, so the request counts as large.
    let size = size.filter(|_| coding.is_none());
    let (ask, form) = infer::convert(size.unwrap_or(usize::MAX), deadline, read).await?;
    let deadline = ask.deadline;
    let wanted = ask.wanted.clone();
    let results = infer::ask(shared, model, ask).await?;
    let (size, held) = infer::hold(shared, &results)?;
    let of = model.clone();
    let answer = infer::convert(size, deadline, move || write(&of, &wanted, &results, &form, held)).await;
    drop(computing);
    answer
}

/// Writes an answer: JSON, followed by the binary outputs in order. `held` counts first the bytes of the results, then the bytes of the
/// answer.
fn write(
    model: &Model,
    wanted: &[usize],
    results: &[TensorData],
    form: &Form,
    mut held: Lease,
) -> std::result::Result<Response, Refusal> {
    let mut classes = Vec::new();
    for ((index, result), most) in wanted.iter().zip(results).zip(&form.classes) {
        let (Some(most), Some(port)) = (most, model.outputs.get(*index)) else {
            classes.push(None);
            continue;
        };
        let rows = model.batching.is_some();
        let of = labels::classified(&port.name, result, *most, rows, model.labels.as_ref(), &held)?;
        classes.push(Some(of));
    }
    let mut parts = VecDeque::from([Bytes::new()]);
    let mut outputs = Vec::with_capacity(results.len());
    for (((index, result), classes), &binary) in wanted.iter().zip(results).zip(&classes).zip(&form.binary) {
        let result = classes.as_ref().unwrap_or(result);
        let port = model.outputs.get(*index);
        let port = port.ok_or(Refusal::Internal { what: "an output has no port" })?;
        let (mut data, mut size) = (None, None);
        if binary {
            let bytes = elements::to_bytes(result)?;
            size = Some(bytes.len());
            parts.push_back(bytes);
        } else {
            let list = List(result);
            list.check(&port.name)?;
            data = Some(list);
        }
        outputs.push(Output::new(port, result, size, data));
    }
    let answer = json::InferResponse {
        model_name: &model.name,
        model_version: &model.version,
        id: form.id.as_deref(),
        outputs,
    };
    let json = body::write(&answer, &held)?;
    let length = json.len();
    if let Some(first) = parts.front_mut() {
        *first = json;
    }
    let binary = form.binary.contains(&true);
    let mut body = Parts::new(parts);
    let coding = form.coding.filter(|_| body.len() >= compression::SMALL);
    if let Some(coding) = coding {
        let packed = compression::pack(coding, body.iter(), |bytes| held.grow(bytes))?;
        body = Parts::new([packed].into());
    }
    let bytes = body.len();
    held.keep(bytes);
    let mut response = Response::new(Body::new(body));
    let kind = if binary { "application/octet-stream" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if binary {
        response.headers_mut().insert(JSON_LENGTH, HeaderValue::from(length));
    }
    if let Some(coding) = coding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    response.extensions_mut().insert(HeldAnswer::new(held, bytes));
    Ok(response)
}

/// Converts a refusal to a response, for a request that is refused before it is routed. The path selects the interface whose error format
/// is used.
pub(crate) fn refused(path: &str, refusal: Refusal) -> Response {
    #[cfg(feature = "generate")]
    if openai::is_path(path) {
        return openai::Refused::from(refusal).into_response();
    }
    let _form = path;
    Refused(refusal).into_response()
}

/// Returns whether a path is answered without a token.
pub(crate) fn is_open(path: &str) -> bool {
    path.starts_with("/v2/health/")
}

/// Returns whether a path is answered on a surplus connection.
pub(crate) fn is_health(path: &str) -> bool {
    path.starts_with("/v2/health/") || path == "/metrics"
}
