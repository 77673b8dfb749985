//! Tests that a profile names the node of every instruction, counts calls, and accounts for the time of a
//! run.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::NodeProto;
use bb::onnx::OnnxValue;
use bb::profile::{Activity, Profile, ProfileRow, Scope, Span};
use bb::{CompileOptions, ErasedExecutable, Module, Runtime, TensorData, Value};
use bb_tests::backends;
use bb_tests::model::{model, named, node, with_graph, with_int};
use std::sync::Arc;
use std::time::Duration;

type Backend = Arc<Runtime>;

/// Compiles a model, each of whose functions stays an instruction.
fn compile(name: &str, model: Vec<u8>) -> (Backend, Arc<dyn ErasedExecutable>) {
    compile_with(name, model, false)
}

fn compile_with(name: &str, model: Vec<u8>, fuse: bool) -> (Backend, Arc<dyn ErasedExecutable>) {
    let on = backends::start(name).unwrap();
    let module = Module::from_bytes(model).unwrap();
    let mut options = CompileOptions::default();
    options.passes.fuse = fuse;
    let graph = on.clone().compile(module, &options).unwrap();
    (on, graph)
}

/// Makes inputs with the elements -1, 0, 1, 2, ….
fn inputs(on: &Backend, shapes: &[&[usize]]) -> Vec<Option<OnnxValue<Value>>> {
    let make = |shape: &&[usize]| {
        let elements: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32 - 1.0).collect();
        Some(OnnxValue::Tensor(on.constant(&TensorData::new(shape, &elements).unwrap()).unwrap()))
    };
    shapes.iter().map(make).collect()
}

fn elements(on: &Backend, outputs: &[OnnxValue<Value>]) -> Vec<TensorData> {
    outputs.iter().map(|x| on.to_host(x.tensor().unwrap()).unwrap()).collect()
}

/// Profiles two runs and compares their results with a plain run.
fn profile(on: &Backend, graph: &dyn ErasedExecutable, shapes: &[&[usize]]) -> Profile {
    let inputs = inputs(on, shapes);
    let mut profile = Profile::with_spans(1000);
    for _ in 0..2 {
        let outputs = graph.run_profiled(&inputs, &mut profile).unwrap();
        assert_eq!(elements(on, &outputs), elements(on, &graph.run_items(&inputs).unwrap()));
    }
    assert_eq!(profile.runs(), 2);
    let rows: Duration = profile.rows().iter().map(|row| row.time).sum();
    let explained = rows + profile.measuring_time() + profile.outside_time();
    assert_eq!(explained, profile.wall_time(), "rows, measuring and the rest are all of the time");
    profile
}

fn path(row: &ProfileRow) -> &str {
    row.node.as_ref().map_or("", |node| &node.path)
}

/// Lists activity, node, operation and calls of the rows, except planning.
fn listed(profile: &Profile) -> Vec<(Activity, &str, &str, u64)> {
    let rows = profile.rows().iter().filter(|row| row.activity != Activity::Planning);
    rows.map(|row| (row.activity, path(row), row.operation, row.calls)).collect()
}

/// `y = |x w + x w|`; one node has no name.
fn product() -> Vec<u8> {
    let nodes = vec![
        named("product", node("MatMul", &["x", "w"], &["p"])),
        named("twice", node("Add", &["p", "p"], &["t"])),
        named("", node("Abs", &["t"], &["y"])),
    ];
    model(&[("x", &[2, 3]), ("w", &[3, 5])], nodes, &[("y", &[2, 5])])
}

#[test]
fn each_instruction_has_its_node_its_calls_and_its_cost() {
    for name in ["cpu", "reference", "device"] {
        let (on, graph) = compile(name, product());
        let profile = profile(&on, &*graph, &[&[2, 3], &[3, 5]]);
        let operation = Activity::Operation;
        let expected =
            [(operation, "product", "matmul", 2), (operation, "twice", "add", 2), (operation, "y", "abs", 2)];
        assert_eq!(listed(&profile), expected, "{name}");
        let row = profile.rows().iter().find(|row| row.operation == "matmul").unwrap();
        // Two runs with 2 * 2 * 3 * 5 operations each.
        assert_eq!(row.cost.flops, Some(120), "{name}");
        assert_eq!(row.cost.bytes(), Some(2 * 4 * (6 + 15 + 10)), "{name}");
        assert_eq!(row.outputs[0].1.as_slice(), [2, 5], "{name}");
        assert_eq!(row.node.as_ref().unwrap().op, "MatMul");
    }
}

#[test]
fn planning_is_a_row_of_the_first_run() {
    let (on, graph) = compile("cpu", product());
    let inputs = inputs(&on, &[&[2, 3], &[3, 5]]);
    let planned = |profile: &Profile| profile.rows().iter().any(|row| row.activity == Activity::Planning);
    let mut first = Profile::new();
    graph.run_profiled(&inputs, &mut first).unwrap();
    assert!(planned(&first));
    let mut second = Profile::new();
    graph.run_profiled(&inputs, &mut second).unwrap();
    assert!(!planned(&second));
    assert!(second.spans().is_empty() && second.dropped_spans() == 0, "none were asked for");
}

