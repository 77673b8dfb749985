//! Tests `bb compare --outputs`, which compares a backend's outputs with saved outputs.

use crate::process::{bb, data, folder, write};
use bb::TensorData;
use bb::ir::proto::{ModelProto, SequenceProto};
use bb_tests::model::{model, node};
use prost::Message;
use std::path::Path;

/// `sum = x + x` and `exp = exp(x)`.
fn two_outputs(folder: &Path) -> String {
    let nodes = vec![node("Add", &["x", "x"], &["sum"]), node("Exp", &["x"], &["exp"])];
    write(folder, "model.onnx", &model(&[("x", &[2, 2])], nodes, &[("sum", &[2, 2]), ("exp", &[2, 2])]))
}

fn square(elements: [f32; 4]) -> TensorData {
    TensorData::new(&[2, 2], &elements).unwrap()
}

/// Saves an input and the outputs in the layout of test cases; the correct second element of `sum` is 4.
fn save(folder: &Path, second: f32) {
    write(folder, "input_0.pb", &square([0.0, 2.0, -1.0, 3.0]).to_proto("x").encode_to_vec());
    write(folder, "output_0.pb", &square([0.0, second, -2.0, 6.0]).to_proto("sum").encode_to_vec());
    let exp = [0f32, 2.0, -1.0, 3.0].map(|x| f64::from(x).exp() as f32);
    write(folder, "output_1.pb", &square(exp).to_proto("exp").encode_to_vec());
}

#[test]
fn outputs_equal_saved_ones_on_every_backend() {
    let folder = folder("compare-saved");
    let path = two_outputs(&folder);
    save(&folder.join("set"), 4.0);
    let set = folder.join("set").display().to_string();
    for backend in ["cpu", "reference", "whole-graph"] {
        let json = bb(&["compare", &path, "--backend", backend, "--outputs", &set, "--json"]).json();
        assert_eq!((&json["equal"], &json["backend"]), (&true.into(), &backend.into()));
        let outputs = json["sets"][0]["outputs"].as_array().unwrap();
        let names: Vec<_> = outputs.iter().map(|o| o["output"].as_str().unwrap()).collect();
        assert_eq!(names, ["sum", "exp"]);
        assert_eq!(outputs[0]["max_absolute_error"]["error"], 0.0);
        assert_eq!(outputs[0]["max_ulps"], 0);
    }
    let ended = bb(&["compare", &path, "--outputs", &set]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.out.contains("what was saved is within 1e-7 + 1e-3 * |expected| on cpu"), "{}", ended.out);
}

#[test]
fn the_greatest_errors_are_reported_with_their_positions() {
    let folder = folder("compare-saved-differs");
    let path = two_outputs(&folder);
    save(&folder.join("set"), 5.0);
    let set = folder.join("set").display().to_string();
    let ended = bb(&["compare", &path, "--outputs", &set, "--json"]);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    let json = ended.json();
    assert_eq!(json["equal"], false);
    let sum = &json["sets"][0]["outputs"][0];
    assert_eq!((&sum["equal"], &json["sets"][0]["outputs"][1]["equal"]), (&false.into(), &true.into()));
    let absolute = serde_json::json!({ "error": 1.0, "at": [0, 1], "expected": 5.0, "got": 4.0 });
    assert_eq!(sum["max_absolute_error"], absolute);
    assert_eq!(
        (&sum["max_relative_error"]["error"], &sum["max_relative_error"]["at"]),
        (&0.2.into(), &serde_json::json!([0, 1]))
    );
    // The interval from 4 to 5 has a quarter of the 2^23 floats of its power of two.
    assert_eq!(sum["max_ulps"], 1 << 21);
    // The outputs are equal within a relative tolerance of a fifth, and within an absolute tolerance of 1.
    for tolerance in [["--rtol", "0.21"], ["--atol", "1"]] {
        let ended = bb(&["compare", &path, "--outputs", &set, tolerance[0], tolerance[1]]);
        assert_eq!(ended.code(), 0, "{tolerance:?} {}", ended.out);
    }
    for wrong in [["--rtol", "-1"], ["--atol", "nan"]] {
        assert_eq!(bb(&["compare", &path, "--outputs", &set, wrong[0], wrong[1]]).code(), 2, "{wrong:?}");
    }
}

