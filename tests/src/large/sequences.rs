//! Many sequences, optionals and strings.

use super::{
    attribute, chain, fan, graph, int, ints, listed, names, node, nodes_of, of_vector, serialized, texts,
    vector, with, with_graph, with_tensor,
};
use crate::model::{untyped, value};
use bb::ir::proto::{AttributeProto, attribute_proto::AttributeType};

listed! {
    sequence_items: 500,
    sequence_insertions: 200,
    sequence_reads: 300,
    sequence_splits: 300,
    sequence_maps: 60,
    optionals: 200,
    string_joins: 60,
    string_constants: 1000,
    string_attributes: 1000,
    label_encoders: 60,
}

fn joined(sequence: &str, y: &str) -> bb::ir::proto::NodeProto {
    with(with(node("ConcatFromSequence", &[sequence], &[y]), int("axis", 0)), int("new_axis", 0))
}

fn sequence_items(n: usize) -> Vec<u8> {
    let mut nodes: Vec<_> = names("p", n).iter().map(|p| node("Relu", &["x"], &[p])).collect();
    nodes.push(nodes_of("SequenceConstruct", names("p", n), ["q"]));
    nodes.push(joined("q", "y"));
    serialized(graph(nodes, vec![vector("x")], vec![value("y", 1, &["?"])], Vec::new()))
}

fn sequence_insertions(n: usize) -> Vec<u8> {
    let mut nodes = vec![node("SequenceEmpty", &[], &["q0"])];
    nodes.extend((0..n).map(|i| node("SequenceInsert", &[&format!("q{i}"), "x"], &[&format!("q{}", i + 1)])));
    nodes.push(joined(&format!("q{n}"), "y"));
    serialized(graph(nodes, vec![vector("x")], vec![value("y", 1, &["?"])], Vec::new()))
}

fn sequence_reads(n: usize) -> Vec<u8> {
    let mut nodes: Vec<_> = vec![nodes_of("SequenceConstruct", vec!["x"; n], ["q"])];
    nodes.extend(fan(n, |i, y| vec![node("SequenceAt", &["q", &format!("at{i}")], &[y])]));
    of_vector(nodes, (0..n).map(|i| ints(&format!("at{i}"), &[], &[i as i64])).collect())
}

fn sequence_splits(n: usize) -> Vec<u8> {
    let nodes = vec![with(node("SplitToSequence", &["x"], &["q"]), int("axis", 0)), joined("q", "y")];
    super::of_extents(nodes, &[&n.to_string()], &["?"], Vec::new())
}

fn sequence_maps(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| {
        let body =
            graph(vec![node("Exp", &["i"], &["o"])], vec![untyped("i")], vec![untyped("o")], Vec::new());
        vec![with_graph(node("SequenceMap", &[if x == "x" { "q" } else { x }], &[y]), "body", body)]
    };
    let mut nodes = vec![node("SequenceConstruct", &["x", "x"], &["q"])];
    nodes.extend(chain(n, one));
    nodes.pop();
    nodes.push(joined(&format!("v{n}"), "y"));
    serialized(graph(nodes, vec![vector("x")], vec![value("y", 1, &["?"])], Vec::new()))
}

fn optionals(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let optional = format!("o{i}");
        vec![node("Optional", &[x], &[&optional]), node("OptionalGetElement", &[&optional], &[y])]
    };
    of_vector(chain(n, one), Vec::new())
}

fn string_joins(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("StringConcat", &[x, "empty"], &[y])];
    let empty = texts("empty", &[String::new()]);
    let inputs = vec![value("x", 8, &["d"])];
    serialized(graph(chain(n, one), inputs, vec![value("y", 8, &["d"])], vec![empty]))
}

fn string_constants(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        let (text, same) = (format!("t{i}"), format!("s{i}"));
        vec![
            with_tensor(node("Constant", &[], &[&text]), "value", texts("", &[format!("text {i}")])),
            node("Equal", &[&text, &text], &[&same]),
            with(node("Cast", &[&same], &[y]), int("to", 1)),
        ]
    };
    let mut nodes = fan(n, one);
    if let Some(sum) = nodes.last_mut() {
        sum.input.push("x".to_owned());
    }
    of_vector(nodes, Vec::new())
}

fn string_attributes(n: usize) -> Vec<u8> {
    let list = AttributeProto {
        strings: names("text ", n).into_iter().map(String::into_bytes).collect(),
        ..attribute("value_strings", AttributeType::Strings)
    };
    let nodes = vec![
        with(node("Constant", &[], &["t"]), list),
        node("Shape", &["t"], &["s"]),
        with(node("Cast", &["s"], &["f"]), int("to", 1)),
        node("Add", &["x", "f"], &["y"]),
    ];
    of_vector(nodes, Vec::new())
}

fn label_encoders(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| {
        let keys =
            AttributeProto { floats: vec![0.0, 1.0], ..attribute("keys_floats", AttributeType::Floats) };
        let values =
            AttributeProto { floats: vec![1.0, 0.0], ..attribute("values_floats", AttributeType::Floats) };
        let mut encoder = with(with(node("LabelEncoder", &[x], &[y]), keys), values);
        encoder.domain = Some("ai.onnx.ml".to_owned());
        vec![encoder]
    };
    of_vector(chain(n, one), Vec::new())
}
