//! The endpoints for models except inference: readiness, metadata, statistics, and the repository.

use super::{InPath, Refused, Result, answer, body, find, named, readiness, refuse, unpacked};
use crate::connections::Connection;
use crate::describe;
use crate::infer::Shared;
use crate::log::Noted;
use crate::model::Model;
use crate::port::TensorPort;
use crate::refusal::{Refusal, shown};
use crate::repository::Listed;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

pub(super) async fn model_ready(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let model = find(&shared, path).map_err(|refusal| refuse(&shared, refusal))?;
    Ok(readiness(&shared, json!({ "name": model.name, "ready": shared.is_ready() })))
}

pub(super) async fn described(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
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

pub(super) async fn config(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let model = find(&shared, path).map_err(|refusal| refuse(&shared, refusal))?;
    Ok(answer(StatusCode::OK, &describe::config_json(&model)))
}

pub(super) async fn statistics(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let models = named(path).and_then(|named| shared.repository.chosen(&named.model, &named.version));
    let models = models.map_err(|refusal| refuse(&shared, refusal))?;
    Ok(statistics_of(&models))
}

pub(super) async fn all_statistics(State(shared): State<Arc<Shared>>) -> Response {
    statistics_of(&shared.repository.models())
}

fn statistics_of(models: &[Arc<Model>]) -> Response {
    let statistics = models.iter().map(|model| describe::statistics_json(model)).collect::<Vec<_>>();
    answer(StatusCode::OK, &json!({ "model_stats": statistics }))
}

/// The body of a request to list, load or unload models.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Asked {
    ready: bool,
    parameters: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
}

/// The maximum size of this body, in bytes.
const ASKED: usize = 64 << 10;

async fn asked(shared: &Shared, request: Request, deadline: Instant) -> std::result::Result<Asked, Refusal> {
    let (head, body) = request.into_parts();
    let (limit, lease) = (ASKED.min(shared.request_bytes), shared.held_bytes.lease());
    let coding = body::check(&head.headers, limit)?;
    let reading = body::read(body, &head.headers, limit, &lease);
    let body = tokio::time::timeout_at(deadline.into(), reading).await.map_err(|_| Refusal::Deadline)??;
    let body = unpacked(body, coding, limit, &lease)?;
    if body.is_empty() {
        return Ok(Asked::default());
    }
    serde_json::from_slice(&body).map(|super::Object(asked)| asked).map_err(Refusal::Json)
}

pub(super) async fn index(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
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

pub(super) async fn load(
    State(shared): State<Arc<Shared>>,
    path: InPath,
    request: Request,
) -> Result<Response> {
    let changed = async {
        let (named, deadline) = (named(path)?, Instant::now() + shared.timeout);
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let noted = request.extensions().get::<Arc<Noted>>().cloned();
        let asked = asked(&shared, request, deadline).await?;
        if let Some(name) = asked.parameters.keys().next() {
            return Err(Refusal::LoadParameter { name: shown(name) });
        }
        let _computing = connection.as_ref().map(Connection::computing);
        let loaded = shared.repository.load(&named.model, deadline).await;
        loaded.inspect_err(|refusal| noted.iter().for_each(|noted| noted.warn(&refusal.logged())))
    };
    changed.await.map_err(|refusal| refuse(&shared, refusal))?;
    Ok(answer(StatusCode::OK, &json!({})))
}

pub(super) async fn unload(State(shared): State<Arc<Shared>>, path: InPath) -> Result<Response> {
    let unloaded = named(path).and_then(|named| shared.repository.unload(&named.model));
    unloaded.map_err(|refusal| refuse(&shared, refusal))?;
    Ok(answer(StatusCode::OK, &json!({})))
}

pub(super) async fn no_shared_memory(State(shared): State<Arc<Shared>>) -> Refused {
    refuse(&shared, Refusal::Absent { what: "shared memory" })
}

pub(super) async fn no_trace(State(shared): State<Arc<Shared>>) -> Refused {
    refuse(&shared, Refusal::Absent { what: "settings of traces" })
}

pub(super) async fn no_logging(State(shared): State<Arc<Shared>>) -> Refused {
    refuse(&shared, Refusal::Absent { what: "settings of its log that clients change" })
}
