//! The protocol over HTTP, with the extension for binary tensors.

mod body;
mod json;

use crate::answer::HeldAnswer;
use crate::budget::Lease;
use crate::compression::{self, Coding};
use crate::connections::Connection;
use crate::describe;
use crate::elements::{self, List};
use crate::infer::{self, Ask, Counted, Shared, shown};
use crate::labels;
use crate::log::Noted;
use crate::metrics::{self, Protocol};
use crate::model::{Model, TensorPort};
use crate::refusal::{Refusal, RefusalKind};
use crate::repository::Listed;
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

/// The header that holds the length of the JSON part of a body, before the binary part.
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";

/// Makes the routes.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v2", get(server))
        .route("/v2/", get(server))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/stats", get(all_statistics))
        .route("/v2/models/{model}", get(described))
        .route("/v2/models/{model}/config", get(config))
        .route("/v2/models/{model}/stats", get(statistics))
        .route("/v2/models/{model}/trace/setting", any(no_trace))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/infer", post(run))
        .route("/v2/models/{model}/versions/{version}", get(described))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(run))
        .route("/v2/models/{model}/versions/{version}/config", get(config))
        .route("/v2/models/{model}/versions/{version}/stats", get(statistics))
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/models/{model}/load", post(load))
        .route("/v2/repository/models/{model}/unload", post(unload))
        .route("/v2/trace/setting", any(no_trace))
        .route("/v2/logging", any(no_logging))
        .route("/v2/systemsharedmemory/{*rest}", any(no_shared_memory))
        .route("/v2/cudasharedmemory/{*rest}", any(no_shared_memory))
        .route("/metrics", get(counters))
        .fallback(nothing)
        .method_not_allowed_fallback(method)
        .with_state(shared)
}

