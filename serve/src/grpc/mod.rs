//! The protocol over gRPC.

pub(crate) mod codec;
mod contents;
mod frames;
mod health;
mod held;
mod packed;
pub(crate) use health::Health;

/// The messages of the protocol, its client and its server, generated from `schema/open_inference.proto`.
#[allow(missing_docs, clippy::all, clippy::indexing_slicing, clippy::unwrap_used, reason = "generated")]
#[allow(unreachable_pub, rustdoc::all, reason = "generated")]
#[rustfmt::skip]
pub mod inference;

use crate::answer::HeldAnswer;
use crate::connections::Connection;
use crate::describe;
use crate::infer::{self, Ask, Counted, Shared};
use crate::log::Noted;
use crate::metrics::Protocol;
use crate::model::{Model, TensorPort};
use crate::parameters::{OfOutput, OfRequest, Parameter};
use crate::refusal::{Refusal, RefusalKind};
use crate::repository::Listed;
use axum::Router;
use held::{Held, HoldBodies};
use inference::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use inference::model_metadata_response::TensorMetadata;
use inference::{
    InferParameter, ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
    ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
    ModelStatisticsRequest, ModelStatisticsResponse, RepositoryIndexRequest, RepositoryIndexResponse,
    RepositoryModelLoadRequest, RepositoryModelLoadResponse, RepositoryModelUnloadRequest,
    RepositoryModelUnloadResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest,
    ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse, infer_parameter::ParameterChoice,
    repository_index_response::ModelIndex,
};
use prost::Message;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

/// The extensions of the protocol that the server has.
pub(crate) const EXTENSIONS: [&str; 5] =
    ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"];

/// The most bytes of a message of the services for health and reflection.
const SMALL: usize = 64 << 10;

/// Returns the refusal of a call that does not come to its route.
pub(crate) fn refused(refusal: Refusal) -> axum::response::Response {
    Status::from(refusal).into_http()
}

/// Tells whether everybody is answered at a path: without a token, and on a connection that is one more than there may be.
pub(crate) fn is_health(path: &str) -> bool {
    let of_server = path.strip_prefix("/inference.GRPCInferenceService/");
    matches!(of_server, Some("ServerLive" | "ServerReady")) || path.starts_with("/grpc.health.v1.Health/")
}

/// Makes the routes.
pub(crate) fn routes(shared: Arc<Shared>, health: &Health) -> Router {
    let limit = shared.request_bytes;
    let service = GrpcInferenceServiceServer::new(Service(shared.clone()))
        .max_decoding_message_size(limit)
        .max_encoding_message_size(usize::MAX);
    let mut routes = Routes::new(HoldBodies::new(service, shared.clone()));
    let service = tonic_health::server::HealthService::from_health_reporter(health.reporter());
    let service =
        tonic_health::pb::health_server::HealthServer::new(service).max_decoding_message_size(SMALL);
    routes = routes.add_service(HoldBodies::new(service, shared.clone()));
    // The committed schema is valid, as a test shows.
    if let (Ok(v1), Ok(v1alpha)) = (health::described().build_v1(), health::described().build_v1alpha()) {
        routes = routes.add_service(HoldBodies::new(v1.max_decoding_message_size(SMALL), shared.clone()));
        routes = routes.add_service(HoldBodies::new(v1alpha.max_decoding_message_size(SMALL), shared));
    }
    routes.prepare().into_axum_router()
}

