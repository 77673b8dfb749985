//! Tests inferred types of the results of subgraphs: branches, loops and scans. The expected values follow
//! from the definitions.

use super::build::*;
use bb_ir::TensorData;
use bb_ir::proto::GraphProto;

/// Makes a body with inputs given by name and extents; `i` is the iteration and `c` the condition.
fn body(inputs: &[(&str, &[&str])], nodes: Vec<bb_ir::proto::NodeProto>, outputs: &[&str]) -> GraphProto {
    let mut g = graph(&[], nodes, outputs);
    g.input = inputs
        .iter()
        .map(|(name, dims)| match *name {
            "i" => value(name, 7, &[]),
            "c" => value(name, 9, &[]),
            _ if dims.is_empty() => untyped(name),
            _ => value(name, 1, dims),
        })
        .collect();
    g
}

/// Checks a `Loop` with a state `a` of shape `[n]`.
fn looped(
    nodes: Vec<bb_ir::proto::NodeProto>,
    outputs: &[&str],
    iterations: Option<i64>,
) -> bb_ir::graph::Graph {
    let inner = body(&[("i", &[]), ("c", &[]), ("state", &[])], nodes, outputs);
    let count = if iterations.is_some() { "iterations" } else { "" };
    let call = node("Loop", &[count, "", "a"], &["last", "all"]).with(subgraph("body", inner));
    let mut g = graph(&["a"], vec![call], &["last", "all"]);
    if let Some(iterations) = iterations {
        g = initializer(g, "iterations", &TensorData::scalar(iterations));
    }
    checked(initializer(g, "one", &TensorData::new(&[1], &[1f32]).unwrap())).unwrap()
}

#[test]
fn extents_that_iterations_keep_are_known_after_the_loop() {
    let nodes = || vec![node("Identity", &["c"], &["go"]), node("Add", &["state", "one"], &["next"])];
    let g = looped(nodes(), &["go", "next", "next"], Some(5));
    assert_eq!(ty(&g, "last"), "f32[n]");
    assert_eq!(ty(&g, "all"), "f32[5, n]");
    let g = looped(nodes(), &["go", "next", "next"], None);
    assert_eq!(ty(&g, "all"), "f32[?, n]");
}

#[test]
fn extents_that_iterations_change_are_unknown_after_the_loop() {
    let nodes = vec![
        node("Identity", &["c"], &["go"]),
        node("Concat", &["state", "one"], &["next"]).with(int("axis", 0)),
    ];
    let g = looped(nodes, &["go", "next", "one"], Some(5));
    assert_eq!(ty(&g, "last"), "f32[?]");
    assert_eq!(ty(&g, "all"), "f32[5, 1]");
}

#[test]
fn with_a_computed_condition_the_iterations_are_unknown() {
    let nodes = vec![
        node("Add", &["state", "one"], &["next"]),
        node("ReduceSum", &["next"], &["sum"]).with(int("keepdims", 0)),
        node("Greater", &["sum", "sum"], &["go"]),
    ];
    let g = looped(nodes, &["go", "next", "next"], Some(5));
    assert_eq!((ty(&g, "last"), ty(&g, "all")), ("f32[n]".to_owned(), "f32[?, n]".to_owned()));
}

#[test]
fn scans_have_one_iteration_per_scanned_entry() {
    let nodes = vec![node("Add", &["state", "x"], &["next"]), node("Mul", &["next", "next"], &["square"])];
    let inner = body(&[("state", &[]), ("x", &[])], nodes, &["next", "square"]);
    let call = node("Scan", &["a", "xs"], &["last", "all"])
        .with(subgraph("body", inner))
        .with(int("num_scan_inputs", 1))
        .with(ints("scan_input_axes", &[1]))
        .with(ints("scan_output_axes", &[-1]));
    let mut g = graph(&[], vec![call], &["last", "all"]);
    g.input = vec![value("a", 1, &["n"]), value("xs", 1, &["n", "t"])];
    let g = checked(g).unwrap();
    assert_eq!((ty(&g, "last"), ty(&g, "all")), ("f32[n]".to_owned(), "f32[n, t]".to_owned()));
}

#[test]
fn a_known_condition_takes_one_branch() {
    let branch = |op: &str| graph(&[], vec![node(op, &["a"], &["r"])], &["r"]);
    let call = |condition: &str| {
        node("If", &[condition], &["y"])
            .with(subgraph("then_branch", branch("Shape")))
            .with(subgraph("else_branch", branch("Neg")))
    };
    let truth = TensorData::bools(&[], &[false]).unwrap();
    let g = checked(initializer(graph(&["a"], vec![call("no")], &["y"]), "no", &truth)).unwrap();
    assert_eq!(ty(&g, "y"), "f32[n]");
    let mut open = graph(&["a"], vec![call("p")], &["y"]);
    open.input.push(value("p", 9, &[]));
    assert_eq!(ty(&checked(open).unwrap(), "y"), "Some(Unknown)");
}

/// Each level examines the level below several times, so the work must be bounded.
#[test]
fn the_work_for_nested_loops_is_bounded() {
    let mut inner = vec![
        node("Identity", &["c"], &["go"]),
        node("Concat", &["state", "state"], &["next"]).with(int("axis", 0)),
    ];
    for _ in 0..40 {
        let inside = body(&[("i", &[]), ("c", &[]), ("state", &[])], inner, &["go", "next"]);
        inner = vec![
            node("Identity", &["c"], &["go"]),
            node("Loop", &["iterations", "", "state"], &["next"]).with(subgraph("body", inside)),
        ];
    }
    let start = std::time::Instant::now();
    let inside = body(&[("i", &[]), ("c", &[]), ("state", &[])], inner, &["go", "next"]);
    let call = node("Loop", &["iterations", "", "a"], &["y"]).with(subgraph("body", inside));
    let g = initializer(graph(&["a"], vec![call], &["y"]), "iterations", &TensorData::scalar(3i64));
    assert!(checked(g).is_ok());
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
