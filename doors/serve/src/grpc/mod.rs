//! The inference protocol over gRPC.

mod contents;
mod frames;
mod health;
mod held;
mod infer;
mod lists;
mod packed;
pub(crate) use health::Health;

use crate::connections::Connection;
use crate::describe;
use crate::infer::Shared;
use crate::log::Noted;
use crate::messages::inference::grpc_inference_service_server::{
    GrpcInferenceService, GrpcInferenceServiceServer,
};
use crate::messages::inference::model_metadata_response::TensorMetadata;
use crate::messages::inference::{
    ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest,
    ModelStatisticsResponse, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse,
    ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest,
    ServerReadyResponse, repository_index_response::ModelIndex,
};
use crate::metrics::Protocol;
use crate::model::Model;
use crate::port::TensorPort;
use crate::refusal::{Refusal, RefusalKind, shown};
use crate::repository::Listed;
use axum::Router;
use held::HoldBodies;
use std::sync::Arc;
use std::time::Instant;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

/// The extensions of the protocol that the server supports.
pub(crate) const EXTENSIONS: [&str; 5] =
    ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"];

/// The maximum size in bytes of messages of all methods except `ModelInfer`.
const SMALL: usize = 64 << 10;

/// Converts a refusal to an answer, for a call that is refused before it is routed.
pub(crate) fn refused(refusal: Refusal) -> axum::response::Response {
    Status::from(refusal).into_http()
}

/// Returns whether a path is answered without a token, and on a surplus connection.
pub(crate) fn is_health(path: &str) -> bool {
    let of_server = path.strip_prefix("/inference.GRPCInferenceService/");
    matches!(of_server, Some("ServerLive" | "ServerReady")) || path.starts_with("/grpc.health.v1.Health/")
}

/// Builds the routes.
pub(crate) fn routes(shared: Arc<Shared>, health: &Health) -> Router {
    let service = GrpcInferenceServiceServer::new(Service(shared.clone())).max_decoding_message_size(SMALL);
    let mut routes = Routes::new(HoldBodies::new(service, shared.clone()));
    let service = tonic_health::server::HealthService::from_health_reporter(health.reporter());
    let service =
        tonic_health::pb::health_server::HealthServer::new(service).max_decoding_message_size(SMALL);
    routes = routes.add_service(HoldBodies::new(service, shared.clone()));
    // The descriptions always build, because a test checks that the committed schema is valid.
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
        // The protocol answers "not ready" for a missing model.
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

    /// Never called, because [`HoldBodies`] passes these calls to [`infer::call`](self::infer::call).
    async fn model_infer(
        &self,
        _request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        Err(Refusal::Internal { what: "an inference came to the route of small messages" }.into())
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
        let noted = request.extensions().get::<Arc<Noted>>().cloned();
        let request = request.into_inner();
        let loaded = match request.parameters.keys().next() {
            Some(name) => Err(Refusal::LoadParameter { name: shown(name) }),
            None => self.0.repository.load(&request.model_name, Instant::now() + self.0.timeout).await,
        };
        let loaded =
            loaded.inspect_err(|refusal| noted.iter().for_each(|noted| noted.warn(&refusal.logged())));
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

    /// Counts a refusal, if the result is one.
    fn counted<T>(&self, result: Result<T, Refusal>) -> Result<T, Refusal> {
        result.inspect_err(|refusal| self.0.metrics.others.count(Protocol::Grpc, Some(refusal.kind())))
    }
}