struct Service(Arc<Shared>);

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let code = match refusal.kind() {
            RefusalKind::Invalid | RefusalKind::Encoding => Code::InvalidArgument,
            RefusalKind::NotFound => Code::NotFound,
            RefusalKind::Method | RefusalKind::Absent | RefusalKind::Unsupported => Code::Unimplemented,
            RefusalKind::NoToken => Code::Unauthenticated,
            RefusalKind::Forbidden => Code::PermissionDenied,
            RefusalKind::TooLarge | RefusalKind::Busy => Code::ResourceExhausted,
            RefusalKind::Deadline => Code::DeadlineExceeded,
            RefusalKind::Cancelled => Code::Cancelled,
            RefusalKind::Unavailable => Code::Unavailable,
            RefusalKind::Failed => Code::Internal,
        };
        Status::new(code, refusal.text())
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(
        &self,
        _request: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _request: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: self.0.is_ready() }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        let request = request.into_inner();
        // The protocol's answer for a model that is not there: it is not ready, as any other that cannot be asked.
        let ready = self.0.is_ready() && self.0.repository.model(&request.name, &request.version).is_ok();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _request: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let request = request.into_inner();
        let model = self.find(&request.name, &request.version)?;
        let port = |port: &TensorPort| TensorMetadata {
            name: port.name.clone(),
            datatype: port.datatype.to_owned(),
            shape: port.extents(),
        };
        Ok(Response::new(ModelMetadataResponse {
            name: model.name.clone(),
            versions: self.0.repository.versions_of(&model.name),
            platform: model.platform.clone(),
            inputs: model.inputs.iter().map(port).collect(),
            outputs: model.outputs.iter().map(port).collect(),
        }))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let shared = &*self.0;
        let mut counted = Counted::new(shared, Protocol::Grpc);
        let asked = request.get_ref();
        let model = match shared.repository.model(&asked.model_name, &asked.model_version) {
            Ok(model) => model,
            Err(refusal) => return Ok(counted.end(Err(refusal))?),
        };
        counted.of(&model);
        let result = self.infer(&model, counted.start(), request).await;
        Ok(counted.end(result)?)
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        let (of, ready) = (self.0.clone(), self.0.is_ready());
        let listed = tokio::task::spawn_blocking(move || of.repository.list(ready)).await;
        let listed = listed.map_err(|_| Refusal::Internal { what: "listing models panicked" })?;
        let listed = listed.into_iter().filter(|row| !request.get_ref().ready || row.is_ready());
        let row = |row: Listed| ModelIndex {
            name: row.name,
            version: row.version.unwrap_or_default(),
            state: row.state.to_owned(),
            reason: row.reason,
        };
        Ok(Response::new(RepositoryIndexResponse { models: listed.map(row).collect() }))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> Result<Response<RepositoryModelLoadResponse>, Status> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let _computing = connection.as_ref().map(Connection::computing);
        let request = request.into_inner();
        let loaded = match request.parameters.keys().next() {
            Some(name) => Err(Refusal::LoadParameter { name: infer::shown(name) }),
            None => self.0.repository.load(&request.model_name, Instant::now() + self.0.timeout).await,
        };
        self.counted(loaded)?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> Result<Response<RepositoryModelUnloadResponse>, Status> {
        self.counted(self.0.repository.unload(&request.get_ref().model_name))?;
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Result<Response<ModelConfigResponse>, Status> {
        let model = self.find(&request.get_ref().name, &request.get_ref().version)?;
        Ok(Response::new(ModelConfigResponse { config: Some(describe::config(&model)) }))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Result<Response<ModelStatisticsResponse>, Status> {
        let asked = request.get_ref();
        let models = self.counted(self.0.repository.chosen(&asked.name, &asked.version))?;
        let model_stats = models.iter().map(|model| describe::statistics(model)).collect();
        Ok(Response::new(ModelStatisticsResponse { model_stats }))
    }
}

impl Service {
    fn find(&self, name: &str, version: &str) -> Result<Arc<Model>, Refusal> {
        self.counted(self.0.repository.model(name, version))
    }

    /// Counts what is refused.
    fn counted<T>(&self, result: Result<T, Refusal>) -> Result<T, Refusal> {
        result.inspect_err(|refusal| self.0.metrics.others.count(Protocol::Grpc, Some(refusal.kind())))
    }

    async fn infer(
        &self,
        model: &Arc<Model>,
        start: Instant,
        mut request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Refusal> {
        let shared = &*self.0;
        if !shared.is_open() {
            return Err(Refusal::ShuttingDown);
        }
        let mut deadline = start + shared.timeout;
        if let Some(timeout) = timeout_of(request.metadata())? {
            deadline = deadline.min(start + timeout);
        }
        // The bytes were counted when they came, before they were decoded.
        let held = request.extensions_mut().remove::<Held>();
        let held =
            held.ok_or(Refusal::Internal { what: "a gRPC request came past the layer that counts bytes" })?;
        let lease = held.take();
        let connection = request.extensions().get::<Arc<Connection>>();
        let connection =
            connection.ok_or(Refusal::Internal { what: "a request came past its connection" })?;
        let computing = connection.computing();
        let noted = request.extensions().get::<Arc<Noted>>().cloned();
        if let Some(noted) = &noted {
            let id = request.get_ref().id.as_str();
            noted.note(&model.name, Some(id).filter(|id| !id.is_empty()));
        }
        let request = request.into_inner();
        let size = request.raw_input_contents.iter().map(bytes::Bytes::len).sum::<usize>()
            + request.inputs.iter().map(contents::size).sum::<usize>();
        let of = model.clone();
        let read = move || {
            let raw = request.inputs.iter().all(|input| input.contents.is_none());
            let mut of_request = OfRequest::default();
            for (name, value) in &request.parameters {
                of_request.read(name, parameter(value))?;
            }
            if let Some(timeout) = of_request.timeout {
                deadline = deadline.min(start + timeout);
            }
            let inputs = contents::read(&of, &request, &lease)?;
            if let Some(warning) = noted.and_then(|noted| Some((noted, of.contradicted(&inputs)?))) {
                warning.0.warn(&warning.1);
            }
            let names = request.outputs.iter().map(|output| output.name.as_str());
            let wanted = of.wanted(names)?;
            let mut classes = vec![None; wanted.len()];
            for (output, classes) in request.outputs.iter().zip(&mut classes) {
                let mut of_output = OfOutput::default();
                for (name, value) in &output.parameters {
                    of_output.read(&output.name, name, parameter(value))?;
                }
                *classes = of_output.classes;
            }
            Ok((Ask { inputs, wanted, deadline, lease }, raw, request.id, classes))
        };
        let (ask, raw, id, classes) = infer::convert(size, read).await?;
        let wanted = ask.wanted.clone();
        let results = infer::ask(shared, model, ask).await?;
        let (size, mut held) = infer::hold(shared, &results)?;
        let of = model.clone();
        let write = move || {
            let answer = contents::write(&of, id, raw, &wanted, &results, &classes, &held)?;
            let length = answer.encoded_len();
            held.grow(length.saturating_sub(size))?;
            held.keep(length);
            Ok((answer, HeldAnswer::new(held, length)))
        };
        let (answer, held) = infer::convert(size, write).await?;
        drop(computing);
        let mut response = Response::new(answer);
        response.extensions_mut().insert(held);
        Ok(response)
    }
}

fn parameter(value: &InferParameter) -> Parameter {
    match &value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => Parameter::Bool(*value),
        Some(ParameterChoice::Uint64Param(number)) => Parameter::Unsigned(*number),
        Some(ParameterChoice::Int64Param(number)) => {
            u64::try_from(*number).map_or(Parameter::Other, Parameter::Unsigned)
        }
        Some(ParameterChoice::StringParam(_)) => Parameter::Text,
        Some(ParameterChoice::DoubleParam(_)) | None => Parameter::Other,
    }
}

/// Reads how long the client waits: up to eight digits and a unit.
fn timeout_of(metadata: &MetadataMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = metadata.get("grpc-timeout") else { return Ok(None) };
    let text = value.to_str().unwrap_or("no text");
    let wrong = || Refusal::Header {
        name: "grpc-timeout",
        value: infer::shown(text),
        expected: "up to eight digits and one of H, M, S, m, u, n",
    };
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let valid = (1..=8).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| valid).ok_or_else(wrong)?;
    Ok(Some(match unit {
        "H" => Duration::from_secs(3600 * number),
        "M" => Duration::from_secs(60 * number),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return Err(wrong()),
    }))
}