/// A refused request of HTTP.
struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            RefusalKind::Invalid => StatusCode::BAD_REQUEST,
            RefusalKind::NoToken => StatusCode::UNAUTHORIZED,
            RefusalKind::Forbidden => StatusCode::FORBIDDEN,
            RefusalKind::Absent => StatusCode::NOT_IMPLEMENTED,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Method => StatusCode::METHOD_NOT_ALLOWED,
            RefusalKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            RefusalKind::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            RefusalKind::Busy => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Deadline => StatusCode::GATEWAY_TIMEOUT,
            RefusalKind::Cancelled | RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = answer(status, &json!({ "error": self.0.text() }));
        if self.0.kind() == RefusalKind::Busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.0.kind() == RefusalKind::NoToken {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

type Result<T> = std::result::Result<T, Refused>;

fn answer(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn nothing(State(shared): State<Arc<Shared>>, request: Request) -> Refused {
    refuse(&shared, Refusal::UnknownPath { path: shown(request.uri().path()) })
}

async fn method(State(shared): State<Arc<Shared>>, request: Request) -> Refused {
    let path = request.uri().path();
    let posts = ["/infer", "/index", "/load", "/unload"].iter().any(|end| path.ends_with(end));
    let expected = if posts { "POST" } else { "GET" };
    let method = shown(request.method().as_str());
    refuse(&shared, Refusal::Method { path: shown(path), method, expected })
}

/// Counts a request that is refused before it concerns a model.
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

/// The name of a model and perhaps its version, as they are in a path.
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

async fn model_ready(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let model = find(&shared, path).map_err(|refusal| refuse(&shared, refusal))?;
    Ok(readiness(&shared, json!({ "name": model.name, "ready": shared.is_ready() })))
}

async fn described(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let model = find(&shared, path).map_err(|refusal| refuse(&shared, refusal))?;
    let ports = |ports: &[TensorPort]| -> Vec<serde_json::Value> {
        let port = |port: &TensorPort| json!({ "name": port.name, "datatype": port.datatype, "shape": port.extents() });
        ports.iter().map(port).collect()
    };
    let mut described = json!({
        "name": model.name,
        "versions": shared.repository.versions_of(&model.name),
        "platform": model.platform,
        "inputs": ports(&model.inputs),
        "outputs": ports(&model.outputs),
    });
    if let (Some(batching), Some(described)) = (&model.batching, described.as_object_mut()) {
        let rows =
            batching.proof().map_or_else(|| "not known before a request".to_owned(), ToString::to_string);
        let parameters =
            json!({ "max_batch": batching.rows, "joins_requests": batching.is_on(), "rows": rows });
        described.insert("parameters".to_owned(), parameters);
    }
    Ok(answer(StatusCode::OK, &described))
}

async fn config(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let model = find(&shared, path).map_err(|refusal| refuse(&shared, refusal))?;
    Ok(answer(StatusCode::OK, &describe::config_json(&model)))
}

async fn statistics(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let models = named(path).and_then(|named| shared.repository.chosen(&named.model, &named.version));
    let models = models.map_err(|refusal| refuse(&shared, refusal))?;
    Ok(statistics_of(&models))
}

async fn all_statistics(State(shared): State<Arc<Shared>>) -> Response {
    statistics_of(&shared.repository.models())
}

fn statistics_of(models: &[Arc<Model>]) -> Response {
    let statistics = models.iter().map(|model| describe::statistics_json(model)).collect::<Vec<_>>();
    answer(StatusCode::OK, &json!({ "model_stats": statistics }))
}

/// What a client may say of a list of models, or of one.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Asked {
    ready: bool,
    parameters: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
}

/// The most bytes of what is asked of a list of models, or of one.
const ASKED: usize = 64 << 10;

async fn asked(shared: &Shared, request: Request, deadline: Instant) -> std::result::Result<Asked, Refusal> {
    let (head, body) = request.into_parts();
    let (limit, lease) = (ASKED.min(shared.request_bytes), shared.budget.lease());
    let coding = body::check(&head.headers, limit)?;
    let reading = body::read(body, &head.headers, limit, &lease);
    let body = tokio::time::timeout_at(deadline.into(), reading).await.map_err(|_| Refusal::Deadline)??;
    let body = unpacked(body, coding, limit, &lease)?;
    if body.is_empty() {
        return Ok(Asked::default());
    }
    serde_json::from_slice(&body).map(|Object(asked)| asked).map_err(Refusal::Json)
}

async fn index(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
    let deadline = Instant::now() + shared.timeout;
    let asked = asked(&shared, request, deadline).await.map_err(|refusal| refuse(&shared, refusal))?;
    let (of, ready) = (shared.clone(), shared.is_ready());
    let listed = tokio::task::spawn_blocking(move || of.repository.list(ready)).await;
    let listed = listed.map_err(|_| Refusal::Internal { what: "listing models panicked" })?;
    let row = |row: &Listed| match &row.version {
        Some(version) => {
            json!({ "name": row.name, "version": version, "state": row.state, "reason": row.reason })
        }
        None => json!({ "name": row.name, "state": row.state, "reason": row.reason }),
    };
    let rows = listed.iter().filter(|row| !asked.ready || row.is_ready()).map(row);
    Ok(answer(StatusCode::OK, &rows.collect()))
}

async fn load(State(shared): State<Arc<Shared>>, path: InPath, request: Request) -> Result<Response> {
    let changed = async {
        let (named, deadline) = (named(path)?, Instant::now() + shared.timeout);
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let asked = asked(&shared, request, deadline).await?;
        if let Some(name) = asked.parameters.keys().next() {
            return Err(Refusal::LoadParameter { name: shown(name) });
        }
        let _computing = connection.as_ref().map(Connection::computing);
        shared.repository.load(&named.model, deadline).await
    };
    changed.await.map_err(|refusal| refuse(&shared, refusal))?;
    Ok(answer(StatusCode::OK, &json!({})))
}

async fn unload(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let unloaded = named(path).and_then(|named| shared.repository.unload(&named.model));
    unloaded.map_err(|refusal| refuse(&shared, refusal))?;
    Ok(answer(StatusCode::OK, &json!({})))
}

async fn no_shared_memory(State(shared): State<Arc<Shared>>) -> Refused {
    refuse(&shared, Refusal::Absent { what: "shared memory" })
}

async fn no_trace(State(shared): State<Arc<Shared>>) -> Refused {
    refuse(&shared, Refusal::Absent { what: "settings of traces" })
}

async fn no_logging(State(shared): State<Arc<Shared>>) -> Refused {
    refuse(&shared, Refusal::Absent { what: "settings of its log that clients change" })
}

async fn counters(State(shared): State<Arc<Shared>>) -> Response {
    let text = metrics::text(&shared.metrics, shared.budget.held(), &shared.repository.models());
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

/// How the answer to a request is written.
struct Form {
    id: Option<String>,
    /// Whether each output is binary, in the order of the answer.
    binary: Vec<bool>,
    /// How many classes each output is answered as.
    classes: Vec<Option<usize>>,
    /// How the answer is compressed.
    coding: Option<Coding>,
}

fn accepted(headers: &HeaderMap) -> Option<Coding> {
    Coding::accepted(headers.get(header::ACCEPT_ENCODING)?.to_str().ok()?)
}

/// Unpacks a body, and holds the bytes that come of it.
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
    let lease = shared.budget.lease();
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
        let Object(request): Object<InferRequest<'_>> =
            serde_json::from_slice(&json).map_err(Refusal::Json)?;
        let parsed = request.read(&of, binary, &lease)?;
        let deadline = parsed.timeout.map_or(deadline, |timeout| deadline.min(start + timeout));
        let ask = Ask { inputs: parsed.inputs, wanted: parsed.wanted, deadline, lease };
        if let Some(noted) = noted {
            noted.note(&of.name, parsed.id.as_deref());
        }
        let (id, binary, classes) = (parsed.id, parsed.binary, parsed.classes);
        Ok((ask, Form { id, binary, classes, coding: accepted }))
    };
    let size = head.headers.get(header::CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse().ok());
    // A compressed request may be any size.
    let size = size.filter(|_| coding.is_none());
    let (ask, form) = infer::convert(size.unwrap_or(usize::MAX), read).await?;
    let wanted = ask.wanted.clone();
    let results = infer::ask(shared, model, ask).await?;
    let (size, held) = infer::hold(shared, &results)?;
    let of = model.clone();
    let answer = infer::convert(size, move || write(&of, &wanted, &results, &form, held)).await;
    drop(computing);
    answer
}

/// Writes an answer: JSON, and behind it the binary outputs in order. `held` counts the results, and then the answer.
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

/// Returns the refusal of a request that does not come to its route.
pub(crate) fn refused(refusal: Refusal) -> Response {
    Refused(refusal).into_response()
}

/// Tells whether everybody is answered at a path, without a token.
pub(crate) fn is_open(path: &str) -> bool {
    path.starts_with("/v2/health/")
}

/// Tells whether a connection that is one more than there may be is answered at a path.
pub(crate) fn is_health(path: &str) -> bool {
    path.starts_with("/v2/health/") || path == "/metrics"
}
