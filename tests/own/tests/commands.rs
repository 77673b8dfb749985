//! Tests that an author's own program has every command and runs the author's backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::TensorData;
use bb_tests::model::{model, node};
use prost::Message;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn own(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_own")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a case that negates two numbers into a new folder, and returns the folder.
fn negation(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    case(&folder.join("negation"), "Neg", [-1.0, -2.0]);
    folder
}

/// Writes a case of one operator on the operands 1 and 2.
fn case(folder: &Path, op: &str, expected: [f32; 2]) {
    let data = folder.join("test_data_set_0");
    std::fs::create_dir_all(&data).unwrap();
    let bytes = model(&[("x", &[2])], vec![node(op, &["x"], &["y"])], &[("y", &[2])]);
    std::fs::write(folder.join("model.onnx"), bytes).unwrap();
    for (file, elements) in [("input_0.pb", [1f32, 2.0]), ("output_0.pb", expected)] {
        let tensor = TensorData::new(&[2], &elements).unwrap().to_proto("x").encode_to_vec();
        std::fs::write(data.join(file), tensor).unwrap();
    }
}

#[test]
fn the_backend_is_listed_beside_those_that_were_linked() {
    let json: serde_json::Value = serde_json::from_slice(&own(&["backends", "--json"]).stdout).unwrap();
    let names: Vec<_> = json.as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"own") && names.contains(&"reference"), "{names:?}");
}

#[test]
fn options_of_its_own_are_listed_given_in_its_name_and_checked() {
    let table = text(&own(&["backends"]).stdout);
    assert!(table.contains("lanes=8") && table.contains("how many lanes compute"), "{table}");
    let json: serde_json::Value = serde_json::from_slice(&own(&["backends", "--json"]).stdout).unwrap();
    let listed = json.as_array().unwrap().iter().find(|b| b["name"] == "own").unwrap();
    assert_eq!(listed["options"], serde_json::json!(["lanes"]));
    let lanes = serde_json::json!([{
        "name": "lanes", "type": "u64", "default": "8", "about": "how many lanes compute",
    }]);
    assert_eq!(listed["own_options"], lanes);

    let folder = negation("own-options");
    let model = folder.join("negation/model.onnx");
    let run = |backend: &str| {
        let arguments = ["run", model.to_str().unwrap(), "--random", "1", "--backend", backend];
        let ended =
            Command::new(env!("CARGO_BIN_EXE_own")).args(arguments).env("OWN_TELLS", "1").output().unwrap();
        text(&ended.stderr)
    };
    assert!(run("own").contains("8 lanes"));
    assert!(run("own(lanes=3)").contains("3 lanes"));
    let error = run("own(lane=3)");
    assert!(error.contains("backend `own` has no option `lane` (did you mean `lanes`?)"), "{error}");
    assert!(
        run("own(lanes=few)").contains("the option `lanes` is `few`; expected a whole number, at least 0")
    );
    // The worker processes of `conformance` open the backend with the same options.
    let ended = Command::new(env!("CARGO_BIN_EXE_own"))
        .args(["conformance", folder.to_str().unwrap(), "--backend", "own(lanes=5)"])
        .env("OWN_TELLS", "1")
        .output()
        .unwrap();
    assert_eq!(text(&ended.stdout), "1 passed, 0 failed, 0 skipped\n", "{}", text(&ended.stderr));
}

#[test]
fn models_run_and_are_inspected_compared_and_measured() {
    let model = negation("own-commands").join("negation/model.onnx");
    let model = model.to_str().unwrap();
    for arguments in [
        &["run", model, "--random", "1", "--backend", "own"][..],
        &["inspect", model, "--backend", "own"],
        &["compare", model, "--backend", "reference", "--backend", "own"],
        &["bench", model, "--runs", "1", "--backend", "own"],
        &["coverage", "--backend", "own"],
    ] {
        let ended = own(arguments);
        assert!(ended.status.success(), "{arguments:?}: {}{}", text(&ended.stdout), text(&ended.stderr));
    }
}

