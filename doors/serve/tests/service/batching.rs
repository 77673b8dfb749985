//! Tests requests that are joined to one run.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb::conformance::onnx::read_tensors;
use bb_ir::DataType;
use bb_serve::{Error, Server};
use common::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn batched(models: Vec<bb_serve::ModelConfig>, delay: Duration) -> Server {
    let mut config = config(models);
    config.max_batch = 8;
    config.batch_delay = delay;
    Server::start(config).unwrap()
}

fn ask(server: &Server, model: &str, rows: usize, data: &[f32]) -> Answer {
    let input = json!({"name": "x", "datatype": "FP32", "shape": [rows, data.len() / rows], "data": data});
    post(server.http(), &format!("/v2/models/{model}/infer"), &json!({"inputs": [input]}))
}

#[test]
fn joined_requests_get_their_own_rows() {
    let server = batched(vec![made("double", &double())], Duration::from_millis(20));
    std::thread::scope(|scope| {
        for client in 0..8u8 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..30u8 {
                    let (rows, width) = (1 + usize::from(round % 3), 2 + usize::from(round % 2));
                    let data: Vec<f32> = (0..rows * width)
                        .map(|i| f32::from(client) * 100. + f32::from(round) + i as f32 / 16.)
                        .collect();
                    let answer = ask(server, "double", rows, &data).json();
                    let doubled: Vec<f32> = data.iter().map(|x| x + x).collect();
                    let expected =
                        json!([{"name": "y", "datatype": "FP32", "shape": [rows, width], "data": doubled}]);
                    assert_eq!(answer["outputs"], expected);
                }
            });
        }
    });
    let (runs, rows) = (
        metric(&server, "bb_batch_rows_count{model=\"double\"}"),
        metric(&server, "bb_batch_rows_sum{model=\"double\"}"),
    );
    assert!(rows / runs > 1.5, "{rows} rows in {runs} runs");
    assert_eq!(metric(&server, "bb_batching{model=\"double\"}"), 1.0);
}

/// The mean of all rows differs in a batch, although the shapes do not show that rows depend on each other.
#[test]
fn a_model_whose_rows_depend_on_each_other_is_found_out_and_answers_as_alone() {
    let server = batched(vec![made("centred", &centred())], Duration::from_millis(200));
    std::thread::scope(|scope| {
        for client in 0..4u8 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..5u8 {
                    let x = f32::from(client * 10 + round);
                    let answer = ask(server, "centred", 1, &[x, 2. * x]);
                    assert_eq!(answer.json()["outputs"][0]["data"], json!([0.0, 0.0]), "{}", answer.text());
                }
            });
        }
    });
    assert_eq!(metric(&server, "bb_batching{model=\"centred\"}"), 0.0);
}

/// Tests real models. The outputs of single requests are the reference; rounding may differ with the number of rows.
#[test]
fn real_models_answer_in_batches_as_alone() {
    for name in ["skl_random_forest", "surfaces_gbr"] {
        let inputs = read_tensors(&case(name).join("test_data_set_0"), "input").unwrap();
        let [x] = inputs.as_slice() else { panic!("{name}") };
        let (rows, width) = (x.shape()[0], x.shape()[1]);
        let data = x.as_slice::<f32>().unwrap();
        let single = start(vec![committed(name)]);
        let joined = batched(vec![committed(name)], Duration::from_millis(20));
        let port = get(single.http(), &format!("/v2/models/{name}")).json()["inputs"][0]["name"].clone();
        let ask = |server: &Server, row: usize| -> Value {
            let row = &data[row % rows * width..][..width];
            let input = json!({"name": port, "datatype": "FP32", "shape": [1, width], "data": row});
            post(server.http(), &format!("/v2/models/{name}/infer"), &json!({"inputs": [input]})).json()
        };
        let expected: Vec<Value> = (0..12).map(|row| ask(&single, row)["outputs"].clone()).collect();
        std::thread::scope(|scope| {
            for client in 0..6 {
                let (ask, joined, expected) = (&ask, &joined, &expected);
                scope.spawn(move || {
                    for row in 0..12 {
                        let row = (row + 2 * client) % 12;
                        near(&ask(joined, row)["outputs"], &expected[row]);
                    }
                });
            }
        });
        let runs = metric(&joined, &format!("bb_batch_rows_count{{model=\"{name}\"}}"));
        assert!(runs < metric(&joined, &format!("bb_batch_rows_sum{{model=\"{name}\"}}")));
    }
}

