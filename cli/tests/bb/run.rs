//! Tests `bb run`: inputs from files or random, and printed and written outputs.

use crate::process::{bb, folder, write};
use bb::TensorData;
use bb::ir::proto::{ModelProto, NodeProto, OperatorSetIdProto};
use bb_tests::model::{model, node};
use prost::Message;

/// `sum = x + y` and `a/b = -x`.
fn sum_and_negation() -> Vec<u8> {
    let nodes = vec![node("Add", &["x", "y"], &["sum"]), node("Neg", &["x"], &["a/b"])];
    model(&[("x", &[2, -1]), ("y", &[2, 1])], nodes, &[("sum", &[2, -1]), ("a/b", &[2, -1])])
}

#[test]
fn without_inputs_it_names_them_with_their_types() {
    let folder = folder("run-needs");
    let ended = bb(&["run", &write(&folder, "model.onnx", &sum_and_negation())]);
    assert_eq!(ended.code(), 1);
    assert!(
        ended.err.starts_with("error: the model needs `x`: f32[2, ?], `y`: f32[2, 1]\n"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("--random"), "{}", ended.err);
}

#[test]
fn inputs_come_from_npy_and_pb_files_and_outputs_go_to_npy_files() {
    let folder = folder("run-files");
    let path = write(&folder, "model.onnx", &sum_and_negation());
    let x = TensorData::new(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let y = TensorData::new(&[2, 1], &[10f32, 20.0]).unwrap();
    let x = write(&folder, "x.npy", &x.to_npy().unwrap());
    let y = write(&folder, "y.pb", &y.to_proto("y").encode_to_vec());
    let outputs = folder.join("outputs");
    let ended = bb(&[
        "run",
        &path,
        "--input",
        &format!("x={x}"),
        "--input",
        &format!("y={y}"),
        "--output",
        outputs.to_str().unwrap(),
    ]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.out.contains("sum") && ended.out.contains("a/b"), "{}", ended.out);
    let file = std::fs::read(outputs.join("sum.npy")).unwrap();
    assert_eq!(file[..8], *b"\x93NUMPY\x01\x00");
    let sum = TensorData::from_npy(file.into()).unwrap();
    assert_eq!(sum, TensorData::new(&[2, 3], &[11f32, 12.0, 13.0, 24.0, 25.0, 26.0]).unwrap());
    let negation = TensorData::from_npy(std::fs::read(outputs.join("a%2Fb.npy")).unwrap().into()).unwrap();
    assert_eq!(negation, TensorData::new(&[2, 3], &[-1f32, -2.0, -3.0, -4.0, -5.0, -6.0]).unwrap());
}

#[test]
fn a_seed_gives_the_same_inputs_again_and_on_any_backend() {
    let folder = folder("run-random");
    let path = write(&folder, "model.onnx", &sum_and_negation());
    let run = |seed: &str, backend: &str| {
        bb(&["run", &path, "--random", seed, "--backend", backend, "--json"]).json()
    };
    assert_eq!(run("1", "cpu"), run("1", "reference"));
    assert_ne!(run("1", "cpu"), run("2", "cpu"));
}

#[test]
fn json_has_name_type_and_shape_of_each_output() {
    let folder = folder("run-json");
    let json =
        bb(&["run", &write(&folder, "model.onnx", &sum_and_negation()), "--random", "7", "--json"]).json();
    let outputs = json["outputs"].as_array().unwrap();
    let names: Vec<_> = outputs.iter().map(|o| o["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sum", "a/b"]);
    assert_eq!(outputs[0]["type"], "f32");
    assert_eq!(outputs[0]["shape"], serde_json::json!([2, 32]));
}

#[test]
fn the_error_for_an_unknown_input_lists_the_inputs() {
    let folder = folder("run-unknown");
    let path = write(&folder, "model.onnx", &sum_and_negation());
    let ended = bb(&["run", &path, "--input", "z=nothing.npy"]);
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.err, "error: the model has no input `z`; its inputs are `x`, `y`\n");
}

#[test]
fn the_error_for_an_unknown_backend_lists_the_linked_ones() {
    let folder = folder("run-backend");
    let ended = bb(&["run", &write(&folder, "model.onnx", &sum_and_negation()), "--backend", "gpu"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("`cpu`") && ended.err.contains("`reference`"), "{}", ended.err);
}

#[test]
fn nothing_is_coloured_when_piped() {
    let folder = folder("run-plain");
    let path = write(&folder, "model.onnx", &sum_and_negation());
    for ended in [
        bb(&["run", &path, "--random", "1"]),
        bb(&["run", &path]),
        bb(&["backends"]),
        bb(&["inspect", &path]),
    ] {
        assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'), "{}{}", ended.out, ended.err);
    }
}

#[test]
fn values_are_printed_where_they_are_asked_for() {
    let folder = folder("run-values");
    let path = write(&folder, "model.onnx", &sum_and_negation());
    let x = TensorData::new(&[2, 3], &[1f32, 2.5, 3.0, 4.0, 5.0, f32::INFINITY]).unwrap();
    let y = TensorData::new(&[2, 1], &[10f32, 20.0]).unwrap();
    let (x, y) =
        (write(&folder, "x.npy", &x.to_npy().unwrap()), write(&folder, "y.npy", &y.to_npy().unwrap()));
    let run = |rest: &[&str]| {
        let inputs = [format!("x={x}"), format!("y={y}")];
        let ended = bb(&[&["run", &path, "--input", &inputs[0], "--input", &inputs[1]], rest].concat());
        assert_eq!(ended.code(), 0, "{}", ended.err);
        ended.out
    };
    let out = run(&["--values", "4"]);
    assert!(out.contains("VALUES") && out.contains("11.0, 12.5, 13.0, 24.0, …"), "{out}");
    assert!(run(&["--values", "6"]).contains("11.0, 12.5, 13.0, 24.0, 25.0, \"Infinity\""));
    assert!(!run(&[]).contains("VALUES"));
}

/// `y = x` beside an input that has the same extent by its name.
fn one_name() -> Vec<u8> {
    use bb::ir::proto::{GraphProto, ModelProto};
    use bb_tests::model::{serialized, untyped, value};
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![node("Neg", &["x"], &["y"]), node("Neg", &["z"], &["w"])],
        input: vec![value("x", 1, &["N"]), value("z", 1, &["N"])],
        output: vec![untyped("y"), untyped("w")],
        ..GraphProto::default()
    };
    let model = ModelProto::decode(serialized(graph).as_slice()).unwrap();
    model.encode_to_vec()
}

/// ONNX Runtime uses the last import of a domain, and the newest version of one that is not imported.
#[test]
fn imports_that_onnx_does_not_allow_are_a_warning_or_with_strict_an_error() {
    let folder = folder("run-imports");
    let given = |node: NodeProto, imports: &[(&str, i64)]| {
        let bytes = model(&[("x", &[2, 2, 2])], vec![node], &[("y", &[2, 2, 2])]);
        let mut model = ModelProto::decode(bytes.as_slice()).unwrap();
        let import = |(domain, version): &(&str, i64)| OperatorSetIdProto {
            domain: Some((*domain).to_owned()),
            version: Some(*version),
        };
        model.opset_import = imports.iter().map(import).collect();
        write(&folder, "model.onnx", &model.encode_to_vec())
    };
    let x = TensorData::new(&[2, 2, 2], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
    let input = format!("x={}", write(&folder, "x.npy", &x.to_npy().unwrap()));
    let of =
        |domain: &str, op: &str| NodeProto { domain: Some(domain.to_owned()), ..node(op, &["x"], &["y"]) };
    // Softmax is about all axes from the second on before version 13, and about the last one since.
    let all = 1.0 / (1.0 + 1f64.exp() + 2f64.exp() + 3f64.exp());
    let pair = 1.0 / (1.0 + 1f64.exp());
    for (node, imports, first, warning) in [
        (
            of("", "Softmax"),
            &[("", 13), ("", 11)][..],
            all,
            "domain `ai.onnx` is imported in version 13 and in version 11",
        ),
        (
            of("", "Softmax"),
            &[("", 11), ("ai.onnx", 13)],
            pair,
            "domain `ai.onnx` is imported in version 11 and in version 13",
        ),
        (
            of("com.microsoft", "QuickGelu"),
            &[("", 13)],
            0.0,
            "domain `com.microsoft` is not imported; version 1 of its operators",
        ),
        (
            of("ai.onnx.ml", "Binarizer"),
            &[("", 13)],
            0.0,
            "domain `ai.onnx.ml` is not imported; version 5 of its operators",
        ),
    ] {
        let path = given(node, imports);
        let ended = bb(&["run", &path, "--input", &input, "--json"]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        let got = ended.json()["outputs"][0]["values"][0].as_f64().unwrap();
        assert!((got - first).abs() < 1e-6, "{imports:?}: {got}");
        assert_eq!(ended.err.matches(warning).count(), 1, "{}", ended.err);
        let ended = bb(&["run", &path, "--input", &input, "--strict"]);
        assert!(ended.code() == 1 && ended.err.contains(warning), "{}", ended.err);
        let inspected = bb(&["inspect", &path, "--json"]).json();
        assert!(inspected["warnings"][0]["message"].as_str().unwrap().contains(warning), "{inspected}");
    }
}

#[test]
fn one_name_with_two_extents_is_a_warning_or_with_strict_an_error() {
    let folder = folder("run-strict");
    let path = write(&folder, "model.onnx", &one_name());
    let of = |n: usize| TensorData::new(&[n], &vec![1f32; n]).unwrap().to_npy().unwrap();
    let inputs =
        [format!("x={}", write(&folder, "x.npy", &of(8))), format!("z={}", write(&folder, "z.npy", &of(4)))];
    let given = ["--input", &inputs[0], "--input", &inputs[1]];
    for command in
        [&["run"][..], &["bench", "--runs", "1"], &["compare", "--backend", "cpu", "--backend", "reference"]]
    {
        let arguments = [&command[..1], &[path.as_str()], &command[1..], &given].concat();
        let ended = bb(&arguments);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        let warning = "warning: the extent `N` is 8 by the file of `x` and 4 by the file of `z`";
        assert_eq!(ended.err.matches(warning).count(), 1, "{}", ended.err);
        let ended = bb(&[&arguments[..], &["--strict"]].concat());
        assert_eq!(ended.code(), 1, "{}", ended.out);
        assert!(
            ended.err.contains("the extent `N` is 8 by the file of `x` and 4 by the file of `z`"),
            "{}",
            ended.err
        );
    }
    // What the user says of a name is no claim of the model.
    let ended = bb(&[&["run", &path][..], &given, &["--dim", "N=8"]].concat());
    assert!(ended.code() == 1 && ended.err.contains("--dim N=8"), "{}", ended.err);
    let shapes = bb(&["run", &path, "--random", "--shape", "x=8", "--shape", "z=4", "--json"]);
    assert_eq!((shapes.code(), shapes.err.contains("warning")), (0, true), "{}", shapes.err);
    assert_eq!(shapes.json()["outputs"][1]["shape"], serde_json::json!([4]));
}