/// The workers of `conformance` are processes of this program, not of `bb`.
#[test]
fn conformance_runs_cases_on_the_backend() {
    let folder = negation("own-conformance");
    let ended = own(&["conformance", folder.to_str().unwrap(), "--backend", "own"]);
    assert_eq!(text(&ended.stdout), "1 passed, 0 failed, 0 skipped\n", "{}", text(&ended.stderr));
}

/// Output that a kernel prints must not be taken for an answer.
#[test]
fn a_backend_may_print_during_conformance() {
    let folder = negation("own-talks");
    let ended = Command::new(env!("CARGO_BIN_EXE_own"))
        .args(["conformance", folder.to_str().unwrap(), "--backend", "own"])
        .env("OWN_TALKS", "1")
        .output()
        .unwrap();
    assert_eq!(text(&ended.stdout), "1 passed, 0 failed, 0 skipped\n", "{}", text(&ended.stderr));
}

#[test]
fn a_case_that_ends_its_process_fails_alone() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-crashes");
    case(&folder.join("a"), "Neg", [-1.0, -2.0]);
    case(&folder.join("b"), "Abs", [1.0, 2.0]);
    case(&folder.join("c"), "Neg", [-1.0, -2.0]);
    let ended = Command::new(env!("CARGO_BIN_EXE_own"))
        .args(["conformance", folder.to_str().unwrap(), "--backend", "own", "--jobs", "1"])
        .env("OWN_CRASHES", "Abs")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let out = text(&ended.stdout);
    assert!(
        out.contains("failed b (Abs 13): crashed: ") && out.ends_with("2 passed, 1 failed, 0 skipped\n"),
        "{out}"
    );
}

/// Status 0 must not be taken for the success of the cases.
#[test]
fn a_case_that_ends_its_process_with_success_fails() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-exits");
    case(&folder.join("a"), "Neg", [-1.0, -2.0]);
    case(&folder.join("b"), "Abs", [1.0, 2.0]);
    case(&folder.join("c"), "Neg", [-1.0, -2.0]);
    let report = folder.join("report.json");
    let ran = |arguments: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_own"))
            .args(["conformance", folder.to_str().unwrap(), "--backend", "own"])
            .args(["--json", report.to_str().unwrap()])
            .args(arguments)
            .env("OWN_EXITS", "Abs")
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
        (text(&ended.stdout), json.as_array().unwrap().len())
    };
    let (out, cases) = ran(&["--jobs", "1"]);
    let expected = "failed b (Abs 13): ended the process with status 0 before it answered\n2 passed, 1 failed, 0 skipped\n";
    assert!(out.ends_with(expected), "{out}");
    assert_eq!(cases, 3);
    let (out, cases) = ran(&["--in-process"]);
    let expected =
        "failed b (Abs 13): ended the process before it answered\n1 passed, 1 failed, 0 skipped, 1 not run\n";
    assert_eq!((&*out, cases), (expected, 2));
}

/// The tests of the primitives report a process that ends, too.
#[test]
fn the_primitives_are_tested() {
    let own = |arguments: &[&str]| {
        let ended = own(&[&["conformance", "--primitives", "--backend", "own"], arguments].concat());
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
    };
    let (status, out, err) = own(&["--filter", "neg"]);
    assert_eq!((status, &*out), (Some(0), "1 passed, 0 failed, 0 skipped\n"), "{err}");
    let (status, _, err) = own(&["--filter", "nag"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("no test of the primitives has `nag` in its name"), "{err}");
    let (status, _, err) = own(&["cases"]);
    assert_eq!(status, Some(2), "{err}");
}

/// A call that hangs ends the run. The tests before it are reported.
#[test]
fn a_primitive_that_hangs_is_named() {
    let ended = Command::new(env!("CARGO_BIN_EXE_own"))
        .args(["conformance", "--primitives", "--backend", "own", "--filter", "s"])
        .env("OWN_HANGS", "Abs")
        .env("BB_CALL_SECONDS", "1")
        .output()
        .unwrap();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{out}{err}");
    assert!(err.starts_with("abs(") && err.contains("has not returned within 1 seconds"), "{err}");
    assert!(out.contains("failed abs: ended the process before it answered"), "{out}");
    assert!(out.contains(" not run"), "{out}");
}
