//! Tests shapes that a graph computes from other shapes. The expected values were derived by hand.

use super::build::*;
use bb_ir::TensorData;
use bb_ir::proto::{GraphProto, NodeProto};

fn i64s(v: &[i64]) -> TensorData {
    TensorData::new(&[v.len()], v).unwrap()
}

/// Checks nodes that read an input `x` of these extents; the value `s` is `Shape(x)`.
fn followed(
    dims: &[&str],
    mut nodes: Vec<NodeProto>,
    constants: &[(&str, TensorData)],
) -> bb_ir::graph::Graph {
    nodes.insert(0, node("Shape", &["x"], &["s"]));
    let last = nodes.last().unwrap().output[0].clone();
    let mut g = GraphProto { output: vec![untyped(&last)], ..graph(&[], nodes, &[]) };
    g.input = vec![value("x", 1, dims)];
    for (name, data) in constants {
        g = initializer(g, name, data);
    }
    checked(g).unwrap()
}

/// A decoder's mask is as long as the cache and the new tokens together.
#[test]
fn sums_of_extents_are_extents() {
    let nodes = vec![
        node("Gather", &["s", "one"], &["n"]),
        node("Gather", &["s", "two"], &["m"]),
        node("Add", &["n", "m"], &["total"]),
        node("Mul", &["total", "two"], &["twice"]),
        node("Unsqueeze", &["total", "axes"], &["t1"]),
        node("Unsqueeze", &["twice", "axes"], &["t2"]),
        node("Concat", &["t1", "t2"], &["to"]).with(int("axis", 0)),
        node("ConstantOfShape", &["to"], &["y"]),
    ];
    let scalar = TensorData::scalar;
    let constants = [("one", scalar(1i64)), ("two", scalar(2i64)), ("axes", i64s(&[0]))];
    let g = followed(&["1", "past", "new"], nodes, &constants);
    assert_eq!(ty(&g, "y"), "f32[new + past, 2*new + 2*past]");
}

#[test]
fn ranges_and_slices_are_as_long_as_their_bounds_say() {
    let nodes = vec![
        node("Gather", &["s", "one"], &["n"]),
        node("Gather", &["s", "two"], &["m"]),
        node("Add", &["n", "m"], &["end"]),
        node("Range", &["n", "end", "one"], &["r"]),
        node("Unsqueeze", &["m", "axes"], &["m1"]),
        node("Slice", &["table", "axes", "m1", "axes"], &["rows"]),
        node("Slice", &["x", "ones", "most", "twos"], &["rest"]),
    ];
    let scalar = TensorData::scalar;
    let table = TensorData::new(&[512, 4], &[0f32; 2048]).unwrap();
    let constants = [
        ("one", scalar(1i64)),
        ("two", scalar(2i64)),
        ("axes", i64s(&[0])),
        ("ones", i64s(&[1])),
        ("twos", i64s(&[2])),
        ("most", i64s(&[i64::MAX])),
        ("table", table),
    ];
    let g = followed(&["1", "past", "new"], nodes, &constants);
    assert_eq!(ty(&g, "r"), "i64[new]");
    assert_eq!(ty(&g, "rows"), "f32[min(512, new), 4]");
    assert_eq!(ty(&g, "rest"), "f32[1, past, max(0, new - 1)]");
}

/// Exporters write "expand, but keep the extents given as -1" in this way.
#[test]
fn minus_one_is_not_taken_for_an_extent() {
    let nodes = vec![
        node("Concat", &["s", "minus"], &["wanted"]).with(int("axis", 0)),
        node("Equal", &["wanted", "minus"], &["is"]),
        node("Where", &["is", "one", "wanted"], &["to"]),
        node("Expand", &["small", "to"], &["y"]),
    ];
    let small = TensorData::new(&[1, 1, 7], &[0f32; 7]).unwrap();
    let constants = [("minus", i64s(&[-1])), ("one", i64s(&[1])), ("small", small)];
    let g = followed(&["n", "m"], nodes, &constants);
    assert_eq!(ty(&g, "y"), "f32[n, m, 7]");
}

/// Exporters write paddings, the last dimension first, in this way.
#[test]
fn lists_are_transposed_and_reversed() {
    let nodes = vec![
        node("Reshape", &["pairs", "by_two"], &["p"]),
        node("Slice", &["p", "last", "least", "axes", "last"], &["q"]),
        node("Transpose", &["q"], &["t"]).with(ints("perm", &[1, 0])),
        node("Reshape", &["t", "all"], &["flat"]),
        node("Cast", &["flat"], &["pads"]).with(int("to", 7)),
        node("Pad", &["x", "pads"], &["y"]),
    ];
    // The pairs are (before, after) of the last dimension, then of the first.
    let constants = [
        ("pairs", i64s(&[1, 2, 3, 4])),
        ("by_two", i64s(&[-1, 2])),
        ("last", i64s(&[-1])),
        ("least", i64s(&[i64::MIN])),
        ("axes", i64s(&[0])),
        ("all", i64s(&[-1])),
    ];
    let g = followed(&["n", "m"], nodes, &constants);
    assert_eq!(ty(&g, "y"), "f32[n + 7, m + 3]");
}

#[test]
fn quotients_and_products_of_extents_are_exact() {
    let nodes = vec![
        node("ReduceProd", &["s"], &["count"]).with(int("keepdims", 1)),
        node("Div", &["count", "heads"], &["part"]),
        node("Mod", &["count", "heads"], &["rest"]),
        node("Concat", &["heads", "part", "rest"], &["to"]).with(int("axis", 0)),
        node("ConstantOfShape", &["to"], &["y"]),
    ];
    let g = followed(&["n", "6"], nodes, &[("heads", i64s(&[4]))]);
    assert_eq!(ty(&g, "y"), "f32[4, floor((3*n)/2), 6*n - 4*floor((3*n)/2)]");
}

#[test]
fn an_inferred_expression_replaces_a_claimed_name() {
    let mut g = graph(&[], vec![node("Concat", &["x", "z"], &["y"]).with(int("axis", 0))], &[]);
    g.input = vec![value("x", 1, &["n"]), value("z", 1, &["m"])];
    g.output = vec![value("y", 1, &["total"])];
    let found = checked(g.clone()).unwrap();
    assert_eq!(ty(&found, "y"), "f32[m + n]");
    // A name of an input also gives way, because the claim is false unless `m` is 0.
    g.output = vec![value("y", 1, &["n"])];
    assert_eq!(ty(&checked(g).unwrap(), "y"), "f32[m + n]");
}
