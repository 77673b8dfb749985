//! Tests extents that differ although the model declares the same symbolic dimension for them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_ir::DataType;
use bb_ir::proto::{AttributeProto, ModelProto, attribute_proto};
use bb_serve::protocol::ModelInferRequest;
use bb_serve::protocol::model_infer_request::InferInputTensor;
use bb_serve::{RequestLog, Server};
use common::*;
use serde_json::json;

/// Creates a model that concatenates `a` and `b`. It declares the same symbolic dimension for their extents.
fn joined() -> ModelProto {
    let axis = AttributeProto {
        name: Some("axis".to_owned()),
        i: Some(0),
        r#type: Some(attribute_proto::AttributeType::Int.into()),
        ..Default::default()
    };
    let inputs = ["a", "b"].map(|name| tensor(name, DataType::F32, &["n"]));
    let output = tensor("y", DataType::F32, &["m"]);
    model(graph(inputs.to_vec(), vec![node("Concat", &["a", "b"], &["y"], vec![axis])], vec![output]))
}

fn ask(b: &[f32]) -> serde_json::Value {
    let input =
        |name, data: &[f32]| json!({"name": name, "datatype": "FP32", "shape": [data.len()], "data": data});
    json!({"inputs": [input("a", &[1.0, 2.0]), input("b", b)]})
}

#[test]
fn extents_of_one_name_may_differ_and_the_log_says_so() {
    let lines = Lines::default();
    let mut config = config(vec![made("joined", &joined())]);
    config.log = Some(RequestLog::new(lines.clone()));
    let server = Server::start(config).unwrap();
    let to = server.http();
    let answer = post(to, "/v2/models/joined/infer", &ask(&[3.0, 4.0]));
    assert_eq!(answer.json()["outputs"][0]["data"], json!([1.0, 2.0, 3.0, 4.0]));
    let answer = post(to, "/v2/models/joined/infer", &ask(&[3.0, 4.0, 5.0]));
    assert_eq!(answer.json()["outputs"][0]["data"], json!([1.0, 2.0, 3.0, 4.0, 5.0]));
    by_grpc(&server, async |mut client| {
        let input = |name: &str, extent| InferInputTensor {
            name: name.to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![extent],
            ..Default::default()
        };
        let raw = |n: usize| vec![0u8; 4 * n].into();
        let request = ModelInferRequest {
            model_name: "joined".to_owned(),
            inputs: vec![input("a", 2), input("b", 1)],
            raw_input_contents: vec![raw(2), raw(1)],
            ..Default::default()
        };
        assert_eq!(client.model_infer(request).await.unwrap().into_inner().outputs[0].shape, [3]);
    });
    let text = lines.wait(3);
    let all: Vec<&str> = text.lines().collect();
    assert!(!all[0].contains("warning"), "{text}");
    let expected = "warning=\"input `b` is declared as f32[n], got f32[3]: extent 3 of axis 0 must be 2, because `n` is 2 at \
                    axis 0 of input `a`\"";
    assert!(all[1].contains(expected), "{text}");
    assert!(
        all[2].contains(" grpc ") && all[2].contains("got f32[1]: extent 1 of axis 0 must be 2"),
        "{text}"
    );
}

#[test]
fn a_strict_server_refuses_extents_of_one_name_that_differ() {
    let mut config = config(vec![made("joined", &joined())]);
    config.compile.strict = true;
    let server = Server::start(config).unwrap();
    let answer = post(server.http(), "/v2/models/joined/infer", &ask(&[3.0, 4.0]));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = post(server.http(), "/v2/models/joined/infer", &ask(&[3.0]));
    assert_eq!(answer.status, 400);
    assert!(
        answer.text().contains("input `b`: the extent `n` is 1, but 2 in input `a`"),
        "{}",
        answer.text()
    );
}
