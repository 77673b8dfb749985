//! Tests the protocol over HTTP.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb::conformance::onnx::{compare, read_tensors, tolerance};
use bb::{TensorData, bf16, f16};
use bb_ir::DataType;
use common::*;
use serde_json::{Value, json};

#[test]
fn health_and_metadata() {
    let server = start(vec![committed("skl_random_forest"), made("double", &double())]);
    let to = server.http();
    assert_eq!(get(to, "/v2/health/live").json(), json!({"live": true}));
    assert_eq!(get(to, "/v2/health/ready").json(), json!({"ready": true}));
    assert_eq!(get(to, "/v2").json()["name"], "bb-serve");
    assert_eq!(get(to, "/v2/models/double/ready").json(), json!({"name": "double", "ready": true}));
    assert_eq!(get(to, "/v2/models/double/versions/1/ready").status, 200);
    let expected = json!({
        "name": "double", "versions": ["1"], "platform": "bb_cpu",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}],
    });
    assert_eq!(get(to, "/v2/models/double").json(), expected);
    assert_eq!(get(to, "/v2/models/double/versions/1").json(), expected);
    let index = raw(to, &request("/v2/repository/index", &[], b"{}")).unwrap().json();
    assert_eq!(index[1], json!({"name": "double", "version": "1", "state": "READY", "reason": ""}));
}

/// The expected outputs are ONNX Runtime's, from files next to the models.
#[test]
fn outputs_are_those_of_onnx_runtime() {
    let names =
        ["skl_random_forest", "surfaces_gbr", "attacut_sc", "silero_vad_op16", "tiny_llama_fused_op23"];
    let server = start(names.iter().map(|name| committed(name)).collect());
    for name in names {
        let folder = case(name).join("test_data_set_0");
        let (inputs, expected) =
            (read_tensors(&folder, "input").unwrap(), read_tensors(&folder, "output").unwrap());
        let described = get(server.http(), &format!("/v2/models/{name}")).json();
        let mut binary = Vec::new();
        let mut list = Vec::new();
        for (port, x) in described["inputs"].as_array().unwrap().iter().zip(&inputs) {
            binary.extend_from_slice(x.bytes().unwrap());
            list.push(json!({
                "name": port["name"], "datatype": port["datatype"], "shape": x.shape(),
                "parameters": {"binary_data_size": x.byte_len()},
            }));
        }
        let request = json!({"id": "7", "inputs": list, "parameters": {"binary_data_output": true}});
        let answer = post_binary(server.http(), &format!("/v2/models/{name}/infer"), &request, &binary);
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
        let head: Value = serde_json::from_slice(&answer.body[..length]).unwrap();
        assert_eq!((&head["id"], &head["model_name"]), (&json!("7"), &json!(name)));
        let mut rest = &answer.body[length..];
        for (output, expected) in head["outputs"].as_array().unwrap().iter().zip(&expected) {
            let size = usize::try_from(output["parameters"]["binary_data_size"].as_u64().unwrap()).unwrap();
            let shape: Vec<usize> = serde_json::from_value(output["shape"].clone()).unwrap();
            let got = TensorData::adopt(expected.dtype(), &shape, rest[..size].to_vec().into()).unwrap();
            compare(expected, &got, tolerance(&case(name)).unwrap()).unwrap();
            rest = &rest[size..];
        }
        assert!(rest.is_empty());
    }
}

