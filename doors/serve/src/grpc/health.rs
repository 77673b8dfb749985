//! gRPC's standard health service (`grpc.health.v1`), and the reflection service, which describes all services.

use crate::messages::inference::grpc_inference_service_server::SERVICE_NAME;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The schema of the service, as an encoded file descriptor set of the protobuf compiler.
const SCHEMA: &[u8] = include_bytes!("inference.bin");

/// The health of the server and of the inference service, as the health service reports it.
pub(crate) struct Health(HealthReporter);

impl Health {
    pub(crate) fn new() -> Health {
        Health(HealthReporter::new())
    }

    pub(super) fn reporter(&self) -> HealthReporter {
        self.0.clone()
    }

    /// Reports the server's readiness until the server ends.
    pub(crate) fn follow(&self, mut readiness: watch::Receiver<bool>) -> impl Future<Output = ()> + use<> {
        let reporter = self.0.clone();
        async move {
            loop {
                let ready = *readiness.borrow_and_update();
                let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
                for service in ["", SERVICE_NAME] {
                    reporter.set_service_status(service, status).await;
                }
                if readiness.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Builds the reflection service, which describes the services to clients.
pub(super) fn described() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(SCHEMA)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
