//! Many subgraphs, and large ones.

use super::{
    chain, fan, floats, graph, ints, link, listed, names, node, nodes_of, of_vector, serialized, vector,
    with, with_graph,
};
use crate::model::{untyped, value};
use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto, attribute_proto::AttributeType};

listed! {
    ifs: 300,
    ifs_in_a_chain: 300,
    ifs_on_constants: 300,
    ifs_on_results: 300,
    ifs_on_host: 50,
    ifs_nested: 6,
    ifs_of_many_nodes: 500,
    ifs_of_many_results: 300,
    ifs_of_many_captures: 300,
    loops: 40,
    loops_in_a_fan: 40,
    loops_nested: 16,
    loops_of_many_nodes: 500,
    loops_of_many_carried: 100,
    loops_of_many_captures: 200,
    loops_of_many_scans: 100,
    loops_unrolled: 100,
    loops_of_iterations: 500,
    scans: 40,
    scans_of_many_inputs: 100,
    host_nodes_in_a_chain: 60,
    host_nodes_in_a_fan: 60,
    lists_of_graphs: 500,
}

fn sub(nodes: Vec<NodeProto>, inputs: Vec<ValueInfoProto>, outputs: &[&str]) -> GraphProto {
    graph(nodes, inputs, outputs.iter().map(|name| untyped(name)).collect(), Vec::new())
}

/// An `If` on a condition, with a branch for each of two operators on a value.
fn branches(condition: &str, x: &str, y: &str) -> NodeProto {
    let branch = |op: &str| sub(vec![node(op, &[x, x], &["t"])], Vec::new(), &["t"]);
    let holder = node("If", &[condition], &[y]);
    with_graph(with_graph(holder, "then_branch", branch("Add")), "else_branch", branch("Mul"))
}

/// A model from `x` and the condition `c` to `y`.
fn on_condition(nodes: Vec<NodeProto>) -> Vec<u8> {
    let inputs = vec![vector("x"), value("c", 9, &[])];
    serialized(graph(nodes, inputs, vec![vector("y")], Vec::new()))
}

fn ifs(n: usize) -> Vec<u8> {
    on_condition(fan(n, |_, y| vec![branches("c", "x", y)]))
}

fn ifs_in_a_chain(n: usize) -> Vec<u8> {
    on_condition(chain(n, |_, x, y| vec![branches("c", x, y)]))
}

fn ifs_on_constants(n: usize) -> Vec<u8> {
    let truth = super::bytes("c", 9, &[], &[1]);
    of_vector(chain(n, |_, x, y| vec![branches("c", x, y)]), vec![truth])
}

fn ifs_on_results(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (sum, truth) = (format!("s{i}"), format!("t{i}"));
        vec![
            with(node("ReduceMax", &[x], &[&sum]), super::int("keepdims", 0)),
            node("Greater", &[&sum, "zero"], &[&truth]),
            branches(&truth, x, y),
        ]
    };
    of_vector(chain(n, one), vec![floats("zero", &[], &[0.0])])
}

fn ifs_on_host(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| {
        let nodes = || {
            vec![
                node("NonZero", &[x], &["at"]),
                with(node("ReduceSum", &["at"], &["sum"]), super::int("keepdims", 0)),
                node("CastLike", &["sum", x], &["like"]),
                node("Add", &[x, "like"], &["t"]),
            ]
        };
        let holder = node("If", &["c"], &[y]);
        let holder = with_graph(holder, "then_branch", sub(nodes(), Vec::new(), &["t"]));
        vec![with_graph(holder, "else_branch", sub(nodes(), Vec::new(), &["t"]))]
    };
    on_condition(chain(n, one))
}

fn ifs_nested(n: usize) -> Vec<u8> {
    let few = || {
        let mut nodes = chain(10, |_, x, y| vec![node("Exp", &[x], &[y])]);
        nodes.pop();
        nodes
    };
    let mut inner = sub(few(), Vec::new(), &["v10"]);
    for i in 0..n {
        let name = format!("o{i}");
        let holder = with_graph(node("If", &["c"], &[&name]), "then_branch", inner);
        let other = sub(few(), Vec::new(), &["v10"]);
        inner = sub(vec![with_graph(holder, "else_branch", other)], Vec::new(), &[&name]);
    }
    let holder = with_graph(node("If", &["c"], &["y"]), "then_branch", inner.clone());
    on_condition(vec![with_graph(holder, "else_branch", inner)])
}

