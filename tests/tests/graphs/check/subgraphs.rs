//! Tests control flow: captures, shadowing, and the requirements of operators on their subgraphs.

use super::build::*;
use bb_ir::graph::{Attribute, Graph};
use bb_ir::proto::{GraphProto, NodeProto};
use bb_ir::{Error, TensorData};

fn branch(nodes: Vec<NodeProto>, output: &str) -> GraphProto {
    graph(&[], nodes, &[output])
}

fn if_node(then: GraphProto, other: GraphProto) -> NodeProto {
    node("If", &["c"], &["y"]).with(subgraph("then_branch", then)).with(subgraph("else_branch", other))
}

fn with_condition(nodes: Vec<NodeProto>) -> GraphProto {
    let mut g = graph(&["x"], nodes, &["y"]);
    g.input.push(value("c", 9, &[]));
    g
}

fn subgraph_of<'g>(graph: &'g Graph, at: usize, name: &str) -> &'g Graph {
    match graph.nodes[at].attributes.get(name) {
        Some(Attribute::Graph(g)) => g,
        other => panic!("expected a graph, got {other:?}"),
    }
}

#[test]
fn outer_values_become_captures_of_every_graph_between() {
    let inner = if_node(
        branch(vec![node("Neg", &["x"], &["i"])], "i"),
        branch(vec![node("Abs", &["x"], &["i"])], "i"),
    );
    let middle = branch(vec![inner], "y");
    let outer = if_node(middle, branch(vec![node("Exp", &["x"], &["e"])], "e"));
    let graph = checked(with_condition(vec![outer])).unwrap();
    let middle = subgraph_of(&graph, 0, "then_branch");
    let inner = subgraph_of(middle, 0, "then_branch");
    // `c` and `x`, once per graph.
    assert_eq!(middle.captures.len(), 2);
    assert_eq!(inner.captures.len(), 1);
    let (outer, own) = inner.captures[0];
    assert_eq!((middle.name_of(outer), inner.name_of(own)), ("x", "x"));
    assert_eq!(ty(inner, "i"), "f32[n]");
}

#[test]
fn an_inner_name_hides_an_outer_one() {
    let inner = branch(vec![node("Neg", &["x"], &["z"]), node("Abs", &["z"], &["w"])], "w");
    let other = branch(vec![node("Exp", &["x"], &["w"])], "w");
    let nodes = vec![node("Exp", &["x"], &["z"]), if_node(inner, other)];
    let graph = checked(with_condition(nodes)).unwrap();
    let then = subgraph_of(&graph, 1, "then_branch");
    let captured: Vec<&str> = then.captures.iter().map(|c| then.name_of(c.1)).collect();
    assert_eq!(captured, ["x"]);
}

#[test]
fn a_subgraph_may_return_an_outer_value() {
    let graph = checked(with_condition(vec![if_node(branch(vec![], "x"), branch(vec![], "x"))])).unwrap();
    let then = subgraph_of(&graph, 0, "then_branch");
    assert_eq!(then.outputs[0], then.captures[0].1);
}

#[test]
fn a_branch_that_does_not_fit_may_never_run() {
    let mut transpose = node("Transpose", &["x"], &["t"]);
    transpose.attribute.push(ints("perm", &[1, 0]));
    let nodes = vec![if_node(branch(vec![transpose], "t"), branch(vec![node("Neg", &["x"], &["t"])], "t"))];
    assert!(checked(with_condition(nodes)).is_ok());
}

#[test]
fn both_branches_are_required_and_agree_in_number() {
    let one = node("If", &["c"], &["y"]).with(subgraph("then_branch", branch(vec![], "x")));
    let error = checked(with_condition(vec![one])).unwrap_err();
    assert!(matches!(cause(error), Error::MissingAttribute { name: "else_branch", .. }));
    let two = if_node(graph(&[], vec![], &["x", "x"]), branch(vec![], "x"));
    let error = checked(with_condition(vec![two])).unwrap_err();
    assert!(matches!(cause(error), Error::Subgraph { attribute: "then_branch", expected: 1, got: 2, .. }));
}

#[test]
fn loop_bodies_take_and_return_the_carried_values() {
    let body = |inputs: &[&str], outputs: &[&str]| {
        let mut g = graph(&[], vec![node("Neg", &["v"], &["w"])], outputs);
        g.input = inputs.iter().map(|i| untyped(i)).collect();
        g
    };
    let run = |body| {
        let node = node("Loop", &["", "c", "x"], &["y"]).with(subgraph("body", body));
        checked(with_condition(vec![node]))
    };
    assert!(run(body(&["i", "k", "v"], &["k", "w"])).is_ok());
    assert!(matches!(
        cause(run(body(&["i", "v"], &["i", "w"])).unwrap_err()),
        Error::Subgraph { expected: 3, got: 2, .. }
    ));
    assert!(matches!(cause(run(body(&["i", "k", "v"], &["k"])).unwrap_err()), Error::Subgraph { .. }));
}