fn near(a: &Value, b: &Value) {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| near(a, b));
        }
        (Value::Object(a), Value::Object(b)) => a.iter().for_each(|(key, a)| near(a, &b[key])),
        (Value::Number(a), Value::Number(b)) if a.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} {b}");
        }
        _ => assert_eq!(a, b),
    }
}

#[test]
fn a_request_waits_no_longer_than_the_delay() {
    let server = batched(vec![made("double", &double())], Duration::from_millis(100));
    ask(&server, "double", 1, &[1.0]);
    let start = Instant::now();
    assert_eq!(ask(&server, "double", 1, &[1.0]).status, 200);
    let took = start.elapsed();
    assert!((Duration::from_millis(100)..Duration::from_secs(2)).contains(&took), "{took:?}");
    // A request that fills a batch, or is larger than a batch, does not wait for others.
    let server = batched(vec![made("double", &double())], Duration::from_secs(100));
    assert_eq!(ask(&server, "double", 8, &[1.0; 8]).status, 200);
    assert_eq!(ask(&server, "double", 20, &[1.0; 20]).status, 200);
}

#[test]
fn texts_are_joined_too() {
    let server = batched(vec![made("words", &identity(DataType::String))], Duration::from_millis(50));
    std::thread::scope(|scope| {
        for client in 0..6 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..5 {
                    let words = json!([format!("{client}ä"), "x".repeat(round)]);
                    let input = json!({"name": "x", "datatype": "BYTES", "shape": [1, 2], "data": words});
                    let answer = post(server.http(), "/v2/models/words/infer", &json!({"inputs": [input]}));
                    assert_eq!(answer.json()["outputs"][0]["data"], words);
                }
            });
        }
    });
    let rows = metric(&server, "bb_batch_rows_sum{model=\"words\"}");
    assert!(rows > metric(&server, "bb_batch_rows_count{model=\"words\"}"));
}

#[test]
fn models_without_an_open_first_extent_are_refused() {
    let fixed = |extents: &[&str]| {
        let (x, y) = (tensor("x", DataType::F32, extents), tensor("y", DataType::F32, extents));
        model(graph(vec![x], vec![node("Identity", &["x"], &["y"], vec![])], vec![y]))
    };
    for extents in [["2", "n"].as_slice(), &[]] {
        let mut config = config(vec![made("fixed", &fixed(extents))]);
        config.max_batch = 4;
        let error = Server::start(config).unwrap_err();
        assert!(matches!(error, Error::NotBatched { side: "input", .. }), "{error}");
    }
    let (x, y) = (tensor("x", DataType::F32, &["n", "m"]), tensor("y", DataType::F32, &["m", "n"]));
    let turned = model(graph(vec![x], vec![node("Transpose", &["x"], &["y"], vec![])], vec![y]));
    let mut config = config(vec![made("turned", &turned)]);
    config.max_batch = 4;
    let error = Server::start(config).unwrap_err();
    assert!(matches!(error, Error::NotBatched { side: "output", .. }), "{error}");
}

/// Returns a constant of a graph.
fn constant(name: &str, shape: &[i64], values: &[f32]) -> bb_ir::proto::TensorProto {
    bb_ir::proto::TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(DataType::F32.to_onnx()),
        dims: shape.to_vec(),
        float_data: values.to_vec(),
        ..Default::default()
    }
}

/// Requests a result for one row, in the binary encoding, which preserves every bit.
fn bits(server: &Server, model: &str, row: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
    let size = json!({"binary_data_size": bytes.len()});
    let input = json!({"name": "x", "datatype": "FP32", "shape": [1, row.len()], "parameters": size});
    let ask = json!({"inputs": [input], "parameters": {"binary_data_output": true}});
    let answer = post_binary(server.http(), &format!("/v2/models/{model}/infer"), &ask, &bytes);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    answer.body[length..].to_vec()
}

