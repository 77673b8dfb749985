//! Tests gRPC's own services for health and reflection.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::*;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[test]
fn health_is_that_of_the_server() {
    let mut config = config(vec![made("double", &double())]);
    config.drain = std::time::Duration::from_millis(500);
    let server = bb_serve::Server::start(config).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let to = server.grpc();
    let mut watched = runtime.block_on(async {
        let mut client = HealthClient::new(channel(to).await);
        for service in ["", "inference.GRPCInferenceService"] {
            let status = client.check(of(service)).await.unwrap().into_inner().status();
            assert_eq!(status, ServingStatus::Serving, "{service}");
        }
        assert_eq!(client.check(of("none")).await.unwrap_err().code(), Code::NotFound);
        let mut watched = client.watch(of("")).await.unwrap().into_inner();
        assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        watched
    });
    let ending = std::thread::spawn(move || server.shut_down());
    let status = runtime.block_on(watched.message()).unwrap().unwrap().status();
    assert_eq!(status, ServingStatus::NotServing);
    assert!(ending.join().unwrap().finished);
}

/// A peer that watches health for longer than the request timeout does not count as a peer that stopped reading.
#[test]
fn a_watch_lasts_longer_than_a_request() {
    let mut config = config(vec![made("double", &double())]);
    config.timeout = std::time::Duration::from_millis(300);
    let server = bb_serve::Server::start(config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = HealthClient::new(channel(server.grpc()).await);
        let mut watched = client.watch(of("")).await.unwrap().into_inner();
        watched.message().await.unwrap().unwrap();
        let more = tokio::time::timeout(std::time::Duration::from_millis(1500), watched.message()).await;
        assert!(more.is_err(), "{more:?}");
    });
    assert_eq!(metric(&server, "bb_connections_closed_total{protocol=\"grpc\",reason=\"stalled\"}"), 0.0);
}

macro_rules! reflects {
    ($name:ident, $version:ident) => {
        #[test]
        fn $name() {
            use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
            use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
            use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
            let server = start(vec![made("double", &double())]);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let ask = |message| tonic_reflection::pb::$version::ServerReflectionRequest {
                host: String::new(),
                message_request: Some(message),
            };
            runtime.block_on(async {
                let mut client = ServerReflectionClient::new(channel(server.grpc()).await);
                let symbol = "inference.GRPCInferenceService".to_owned();
                let asked = [
                    ask(MessageRequest::ListServices(String::new())),
                    ask(MessageRequest::FileContainingSymbol(symbol)),
                ];
                let mut answers =
                    client.server_reflection_info(Stream::new(asked)).await.unwrap().into_inner();
                let listed = answers.message().await.unwrap().unwrap().message_response.unwrap();
                let MessageResponse::ListServicesResponse(listed) = listed else { panic!("{listed:?}") };
                let names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
                for name in ["inference.GRPCInferenceService", "grpc.health.v1.Health"] {
                    assert!(names.iter().any(|known| known == name), "{names:?}");
                }
                let file = answers.message().await.unwrap().unwrap().message_response.unwrap();
                let MessageResponse::FileDescriptorResponse(file) = file else { panic!("{file:?}") };
                let all = file.file_descriptor_proto.concat();
                assert!(String::from_utf8_lossy(&all).contains("ModelStatistics"));
            });
        }
    };
}

reflects!(reflection_describes_the_services, v1);
reflects!(its_first_version_does_too, v1alpha);
