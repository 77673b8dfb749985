//! The protocol over gRPC.

pub(crate) mod codec;
mod contents;
mod held;
/// The messages of the protocol, its client and its server, generated from `schema/open_inference.proto`.
#[allow(missing_docs, clippy::all, clippy::indexing_slicing, clippy::unwrap_used, reason = "generated")]
#[allow(unreachable_pub, rustdoc::all, reason = "generated")]
#[rustfmt::skip]
pub mod inference;

use crate::answer::HeldAnswer;
use crate::connections::Connection;
use crate::infer::{self, Ask, Counted, Shared};
use crate::metrics::Protocol;
use crate::model::{Model, TensorPort, VERSION};
use crate::refusal::{Refusal, RefusalKind};
use axum::Router;
use held::{Held, HoldBodies};
use inference::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use inference::model_infer_request::InferRequestedOutputTensor;
use inference::model_metadata_response::TensorMetadata;
use inference::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelReadyResponse, RepositoryIndexRequest, RepositoryIndexResponse,
    ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest,
    ServerReadyResponse, infer_parameter::ParameterChoice, repository_index_response::ModelIndex,
};
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};

/// The extensions of the protocol that the server has.
pub(crate) const EXTENSIONS: [&str; 2] = ["binary_tensor_data", "model_repository"];

/// Returns the refusal of a call of a connection that is one more than there may be.
pub(crate) fn surplus() -> axum::response::Response {
    Status::from(Refusal::Connections).into_http()
}

/// Tells whether a connection that is one more than there may be is answered at a path.
pub(crate) fn is_health(path: &str) -> bool {
    path.ends_with("/ServerLive") || path.ends_with("/ServerReady")
}

/// Makes the routes.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    let limit = shared.request_bytes;
    let service = GrpcInferenceServiceServer::new(Service(shared.clone()))
        .max_decoding_message_size(limit)
        .max_encoding_message_size(usize::MAX);
    tonic::service::Routes::new(HoldBodies::new(service, shared)).prepare().into_axum_router()
}

struct Service(Arc<Shared>);

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let code = match refusal.kind() {
            RefusalKind::Invalid | RefusalKind::Encoding => Code::InvalidArgument,
            RefusalKind::NotFound => Code::NotFound,
            RefusalKind::Method => Code::Unimplemented,
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
        self.find(&request.name, &request.version)?;
        Ok(Response::new(ModelReadyResponse { ready: self.0.is_ready() }))
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
            versions: vec![VERSION.to_owned()],
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
        let model = match shared.model(&request.get_ref().model_name, &request.get_ref().model_version) {
            Ok(model) => model,
            Err(refusal) => return Ok(counted.end(Err(refusal))?),
        };
        counted.of(model);
        let result = self.infer(model, counted.start(), request).await;
        Ok(counted.end(result)?)
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        let ready = self.0.is_ready();
        let listed = self.0.models.iter().filter(|_| ready || !request.get_ref().ready);
        let model = |model: &Arc<Model>| ModelIndex {
            name: model.name.clone(),
            version: VERSION.to_owned(),
            state: if ready { "READY" } else { "UNAVAILABLE" }.to_owned(),
            reason: String::new(),
        };
        Ok(Response::new(RepositoryIndexResponse { models: listed.map(model).collect() }))
    }
}

impl Service {
    fn find(&self, name: &str, version: &str) -> Result<&Arc<Model>, Refusal> {
        let found = self.0.model(name, version);
        found.inspect_err(|refusal| self.0.metrics.others.count(Protocol::Grpc, Some(refusal.kind())))
    }

    async fn infer(
        &self,
        model: &Arc<Model>,
        start: Instant,
        mut request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Refusal> {
        let shared = &*self.0;
        if !shared.is_ready() {
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
        let request = request.into_inner();
        let size = request.raw_input_contents.iter().map(bytes::Bytes::len).sum::<usize>()
            + request.inputs.iter().map(contents::size).sum::<usize>();
        let of = model.clone();
        let read = move || {
            let raw = request.inputs.iter().all(|input| input.contents.is_none());
            let what = "the request";
            for (name, value) in &request.parameters {
                match (name.as_str(), value.parameter_choice.as_ref().and_then(unsigned)) {
                    ("timeout", Some(time)) => deadline = deadline.min(start + Duration::from_micros(time)),
                    ("timeout", None) => {
                        let expected = "a number of microseconds";
                        return Err(Refusal::ParameterValue {
                            what: what.to_owned(),
                            name: name.clone(),
                            expected,
                        });
                    }
                    _ => return Err(unknown(what.to_owned(), name, "`timeout`")),
                }
            }
            let inputs = contents::read(&of, &request, &lease)?;
            let names = request.outputs.iter().map(|output| output.name.as_str());
            let wanted = of.wanted(names)?;
            request.outputs.iter().try_for_each(no_parameters)?;
            Ok((Ask { inputs, wanted, deadline, lease }, raw, request.id))
        };
        let (ask, raw, id) = infer::convert(size, read).await?;
        let wanted = ask.wanted.clone();
        let results = infer::ask(model, ask).await?;
        let (size, mut held) = infer::hold(shared, &results)?;
        let of = model.clone();
        let write = move || {
            let answer = contents::write(&of, id, raw, &wanted, &results)?;
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

fn unsigned(value: &ParameterChoice) -> Option<u64> {
    match value {
        ParameterChoice::Int64Param(n) => u64::try_from(*n).ok(),
        ParameterChoice::Uint64Param(n) => Some(*n),
        ParameterChoice::BoolParam(_) | ParameterChoice::StringParam(_) | ParameterChoice::DoubleParam(_) => {
            None
        }
    }
}

fn unknown(what: String, name: &str, known: &'static str) -> Refusal {
    Refusal::Parameter { what, name: infer::shown(name), known }
}

fn no_parameters(output: &InferRequestedOutputTensor) -> Result<(), Refusal> {
    none_of(&output.parameters, || format!("output `{}`", infer::shown(&output.name)))
}

/// Refuses parameters of a tensor, of which this server has none over gRPC.
fn none_of(
    parameters: &HashMap<String, InferParameter>,
    what: impl FnOnce() -> String,
) -> Result<(), Refusal> {
    parameters.keys().next().map_or(Ok(()), |name| Err(unknown(what(), name, "none")))
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