/// Creates a model that quantises by the range of all elements, so that an outlier rounds all other rows to zero. The expected values
/// follow from the definition of `DynamicQuantizeLinear` for each row by itself.
fn quantised() -> bb_ir::proto::ModelProto {
    let (x, y) = (tensor("x", DataType::F32, &["n", "4"]), tensor("y", DataType::F32, &["n", "4"]));
    let nodes = vec![
        node("DynamicQuantizeLinear", &["x"], &["q", "s", "z"], vec![]),
        node("DequantizeLinear", &["q", "s", "z"], &["y"], vec![]),
    ];
    model(graph(vec![x], nodes, vec![y]))
}

/// Creates a model that divides by the greatest element of all rows.
fn scaled() -> bb_ir::proto::ModelProto {
    let (x, y) = (tensor("x", DataType::F32, &["n", "4"]), tensor("y", DataType::F32, &["n", "4"]));
    let nodes = vec![
        node("ReduceMax", &["x"], &["m"], vec![ints("axes", &[0])]),
        node("Div", &["x", "m"], &["y"], vec![]),
    ];
    model(graph(vec![x], nodes, vec![y]))
}

/// Creates a model with independent rows: a product with weights, and a softmax of each row.
fn layered() -> bb_ir::proto::ModelProto {
    let (x, y) = (tensor("x", DataType::F32, &["n", "4"]), tensor("y", DataType::F32, &["n", "33"]));
    let nodes = vec![node("MatMul", &["x", "w"], &["h"], vec![]), node("Softmax", &["h"], &["y"], vec![])];
    let mut all = graph(vec![x], nodes, vec![y]);
    let weights: Vec<f32> = (0..4 * 33).map(|i| ((i * 37) % 101) as f32 / 50. - 1.).collect();
    all.initializer = vec![constant("w", &[4, 33], &weights)];
    model(all)
}

#[test]
fn an_outlier_does_not_reach_its_neighbours_whatever_was_joined_before() {
    let models =
        || vec![made("quantised", &quantised()), made("scaled", &scaled()), made("layered", &layered())];
    let (single, joined) = (start(models()), batched(models(), Duration::from_millis(60)));
    let row = [0.1f32, 0.2, 0.3, 0.4];
    for name in ["quantised", "scaled", "layered"] {
        let alone = bits(&single, name, &row);
        // Equal rows come first, because their results agree even if rows are mixed. Then come rows together with outliers.
        for neighbour in [0.25f32, 0.25, 1e6, f32::INFINITY, f32::NAN, -1e6] {
            std::thread::scope(|scope| {
                let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| bits(&joined, name, &row))).collect();
                let others = scope.spawn(|| bits(&joined, name, &[neighbour; 4]));
                for asked in asked {
                    assert!(asked.join().unwrap() == alone, "{name} beside {neighbour}");
                }
                others.join().unwrap();
            });
        }
        let runs = metric(&joined, &format!("bb_batch_rows_count{{model=\"{name}\"}}"));
        let rows = metric(&joined, &format!("bb_batch_rows_sum{{model=\"{name}\"}}"));
        let on = metric(&joined, &format!("bb_batching{{model=\"{name}\"}}"));
        assert_eq!(
            (on == 1.0, rows > runs),
            (name == "layered", name == "layered"),
            "{name}: {rows} rows in {runs} runs"
        );
    }
    let not_joined: Vec<(String, String)> =
        joined.not_joined().map(|(model, proof)| (model.to_owned(), proof.to_string())).collect();
    let names: Vec<&str> = not_joined.iter().map(|(model, _)| model.as_str()).collect();
    assert_eq!(names, ["quantised", "scaled"]);
    assert!(not_joined[0].1.contains("(DynamicQuantizeLinear) computes over the rows"), "{not_joined:?}");
    let about = get(joined.http(), "/v2/models/scaled").json();
    assert!(about["parameters"]["rows"].as_str().unwrap().contains("(ReduceMax)"), "{about}");
    let about = get(joined.http(), "/v2/models/layered").json();
    assert_eq!(about["parameters"], json!({"max_batch": 8, "joins_requests": true, "rows": "independent"}));
}
