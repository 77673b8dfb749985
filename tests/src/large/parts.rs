//! Many parts of a model: nodes, inputs, outputs, constants, functions, names.

use super::{
    call, chain, fan, floats, function, graph, link, listed, model, names, node, nodes_of, of_vector, opset,
    serialized, texts, vector, with, with_tensor,
};
use crate::model::value;
use bb::ir::proto::{
    AttributeProto, NodeProto, SparseTensorProto, StringStringEntryProto, attribute_proto::AttributeType,
};
use prost::Message;

listed! {
    nodes_in_a_chain: 1000,
    nodes_in_reverse: 1000,
    nodes_in_a_fan: 1000,
    nodes_unread: 1000,
    nodes_alike: 1000,
    nodes_invalid: 500,
    results_unread: 1000,
    inputs: 1000,
    inputs_unread: 2000,
    outputs: 1000,
    outputs_alike: 1000,
    initializers: 1000,
    initializers_unread: 2000,
    initializers_as_defaults: 1000,
    sparse_initializers: 500,
    elements: 500_000,
    strings: 10_000,
    metadata: 4000,
    metadata_of_nodes: 4000,
    imports: 4000,
    declared_values: 2000,
    long_names: 500,
    functions_unread: 2000,
    functions: 500,
    functions_nested: 30,
    calls: 1000,
    nodes_of_a_function: 1000,
    ports_of_a_function: 500,
    attributes_of_a_function: 500,
    attribute_ints: 100_000,
    attribute_floats: 100_000,
    attribute_strings: 10_000,
}

fn relu(input: &str, output: &str) -> Vec<NodeProto> {
    vec![node("Relu", &[input], &[output])]
}

fn nodes_in_a_chain(n: usize) -> Vec<u8> {
    of_vector(chain(n, |_, x, y| relu(x, y)), Vec::new())
}

fn nodes_in_reverse(n: usize) -> Vec<u8> {
    let mut nodes = chain(n, |_, x, y| relu(x, y));
    nodes.reverse();
    of_vector(nodes, Vec::new())
}

fn nodes_in_a_fan(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| vec![node("Add", &["x", &format!("c{i}")], &[y])];
    let constants = (0..n).map(|i| floats(&format!("c{i}"), &[2], &[i as f32, 1.0]));
    of_vector(fan(n, one), constants.collect())
}

fn nodes_unread(n: usize) -> Vec<u8> {
    let mut nodes = chain(1, |_, x, y| relu(x, y));
    nodes.extend((0..n).map(|i| node("Exp", &["x"], &[&format!("u{i}")])));
    of_vector(nodes, Vec::new())
}

fn nodes_alike(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        vec![node("Exp", &["x"], &[&format!("e{i}")]), node("Sqrt", &[&format!("e{i}")], &[y])]
    };
    of_vector(fan(n, one), Vec::new())
}

fn nodes_invalid(n: usize) -> Vec<u8> {
    of_vector(chain(n, |_, x, y| vec![node("NoOperator", &[x], &[y])]), Vec::new())
}

fn results_unread(n: usize) -> Vec<u8> {
    let list = value("x", 1, &[&n.to_string()]);
    let split = with(
        nodes_of("Split", ["x"], names("s", n)),
        AttributeProto { i: Some(n as i64), ..super::attribute("num_outputs", AttributeType::Int) },
    );
    serialized(graph(
        vec![split, node("Relu", &["s1"], &["y"])],
        vec![list],
        vec![value("y", 1, &["1"])],
        Vec::new(),
    ))
}

fn inputs(n: usize) -> Vec<u8> {
    let all = names("x", n);
    let nodes = vec![nodes_of("Sum", all.clone(), ["y"])];
    serialized(graph(nodes, all.iter().map(|x| vector(x)).collect(), vec![vector("y")], Vec::new()))
}

fn inputs_unread(n: usize) -> Vec<u8> {
    let all = names("x", n);
    let nodes = vec![node("Relu", &["x0"], &["y"])];
    serialized(graph(nodes, all.iter().map(|x| vector(x)).collect(), vec![vector("y")], Vec::new()))
}

fn outputs(n: usize) -> Vec<u8> {
    let nodes = (0..n).map(|i| node("Add", &["x", &format!("c{i}")], &[&format!("y{i}")])).collect();
    let constants = (0..n).map(|i| floats(&format!("c{i}"), &[2], &[i as f32, 1.0])).collect();
    let outputs = names("y", n).iter().map(|y| vector(y)).collect();
    serialized(graph(nodes, vec![vector("x")], outputs, constants))
}

