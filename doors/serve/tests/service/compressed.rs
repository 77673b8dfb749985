//! Tests compressed requests and answers.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_serve::Server;
use bb_serve::protocol::model_infer_request::InferInputTensor;
use bb_serve::protocol::{ModelInferRequest, ModelInferResponse};
use common::*;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use prost::Message;
use serde_json::json;
use std::io::{Read, Write};
use tonic::Code;

const PATH: &str = "/v2/models/double/infer";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut to = ZlibEncoder::new(Vec::new(), Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut to = DeflateEncoder::new(Vec::new(), Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn ask(n: usize) -> Vec<u8> {
    let x = json!({"name": "x", "datatype": "FP32", "shape": [1, n], "data": vec![1; n]});
    json!({"inputs": [x]}).to_string().into_bytes()
}

fn send(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let headers = [headers, &[("connection", "close")]].concat();
    raw(server.http(), &request(PATH, &headers, body)).unwrap()
}

#[test]
fn requests_are_unpacked_and_answers_packed_if_asked() {
    let server = start(vec![made("double", &double())]);
    let body = ask(1000);
    let members = [gzip(&body[..50]), gzip(&body[50..])].concat();
    for (encoding, packed) in [
        ("gzip", gzip(&body)),
        ("x-gzip", gzip(&body)),
        ("GZIP", members),
        ("deflate", zlib(&body)),
        ("deflate", raw_deflate(&body)),
        ("identity", body.clone()),
    ] {
        let answer = send(&server, &[("content-encoding", encoding)], &packed);
        assert_eq!(answer.json()["outputs"][0]["data"], json!(vec![2.0; 1000]), "{encoding}");
        assert_eq!(answer.header("content-encoding"), None);
    }
    let plain = send(&server, &[], &body);
    let unpack = |coding: &str, body: &[u8]| {
        let mut bytes = Vec::new();
        let read = match coding {
            "gzip" => GzDecoder::new(body).read_to_end(&mut bytes),
            _ => ZlibDecoder::new(body).read_to_end(&mut bytes),
        };
        read.map(|_| bytes).unwrap()
    };
    for (accepted, coding) in
        [("gzip, deflate", "gzip"), ("deflate", "deflate"), ("deflate;q=1, gzip;q=0", "deflate")]
    {
        let answer = send(&server, &[("accept-encoding", accepted)], &body);
        assert_eq!(answer.header("content-encoding"), Some(coding));
        assert!(answer.body.len() < plain.body.len() / 10);
        assert_eq!(unpack(coding, &answer.body), plain.body, "{accepted}");
    }
    // The header of the extension for binary data contains lengths of decompressed data.
    let x =
        json!({"name": "x", "datatype": "FP32", "shape": [1, 500], "parameters": {"binary_data_size": 2000}});
    let json = json!({"inputs": [x], "parameters": {"binary_data_output": true}}).to_string();
    let body = gzip(&[json.as_bytes(), &1f32.to_le_bytes().repeat(500)].concat());
    let length = json.len().to_string();
    let headers = [
        ("content-encoding", "gzip"),
        ("accept-encoding", "gzip"),
        ("inference-header-content-length", length.as_str()),
    ];
    let answer = send(&server, &headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    assert_eq!(unpack("gzip", &answer.body)[length..], 2f32.to_le_bytes().repeat(500));
    assert_eq!(metric(&server, "bb_held_bytes"), 0.0);
}

#[test]
fn bombs_are_refused_when_they_exceed_a_request() {
    let mut config = config(vec![made("double", &double())]);
    (config.request_bytes, config.held_bytes) = (1 << 20, 2 << 20);
    let server = Server::start(config).unwrap();
    for (encoding, bomb) in
        [("gzip", gzip(&vec![b' '; 256 << 20])), ("deflate", zlib(&vec![b' '; 256 << 20]))]
    {
        assert!(bomb.len() < 1 << 20);
        let start = std::time::Instant::now();
        let answer = send(&server, &[("content-encoding", encoding)], &bomb);
        assert_eq!(answer.status, 413, "{}", answer.text());
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
    let status = call(&server, "gzip", 1, &gzip(&vec![0; 256 << 20])).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(metric(&server, "bb_held_bytes"), 0.0);
}

/// Sends a raw message with a flag for compression.
fn call(
    server: &Server,
    encoding: &str,
    flag: u8,
    message: &[u8],
) -> Result<(Option<String>, Vec<u8>), tonic::Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut channel = channel(server.grpc()).await;
        let mut body = vec![flag];
        body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend(message);
        let request = axum::http::Request::post(format!(
            "http://{}/inference.GRPCInferenceService/ModelInfer",
            server.grpc()
        ));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let body = http_body_util::Full::new(bytes::Bytes::from(body));
        let request = request.header("grpc-encoding", encoding).body(tonic::body::Body::new(body)).unwrap();
        use tower_service::Service;
        std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
        let answer = channel.call(request).await.unwrap();
        if let Some(status) =
            tonic::Status::from_header_map(answer.headers()).filter(|s| s.code() != Code::Ok)
        {
            return Err(status);
        }
        let encoding = answer.headers().get("grpc-encoding").map(|value| value.to_str().unwrap().to_owned());
        use http_body_util::BodyExt;
        let collected = answer.into_body().collect().await?;
        if let Some(status) =
            collected.trailers().and_then(tonic::Status::from_header_map).filter(|s| s.code() != Code::Ok)
        {
            return Err(status);
        }
        Ok((encoding, collected.to_bytes().to_vec()))
    })
}

fn message(n: usize) -> ModelInferRequest {
    let (name, datatype) = ("x".to_owned(), "FP32".to_owned());
    let shape = vec![1, i64::try_from(n).unwrap()];
    ModelInferRequest {
        model_name: "double".to_owned(),
        inputs: vec![InferInputTensor { name, datatype, shape, ..Default::default() }],
        raw_input_contents: vec![1f32.to_le_bytes().repeat(n).into()],
        ..Default::default()
    }
}

#[test]
fn messages_of_grpc_are_unpacked_and_answered_alike() {
    let server = start(vec![made("double", &double())]);
    let plain = message(1000).encode_to_vec();
    for (encoding, packed) in [("gzip", gzip(&plain)), ("deflate", zlib(&plain))] {
        let (answered, body) = call(&server, encoding, 1, &packed).unwrap();
        assert_eq!((answered.as_deref(), body[0]), (Some(encoding), 1));
        assert!(body.len() < 1000, "{}", body.len());
        let mut bytes = Vec::new();
        match encoding {
            "gzip" => GzDecoder::new(&body[5..]).read_to_end(&mut bytes).unwrap(),
            _ => ZlibDecoder::new(&body[5..]).read_to_end(&mut bytes).unwrap(),
        };
        let answer = ModelInferResponse::decode(bytes.as_slice()).unwrap();
        assert_eq!(answer.raw_output_contents, [2f32.to_le_bytes().repeat(1000)]);
    }
    // A message may be uncompressed although the header names a coding. Small answers are.
    let (answered, body) = call(&server, "gzip", 0, &message(1).encode_to_vec()).unwrap();
    assert_eq!((answered.as_deref(), body[0]), (Some("gzip"), 0));
    let (answered, _) = call(&server, "identity", 0, &plain).unwrap();
    assert_eq!(answered, None, "most clients accept compression, and few want it");
    assert_eq!(call(&server, "br", 1, &plain).unwrap_err().code(), Code::Unimplemented);
    assert_eq!(call(&server, "gzip", 1, b"no gzip").unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(metric(&server, "bb_held_bytes"), 0.0);
}
