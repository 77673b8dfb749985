//! Tests `bb bench`: times with units, percentiles, throughput, a profile, and a time line for trace viewers.

use crate::process::{bb, folder, write};
use bb_tests::model::{model, named, node, with_graph, with_int};
use serde_json::Value;
use std::path::Path;

/// `y = |x w|`, for any number of rows.
fn product(folder: &Path) -> String {
    let nodes = vec![
        named("product", node("MatMul", &["x", "w"], &["p"])),
        named("positive", node("Abs", &["p"], &["y"])),
    ];
    let bytes = model(&[("x", &[-1, 8]), ("w", &[8, 16])], nodes, &[("y", &[-1, 16])]);
    write(folder, "model.onnx", &bytes)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn times_have_units_and_percentiles_are_in_order() {
    let folder = folder("bench-times");
    let path = product(&folder);
    let json = bb(&["bench", &path, "--runs", "12", "--warmup", "2", "--shape", "x=4,8", "--json"]).json();
    assert_eq!((&json["runs"], &json["warmup_runs"]), (&12.into(), &2.into()));
    assert!(number(&json["load_seconds"]) > 0.0 && number(&json["prepare_seconds"]) > 0.0);
    let times: Vec<f64> =
        ["min", "p50", "p90", "p99", "max"].iter().map(|name| number(&json["run_seconds"][name])).collect();
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    let mean = number(&json["run_seconds"]["mean"]);
    assert!((times[0]..=times[4]).contains(&mean));
    assert!((number(&json["runs_per_second"]) * mean - 1.0).abs() < 1e-9);
    assert!(json.get("profile").is_none(), "nobody asked for it");
}

#[test]
fn items_are_counted_where_every_input_has_an_open_first_extent() {
    let folder = folder("bench-items");
    let fixed = bb(&["bench", &product(&folder), "--runs", "1", "--shape", "x=4,8", "--json"]).json();
    assert!(fixed["items_per_second"].is_null(), "the other input has no batch");
    let nodes = vec![node("Add", &["a", "b"], &["y"])];
    let both = model(&[("a", &[-1, 8]), ("b", &[-1, 8])], nodes, &[("y", &[-1, 8])]);
    let path = write(&folder, "both.onnx", &both);
    let shapes = ["--shape", "a=6,8", "--shape", "b=6,8"];
    let json = bb(&[&["bench", &path, "--runs", "3", "--json"][..], &shapes].concat()).json();
    assert_eq!(json["items_per_run"], 6);
    let (items, runs) = (number(&json["items_per_second"]), number(&json["runs_per_second"]));
    assert!((items / runs - 6.0).abs() < 1e-9);
    let text = bb(&[&["bench", &path, "--runs", "3"][..], &shapes].concat()).out;
    assert!(text.contains("items per second, 6 a run (the first extent of `a`)"), "{text}");
}

#[test]
fn the_time_of_runs_can_be_limited() {
    let folder = folder("bench-seconds");
    let path = product(&folder);
    let json = bb(&["bench", &path, "--seconds", "0.05", "--warmup", "0.02s", "--json"]).json();
    assert!(json["runs"].as_u64().unwrap() >= 1 && json["warmup_runs"].as_u64().unwrap() >= 1);
    for wrong in [
        ["--runs", "0"],
        ["--seconds", "0"],
        ["--seconds", "-1"],
        ["--seconds", "nan"],
        ["--warmup", "x"],
        ["--warmup", "-1s"],
    ] {
        let ended = bb(&["bench", &path, wrong[0], wrong[1]]);
        assert_eq!(ended.code(), 2, "{wrong:?} {}", ended.out);
    }
    assert_eq!(bb(&["bench", &path, "--runs", "2", "--seconds", "1"]).code(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn the_time_of_processors_is_known_unless_runs_are_short() {
    let folder = folder("bench-processors");
    let path = product(&folder);
    let json = bb(&["bench", &path, "--seconds", "0.5", "--json"]).json();
    assert!(number(&json["run_cpu_seconds"]) > 0.0);
    let json = bb(&["bench", &path, "--runs", "1", "--json"]).json();
    assert!(json["run_cpu_seconds"].is_null(), "{json}");
}

fn rows<'a>(json: &'a Value, of: &str) -> Vec<&'a Value> {
    json["profile"][of].as_array().unwrap().iter().collect()
}

#[test]
fn a_profile_has_each_node_with_its_share_and_rates() {
    let folder = folder("bench-profile");
    let path = product(&folder);
    for backend in ["cpu", "reference"] {
        let arguments =
            ["bench", &path, "--runs", "5", "--shape", "x=4,8", "--backend", backend, "--profile", "--json"];
        let json = bb(&arguments).json();
        let nodes = rows(&json, "nodes");
        let product = nodes.iter().find(|row| row["node"] == "product").unwrap();
        // 2mnk operations; each matrix is read or written once.
        assert_eq!(number(&product["flops_per_run"]), 2.0 * 4.0 * 8.0 * 16.0, "{backend}");
        assert_eq!(number(&product["bytes_read_per_run"]), 4.0 * (32.0 + 128.0));
        assert_eq!(number(&product["bytes_written_per_run"]), 4.0 * 64.0);
        assert_eq!((&product["runs_as"], number(&product["calls_per_run"])), (&"matmul".into(), 1.0));
        let rate = number(&product["flops_per_run"]) / number(&product["seconds_per_run"]);
        assert!((number(&product["flops_per_second"]) / rate - 1.0).abs() < 1e-6);
        // The shares of the nodes and the time outside of nodes add up to the whole time.
        let profile = &json["profile"];
        let shares: f64 = nodes.iter().map(|row| number(&row["share"])).sum();
        let outside = number(&profile["outside_seconds_per_run"]) / number(&profile["seconds_per_run"]);
        assert!((shares + outside - 1.0).abs() < 1e-6, "{shares} {outside}");
        let operators: Vec<_> = rows(&json, "operators").iter().map(|row| row["operator"].clone()).collect();
        assert!(operators.contains(&"MatMul".into()) && operators.contains(&"Abs".into()), "{operators:?}");
        let instructions = rows(&json, "instructions");
        let matmul = instructions.iter().find(|row| row["operation"] == "matmul").unwrap();
        assert_eq!(matmul["inputs"], serde_json::json!(["f32[4,8]", "f32[8,16]"]));
        assert_eq!(matmul["outputs"], serde_json::json!(["f32[4,16]"]));
    }
}

#[test]
fn a_profile_is_printed_by_operator_and_by_node() {
    let folder = folder("bench-profile-text");
    let path = product(&folder);
    let ended = bb(&["bench", &path, "--runs", "2", "--shape", "x=4,8", "--profile", "--top", "1"]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    for part in ["GFLOP/s", "GB/s", "SHARE", "MatMul", "outside of nodes", "1 more", "2 runs"] {
        assert!(ended.out.contains(part), "no {part} in {}", ended.out);
    }
}

#[test]
fn a_profile_is_a_page_too() {
    let folder = folder("bench-profile-page");
    let path = product(&folder);
    for backend in ["cpu", "reference", "whole-graph"] {
        let file = folder.join("profile.html");
        let arguments = ["bench", &path, "--runs", "2", "--shape", "x=4,8", "--backend", backend];
        let page = ["--profile", "--html", file.to_str().unwrap()];
        let ended = bb(&[&arguments[..], &page].concat());
        assert_eq!(ended.code(), 0, "{}", ended.err);
        let text = std::fs::read_to_string(&file).unwrap();
        let names: &[&str] =
            if backend == "whole-graph" { &["product … positive"] } else { &["product", "positive"] };
        for name in names {
            assert!(
                text.contains(&format!("<tr><td title=\"{name}\">{name}</td>")),
                "no {name} of {backend} in {text}"
            );
        }
        // A graph that runs whole has no operations of its own, and no place beside a roof.
        let circles = text.matches("<circle").count();
        assert_eq!(circles, if backend == "whole-graph" { 0 } else { 2 }, "{backend}");
        assert!(text.contains("<dt>backend</dt><dd>") && text.contains("% of a run"), "{text}");
        assert!(!text.contains("src=") && !text.contains("href="), "it loads nothing");
    }
    assert_eq!(bb(&["bench", &path, "--html", "profile.html"]).code(), 2, "a page needs a profile");
}

#[test]
fn names_cannot_leave_their_place_in_a_page() {
    let folder = folder("bench-profile-hostile");
    let evil = "</title><script>alert(1)</script>\"'";
    let path = write(
        &folder,
        "model.onnx",
        &model(&[("x", &[2])], vec![named(evil, node("Abs", &["x"], &["y"]))], &[("y", &[2])]),
    );
    let file = folder.join("profile.html");
    let ended = bb(&["bench", &path, "--runs", "1", "--profile", "--html", file.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("<script>") && text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
}

#[test]
fn a_backend_for_whole_graphs_has_a_row_for_each() {
    let folder = folder("bench-profile-whole");
    let path = product(&folder);
    let arguments = ["bench", &path, "--runs", "2", "--shape", "x=4,8", "--backend", "whole-graph"];
    let json = bb(&[&arguments[..], &["--profile", "--json"]].concat()).json();
    let nodes = rows(&json, "nodes");
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert_eq!((&nodes[0]["node"], &nodes[0]["runs_as"]), (&"product … positive".into(), &"graph".into()));
    assert_eq!(number(&nodes[0]["flops_per_run"]), 1024.0 + 64.0);
}

/// A loop whose number of iterations is the greatest element of its input: 0 or 1 for random inputs, 3 here.
fn iterations(folder: &Path) -> Vec<String> {
    let body = vec![node("Identity", &["go"], &["on"]), named("inner", node("Add", &["s", "x"], &["next"]))];
    let nodes = vec![
        node("ReduceMax", &["x"], &["most"]),
        with_int(node("Cast", &["most"], &["kept"]), "to", 7),
        node("Squeeze", &["kept"], &["trips"]),
        with_graph(
            named("loop_1", node("Loop", &["trips", "", "x"], &["y"])),
            "body",
            &["i", "go", "s"],
            body,
            &["on", "next"],
        ),
    ];
    let path = write(folder, "loop.onnx", &model(&[("x", &[2])], nodes, &[("y", &[2])]));
    let x = bb::TensorData::new(&[2], &[3f32, 1.0]).unwrap();
    let x = write(folder, "x.npy", &x.to_npy().unwrap());
    vec!["bench".to_owned(), path, "--input".to_owned(), format!("x={x}")]
}

#[test]
fn a_trace_nests_iterations_and_calls_inside_their_run() {
    let folder = folder("bench-trace");
    let file = folder.join("trace.json");
    let mut arguments = iterations(&folder);
    arguments.extend(["--runs", "1", "--trace", file.to_str().unwrap()].map(str::to_owned));
    let ended = bb(&arguments);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let events: Vec<&Value> =
        trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").collect();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!(named("run"), 1);
    for iteration in 0..3 {
        assert_eq!(named(&format!("iteration {iteration} of loop_1")), 1);
    }
    assert_eq!(named("add loop_1/body/inner"), 3);
    let span = |event: &Value| {
        let start = number(&event["ts"]);
        (start, start + number(&event["dur"]))
    };
    let run = span(events.iter().find(|event| event["name"] == "run").unwrap());
    let mut open: Vec<(f64, f64)> = Vec::new();
    for event in &events {
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["cat"].is_string());
        let (start, end) = span(event);
        assert!(run.0 <= start && end <= run.1 + 0.001, "{event}");
        // Viewers nest by times, so of two overlapping spans one must be inside the other.
        open.retain(|last| last.1 > start + 0.0005);
        assert!(open.iter().all(|last| end <= last.1 + 0.001), "{event}");
        open.push((start, end));
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let folder = folder("bench-trace-nowhere");
    let path = product(&folder);
    let nowhere = folder.join("no/such/folder.json");
    let ended = bb(&["bench", &path, "--runs", "1", "--trace", nowhere.to_str().unwrap()]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("error: cannot write `"), "{}", ended.err);
}
