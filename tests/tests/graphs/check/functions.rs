//! Tests that the functions of a model are inlined.

use super::build::*;
use bb_ir::Error;
use bb_ir::check::CheckedModel;
use bb_ir::proto::attribute_proto::AttributeType as Kind;
use bb_ir::proto::{FunctionProto, GraphProto, ModelProto};

fn with(functions: Vec<FunctionProto>, graph: GraphProto) -> Result<CheckedModel, Error> {
    run(&ModelProto { functions, opset_import: vec![opset("", 20), opset("f", 1)], ..model(graph) })
}

#[test]
fn nodes_of_a_function_carry_its_own_opset_and_unique_names() {
    let f = function("F", &["a"], vec![node("Neg", &["a"], &["t"]), node("Abs", &["t"], &["r"])], &["r"]);
    let nodes = vec![call("F", &["x"], &["y"]), call("F", &["y"], &["z"])];
    let checked = with(vec![f], graph(&["x"], nodes, &["z"])).unwrap();
    let graph = &checked.graph;
    assert_eq!(ops(graph), ["Neg", "Abs", "Neg", "Abs"]);
    assert!(graph.nodes.iter().all(|n| n.opset == 18 && n.domain.is_empty()));
    let mut names: Vec<&str> = graph.values.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(graph.name_of(graph.outputs[0]), "z");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), graph.values.len());
    assert_eq!(checked.functions, ["f::F"]);
}

#[test]
fn attributes_are_given_defaulted_or_omitted() {
    let body = vec![
        node("Concat", &["a", "a"], &["t"]).with(reference("axis", "where", Kind::Int)),
        node("ReduceSum", &["t"], &["r"]).with(reference("keepdims", "keep", Kind::Int)),
    ];
    let mut f = function("F", &["a"], body, &["r"]);
    f.attribute = names(&["keep"]);
    f.attribute_proto = vec![int("where", 0)];
    let plain = call("F", &["x"], &["y"]);
    let g = with(vec![f.clone()], graph(&["x"], vec![plain.clone()], &["y"])).unwrap().graph;
    assert_eq!(g.nodes[0].attributes.int("axis").unwrap(), Some(0));
    assert_eq!(g.nodes[1].attributes.int("keepdims").unwrap(), None);
    let given = plain.clone().with(int("where", -1)).with(int("keep", 0));
    let g = with(vec![f.clone()], graph(&["x"], vec![given], &["y"])).unwrap().graph;
    assert_eq!(g.nodes[0].attributes.int("axis").unwrap(), Some(-1));
    assert_eq!(g.nodes[1].attributes.int("keepdims").unwrap(), Some(0));
    let other = plain.with(int("nonsense", 1));
    let error = with(vec![f], graph(&["x"], vec![other], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::UnknownAttribute { name } if name == "nonsense"));
}

#[test]
fn a_reference_outside_a_function_is_refused() {
    let bad = node("Concat", &["x"], &["y"]).with(reference("axis", "where", Kind::Int));
    let error = checked(graph(&["x"], vec![bad], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::OutsideFunction { .. }));
}

#[test]
fn a_function_that_returns_its_operand_becomes_identity() {
    let f = function("F", &["a"], vec![node("Neg", &["a"], &["t"])], &["a", "t", "t"]);
    let g = with(vec![f], graph(&["x"], vec![call("F", &["x"], &["p", "q", "r"])], &["p", "q", "r"]))
        .unwrap()
        .graph;
    assert_eq!(ops(&g), ["Neg", "Identity", "Identity"]);
    let outputs: Vec<&str> = g.outputs.iter().map(|&o| g.name_of(o)).collect();
    assert_eq!(outputs, ["p", "q", "r"]);
}

#[test]
fn operands_that_the_caller_omits_are_absent_inside() {
    let f = function("F", &["a", "low"], vec![node("Clip", &["a", "low"], &["r"])], &["r"]);
    let g = with(vec![f], graph(&["x"], vec![call("F", &["x"], &["y"])], &["y"])).unwrap().graph;
    assert_eq!(g.nodes[0].inputs.len(), 1);
}

#[test]
fn names_do_not_leak_into_functions() {
    let f = function("F", &["a"], vec![node("Add", &["a", "x"], &["r"])], &["r"]);
    let error = with(vec![f], graph(&["x"], vec![call("F", &["x"], &["y"])], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::MissingValue { value, .. } if value == "x"));
}

#[test]
fn overloads_are_distinguished() {
    let mut other = function("F", &["a"], vec![node("Abs", &["a"], &["r"])], &["r"]);
    other.overload = Some("abs".to_owned());
    let first = function("F", &["a"], vec![node("Neg", &["a"], &["r"])], &["r"]);
    let mut to_other = call("F", &["x"], &["y"]);
    to_other.overload = Some("abs".to_owned());
    let g = with(vec![first.clone(), other], graph(&["x"], vec![to_other], &["y"])).unwrap().graph;
    assert_eq!(ops(&g), ["Abs"]);
    let twice = with(vec![first.clone(), first], graph(&["x"], vec![], &["x"]));
    assert!(matches!(twice, Err(Error::DuplicateFunction { .. })));
}

#[test]
fn recursion_is_refused() {
    let mut f = function("F", &["a"], vec![call("G", &["a"], &["r"])], &["r"]);
    let mut g = function("G", &["a"], vec![call("F", &["a"], &["r"])], &["r"]);
    f.opset_import.push(opset("f", 1));
    g.opset_import.push(opset("f", 1));
    let error = with(vec![f, g], graph(&["x"], vec![call("F", &["x"], &["y"])], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::Recursion { function } if function == "f::F"));
}

/// Without a limit, forty functions that each call the next one twice would become 2^40 nodes.
#[test]
fn doubling_functions_end_at_the_limit() {
    let mut functions = vec![function("F0", &["a"], vec![node("Neg", &["a"], &["r"])], &["r"])];
    for i in 1..40 {
        let below = format!("F{}", i - 1);
        let body = vec![call(&below, &["a"], &["t"]), call(&below, &["t"], &["r"])];
        functions.push(function(&format!("F{i}"), &["a"], body, &["r"]));
    }
    let error = with(functions, graph(&["x"], vec![call("F39", &["x"], &["y"])], &["y"])).unwrap_err();
    assert!(matches!(cause(error), Error::Limit { .. }));
}
