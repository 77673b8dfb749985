//! Tests gRPC messages whose lists grow when they are decoded.

use crate::process::{Besieged, gzip, infer_input};
use bb_serve::protocol::{InferTensorContents, ModelInferRequest};
use bytes::Bytes;
use http_body_util::BodyExt;
use prost::Message;
use std::time::{Duration, Instant};
use tonic::Code;

const MIB: usize = 1 << 20;

fn code(headers: &axum::http::HeaderMap) -> Option<Code> {
    tonic::Status::from_header_map(headers).map(|status| status.code())
}

/// Sends compressed messages over one connection, several at a time. Returns the status codes of their answers.
pub(crate) fn send(server: &Besieged, path: &str, messages: &[Vec<u8>]) -> Vec<Code> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use tower_service::Service;
        let mut channel = crate::common::channel(server.grpc).await;
        let mut answers = Vec::new();
        for message in messages {
            let mut body = vec![1];
            body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            body.extend(message);
            let request = axum::http::Request::post(format!("http://{}{path}", server.grpc))
                .header("content-type", "application/grpc")
                .header("grpc-encoding", "gzip")
                .header("te", "trailers")
                .body(tonic::body::Body::new(http_body_util::Full::new(Bytes::from(body))))
                .unwrap();
            std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
            answers.push(tokio::spawn(channel.call(request)));
        }
        let mut codes = Vec::new();
        for answer in answers {
            let answer = answer.await.unwrap().unwrap();
            let in_head = code(answer.headers());
            let trailers = answer.into_body().collect().await.unwrap();
            let in_trailers = trailers.trailers().and_then(code);
            codes.push(in_head.or(in_trailers).unwrap_or(Code::Ok));
        }
        codes
    })
}

pub(crate) const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Builds a message with encoded `contents`.
pub(crate) fn message(model: &str, name: &str, datatype: &str, shape: &[i64], contents: &[u8]) -> Vec<u8> {
    let field = |number: u32, bytes: &[u8]| {
        let mut field = Vec::new();
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut field);
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        [field.as_slice(), bytes].concat()
    };
    let input = [infer_input(name, datatype, shape, None).encode_to_vec(), field(5, contents)].concat();
    [field(1, model.as_bytes()), field(5, &input)].concat()
}

fn packed(number: u8, count: usize) -> Vec<u8> {
    let mut list = vec![number << 3 | 2];
    prost::encoding::encode_varint(count as u64, &mut list);
    list.resize(list.len() + count, 0);
    list
}

#[test]
fn lists_are_decoded_beside_the_network_and_only_for_a_model_that_takes_them() {
    let server = Besieged::start(10.0);
    server.honest();
    let count = 2 * MIB;
    let texts = [0x42, 0].repeat(count);
    let parameters: Vec<u8> = [0x22, 6, 0x0a, 4, b'a', b'b', b'c', b'd'].repeat(MIB / 2);
    let elements = count as i64;
    let kinds = [
        ("texts for no model", message("nosuch", "x", "FP32", &[3], &texts), Code::NotFound),
        ("texts as numbers", message("double", "x", "FP32", &[1, 3], &texts), Code::InvalidArgument),
        ("texts of another count", message("words", "x", "BYTES", &[1, 2], &texts), Code::InvalidArgument),
        (
            "numbers of another count",
            message("longs", "x", "INT64", &[1, 2], &packed(3, count)),
            Code::InvalidArgument,
        ),
        (
            "numbers of another type",
            message("double", "x", "FP32", &[1, 2], &packed(3, count)),
            Code::InvalidArgument,
        ),
        (
            "extents",
            [vec![0x2a], vec![0x85, 0x80, 0x80, 8], packed(3, count)].concat(),
            Code::InvalidArgument,
        ),
        ("parameters", parameters, Code::InvalidArgument),
        ("texts", message("words", "x", "BYTES", &[elements / 2, 2], &texts), Code::Ok),
        ("numbers", message("longs", "x", "INT64", &[elements / 2, 2], &packed(3, count)), Code::Ok),
    ];
    for (what, message, expected) in kinds {
        let packed = gzip(&message);
        let before = server.resident();
        server.forget_peak();
        let start = Instant::now();
        let code = send(&server, INFER, std::slice::from_ref(&packed))[0];
        assert!(
            code == expected || (expected == Code::Ok && code == Code::ResourceExhausted),
            "{what}: {code:?}"
        );
        let grown = server.peak().saturating_sub(before);
        // An element of one or two bytes takes eight bytes in a tensor, and eight bytes in the answer.
        let factor = if expected == Code::Ok { 30 } else { 3 };
        assert!(grown < factor * message.len() + 16 * MIB, "{what}: {} MiB", grown / MIB);
        assert!(start.elapsed() < server.timeout, "{what}: {:?}", start.elapsed());
    }
    server.honest();
    server.rests(Duration::from_secs(20));
}