fn ifs_of_many_nodes(n: usize) -> Vec<u8> {
    let branch = |op: &str| sub(chain(n, |_, x, y| vec![node(op, &[x], &[y])]), Vec::new(), &["y"]);
    let holder = with_graph(node("If", &["c"], &["z"]), "then_branch", branch("Relu"));
    on_condition(vec![with_graph(holder, "else_branch", branch("Sqrt")), node("Identity", &["z"], &["y"])])
}

fn ifs_of_many_results(n: usize) -> Vec<u8> {
    let results = names("r", n);
    let list: Vec<&str> = results.iter().map(String::as_str).collect();
    let branch = |op: &str| sub(list.iter().map(|r| node(op, &["x"], &[r])).collect(), Vec::new(), &list);
    let holder = with_graph(nodes_of("If", ["c"], results.clone()), "then_branch", branch("Relu"));
    on_condition(vec![
        with_graph(holder, "else_branch", branch("Sqrt")),
        nodes_of("Sum", results.clone(), ["y"]),
    ])
}

fn ifs_of_many_captures(n: usize) -> Vec<u8> {
    let outer = names("a", n);
    let mut nodes: Vec<NodeProto> = outer.iter().map(|a| node("Relu", &["x"], &[a])).collect();
    let branch = |op: &str| sub(vec![nodes_of(op, outer.clone(), ["t"])], Vec::new(), &["t"]);
    let holder = with_graph(node("If", &["c"], &["y"]), "then_branch", branch("Sum"));
    nodes.push(with_graph(holder, "else_branch", branch("Max")));
    on_condition(nodes)
}

/// A body of a loop that carries values: `nodes` make `name_out` of each `name`.
fn body(nodes: Vec<NodeProto>, carried: &[String], scans: &[String]) -> GraphProto {
    let mut all = vec![node("Identity", &["go"], &["go_out"])];
    all.extend(nodes);
    let mut inputs = vec![value("i", 7, &[]), value("go", 9, &[])];
    inputs.extend(carried.iter().map(|name| vector(name)));
    let results: Vec<String> = carried.iter().map(|name| format!("{name}_out")).collect();
    let mut outputs = vec!["go_out"];
    outputs.extend(results.iter().map(String::as_str));
    outputs.extend(scans.iter().map(String::as_str));
    sub(all, inputs, &outputs)
}

fn carrying(nodes: Vec<NodeProto>) -> GraphProto {
    body(nodes, &["a".to_owned()], &[])
}

/// A model from `x` and the number of iterations `n` to `y`.
fn on_count(nodes: Vec<NodeProto>) -> Vec<u8> {
    let inputs = vec![vector("x"), value("n", 7, &[]), value("c", 9, &[])];
    serialized(graph(nodes, inputs, vec![value("y", 1, &["?"])], Vec::new()))
}

fn double() -> Vec<NodeProto> {
    vec![node("Add", &["a", "a"], &["a_out"])]
}

fn loops(n: usize) -> Vec<u8> {
    on_count(chain(n, |_, x, y| {
        vec![with_graph(node("Loop", &["n", "", x], &[y]), "body", carrying(double()))]
    }))
}

fn loops_in_a_fan(n: usize) -> Vec<u8> {
    on_count(fan(n, |_, y| vec![with_graph(node("Loop", &["n", "", "x"], &[y]), "body", carrying(double()))]))
}

fn loops_nested(n: usize) -> Vec<u8> {
    let mut inner = double();
    for _ in 0..n {
        inner = vec![with_graph(node("Loop", &["once", "", "a"], &["a_out"]), "body", carrying(inner))];
    }
    let holder = with_graph(node("Loop", &["n", "", "x"], &["y"]), "body", carrying(inner));
    let inputs = vec![vector("x"), value("n", 7, &[])];
    serialized(graph(vec![holder], inputs, vec![vector("y")], vec![ints("once", &[], &[1])]))
}

fn loops_of_many_nodes(n: usize) -> Vec<u8> {
    let mut nodes = chain(n, |i, x, y| vec![node("Exp", &[if i == 0 { "a" } else { x }], &[y])]);
    nodes.push(node("Identity", &["y"], &["a_out"]));
    on_count(vec![
        with_graph(node("Loop", &["n", "", "x"], &["z"]), "body", carrying(nodes)),
        node("Relu", &["z"], &["y"]),
    ])
}

