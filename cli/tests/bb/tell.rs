//! Tests the commands that report about models and backends: `inspect`, `compare`, `bench`, `backends`.

use crate::process::{bb, folder, write};
use bb_tests::model::{custom, model, node};

fn two_nodes() -> Vec<u8> {
    let nodes = vec![node("Neg", &["x"], &["a"]), node("Exp", &["a"], &["y"])];
    model(&[("x", &[2])], nodes, &[("y", &[2])])
}

#[test]
fn backends_lists_those_of_the_workspace() {
    let json = bb(&["backends", "--json"]).json();
    let names: Vec<_> = json.as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu", "reference", "whole-graph"]);
    let ended = bb(&["backends"]);
    assert_eq!(ended.code(), 0);
    assert!(names.iter().all(|name| ended.out.contains(name)), "{}", ended.out);
}

#[test]
fn layers_are_listed_and_stand_before_the_name_of_a_backend() {
    let ended = bb(&["backends"]);
    assert!(
        ["metrics", "limit", "check", "fault", "record", "log"].iter().all(|name| ended.out.contains(name)),
        "{}",
        ended.out
    );
    let folder = folder("layers");
    let path = write(&folder, "model.onnx", &two_nodes());
    let plain = bb(&["run", &path, "--random", "1", "--json"]);
    let layered =
        bb(&["run", &path, "--random", "1", "--json", "--backend", "metrics+check+limit(calls=1000)+cpu"]);
    assert_eq!((layered.code(), &layered.out), (0, &plain.out), "{}", layered.err);
    assert!(layered.err.contains("OPERATION") && layered.err.contains("fused"), "{}", layered.err);
    let recording = folder.join("run.recording");
    let to = format!("record(to={})+cpu", recording.display());
    assert_eq!(bb(&["run", &path, "--random", "1", "--backend", &to]).code(), 0);
    let from = format!("replay(from={})", recording.display());
    assert_eq!(bb(&["run", &path, "--random", "1", "--json", "--backend", &from]).out, plain.out);
    let other = bb(&["run", &path, "--random", "2", "--backend", &from]);
    assert!(other.code() != 0 && other.err.contains("differs: expected"), "{}", other.err);
    let refused = bb(&["run", &path, "--random", "1", "--backend", "limit(calls=1)+cpu"]);
    assert!(refused.err.contains("the limit of 1 operations is reached"), "{}", refused.err);
    let unknown = bb(&["run", &path, "--random", "1", "--backend", "metric+cpu"]);
    assert!(unknown.err.contains("no layer is called `metric` (did you mean `metrics`?)"), "{}", unknown.err);
}

#[test]
fn a_model_runs_on_the_first_of_several_and_inspect_says_where() {
    let folder = folder("first-of");
    let path = write(&folder, "model.onnx", &two_nodes());
    let several = "first_of(whole-graph, cpu, Exp=cpu, place=order)";
    let plain = bb(&["run", &path, "--random", "1", "--json"]);
    let ended = bb(&["run", &path, "--random", "1", "--json", "--backend", several]);
    assert_eq!((ended.code(), &ended.out), (0, &plain.out), "{}", ended.err);
    let told = bb(&["inspect", &path, "--backend", several]).out;
    for line in ["BACKEND", "PART", "READS FROM OTHERS", "whole-graph", "cpu"] {
        assert!(told.contains(line), "{told}");
    }
    let reason = "a pin chooses it instead of `whole-graph`";
    assert!(told.contains(&format!("`Exp_y` runs on `cpu`: {reason}\n")), "{told}");
    let json = bb(&["inspect", &path, "--json", "--backend", several]).json();
    assert_eq!(json["nodes"][0]["passed_over"], serde_json::json!([]));
    let passed = serde_json::json!([{ "backend": "whole-graph", "why": "pinned", "reason": reason }]);
    assert_eq!(json["nodes"][1]["passed_over"], passed);
    let backends: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|n| &n["backend"]).collect();
    assert_eq!(backends, ["whole-graph", "cpu"]);
    let parts: Vec<_> = json["placement"]["parts"].as_array().unwrap().iter().map(|p| &p["nodes"]).collect();
    assert_eq!(parts, [&serde_json::json!(["Neg_a"]), &serde_json::json!(["Exp_y"])]);
    let transfer = serde_json::json!([{ "value": "a", "from": "whole-graph", "to": "cpu" }]);
    assert_eq!(json["placement"]["transfers"], transfer);
    let unknown = bb(&["run", &path, "--random", "1", "--backend", "first_of(cpu, Exp=gpu)"]);
    assert!(unknown.err.contains("`gpu` is not a backend of `first_of`"), "{}", unknown.err);
    assert!(bb(&["backends"]).out.contains("first_of(…, …)"));
}

#[test]
fn inspect_says_what_runs_each_node() {
    let folder = folder("inspect");
    let path = write(&folder, "model.onnx", &two_nodes());
    let json = bb(&["inspect", &path, "--json"]).json();
    assert_eq!(json["inputs"], serde_json::json!([{ "name": "x", "type": "f32[2]" }]));
    let runs: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|n| &n["runs"]).collect();
    assert_eq!(runs, ["native", "native"]);
    for stage in ["hir", "mir", "lir"] {
        let ended = bb(&["inspect", &path, "--stage", stage]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        assert!(ended.out.contains("2 native, 0 lowered, 0 host, 0 unsupported"), "{}", ended.out);
    }
}