#[test]
fn every_operation_of_a_lowered_node_names_it() {
    let nodes = vec![
        named("swish", node("HardSwish", &["x"], &["h"])),
        named("normal", node("LayerNormalization", &["h", "scale"], &["y"])),
    ];
    let bytes = model(&[("x", &[2, 4]), ("scale", &[4])], nodes, &[("y", &[2, 4])]);
    let (on, graph) = compile("reference", bytes);
    let profile = profile(&on, &*graph, &[&[2, 4], &[4]]);
    let rows = listed(&profile);
    let of = |name: &str| rows.iter().filter(|row| row.1 == name).count();
    assert!(of("swish") > 1 && of("normal") > 1, "{rows:?}");
    assert_eq!(of("swish") + of("normal"), rows.len(), "{rows:?}");
}

#[test]
fn a_graph_that_runs_whole_is_one_row() {
    let (on, graph) = compile("whole-graph", product());
    let profile = profile(&on, &*graph, &[&[2, 3], &[3, 5]]);
    assert_eq!(listed(&profile), [(Activity::Graph, "product", "graph", 2)]);
    let row = profile.rows().iter().find(|row| row.activity == Activity::Graph).unwrap();
    assert_eq!(row.last_node.as_ref().unwrap().path, "y");
    // 2mnk, ten sums and ten absolute values in each of two runs.
    assert_eq!(row.cost.flops, Some(2 * (60 + 10 + 10)));
}

#[test]
fn each_call_costs_by_its_own_extents() {
    let bytes = model(&[("x", &[-1])], vec![node("Exp", &["x"], &["y"])], &[("y", &[-1])]);
    for name in ["cpu", "reference"] {
        let (on, graph) = compile(name, bytes.clone());
        let mut profile = Profile::new();
        for extent in [2, 5, 5] {
            graph.run_profiled(&inputs(&on, &[&[extent]]), &mut profile).unwrap();
        }
        let row = profile.rows().iter().find(|row| row.operation == "exp").unwrap();
        assert_eq!((row.calls, row.cost.flops), (3, Some(12)), "{name}");
        assert_eq!(row.outputs[0].1.as_slice(), [5], "{name}");
    }
}

/// `state = exp(|state|) - x`, repeated `trips` times.
fn looping() -> NodeProto {
    let body = vec![
        node("Identity", &["go"], &["on"]),
        named("abs_2", node("Abs", &["s"], &["b"])),
        named("exp_3", node("Exp", &["b"], &["e"])),
        node("Sub", &["e", "x"], &["next"]),
    ];
    let holder = named("loop_1", node("Loop", &["trips", "", "x"], &["y"]));
    with_graph(holder, "body", &["i", "go", "s"], body, &["on", "next"])
}

#[test]
fn a_program_stands_for_the_nodes_of_its_functions() {
    let (on, graph) = compile_with("cpu", product(), true);
    let profile = profile(&on, &*graph, &[&[2, 3], &[3, 5]]);
    let operation = Activity::Operation;
    assert_eq!(listed(&profile), [(operation, "product", "matmul", 2), (operation, "twice", "fused", 2)]);
    let row = profile.rows().iter().find(|row| row.operation == "fused").unwrap();
    assert_eq!(row.last_node.as_ref().unwrap().path, "y");
    // Two lines for each of ten elements; a tensor is read and one is written. Two runs.
    assert_eq!((row.cost.flops, row.cost.bytes()), (Some(2 * 20), Some(2 * 80)));
}

#[test]
fn iterations_of_a_loop_are_counted_under_its_node() {
    // The maximum of -1, 0, 1, 2 is 2, so the loop has two iterations.
    let trips = vec![
        named("most", node("ReduceMax", &["x"], &["most"])),
        named("trips", with_int(node("Cast", &["most"], &["kept"]), "to", 7)),
        named("one", node("Squeeze", &["kept"], &["trips"])),
        looping(),
    ];
    let bytes = model(&[("x", &[4])], trips, &[("y", &[4])]);
    for name in ["cpu", "reference", "whole-graph"] {
        let (on, graph) = compile(name, bytes.clone());
        let profile = profile(&on, &*graph, &[&[4]]);
        let rows = listed(&profile);
        let of = |operation: &str| rows.iter().find(|row| row.2 == operation).copied();
        match name {
            "whole-graph" => {
                let mut rows = profile.rows().iter();
                // A pass drops the identity that the body begins with.
                let body = rows.find(|row| path(row) == "loop_1/body/abs_2").unwrap();
                assert_eq!((body.calls, body.activity), (4, Activity::Graph));
                assert_eq!(body.last_node.as_ref().unwrap().path, "loop_1/body/Sub_next");
            }
            _ => assert_eq!(of("exp"), Some((Activity::Operation, "loop_1/body/exp_3", "exp", 4))),
        }
        // Each run calls the loop seven times: to begin, to ask for an iteration three times, to take two
        // results, and to end.
        assert_eq!(of("loop"), Some((Activity::Loop, "loop_1", "loop", 14)), "{name}: {rows:?}");
        let iterations = profile.spans().iter().filter_map(|span| match &span.scope {
            Scope::Iteration { node, iteration } => Some((node.as_str(), *iteration)),
            _ => None,
        });
        assert_eq!(
            iterations.collect::<Vec<_>>(),
            [("loop_1", 0), ("loop_1", 1), ("loop_1", 0), ("loop_1", 1)]
        );
    }
}