#[test]
fn a_megabyte_of_messages_stops_neither_health_nor_honest_clients() {
    let server = Besieged::start(10.0);
    server.honest();
    server.forget_peak();
    let before = server.resident();
    let health = server.health();
    let message = gzip(&message("nosuch", "x", "FP32", &[3], &[0x42, 0].repeat(8 * MIB)));
    assert!(message.len() < 128 << 10, "{}", message.len());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (server, message) = (&server, &message);
            scope.spawn(move || {
                for code in send(server, INFER, &vec![message.clone(); 4]) {
                    let known = [Code::NotFound, Code::ResourceExhausted, Code::DeadlineExceeded];
                    assert!(known.contains(&code), "{code:?}");
                }
            });
        }
        (0..3).for_each(|_| server.honest());
    });
    let p99 = health.ended();
    assert!(p99 < Duration::from_secs(1), "health took {p99:?}");
    let grown = server.peak() - before;
    assert!(grown < 700 * MIB, "{} MiB", grown / MIB);
    server.rests(Duration::from_secs(20));
}

#[test]
fn the_other_methods_have_small_messages_and_few_of_them() {
    let server = Besieged::start(10.0);
    server.honest();
    for path in [
        "/inference.GRPCInferenceService/ModelReady",
        "/inference.GRPCInferenceService/RepositoryModelLoad",
        "/grpc.health.v1.Health/Check",
    ] {
        let codes = send(&server, path, &[gzip(&vec![0; 16 * MIB])]);
        assert_eq!(codes, [Code::ResourceExhausted], "{path}");
    }
    // The streamed answer begins before the message arrives.
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    send(&server, reflection, &[gzip(&vec![0; 16 * MIB])]);
    // Requests a list of services many times in one call.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let mut grpc = tonic::client::Grpc::new(crate::common::channel(server.grpc).await);
        grpc.ready().await.unwrap();
        let asked = crate::common::Stream::new(vec![
            tonic_reflection::pb::v1::ServerReflectionRequest {
                message_request: Some(
                    tonic_reflection::pb::v1::server_reflection_request::MessageRequest::ListServices(
                        String::new()
                    ),
                ),
                ..Default::default()
            };
            1000
        ]);
        let path = axum::http::uri::PathAndQuery::from_static(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        );
        let codec =
            tonic_prost::ProstCodec::<_, tonic_reflection::pb::v1::ServerReflectionResponse>::default();
        let mut answers = grpc.streaming(tonic::Request::new(asked), path, codec).await.unwrap().into_inner();
        let mut count = 0;
        loop {
            match answers.message().await {
                Ok(Some(_)) => count += 1,
                Ok(None) => return (count, Code::Ok),
                Err(status) => return (count, status.code()),
            }
        }
    });
    // The reflection service does not report an error if the stream of messages ends with one.
    assert!(ended.0 <= 256, "{ended:?}");
    server.rests(Duration::from_secs(20));
}

/// Typed lists contain the same elements as a message that prost decodes.
#[test]
fn typed_lists_of_each_type_are_answered() {
    let server = Besieged::start(10.0);
    let contents =
        InferTensorContents { int64_contents: vec![-1, 1 << 40, 0, i64::MIN], ..Default::default() };
    let input = infer_input("x", "INT64", &[2, 2], Some(contents.clone()));
    let ask = ModelInferRequest { model_name: "longs".to_owned(), inputs: vec![input], ..Default::default() };
    let answer = server.by_grpc(async |mut client| client.model_infer(ask).await).unwrap().into_inner();
    assert_eq!(answer.outputs[0].contents, Some(contents));
    let contents =
        InferTensorContents { bytes_contents: vec!["é".into(), Bytes::new()], ..Default::default() };
    let input = infer_input("x", "BYTES", &[1, 2], Some(contents.clone()));
    let ask = ModelInferRequest { model_name: "words".to_owned(), inputs: vec![input], ..Default::default() };
    let answer = server.by_grpc(async |mut client| client.model_infer(ask).await).unwrap().into_inner();
    assert_eq!(answer.outputs[0].contents, Some(contents));
}
