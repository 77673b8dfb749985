//! Tests Triton's extensions: configuration, statistics, classification, parameters, and unsupported features.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_ir::DataType;
use bb_serve::Server;
use bb_serve::protocol::infer_parameter::ParameterChoice;
use bb_serve::protocol::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use bb_serve::protocol::{
    DataType as Kind, InferParameter, ModelConfigRequest, ModelInferRequest, ModelStatisticsRequest,
};
use common::*;
use serde_json::{Value, json};
use std::time::Duration;

fn input(rows: usize, data: &[f32]) -> Value {
    json!({"name": "x", "datatype": "FP32", "shape": [rows, data.len() / rows], "data": data})
}

#[test]
fn the_configuration_says_what_applies() {
    let server = start(vec![made("double", &double()), made("words", &identity(DataType::String))]);
    let config = get(server.http(), "/v2/models/double/config").json();
    assert_eq!(config["name"], "double");
    assert_eq!((&config["backend"], &config["platform"]), (&json!("cpu"), &json!("bb_cpu")));
    assert_eq!(config["max_batch_size"], 0);
    let x = json!({
        "name": "x", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [-1, -1], "optional": false,
    });
    assert_eq!(config["input"], json!([x]));
    assert_eq!(config["output"][0]["data_type"], "TYPE_FP32");
    assert_eq!(config["instance_group"][0]["count"], 1);
    let words = get(server.http(), "/v2/models/words/versions/1/config").json();
    assert_eq!(
        (&words["input"][0]["data_type"], &words["input"][0]["dims"]),
        (&json!("TYPE_STRING"), &json!([-1, 2]))
    );
    assert_eq!(get(server.http(), "/v2/models/none/config").status, 404);
    by_grpc(&server, async |mut client| {
        let ask = ModelConfigRequest { name: "double".to_owned(), version: String::new() };
        let config = client.model_config(ask).await.unwrap().into_inner().config.unwrap();
        assert_eq!(
            (config.input[0].data_type(), config.input[0].dims.as_slice()),
            (Kind::TypeFp32, [-1, -1].as_slice())
        );
    });
}

/// With batching, the described extents are the extents of one row, as Triton's clients expect.
#[test]
fn the_configuration_of_a_model_with_batches_leaves_the_batch_out() {
    let mut config = config(vec![made("double", &double())]);
    (config.max_batch, config.batch_delay) = (8, Duration::from_millis(3));
    let server = Server::start(config).unwrap();
    let config = get(server.http(), "/v2/models/double/config").json();
    assert_eq!((&config["max_batch_size"], &config["input"][0]["dims"]), (&json!(8), &json!([-1])));
    assert_eq!(config["dynamic_batching"], json!({"max_queue_delay_microseconds": 3000}));
}