#[test]
fn inspect_prints_the_trace_after_a_pass() {
    let folder = folder("inspect-after");
    let bytes = model(
        &[("x", &[2])],
        vec![node("Identity", &["x"], &["same"]), node("Neg", &["same"], &["y"])],
        &[("y", &[2])],
    );
    let path = write(&folder, "model.onnx", &bytes);
    let after = |pass| bb(&["inspect", &path, "--after", pass]);
    assert!(after("trace").out.contains("%1: f32[2] = identity(input0)\n%2: f32[2] = neg(%1)\nreturn %2\n"));
    let ended = after("drop-identities");
    let expected = "%2: f32[2] = neg(input0)\nreturn %2\npass drop-identities: 1\n";
    assert!(ended.out.contains(expected), "{}", ended.out);
    // An unknown pass is an error of the command, which lists those that there are.
    let ended = after("drop");
    assert_eq!(ended.code(), 2);
    let passes = bb::pass_names();
    assert!(passes.iter().all(|pass| ended.err.contains(pass)), "{passes:?}: {}", ended.err);
}

#[test]
fn inspect_reports_wrong_declarations() {
    let folder = folder("inspect-warnings");
    let bytes = model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[3])]);
    let path = write(&folder, "model.onnx", &bytes);
    let message = "value `y` is declared as f32[3], but is f32[2]; the declaration is not used";
    let json = bb(&["inspect", &path, "--json"]).json();
    let expected =
        serde_json::json!([{ "value": "y", "declared": ["f32[3]"], "found": "f32[2]", "message": message }]);
    assert_eq!(json["warnings"], expected);
    assert_eq!(json["outputs"], serde_json::json!([{ "name": "y", "type": "f32[2]" }]));
    let ended = bb(&["inspect", &path]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.out.contains(message), "{}", ended.out);
    assert_eq!(bb(&["run", &path, "--random"]).code(), 0);
}

#[test]
fn inspect_fails_if_nothing_runs_a_node() {
    let folder = folder("inspect-unsupported");
    let bytes = model(&[("x", &[2])], vec![custom("Foo", &["x"], &["y"])], &[("y", &[2])]);
    let ended = bb(&["inspect", &write(&folder, "model.onnx", &bytes)]);
    assert_eq!(ended.code(), 1);
    assert!(ended.out.contains("1 unsupported"), "{}", ended.out);
}

#[test]
fn compare_reports_equal_values() {
    let folder = folder("compare");
    let path = write(&folder, "model.onnx", &two_nodes());
    let json = bb(&["compare", &path, "--backend", "cpu", "--backend", "reference", "--json"]).json();
    assert_eq!((&json["compared"], &json["equal"]), (&2.into(), &true.into()));
    let ended = bb(&["compare", &path, "--backend", "cpu", "--backend", "whole-graph", "--per-node"]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.out.contains("Exp") && ended.out.contains("2 values are alike"), "{}", ended.out);
    let ended = bb(&["compare", &path, "--backend", "cpu"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("expected two backends"), "{}", ended.err);
}

/// A model in which some of many exponentials are rounded otherwise on another backend.
fn roundings() -> Vec<u8> {
    let nodes = vec![node("Neg", &["x"], &["a"]), node("Exp", &["a"], &["b"]), node("Sqrt", &["b"], &["y"])];
    model(&[("x", &[512])], nodes, &[("y", &[512])])
}

#[test]
fn a_recording_is_one_side_of_a_comparison() {
    let folder = folder("compare-recording");
    let path = write(&folder, "model.onnx", &roundings());
    let recording = folder.join("cpu.recording").display().to_string();
    let [record, replay] = [format!("record(to={recording})+cpu"), format!("replay(from={recording})")];
    let compare = |more: &[&str]| bb(&[&["compare", &path, "--backend", "reference"], more].concat());
    assert_eq!(compare(&["--backend", &record]).code(), 0);
    let three = ["--backend", "whole-graph", "--backend", &replay];
    let ended = compare(&three);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let alike = format!("3 values are alike on reference, whole-graph and {replay}");
    assert!(ended.out.contains(&alike), "{}", ended.out);
    // With a tolerance of zero, recorded roundings of the exponential differ.
    let exact = [&three[..], &["--rtol", "0", "--atol", "0"]].concat();
    let ended = compare(&exact);
    assert_eq!(ended.code(), 1);
    assert!(ended.out.contains(&format!("differs: {replay}: element")), "{}", ended.out);
    let json = compare(&[&exact[..], &["--json"]].concat()).json();
    let differences = &json["nodes"][0]["differences"];
    assert!(differences["whole-graph"].is_null() && differences[&replay].is_string(), "{json}");
}

/// With a tolerance of zero, two roundings of the same exponential differ.
#[test]
fn compare_prints_the_first_value_that_differs() {
    let folder = folder("compare-differs");
    let path = write(&folder, "model.onnx", &roundings());
    let both = ["compare", &path, "--backend", "cpu", "--backend", "reference", "--rtol", "0", "--atol", "0"];
    let ended = bb(&both);
    assert_eq!(ended.code(), 1, "{}", ended.out);
    assert!(ended.out.contains("`b` of node `Exp_b` (Exp) differs"), "{}", ended.out);
    assert!(ended.out.contains("cpu:") && ended.out.contains("reference:"), "{}", ended.out);
}
