//! Tests claims of models about their values that are false. The expected values follow from ONNX's
//! definitions.

use super::build::*;
use bb_ir::graph::{Attribute, Graph, Warning};
use bb_ir::proto::ModelProto;
use bb_ir::{Error, TensorData};

fn known(graph: &Graph, name: &str) -> String {
    graph.values.iter().find(|v| v.name == name).unwrap().ty.to_string()
}

fn named(graph: &Graph, name: &str) -> String {
    graph.values.iter().find(|v| v.name == name).unwrap().named().to_string()
}

fn told(graph: &Graph) -> Vec<String> {
    graph.warnings().iter().map(Warning::to_string).collect()
}

/// Makes a node of an unknown domain.
fn foreign(inputs: &[&str], outputs: &[&str]) -> bb_ir::proto::NodeProto {
    bb_ir::proto::NodeProto { domain: Some("com.example".to_owned()), ..node("Opaque", inputs, outputs) }
}

fn with_foreign(graph: bb_ir::proto::GraphProto) -> Graph {
    let opset_import = vec![opset("", 20), opset("com.example", 1)];
    run(&ModelProto { opset_import, ..model(graph) }).unwrap().graph
}

#[test]
fn a_wrong_shape_is_reported_and_not_used() {
    let nodes = vec![node("Concat", &["x", "x"], &["y"]).with(int("axis", 0)), node("Neg", &["y"], &["z"])];
    let mut g = graph(&[], nodes, &[]);
    g.input = vec![value("x", 1, &["2", "n"])];
    g.value_info = vec![value("y", 1, &["3", "n"])];
    g.output = vec![value("z", 1, &["4", "3", "7"])];
    let g = checked(g).unwrap();
    assert_eq!((known(&g, "y"), known(&g, "z")), ("f32[4, n]".to_owned(), "f32[4, n]".to_owned()));
    assert_eq!(named(&g, "z"), "f32[4, n]");
    assert_eq!(
        told(&g),
        [
            "value `y` is declared as f32[3, n], but is f32[4, n]; the declaration is not used",
            "value `z` is declared as f32[4, 3, 7], but is f32[4, n]; the declaration is not used",
        ]
    );
}

#[test]
fn unproved_claims_are_not_trusted() {
    let nodes = vec![
        foreign(&["x"], &["y"]),
        node("Neg", &["y"], &["z"]),
        node("NonZero", &["x"], &["found"]),
        node("Concat", &["found", "found"], &["twice"]).with(int("axis", 1)),
    ];
    let mut g = graph(&["x"], nodes, &[]);
    g.value_info = vec![value("y", 1, &["3"]), value("found", 7, &["1", "5"])];
    g.output = vec![value("z", 1, &["3"]), value("twice", 7, &["k", "m"])];
    let g = with_foreign(g);
    assert_eq!((known(&g, "y"), known(&g, "z")), ("f32".to_owned(), "f32".to_owned()));
    assert_eq!((known(&g, "found"), known(&g, "twice")), ("i64[1, ?]".to_owned(), "i64[1, ?]".to_owned()));
    // A claimed name is kept for display, but a claimed number is not.
    assert_eq!((named(&g, "z"), named(&g, "twice")), ("f32".to_owned(), "i64[1, m]".to_owned()));
    assert_eq!(told(&g), [""; 0]);
}

#[test]
fn contradictory_claims_are_reported() {
    let mut g = graph(&["x"], vec![foreign(&["x"], &["y"])], &[]);
    g.value_info = vec![value("y", 1, &["3"])];
    g.output = vec![value("y", 1, &["4"])];
    let g = with_foreign(g);
    assert_eq!(told(&g), ["value `y` is declared as f32[3] and as f32[4]; neither is used"]);
}

#[test]
fn claims_about_inputs_and_constants_are_reported() {
    let mut g = graph(&[], vec![node("Add", &["x", "w"], &["y"])], &["y"]);
    g.input = vec![value("x", 1, &["2"])];
    g.value_info = vec![value("x", 1, &["3"]), value("w", 1, &["4"])];
    let g = checked(initializer(g, "w", &TensorData::new(&[2], &[1f32, 2.]).unwrap())).unwrap();
    assert_eq!(known(&g, "y"), "f32[2]");
    assert_eq!(g.warnings().len(), 2);
}