fn outputs_alike(n: usize) -> Vec<u8> {
    let nodes = (0..n).map(|i| node("Relu", &["x"], &[&format!("y{i}")])).collect();
    let outputs = names("y", n).iter().map(|y| vector(y)).collect();
    serialized(graph(nodes, vec![vector("x")], outputs, Vec::new()))
}

fn initializers(n: usize) -> Vec<u8> {
    let all = names("c", n);
    let constants = all.iter().enumerate().map(|(i, c)| floats(c, &[2], &[i as f32, 1.0])).collect();
    let mut operands = vec!["x".to_owned()];
    operands.extend(all);
    of_vector(vec![nodes_of("Sum", operands, ["y"])], constants)
}

fn initializers_unread(n: usize) -> Vec<u8> {
    let constants = names("c", n).iter().map(|c| floats(c, &[2], &[0.0, 1.0])).collect();
    of_vector(chain(1, |_, x, y| relu(x, y)), constants)
}

fn initializers_as_defaults(n: usize) -> Vec<u8> {
    let all = names("c", n);
    let constants = all.iter().map(|c| floats(c, &[2], &[0.0, 1.0])).collect();
    let mut inputs = vec![vector("x")];
    inputs.extend(all.iter().map(|c| vector(c)));
    let mut operands = vec!["x".to_owned()];
    operands.extend(all);
    serialized(graph(vec![nodes_of("Sum", operands, ["y"])], inputs, vec![vector("y")], constants))
}

fn sparse_initializers(n: usize) -> Vec<u8> {
    let all = names("c", n);
    let sparse = all.iter().map(|c| SparseTensorProto {
        values: Some(floats(c, &[1], &[1.0])),
        indices: Some(super::ints("", &[1], &[1])),
        dims: vec![2],
    });
    let mut operands = vec!["x".to_owned()];
    operands.extend(all.iter().cloned());
    let mut graph =
        graph(vec![nodes_of("Sum", operands, ["y"])], vec![vector("x")], vec![vector("y")], Vec::new());
    graph.sparse_initializer = sparse.collect();
    serialized(graph)
}

fn elements(n: usize) -> Vec<u8> {
    let constant = floats("c", &[n as i64], &vec![1.0; n]);
    let nodes = vec![node("ReduceSum", &["c"], &["s"]), node("Add", &["x", "s"], &["y"])];
    of_vector(nodes, vec![constant])
}

fn strings(n: usize) -> Vec<u8> {
    let texts = texts("s", &names("text ", n));
    let nodes = vec![node("Identity", &["s"], &["t"]), node("Relu", &["x"], &["y"])];
    let outputs = vec![vector("y"), value("t", 8, &[&n.to_string()])];
    serialized(graph(nodes, vec![vector("x")], outputs, vec![texts]))
}

fn entries(n: usize) -> Vec<StringStringEntryProto> {
    let entry = |key| StringStringEntryProto { key: Some(key), value: Some("value".to_owned()) };
    names("key", n).into_iter().map(entry).collect()
}

fn metadata(n: usize) -> Vec<u8> {
    let mut model =
        model(graph(chain(1, |_, x, y| relu(x, y)), vec![vector("x")], vec![vector("y")], Vec::new()));
    model.metadata_props = entries(n);
    model.encode_to_vec()
}

fn metadata_of_nodes(n: usize) -> Vec<u8> {
    let mut nodes = chain(1, |_, x, y| relu(x, y));
    nodes.iter_mut().for_each(|node| node.metadata_props = entries(n));
    of_vector(nodes, Vec::new())
}

fn imports(n: usize) -> Vec<u8> {
    let mut model =
        model(graph(chain(1, |_, x, y| relu(x, y)), vec![vector("x")], vec![vector("y")], Vec::new()));
    model.opset_import.extend(names("domain", n).iter().map(|domain| opset(domain, 1)));
    model.encode_to_vec()
}

fn declared_values(n: usize) -> Vec<u8> {
    let mut graph = graph(chain(1, |_, x, y| relu(x, y)), vec![vector("x")], vec![vector("y")], Vec::new());
    graph.value_info = names("q", n).iter().map(|name| vector(name)).collect();
    serialized(graph)
}

fn long_names(n: usize) -> Vec<u8> {
    let long = |name: &str| if name == "x" { "x".to_owned() } else { format!("{name}{}", "-".repeat(1000)) };
    let mut nodes: Vec<NodeProto> =
        (0..n).map(|i| node("Relu", &[&long(&link(i))], &[&long(&link(i + 1))])).collect();
    nodes.push(node("Identity", &[&long(&link(n))], &["y"]));
    of_vector(nodes, Vec::new())
}