#[test]
fn outputs_that_run_writes_can_be_compared() {
    let folder = folder("compare-saved-npy");
    let path = two_outputs(&folder);
    let x = write(&folder, "x.npy", &square([0.5, 2.0, -1.0, 3.0]).to_npy().unwrap());
    let (input, saved) = (format!("x={x}"), folder.join("saved").display().to_string());
    let ended = bb(&["run", &path, "--input", &input, "--output", &saved]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let compare = ["compare", &path, "--outputs", &saved, "--backend", "reference", "--input", &input];
    let ended = bb(&compare);
    assert_eq!(ended.code(), 0, "{}{}", ended.out, ended.err);
    // An output that was not saved is reported, but is not a difference.
    std::fs::remove_file(folder.join("saved/exp.npy")).unwrap();
    let ended = bb(&compare);
    assert!(ended.code() == 0 && ended.out.contains("not saved"), "{}", ended.out);
    std::fs::remove_file(folder.join("saved/sum.npy")).unwrap();
    let ended = bb(&compare);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("holds no outputs: neither output_0.pb nor NAME.npy"), "{}", ended.err);
    // Random inputs do not lead to the saved outputs, so they are only used on request.
    let ended = bb(&["compare", &path, "--outputs", &saved]);
    assert!(ended.code() == 1 && ended.err.contains("the model needs `x`"), "{}", ended.err);
}

/// A model whose only output is a sequence.
fn sequence(folder: &Path, name: &str, operator: &str, inputs: &[&str]) -> String {
    let bytes = model(&[("x", &[2, 2])], vec![node(operator, inputs, &["y"])], &[("y", &[2, 2])]);
    let mut of_sequence = ModelProto::decode(bytes.as_slice()).unwrap();
    of_sequence.graph.as_mut().unwrap().output[0].r#type = None;
    write(folder, name, &of_sequence.encode_to_vec())
}

