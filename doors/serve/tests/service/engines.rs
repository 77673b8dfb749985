//! Tests errors with third-party engines: mistakes of the client, and operations that the engine lacks.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use bb_ir::DataType;
use bb_ir::proto::ModelProto;
use bb_rten as _;
use bb_serve::protocol::ModelInferRequest;
use bb_serve::protocol::model_infer_request::InferInputTensor;
use bb_serve::{ModelConfig, Server};
use common::*;
use serde_json::json;
use tonic::Code;

fn gather() -> ModelProto {
    let inputs = vec![tensor("x", DataType::F32, &["3"]), tensor("i", DataType::I64, &["n"])];
    let output = tensor("y", DataType::F32, &["n"]);
    model(graph(inputs, vec![node("Gather", &["x", "i"], &["y"], vec![])], vec![output]))
}

fn served(backend: &str) -> Server {
    let backend = backend.to_owned();
    start(vec![ModelConfig { backend, ..made("gather", &gather()) }])
}

fn ask(server: &Server, index: i64) -> Answer {
    let x = json!({"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]});
    let i = json!({"name": "i", "datatype": "INT64", "shape": [1], "data": [index]});
    post(server.http(), "/v2/models/gather/infer", &json!({"inputs": [x, i]}))
}

#[test]
fn an_index_that_is_out_of_range_is_the_mistake_of_the_client() {
    for backend in ["cpu", "reference", "rten"] {
        let server = served(backend);
        assert_eq!(ask(&server, 2).status, 200, "{backend}");
        for index in [7, 1 << 40] {
            let answer = ask(&server, index);
            assert_eq!(answer.status, 400, "{backend}: {}", answer.text());
            assert!(answer.text().contains(&index.to_string()), "{backend}: {}", answer.text());
        }
    }
}

#[test]
fn what_the_backend_lacks_is_unsupported() {
    let server = served("rten-strict");
    assert_eq!(ask(&server, 2).status, 200);
    let answer = ask(&server, 1 << 40);
    assert_eq!(answer.status, 501, "{}", answer.text());
    assert!(answer.text().contains("`rten-strict` lacks what model `gather` needs"), "{}", answer.text());
    assert!(answer.text().contains("1099511627776 does not fit"), "{}", answer.text());
    by_grpc(&server, async |mut client| {
        let input = |name: &str, datatype: &str, extent| InferInputTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![extent],
            ..Default::default()
        };
        let request = ModelInferRequest {
            model_name: "gather".to_owned(),
            inputs: vec![input("x", "FP32", 3), input("i", "INT64", 1)],
            raw_input_contents: vec![vec![0; 12].into(), (1i64 << 40).to_le_bytes().to_vec().into()],
            ..Default::default()
        };
        assert_eq!(client.model_infer(request).await.unwrap_err().code(), Code::Unimplemented);
    });
}