/// The rule is a function of the crate that has the operators.
#[test]
fn searches_have_the_subgraphs_and_results_of_their_operator() {
    let decoder = |inputs: &[&str]| {
        let mut g = graph(&[], vec![node("Neg", &["i"], &["o"])], &["o"]);
        g.input = inputs.iter().map(|i| untyped(i)).collect();
        subgraph("decoder", g)
    };
    let search = |op: &str, outputs: &[&str]| NodeProto {
        domain: Some("com.microsoft".to_owned()),
        ..node(op, &["x", "c"], outputs)
    };
    let run = |node| checked(with_condition(vec![node]));
    let failure = |node| cause(run(node).unwrap_err());
    let searches: [(&str, &[&str]); 3] =
        [("GreedySearch", &["y", "s"]), ("Sampling", &["y"]), ("BeamSearch", &["y", "s", "t"])];
    for (op, outputs) in searches {
        assert!(run(search(op, outputs).with(decoder(&["i", "k"]))).is_ok(), "{op}");
        assert!(
            matches!(failure(search(op, outputs)), Error::MissingAttribute { name: "decoder", .. }),
            "{op}"
        );
        let error = failure(search(op, outputs).with(decoder(&["i"])));
        let few =
            matches!(error, Error::Subgraph { attribute: "decoder", what: "inputs", expected: 2, got: 1 });
        assert!(few, "{op}");
        let encodes = search(op, outputs).with(decoder(&["i", "k"])).with(int("model_type", 1));
        assert!(matches!(failure(encodes), Error::MissingAttribute { name: "encoder", .. }), "{op}");
    }
    let speech = search("WhisperBeamSearch", &["y"]).with(decoder(&["i", "k"]));
    assert!(matches!(failure(speech), Error::MissingAttribute { name: "encoder", .. }));
    let error = failure(search("GreedySearch", &["y", "s", "t"]).with(decoder(&["i", "k"])));
    assert!(matches!(error, Error::Count { what: "outputs", most: 2, got: 3, .. }));
}

#[test]
fn the_results_of_searches_have_the_types_of_their_rule() {
    let mut g = graph(&["x"], Vec::new(), &["y"]);
    let length = TensorData::new(&[1], &[7i32]).unwrap();
    let mut decoder = graph(&[], vec![node("Neg", &["i"], &["o"])], &["o"]);
    decoder.input = vec![value("i", 1, &["2"]), untyped("k")];
    g.node.push(NodeProto {
        domain: Some("com.microsoft".to_owned()),
        ..node("GreedySearch", &["x", "length"], &["y", "s"]).with(subgraph("decoder", decoder))
    });
    let graph = checked(initializer(g, "length", &length)).unwrap();
    assert_eq!((ty(&graph, "y"), ty(&graph, "s")), ("i32[n, 7]".to_owned(), "f32[n, ?]".to_owned()));
    // Nothing states that the search gives its decoder tensors of the declared extents.
    assert_eq!(ty(subgraph_of(&graph, 0, "decoder"), "o"), "Some(Tensor { dtype: F32, shape: None })");
}

/// ONNX Runtime 1.32 does so in files of IR versions 3 to 10.
#[test]
fn an_input_of_a_body_with_an_initializer_is_no_operand() {
    let w = TensorData::new(&[1], &[2f32]).unwrap();
    let nodes = || vec![node("Mul", &["v", "w"], &["p"])];
    for inputs in [&["i", "k", "v", "w"][..], &["w", "i", "k", "v"], &["i", "w", "k", "v"], &["i", "k", "v"]]
    {
        let mut body = initializer(graph(&[], nodes(), &["k", "p"]), "w", &w);
        body.input = inputs.iter().map(|i| untyped(i)).collect();
        let node = node("Loop", &["", "c", "x"], &["y"]).with(subgraph("body", body));
        let graph = checked(with_condition(vec![node])).unwrap();
        let body = subgraph_of(&graph, 0, "body");
        let names: Vec<&str> = body.inputs.iter().map(|id| body.name_of(*id)).collect();
        assert_eq!(names, ["i", "k", "v"], "{inputs:?}");
        assert_eq!(body.name_of(body.constants[0].0), "w");
        assert_eq!(ty(body, "w"), "f32[1]");
    }
    // Without an initializer it is an operand, which a branch does not take.
    let mut then = branch(vec![node("Neg", &["w"], &["t"])], "t");
    then.input.push(untyped("w"));
    let error = checked(with_condition(vec![if_node(then.clone(), branch(vec![], "x"))])).unwrap_err();
    assert!(matches!(cause(error), Error::Subgraph { what: "inputs", expected: 0, got: 1, .. }));
    let graph =
        checked(with_condition(vec![if_node(initializer(then, "w", &w), branch(vec![], "x"))])).unwrap();
    assert_eq!(subgraph_of(&graph, 0, "then_branch").inputs, []);
    // The outermost graph keeps its inputs.
    let graph =
        checked(initializer(super::build::graph(&["w"], vec![node("Neg", &["w"], &["y"])], &["y"]), "w", &w));
    assert_eq!(graph.unwrap().inputs.len(), 1);
}

#[test]
fn missing_values_in_subgraphs_are_named() {
    let nodes = vec![if_node(branch(vec![node("Neg", &["nowhere"], &["t"])], "t"), branch(vec![], "x"))];
    assert!(
        matches!(cause(checked(with_condition(nodes)).unwrap_err()), Error::MissingValue { value, .. } if value == "nowhere")
    );
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let mut inner = branch(vec![], "x");
    for _ in 0..500 {
        inner = branch(vec![if_node(inner, branch(vec![], "x"))], "y");
    }
    let nodes = vec![if_node(inner, branch(vec![], "x"))];
    assert!(matches!(cause(checked(with_condition(nodes)).unwrap_err()), Error::Limit { .. }));
}