#[test]
fn nodes_of_an_unrolled_body_are_named() {
    let trips = with_int(node("Constant", &[], &["trips"]), "value_int", 3);
    let bytes = model(&[("x", &[4])], vec![trips, looping()], &[("y", &[4])]);
    let (on, graph) = compile("reference", bytes);
    let profile = profile(&on, &*graph, &[&[4]]);
    let rows = listed(&profile);
    let names: Vec<&str> = rows.iter().map(|row| row.1).collect();
    let iteration = ["loop_1/body/abs_2", "loop_1/body/exp_3", "loop_1/body/Sub_next"];
    assert_eq!(names, [iteration, iteration, iteration].concat(), "{rows:?}");
}

#[test]
fn a_host_node_and_its_copies_are_rows() {
    let nodes = vec![
        named("before", node("Neg", &["x"], &["n"])),
        named("places", node("NonZero", &["n"], &["p"])),
        named("after", with_int(node("Cast", &["p"], &["y"]), "to", 1)),
    ];
    let bytes = model(&[("x", &[4])], nodes, &[("y", &[1, -1])]);
    for name in ["cpu", "reference", "whole-graph"] {
        let (on, graph) = compile(name, bytes.clone());
        let profile = profile(&on, &*graph, &[&[4]]);
        let rows = listed(&profile);
        assert!(rows.contains(&(Activity::Host, "places", "host", 2)), "{name}: {rows:?}");
        // In each of two runs, the operand is copied to the host and the result back.
        assert!(rows.contains(&(Activity::Transfer, "places", "transfer", 4)), "{name}: {rows:?}");
        assert!(rows.iter().any(|row| row.1 == "after"), "{name}: {rows:?}");
    }
}

#[test]
fn a_step_on_the_host_is_a_row_of_its_plan() {
    let k = with_int(node("Constant", &[], &["k"]), "value_int", 2);
    let k = vec![
        k,
        with_int(node("Constant", &[], &["zero"]), "value_int", 0),
        node("Unsqueeze", &["k", "zero"], &["ks"]),
        named("top", node("TopK", &["x", "ks"], &["y", "i"])),
    ];
    let bytes = model(&[("x", &[4])], k, &[("y", &[2])]);
    for name in ["reference", "whole-graph"] {
        let (on, graph) = compile(name, bytes.clone());
        let profile = profile(&on, &*graph, &[&[4]]);
        let row = profile.rows().iter().find(|row| row.activity == Activity::Host).unwrap();
        assert_eq!((path(row), row.operation, row.calls), ("top", "top_k", 2), "{name}");
        // The operation reads four floats and writes two floats and two 64-bit integers. The number of comparisons
        // depends on the elements.
        assert_eq!((row.cost.flops, row.cost.bytes()), (None, Some(2 * (16 + 8 + 16))), "{name}");
    }
}

#[test]
fn spans_lie_inside_their_run_up_to_a_limit() {
    let (on, graph) = compile("cpu", product());
    let profile = profile(&on, &*graph, &[&[2, 3], &[3, 5]]);
    let runs: Vec<_> = profile.spans().iter().filter(|span| span.scope == Scope::Run).collect();
    assert_eq!(runs.len(), 2);
    for span in profile.spans() {
        let within = |run: &&&Span| run.start <= span.start && span.start + span.time <= run.start + run.time;
        assert_eq!(runs.iter().filter(within).count(), 1, "{span:?}");
        if let Scope::Row(row) = span.scope {
            assert!(row < profile.rows().len());
        }
    }
    let mut few = Profile::with_spans(2);
    graph.run_profiled(&inputs(&on, &[&[2, 3], &[3, 5]]), &mut few).unwrap();
    // Three operations, their plan and the run make five spans.
    assert_eq!((few.spans().len(), few.dropped_spans()), (2, 3));
}

#[test]
fn a_run_that_fails_does_not_count() {
    let (on, graph) = compile("reference", product());
    let mut profile = Profile::new();
    assert!(graph.run_profiled(&inputs(&on, &[&[2, 3], &[4, 5]]), &mut profile).is_err());
    assert_eq!((profile.runs(), profile.wall_time()), (0, Duration::ZERO));
    graph.run_profiled(&inputs(&on, &[&[2, 3], &[3, 5]]), &mut profile).unwrap();
    assert_eq!(profile.runs(), 1);
}
