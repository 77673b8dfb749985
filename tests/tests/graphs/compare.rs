//! Tests that the first node that differs between two backends is found, also inside subgraphs.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::conformance::onnx::Tolerance;
use bb::conformance::{NodeComparison, compare_nodes};
use bb::ir::proto::{AttributeProto, NodeProto, attribute_proto::AttributeType};
use bb::onnx::OnnxValue;
use bb::{Backend, Module, Primitive, Runtime, TensorData};
use bb_reference::Reference;
use bb_tests::backends;
use bb_tests::model::{model, named, node, with_graph, with_int};
use bb_tests::tampered::Tampered;
use std::sync::Arc;

fn compared(on: &Arc<Runtime>) -> Vec<(String, bool)> {
    let nodes = vec![
        node("Neg", &["x"], &["a"]),
        node("Abs", &["a"], &["b"]),
        node("Exp", &["b"], &["c"]),
        node("Add", &["c", "x"], &["y"]),
    ];
    let bytes = model(&[("x", &[2])], nodes, &[("y", &[2])]);
    let module = Module::from_bytes(bytes).unwrap();
    let inputs = [Some(OnnxValue::Tensor(TensorData::new(&[2], &[1f32, -2.0]).unwrap()))];
    let right = backends::start("reference").unwrap();
    let results = compare_nodes(&module, &inputs, &[&right, on], Tolerance::default()).unwrap();
    for result in &results {
        let [OnnxValue::Tensor(_), OnnxValue::Tensor(_)] = result.made.as_slice() else { panic!("tensors") };
    }
    results.into_iter().map(|r| (r.value.clone(), r.differs())).collect()
}

#[test]
fn a_wrong_operation_is_the_first_that_differs() {
    // The backend computes logarithms instead of exponentials.
    let wrong = Tampered(|op, inputs, _| match (op, inputs) {
        (Primitive::Exp, [Some(x)]) => Some(Reference.log(x).map(|y| [y].into_iter().collect())),
        _ => None,
    });
    let wrong: Arc<Runtime> = Runtime::named("wrong", wrong);
    let results = compared(&wrong);
    assert_eq!(results.iter().map(|r| r.0.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "y"]);
    assert_eq!(results.iter().position(|r| r.1), Some(2));
    assert!(results[3].1, "what follows differs too");
}

#[test]
fn right_backends_agree_on_every_value() {
    for name in backends::NAMES {
        assert!(compared(&backends::start(name).unwrap()).iter().all(|r| !r.1), "{name}");
    }
}

/// Three iterations of `state = exp(|state|) - x`, where `x` belongs to the surrounding graph.
fn looping(state: &str, result: &str) -> NodeProto {
    let body = vec![
        node("Identity", &["go"], &["on"]),
        node("Abs", &["s"], &["b"]),
        named("exp_3", node("Exp", &["b"], &["e"])),
        node("Sub", &["e", "x"], &["next"]),
    ];
    let holder = named("loop_1", node("Loop", &["trips", "", state], &[result]));
    with_graph(holder, "body", &["i", "go", "s"], body, &["on", "next"])
}

/// Compares a model of `x = [0.1, -0.2]` on the reference backend and on a backend whose exponential of a
/// number above 1 is the number itself.
fn compared_with_wrong_exponential(nodes: Vec<NodeProto>) -> Vec<NodeComparison> {
    let mut all = vec![with_int(node("Constant", &[], &["trips"]), "value_int", 3)];
    all.extend(nodes);
    let bytes = model(&[("x", &[2])], all, &[("y", &[2])]);
    let module = Module::from_bytes(bytes).unwrap();
    let wrong = Tampered(|op, inputs, _| match (op, inputs) {
        (Primitive::Exp, [Some(x)]) => {
            let host = Reference.to_host(x).unwrap();
            let large = host.as_slice::<f32>().is_ok_and(|x| x.iter().any(|x| *x > 1.0));
            large.then(|| Reference.identity(x).map(|y| [y].into_iter().collect()))
        }
        _ => None,
    });
    let wrong: Arc<Runtime> = Runtime::named("wrong", wrong);
    let right = backends::start("reference").unwrap();
    let inputs = [Some(OnnxValue::Tensor(TensorData::new(&[2], &[0.1f32, -0.2]).unwrap()))];
    compare_nodes(&module, &inputs, &[&right, &wrong], Tolerance::default()).unwrap()
}