#[test]
fn a_default_does_not_fix_the_extents_of_its_input() {
    let mut g = graph(&["x"], vec![node("Neg", &["x"], &["y"])], &["y"]);
    let three = TensorData::new(&[3], &[1f32; 3]).unwrap();
    let open = checked(initializer(g.clone(), "x", &three)).unwrap();
    assert_eq!((known(&open, "x"), known(&open, "y")), ("f32[n]".to_owned(), "f32[n]".to_owned()));
    g.input = vec![untyped("x")];
    let untyped = checked(initializer(g.clone(), "x", &three)).unwrap();
    assert_eq!(known(&untyped, "x"), "f32");
    g.input = vec![value("x", 1, &["2"])];
    assert!(matches!(checked(initializer(g, "x", &three)), Err(Error::Type { value, .. }) if value == "x"));
}

#[test]
fn declared_shapes_of_loop_carried_values_are_not_trusted() {
    // The state grows by 1 in each iteration, whatever the body declares.
    let mut inner = graph(&[], vec![], &["go", "next"]);
    inner.input = vec![value("i", 7, &[]), value("go", 9, &[]), value("state", 1, &["1"])];
    inner.node = vec![node("Concat", &["state", "one"], &["next"]).with(int("axis", 0))];
    inner.output = vec![value("go", 9, &[]), value("next", 1, &["1"])];
    let call = node("Loop", &["", "", "a"], &["last"]).with(subgraph("body", inner));
    let mut g = graph(&[], vec![call], &[]);
    g.input = vec![value("a", 1, &["1"])];
    g.output = vec![value("last", 1, &["1"])];
    let g = checked(initializer(g, "one", &TensorData::new(&[1], &[1f32]).unwrap())).unwrap();
    assert_eq!(known(&g, "last"), "f32[?]");
    let Some(Attribute::Graph(body)) = g.nodes[0].attributes.get("body") else { panic!("a body") };
    assert_eq!((known(body, "state"), known(body, "next")), ("f32[?]".to_owned(), "f32[?]".to_owned()));
}

#[test]
fn wrong_claims_in_subgraphs_are_reported() {
    let mut then = graph(&[], vec![node("Neg", &["x"], &["t"])], &[]);
    then.output = vec![value("t", 1, &["5"])];
    let other = graph(&[], vec![node("Abs", &["x"], &["e"])], &["e"]);
    let call =
        node("If", &["c"], &["y"]).with(subgraph("then_branch", then)).with(subgraph("else_branch", other));
    let mut g = graph(&[], vec![call], &["y"]);
    g.input = vec![value("x", 1, &["2"]), value("c", 9, &[])];
    let g = checked(g).unwrap();
    assert_eq!(known(&g, "y"), "f32[2]");
    assert_eq!(told(&g), ["value `t` is declared as f32[5], but is f32[2]; the declaration is not used"]);
}

#[test]
fn claims_of_functions_about_operands_do_not_declare_inputs() {
    let mut f = function("F", &["a"], vec![node("Neg", &["a"], &["r"])], &["r"]);
    f.value_info = vec![value("a", 1, &["7"]), value("r", 1, &["7"])];
    let g = graph(&["x"], vec![call("F", &["x"], &["y"])], &["y"]);
    let opset_import = vec![opset("", 20), opset("f", 1)];
    let checked = run(&ModelProto { functions: vec![f], opset_import, ..model(g) }).unwrap().graph;
    assert_eq!((known(&checked, "x"), known(&checked, "y")), ("f32[n]".to_owned(), "f32[n]".to_owned()));
}

#[test]
fn parts_of_a_graph_declare_the_known_types_of_their_inputs() {
    let mut g = graph(&["x"], vec![foreign(&["x"], &["y"]), node("Neg", &["y"], &["z"])], &[]);
    g.value_info = vec![value("y", 1, &["3"])];
    g.output = vec![value("z", 1, &["3"])];
    let g = with_foreign(g);
    let y = g.nodes[1].inputs[0].unwrap();
    let part = g.part(&[1], &[y], &g.outputs);
    assert_eq!(known(&part, "y"), "f32");
    let opset_import = part.opsets().unwrap();
    let again = run(&ModelProto { opset_import, ..model(part.to_proto().unwrap()) }).unwrap().graph;
    assert_eq!(known(&again, "y"), "f32");
}