/// Returns for each element type its name, two elements as JSON, and their bytes in Rust's encoding.
fn types() -> Vec<(DataType, &'static str, Value, Vec<u8>)> {
    let row = |dtype, name, json, bytes: &[&[u8]]| (dtype, name, json, bytes.concat());
    vec![
        row(DataType::Bool, "BOOL", json!([true, false]), &[&[1, 0]]),
        row(DataType::U8, "UINT8", json!([0, 255]), &[&[0, 255]]),
        row(DataType::U16, "UINT16", json!([1, 65535]), &[&1u16.to_le_bytes(), &u16::MAX.to_le_bytes()]),
        row(
            DataType::U32,
            "UINT32",
            json!([1, 4294967295u32]),
            &[&1u32.to_le_bytes(), &u32::MAX.to_le_bytes()],
        ),
        row(DataType::U64, "UINT64", json!([1, u64::MAX]), &[&1u64.to_le_bytes(), &u64::MAX.to_le_bytes()]),
        row(DataType::I8, "INT8", json!([-128, 127]), &[&i8::MIN.to_le_bytes(), &i8::MAX.to_le_bytes()]),
        row(DataType::I16, "INT16", json!([-32768, 5]), &[&i16::MIN.to_le_bytes(), &5i16.to_le_bytes()]),
        row(
            DataType::I32,
            "INT32",
            json!([-7, i32::MAX]),
            &[&(-7i32).to_le_bytes(), &i32::MAX.to_le_bytes()],
        ),
        row(DataType::I64, "INT64", json!([i64::MIN, 5]), &[&i64::MIN.to_le_bytes(), &5i64.to_le_bytes()]),
        row(
            DataType::F16,
            "FP16",
            json!([0.5, -65504.0]),
            &[&f16::from_f32(0.5).to_le_bytes(), &f16::MIN.to_le_bytes()],
        ),
        row(
            DataType::BF16,
            "BF16",
            json!([0.5, -2.0]),
            &[&bf16::from_f32(0.5).to_le_bytes(), &bf16::from_f32(-2.0).to_le_bytes()],
        ),
        row(DataType::F32, "FP32", json!([0.1, -1e-7]), &[&0.1f32.to_le_bytes(), &(-1e-7f32).to_le_bytes()]),
        row(
            DataType::F64,
            "FP64",
            json!([0.1, -1e300]),
            &[&0.1f64.to_le_bytes(), &(-1e300f64).to_le_bytes()],
        ),
        row(DataType::String, "BYTES", json!(["", "ä\n"]), &[&[0, 0, 0, 0, 3, 0, 0, 0], "ä\n".as_bytes()]),
    ]
}

#[test]
fn every_type_comes_and_goes_as_json_and_as_bytes() {
    let models = types().iter().map(|(dtype, name, ..)| made(name, &identity(*dtype))).collect();
    let server = start(models);
    for (_, name, elements, bytes) in types() {
        let path = format!("/v2/models/{name}/infer");
        let input = |more: Value| {
            let mut input = json!({"name": "x", "datatype": name, "shape": [1, 2]});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        let sized = input(json!({"parameters": {"binary_data_size": bytes.len()}}));
        let binary_out = json!([{"name": "y", "parameters": {"binary_data": true}}]);
        for nested in [elements.clone(), json!([elements])] {
            let listed = input(json!({"data": nested}));
            let answer = post(server.http(), &path, &json!({"inputs": [listed]})).json();
            assert_eq!(answer["outputs"][0]["data"].to_string(), elements.to_string(), "{name}");
            let answer = post(server.http(), &path, &json!({"inputs": [listed], "outputs": binary_out}));
            assert!(answer.body.ends_with(&bytes), "{name}: {}", answer.text());
        }
        let answer = post_binary(server.http(), &path, &json!({"inputs": [sized]}), &bytes);
        assert_eq!(answer.json()["outputs"][0]["data"].to_string(), elements.to_string(), "{name}");
        let request = json!({"inputs": [sized], "outputs": binary_out});
        let answer = post_binary(server.http(), &path, &request, &bytes);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body.ends_with(&bytes), "{name}: {}", answer.text());
    }
}

#[test]
fn what_json_cannot_hold_is_refused_and_binary_can() {
    let server = start(vec![made("double", &double())]);
    let input =
        json!({"name": "x", "datatype": "FP32", "shape": [1, 1], "parameters": {"binary_data_size": 4}});
    let nan = f32::NAN.to_le_bytes();
    let answer = post_binary(server.http(), "/v2/models/double/infer", &json!({"inputs": [input]}), &nan);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("ask for binary data"), "{}", answer.text());
    let request = json!({"inputs": [input], "parameters": {"binary_data_output": true}});
    assert_eq!(post_binary(server.http(), "/v2/models/double/infer", &request, &nan).status, 200);
}

#[test]
fn tensors_without_elements_are_tensors() {
    let server = start(vec![made("double", &double())]);
    for (shape, data) in [([0, 3], json!([])), ([2, 0], json!([[], []])), ([2, 0], json!([]))] {
        let input = json!({"name": "x", "datatype": "FP32", "shape": shape, "data": data});
        let answer = post(server.http(), "/v2/models/double/infer", &json!({"inputs": [input]}));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["outputs"][0]["shape"], json!(shape));
    }
}