fn with_functions(nodes: Vec<NodeProto>, functions: Vec<bb::ir::proto::FunctionProto>) -> Vec<u8> {
    let mut model = model(graph(nodes, vec![vector("x")], vec![vector("y")], Vec::new()));
    model.functions = functions;
    model.encode_to_vec()
}

fn functions_unread(n: usize) -> Vec<u8> {
    let functions = names("f", n).iter().map(|name| function(name, relu("x", "y"))).collect();
    with_functions(chain(1, |_, x, y| relu(x, y)), functions)
}

fn functions(n: usize) -> Vec<u8> {
    let functions = names("f", n).iter().map(|name| function(name, relu("x", "y"))).collect();
    with_functions(chain(n, |i, x, y| vec![call(&format!("f{i}"), x, y)]), functions)
}

fn functions_nested(n: usize) -> Vec<u8> {
    let mut functions = vec![function("f0", chain(20, |_, x, y| relu(x, y)))];
    functions.extend((1..n).map(|i| {
        let mut nodes = chain(20, |_, x, y| relu(x, y));
        nodes.pop();
        nodes.push(call(&format!("f{}", i - 1), &link(20), "y"));
        function(&format!("f{i}"), nodes)
    }));
    with_functions(vec![call(&format!("f{}", n - 1), "x", "y")], functions)
}

fn calls(n: usize) -> Vec<u8> {
    let functions = vec![function("f", vec![node("Exp", &["x"], &["e"]), node("Sqrt", &["e"], &["y"])])];
    with_functions(chain(n, |_, x, y| vec![call("f", x, y)]), functions)
}

fn nodes_of_a_function(n: usize) -> Vec<u8> {
    with_functions(vec![call("f", "x", "y")], vec![function("f", chain(n, |_, x, y| relu(x, y)))])
}

fn ports_of_a_function(n: usize) -> Vec<u8> {
    let (inputs, outputs) = (names("i", n), names("o", n));
    let mut function =
        function("f", inputs.iter().zip(&outputs).map(|(i, o)| node("Relu", &[i], &[o])).collect());
    (function.input, function.output) = (inputs, outputs.clone());
    let call = NodeProto { domain: Some("own".to_owned()), ..nodes_of("f", vec!["x"; n], outputs.clone()) };
    with_functions(vec![call, nodes_of("Sum", outputs, ["y"])], vec![function])
}

fn attributes_of_a_function(n: usize) -> Vec<u8> {
    let all = names("a", n);
    let bound = |i: usize| AttributeProto {
        ref_attr_name: Some(format!("a{i}")),
        ..super::attribute("alpha", AttributeType::Float)
    };
    let mut function = function("f", chain(n, |i, x, y| vec![with(node("LeakyRelu", &[x], &[y]), bound(i))]));
    function.attribute = all.clone();
    let set = |name: &String| AttributeProto { f: Some(0.5), ..super::attribute(name, AttributeType::Float) };
    let mut call = call("f", "x", "y");
    call.attribute = all.iter().map(set).collect();
    with_functions(vec![call], vec![function])
}

fn attribute_ints(n: usize) -> Vec<u8> {
    let list = AttributeProto {
        ints: (0..n as i64).collect(),
        ..super::attribute("value_ints", AttributeType::Ints)
    };
    let nodes = vec![
        with(node("Constant", &[], &["c"]), list),
        node("ReduceMax", &["c"], &["m"]),
        node("CastLike", &["m", "x"], &["f"]),
        node("Add", &["x", "f"], &["y"]),
    ];
    of_vector(nodes, Vec::new())
}

fn attribute_floats(n: usize) -> Vec<u8> {
    let list =
        AttributeProto { floats: vec![1.0; n], ..super::attribute("value_floats", AttributeType::Floats) };
    let nodes = vec![
        with(node("Constant", &[], &["c"]), list),
        node("ReduceMax", &["c"], &["m"]),
        node("Add", &["x", "m"], &["y"]),
    ];
    of_vector(nodes, Vec::new())
}

fn attribute_strings(n: usize) -> Vec<u8> {
    let keys = AttributeProto {
        strings: names("key", n).into_iter().map(String::into_bytes).collect(),
        ..super::attribute("keys_strings", AttributeType::Strings)
    };
    let values =
        AttributeProto { floats: vec![1.0; n], ..super::attribute("values_floats", AttributeType::Floats) };
    let encoder = NodeProto {
        domain: Some("ai.onnx.ml".to_owned()),
        ..with(with(node("LabelEncoder", &["t"], &["y"]), keys), values)
    };
    let text = with_tensor(node("Constant", &[], &["t"]), "value", texts("", &names("key", 2)));
    of_vector(vec![text, encoder], Vec::new())
}
