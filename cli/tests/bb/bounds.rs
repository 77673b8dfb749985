//! Tests that each limit bounds what it says by itself, and that counts which users give are bounded.

use crate::process::{bb, folder, write};
use bb::TensorData;
use bb::ir::proto::{GraphProto, NodeProto};
use bb_tests::model::{node, serialized, value};

const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// Strings that double with each of `steps`, made of constants alone, and whether the last is the first.
fn doubled(text: usize, steps: usize) -> Vec<u8> {
    let start = TensorData::strings(&[1], &["x".repeat(text)]).unwrap();
    let name = |i: usize| format!("s{i}");
    let step = |i: usize| node("StringConcat", &[&name(i), &name(i)], &[&name(i + 1)]);
    let mut nodes: Vec<NodeProto> = (0..steps).map(step).collect();
    nodes.push(node("Equal", &[&name(steps), "s0"], &["same"]));
    nodes.push(node("Where", &["same", "x", "x"], &["y"]));
    serialized(GraphProto {
        name: Some("doubled".to_owned()),
        input: vec![value("x", 7, &["1"])],
        output: vec![value("y", 7, &["1"])],
        initializer: vec![start.to_proto("s0")],
        node: nodes,
        ..GraphProto::default()
    })
}

#[test]
fn what_is_computed_from_constants_counts_against_the_limit_of_a_run() {
    let folder = folder("bounds-constants");
    // From 64 KiB to 32 MiB.
    let path = write(&folder, "model.onnx", &doubled(64 << 10, 9));
    for backend in BACKENDS {
        let run = |more: &[&str]| bb(&[&["run", &path, "--random", "--backend", backend], more].concat());
        let whole = run(&[]);
        assert_eq!(whole.code(), 0, "{backend}: {}", whole.err);
        let bounded = run(&["--limit", "run_bytes=4MiB"]);
        assert_eq!(bounded.code(), 1, "{backend}: {}", bounded.out);
        assert!(bounded.err.contains("run_bytes"), "{backend}: {}", bounded.err);
    }
}

#[test]
fn counts_beyond_reason_are_refused() {
    let folder = folder("bounds-counts");
    let path = write(&folder, "model.onnx", &doubled(1, 1));
    for count in ["0", "2000000", "18446744073709551615", "99999999999999999999"] {
        let ended = bb(&["run", &path, "--random", "--threads", count]);
        assert_eq!(ended.code(), 2, "{count}: {}", ended.err);
        assert!(ended.err.contains("16 for each processor"), "{count}: {}", ended.err);
    }
}