#[test]
fn statistics_count_requests_runs_and_rows() {
    let mut config = config(vec![made("double", &double()), made("other", &double())]);
    config.max_batch = 8;
    let server = Server::start(config).unwrap();
    let path = "/v2/models/double/infer";
    for rows in [1, 1, 3] {
        let ask = json!({"inputs": [input(rows, &vec![1.0; 2 * rows])]});
        assert_eq!(post(server.http(), path, &ask).status, 200);
    }
    assert_eq!(post(server.http(), path, &json!({"inputs": []})).status, 400);
    let all = get(server.http(), "/v2/models/stats").json();
    assert_eq!(all["model_stats"].as_array().unwrap().len(), 2);
    let one = get(server.http(), "/v2/models/double/stats").json()["model_stats"][0].clone();
    assert_eq!((&one["name"], &one["version"]), (&json!("double"), &json!("1")));
    assert_eq!((&one["inference_count"], &one["execution_count"]), (&json!(5), &json!(3)));
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let last = u128::from(one["last_inference"].as_u64().unwrap());
    assert!(last <= since && since - last < 60_000, "{last} {since}");
    let of = &one["inference_stats"];
    for (name, count) in [
        ("success", 3),
        ("fail", 1),
        ("queue", 3),
        ("compute_input", 3),
        ("compute_infer", 3),
        ("compute_output", 3),
        ("cache_hit", 0),
    ] {
        assert_eq!(of[name]["count"], count, "{name}: {of}");
        assert_eq!(of[name]["ns"].as_u64().unwrap() > 0, count > 0, "{name}: {of}");
    }
    // The time of a request is at least the sum of the times of its phases.
    let ns = |name: &str| of[name]["ns"].as_u64().unwrap();
    assert!(ns("success") >= ns("queue") + ns("compute_input") + ns("compute_infer") + ns("compute_output"));
    let batches = one["batch_stats"].as_array().unwrap();
    let sizes: Vec<(u64, u64)> = batches
        .iter()
        .map(|b| (b["batch_size"].as_u64().unwrap(), b["compute_infer"]["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(sizes, [(1, 2), (3, 1)]);
    assert_eq!(get(server.http(), "/v2/models/double/versions/2/stats").status, 404);
    by_grpc(&server, async |mut client| {
        let ask = ModelStatisticsRequest { name: "double".to_owned(), version: "1".to_owned() };
        let of = client.model_statistics(ask).await.unwrap().into_inner().model_stats.remove(0);
        assert_eq!((of.inference_count, of.execution_count, of.batch_stats.len()), (5, 3, 2));
        assert_eq!(of.inference_stats.unwrap().success.unwrap().count, 3);
    });
}

/// The greatest values come first, in the format `VALUE:INDEX:LABEL`, as documented for Triton's extension.
#[test]
fn outputs_are_classified_with_labels() {
    let folder = folder("labelled");
    std::fs::write(folder.join("labels.txt"), "cat\ndog\n\n").unwrap();
    let mut model = made("double", &double());
    let path = folder.join("model.onnx");
    std::fs::rename(&model.path, &path).unwrap();
    model.path = path;
    let server = start(vec![model.clone()]);
    let ask = |server: &Server, most: u64| {
        let output = json!({"name": "y", "parameters": {"classification": most}});
        let body = json!({"inputs": [input(2, &[0.25, 3.0, -1.0, 3.0, 0.5, 0.5])], "outputs": [output]});
        post(server.http(), "/v2/models/double/infer", &body).json()["outputs"][0].clone()
    };
    let expected =
        json!({"name": "y", "datatype": "BYTES", "shape": [2], "data": ["6.000000:1:dog", "6.000000:3"]});
    assert_eq!(ask(&server, 2), expected);
    assert_eq!(ask(&server, 99)["shape"], json!([6]));
    assert_eq!(ask(&server, 0)["datatype"], "FP32");
    assert_eq!(
        get(server.http(), "/v2/models/double/config").json()["output"][0]["label_filename"],
        "labels.txt"
    );
    // With batching, each row has its own classes.
    let mut joined = config(vec![model]);
    joined.max_batch = 4;
    let joined = Server::start(joined).unwrap();
    let classes = json!([["6.000000:1:dog"], ["6.000000:0:cat"]]);
    let got = ask(&joined, 1);
    assert_eq!(got["shape"], json!([2, 1]));
    assert_eq!(json!([[got["data"][0]], [got["data"][1]]]), classes);
    by_grpc(&server, async |mut client| {
        let most = ParameterChoice::Int64Param(1);
        let parameter = InferParameter { parameter_choice: Some(most) };
        let output = InferRequestedOutputTensor {
            name: "y".to_owned(),
            parameters: [("classification".to_owned(), parameter)].into(),
        };
        let ask = ModelInferRequest { outputs: vec![output], ..doubled() };
        let answer = client.model_infer(ask).await.unwrap().into_inner();
        assert_eq!(
            (answer.outputs[0].datatype.as_str(), answer.outputs[0].shape.as_slice()),
            ("BYTES", [1].as_slice())
        );
        assert_eq!(&answer.raw_output_contents[0][4..], b"4.000000:1:dog");
    });
    let words = start(vec![made("words", &identity(DataType::String))]);
    let x = json!({"name": "x", "datatype": "BYTES", "shape": [1, 2], "data": ["a", "b"]});
    let body = json!({"inputs": [x], "outputs": [{"name": "y", "parameters": {"classification": 1}}]});
    let refused = post(words.http(), "/v2/models/words/infer", &body);
    assert_eq!(refused.status, 400, "{}", refused.text());
}

fn doubled() -> ModelInferRequest {
    let (name, datatype) = ("x".to_owned(), "FP32".to_owned());
    let x = InferInputTensor { name, datatype, shape: vec![1, 2], ..Default::default() };
    let raw = [1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat();
    ModelInferRequest {
        model_name: "double".to_owned(),
        inputs: vec![x],
        raw_input_contents: vec![raw.into()],
        ..Default::default()
    }
}

/// Tests requests with the additional parameters that MLServer's and Triton's clients send, according to their documentation.
#[test]
fn parameters_of_other_servers_change_nothing() {
    let server = start(vec![made("double", &double())]);
    let mut x = input(1, &[1.0, 2.0]);
    x["parameters"] = json!({"content_type": "np", "anything": 1.5, "nothing": null});
    let ask = json!({
        "parameters": {
            "priority": 2, "sequence_id": "a", "sequence_start": true, "sequence_end": false, "timeout": 0,
            "content_type": "np", "traceparent": "00-0",
        },
        "inputs": [x], "outputs": [{"name": "y", "parameters": {"content_type": "np"}}],
    });
    let answer = post(server.http(), "/v2/models/double/infer", &ask);
    assert_eq!(answer.json()["outputs"][0]["data"], json!([2.0, 4.0]), "{}", answer.text());
    by_grpc(&server, async |mut client| {
        let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
        let parameters = [
            ("priority".to_owned(), parameter(ParameterChoice::Uint64Param(1))),
            ("sequence_id".to_owned(), parameter(ParameterChoice::Int64Param(7))),
            ("sequence_start".to_owned(), parameter(ParameterChoice::BoolParam(true))),
            ("content_type".to_owned(), parameter(ParameterChoice::StringParam("np".to_owned()))),
        ];
        let ask = ModelInferRequest { parameters: parameters.into(), ..doubled() };
        let raw = client.model_infer(ask).await.unwrap().into_inner().raw_output_contents.remove(0);
        assert_eq!(raw, [2.0f32.to_le_bytes(), 4.0f32.to_le_bytes()].concat());
    });
}

#[test]
fn what_is_not_there_says_so() {
    let server = start(vec![made("double", &double())]);
    for (path, what) in [
        ("/v2/systemsharedmemory/status", "shared memory"),
        ("/v2/systemsharedmemory/region/a/register", "shared memory"),
        ("/v2/cudasharedmemory/region/a/unregister", "shared memory"),
        ("/v2/logging", "log"),
        ("/v2/trace/setting", "traces"),
        ("/v2/models/double/trace/setting", "traces"),
    ] {
        for answer in [get(server.http(), path), post(server.http(), path, &json!({}))] {
            assert_eq!(answer.status, 501, "{path}");
            assert!(answer.json()["error"].as_str().unwrap().contains(what), "{path}: {}", answer.text());
        }
    }
    by_grpc(&server, async |_| {
        for (method, what) in [
            ("SystemSharedMemoryStatus", "shared memory"),
            ("CudaSharedMemoryRegister", "shared memory"),
            ("LogSettings", "log"),
            ("TraceSetting", "traces"),
            ("ModelStreamInfer", "ModelInfer"),
        ] {
            let status =
                unary(server.grpc(), &format!("/inference.GRPCInferenceService/{method}")).await.unwrap_err();
            assert_eq!(status.code(), tonic::Code::Unimplemented, "{method}");
            assert!(status.message().contains(what), "{method}: {status}");
        }
    });
}

/// Creates a model that selects rows of a table with three rows.
fn rows() -> bb_ir::proto::ModelProto {
    let (i, y) = (tensor("i", DataType::I64, &["n"]), tensor("y", DataType::F32, &["n"]));
    let mut all = graph(vec![i], vec![node("Gather", &["table", "i"], &["y"], vec![])], vec![y]);
    all.initializer = vec![bb_ir::proto::TensorProto {
        name: Some("table".to_owned()),
        data_type: Some(DataType::F32.to_onnx()),
        dims: vec![3],
        float_data: vec![1.0, 2.0, 3.0],
        ..Default::default()
    }];
    model(all)
}

/// ONNX's `Gather`: "It is an error if any of the index values are out of bounds". The client chose the indices, so this is the client's
/// error.
#[test]
fn an_index_out_of_range_is_the_clients_error() {
    for backend in ["cpu", "reference"] {
        let mut of = made("rows", &rows());
        of.backend = backend.to_owned();
        let server = start(vec![of]);
        let ask = |index: i64| {
            let i = json!({"name": "i", "datatype": "INT64", "shape": [1], "data": [index]});
            post(server.http(), "/v2/models/rows/infer", &json!({"inputs": [i]}))
        };
        assert_eq!(ask(-1).json()["outputs"][0]["data"], json!([3.0]));
        for index in [3, -4, i64::MAX] {
            let refused = ask(index);
            assert_eq!(refused.status, 400, "{backend}: {}", refused.text());
            assert!(refused.text().contains(&format!("index {index} is out of range")), "{}", refused.text());
        }
        by_grpc(&server, async |mut client| {
            let (name, datatype) = ("i".to_owned(), "INT64".to_owned());
            let ask = ModelInferRequest {
                model_name: "rows".to_owned(),
                inputs: vec![InferInputTensor { name, datatype, shape: vec![1], ..Default::default() }],
                raw_input_contents: vec![7i64.to_le_bytes().to_vec().into()],
                ..Default::default()
            };
            let status = client.model_infer(ask).await.unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{backend}: {status}");
        });
    }
}