#[test]
fn sequences_are_compared_with_their_lengths() {
    let folder = folder("compare-saved-sequence");
    let empty = sequence(&folder, "empty.onnx", "SequenceEmpty", &[]);
    let one = sequence(&folder, "one.onnx", "SequenceConstruct", &["x"]);
    let x = square([0.5, 2.0, -1.0, 3.0]);
    let input = format!("x={}", write(&folder, "x.npy", &x.to_npy().unwrap()));
    let compare = |path: &str, saved: &str| bb(&["compare", path, "--outputs", saved, "--input", &input]);
    // The folder that `bb run` writes is compared, and the folder of a case.
    for items in [0, 1, 2] {
        let set = folder.join(format!("set-{items}"));
        let message =
            SequenceProto { tensor_values: vec![x.to_proto(""); items], ..SequenceProto::default() };
        write(&set, "output_0.pb", &message.encode_to_vec());
    }
    for (path, items) in [(&empty, 0), (&one, 1)] {
        let run = folder.join(format!("run-{items}")).display().to_string();
        assert_eq!(bb(&["run", path, "--input", &input, "--output", &run]).code(), 0);
        let ended = compare(path, &run);
        assert!(ended.code() == 0 && ended.out.contains("equal"), "{}{}", ended.out, ended.err);
        for saved in [0, 1, 2] {
            let ended = compare(path, &folder.join(format!("set-{saved}")).display().to_string());
            assert_eq!(
                ended.code(),
                i32::from(saved != items),
                "{saved} {items}: {}{}",
                ended.out,
                ended.err
            );
            let difference = format!("expected a sequence of {saved}, got a sequence of {items}");
            assert_eq!(ended.out.contains(&difference), saved != items, "{}", ended.out);
        }
    }
    // The row of an empty sequence, and of the only item of another one.
    let json = |path: &str, saved: &str| {
        let saved = folder.join(saved).display().to_string();
        let json = bb(&["compare", path, "--outputs", &saved, "--input", &input, "--json"]).json();
        json["sets"][0]["outputs"].as_array().unwrap().iter().map(|o| o["output"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((json(&empty, "set-0"), json(&one, "set-1")), (vec!["y".into()], vec!["y[0]".into()]));
}

#[test]
fn a_case_is_compared_with_all_its_sets_and_its_own_tolerance() {
    let folder = folder("compare-saved-case");
    let path = two_outputs(&folder);
    save(&folder.join("test_data_set_0"), 4.0);
    save(&folder.join("test_data_set_1"), 4.5);
    let case = folder.display().to_string();
    let ended = bb(&["compare", &path, "--outputs", &case, "--json"]);
    assert_eq!(ended.code(), 1);
    let json = ended.json();
    let equal: Vec<_> = json["sets"].as_array().unwrap().iter().map(|set| &set["equal"]).collect();
    assert_eq!(equal, [true, false]);
    write(&folder, "data.json", br#"{ "rtol": 0.2, "atol": 0.0 }"#);
    let json = bb(&["compare", &path, "--outputs", &case, "--json"]).json();
    assert_eq!((&json["equal"], &json["relative_tolerance"]), (&true.into(), &0.2.into()));
}

#[test]
fn a_real_model_agrees_with_outputs_of_another_runtime() {
    let case = data().join("models/surfaces_gbr");
    let (model, case) = (case.join("model.onnx").display().to_string(), case.display().to_string());
    for backend in ["cpu", "reference", "whole-graph"] {
        let ended = bb(&["compare", &model, "--outputs", &case, "--backend", backend]);
        assert_eq!(ended.code(), 0, "{}{}", ended.out, ended.err);
    }
}

#[test]
fn one_backend_is_compared_with_what_was_saved() {
    let folder = folder("compare-saved-two");
    let path = two_outputs(&folder);
    save(&folder.join("set"), 4.0);
    let set = folder.join("set").display().to_string();
    let ended = bb(&["compare", &path, "--outputs", &set, "--backend", "cpu", "--backend", "reference"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("expected one backend beside --outputs, got 2"), "{}", ended.err);
}

#[test]
fn roundings_of_what_cancels_are_no_difference_between_backends() {
    // Sums of 4096 products of one size, which cancel in part: the backends add them in different orders.
    let folder = folder("compare-noise");
    let n = 4096usize;
    let number = |i: usize| ((i * 7919 % 2003) as f32 - 1001.0) / 7.0;
    let w: Vec<f32> = (0..n * 8).map(number).collect();
    let w = TensorData::new(&[n, 8], &w).unwrap().to_proto("w");
    let mut product = bb::ir::proto::ModelProto::decode(
        model(&[("x", &[2, n as i64])], vec![node("MatMul", &["x", "w"], &["y"])], &[("y", &[2, 8])])
            .as_slice(),
    )
    .unwrap();
    product.graph.as_mut().unwrap().initializer.push(w);
    let path = write(&folder, "model.onnx", &product.encode_to_vec());
    let x: Vec<f32> = (0..2 * n).map(|i| number(i + 5) * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let x = write(&folder, "x.npy", &TensorData::new(&[2, n], &x).unwrap().to_npy().unwrap());
    let input = format!("x={x}");
    let compare = ["compare", &path, "--backend", "reference", "--backend", "cpu", "--input", &input];
    let ended = bb(&compare);
    assert_eq!(ended.code(), 0, "{}{}", ended.out, ended.err);
    let ended = bb(&[&compare[..], &["--rtol", "0", "--atol", "1e-7"]].concat());
    assert_eq!(ended.code(), 1, "{}{}", ended.out, ended.err);
}