fn first_difference(results: &[NodeComparison]) -> (&str, &[usize], String) {
    let first = results.iter().find(|r| r.differs()).unwrap();
    (&first.node, &first.iterations, first.differing().next().unwrap().1.to_string())
}

/// Iteration 0 uses |-x|, which is below 1. Iteration 1 uses exp(0.1) - 0.1 and exp(0.2) + 0.2.
const IN_ITERATION_1: [f64; 2] = [1.005_170_9, 1.421_402_8];

fn assert_element_0(difference: &str) {
    let rest = difference.strip_prefix("element 0: expected ").unwrap();
    let (expected, rest) = rest.split_once(", got ").unwrap();
    let got = rest.split_once(';').unwrap().0;
    let near = |text: &str, number: f64| (text.parse::<f64>().unwrap() - number).abs() < 1e-4;
    assert!(near(expected, IN_ITERATION_1[0].exp()) && near(got, IN_ITERATION_1[0]), "{difference}");
}

#[test]
fn an_error_inside_a_body_is_found_in_its_iteration() {
    let results = compared_with_wrong_exponential(vec![node("Neg", &["x"], &["a"]), looping("a", "y")]);
    let (node, iterations, difference) = first_difference(&results);
    assert_eq!((node, iterations), ("loop_1/body/exp_3", &[1][..]));
    assert_element_0(&difference);
    // It is preceded by the constant, Neg, four nodes of iteration 0 and two of iteration 1.
    assert_eq!(results.iter().position(NodeComparison::differs), Some(8));
    // The loop itself follows its three iterations.
    assert_eq!(results.len(), 2 + 3 * 4 + 1);
    assert_eq!(results.last().map(|r| (r.node.as_str(), r.iterations.len())), Some(("loop_1", 0)));
}

#[test]
fn an_error_is_found_below_branches_and_loops() {
    let inner = vec![looping("s", "t")];
    let scan = named("scan_2", node("Scan", &["parts"], &["y"]));
    let scan = with_graph(with_int(scan, "num_scan_inputs", 1), "body", &["s"], inner, &["t"]);
    let then = vec![scan];
    let other = vec![node("Identity", &["x"], &["y"])];
    let branches =
        with_graph(named("if_3", node("If", &["there"], &["all"])), "then_branch", &[], then, &["y"]);
    let branches = with_graph(branches, "else_branch", &[], other, &["y"]);
    let nodes = vec![
        node("Concat", &["x", "x"], &["twice"]),
        node("Reshape", &["twice", "pair"], &["parts"]),
        node("ReduceMax", &["x"], &["most"]),
        with_int(node("Cast", &["most"], &["there"]), "to", 9),
        branches,
        node("ReduceSum", &["all"], &["y"]),
    ];
    let mut nodes = nodes;
    nodes[0] = with_int(nodes[0].clone(), "axis", 0);
    let pair = AttributeProto {
        name: Some("value_ints".to_owned()),
        r#type: Some(AttributeType::Ints as i32),
        ints: vec![2, 2],
        ..AttributeProto::default()
    };
    let mut shape = node("Constant", &[], &["pair"]);
    shape.attribute.push(pair);
    nodes.insert(0, shape);
    let results = compared_with_wrong_exponential(nodes);
    let (node, iterations, difference) = first_difference(&results);
    assert_eq!((node, iterations), ("if_3/then_branch/scan_2/body/loop_1/body/exp_3", &[0, 1][..]));
    assert_element_0(&difference);
}