fn loops_of_many_carried(n: usize) -> Vec<u8> {
    let all = names("a", n);
    let nodes = all.iter().map(|a| node("Exp", &[a], &[&format!("{a}_out")])).collect();
    let mut operands = vec!["n".to_owned(), String::new()];
    operands.extend(vec!["x".to_owned(); n]);
    let results = names("r", n);
    let holder = with_graph(nodes_of("Loop", operands, results.clone()), "body", body(nodes, &all, &[]));
    on_count(vec![holder, nodes_of("Sum", results, ["y"])])
}

fn loops_of_many_captures(n: usize) -> Vec<u8> {
    let outer = names("b", n);
    let mut nodes: Vec<NodeProto> = outer.iter().map(|b| node("Relu", &["x"], &[b])).collect();
    let mut operands = outer.clone();
    operands.push("a".to_owned());
    let inner = carrying(vec![nodes_of("Sum", operands, ["a_out"])]);
    nodes.push(with_graph(node("Loop", &["n", "", "x"], &["y"]), "body", inner));
    on_count(nodes)
}

fn loops_of_many_scans(n: usize) -> Vec<u8> {
    let scans = names("s", n);
    let mut nodes = double();
    nodes.extend(scans.iter().map(|s| node("Exp", &["a"], &[s])));
    let results = names("r", n + 1);
    let inner = body(nodes, &["a".to_owned()], &scans);
    let holder = with_graph(nodes_of("Loop", ["n", "", "x"], results.clone()), "body", inner);
    let sums = results.into_iter().skip(1);
    on_count(vec![
        holder,
        nodes_of("Sum", sums, ["z"]),
        with(node("ReduceSum", &["z"], &["y"]), super::int("keepdims", 0)),
    ])
}

fn loops_unrolled(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| {
        vec![with_graph(node("Loop", &["three", "", x], &[y]), "body", carrying(double()))]
    };
    of_vector(chain(n, one), vec![ints("three", &[], &[3])])
}

fn loops_of_iterations(n: usize) -> Vec<u8> {
    let holder = with_graph(node("Loop", &["count", "", "x"], &["y"]), "body", carrying(double()));
    of_vector(vec![holder], vec![ints("count", &[], &[n as i64])])
}

fn scanning(inputs: &[String], results: &[String]) -> GraphProto {
    let nodes = inputs.iter().zip(results).map(|(i, r)| node("Relu", &[i], &[r])).collect();
    let outputs: Vec<&str> = results.iter().map(String::as_str).collect();
    sub(nodes, inputs.iter().map(|i| value(i, 1, &[])).collect(), &outputs)
}

fn scans(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| {
        let holder = with(node("Scan", &[x], &[y]), super::int("num_scan_inputs", 1));
        vec![with_graph(holder, "body", scanning(&["i".to_owned()], &["r".to_owned()]))]
    };
    super::of_extents(chain(n, one), &["steps"], &["steps"], Vec::new())
}

fn scans_of_many_inputs(n: usize) -> Vec<u8> {
    let (inputs, results) = (names("i", n), names("r", n));
    let holder = with(nodes_of("Scan", vec!["x"; n], names("z", n)), super::int("num_scan_inputs", n as i64));
    let holder = with_graph(holder, "body", scanning(&inputs, &results));
    super::of_extents(vec![holder, nodes_of("Sum", names("z", n), ["y"])], &["steps"], &["steps"], Vec::new())
}

/// Nodes from a value to a number that only running gives.
fn counted(i: usize, x: &str, y: &str) -> Vec<NodeProto> {
    let (at, sum, like) = (format!("at{i}"), format!("sum{i}"), format!("like{i}"));
    vec![
        node("NonZero", &[x], &[&at]),
        with(node("ReduceSum", &[&at], &[&sum]), super::int("keepdims", 0)),
        node("CastLike", &[&sum, "x"], &[&like]),
        node("Add", &["x", &like], &[y]),
    ]
}

fn host_nodes_in_a_chain(n: usize) -> Vec<u8> {
    of_vector(chain(n, counted), Vec::new())
}

fn host_nodes_in_a_fan(n: usize) -> Vec<u8> {
    of_vector(fan(n, |i, y| counted(i, "x", y)), Vec::new())
}

/// The attribute must be one graph, so the model is refused.
fn lists_of_graphs(n: usize) -> Vec<u8> {
    let one = || sub(vec![node("Relu", &["x"], &["t"])], Vec::new(), &["t"]);
    let list = AttributeProto {
        graphs: (0..n).map(|_| one()).collect(),
        ..super::attribute("then_branch", AttributeType::Graphs)
    };
    on_condition(vec![with(node("If", &["c"], &["y"]), list), node("Relu", &[&link(0)], &["z"])])
}
