//! Shapes that a graph computes are followed through the operators that compute them. Expected: by hand.

use crate::build::*;
use bb_ir::TensorData;
use bb_ir::proto::{GraphProto, NodeProto};

fn i64s(v: &[i64]) -> TensorData {
    TensorData::new(&[v.len()], v).unwrap()
}

/// Checks nodes over an input `x` of these extents; `Shape(x)` is the value `s`.
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

/// The way a decoder makes its mask: as long as what is cached and what is new.
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

/// The way exporters write "expand, and keep what is -1".
#[test]
fn what_is_no_extent_is_told_from_what_is() {
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

/// The way exporters write paddings, last dimension first.
#[test]
fn lists_are_turned_and_reversed() {
    let nodes = vec![
        node("Reshape", &["pairs", "by_two"], &["p"]),
        node("Slice", &["p", "last", "least", "axes", "last"], &["q"]),
        node("Transpose", &["q"], &["t"]).with(ints("perm", &[1, 0])),
        node("Reshape", &["t", "all"], &["flat"]),
        node("Cast", &["flat"], &["pads"]).with(int("to", 7)),
        node("Pad", &["x", "pads"], &["y"]),
    ];
    // (before, after) of the last dimension, then of the first.
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
fn a_name_for_what_follows_from_the_inputs_gives_way() {
    let mut g = graph(&[], vec![node("Concat", &["x", "z"], &["y"]).with(int("axis", 0))], &[]);
    g.input = vec![value("x", 1, &["n"]), value("z", 1, &["m"])];
    g.output = vec![value("y", 1, &["total"])];
    let found = checked(g.clone()).unwrap();
    assert_eq!(ty(&found, "y"), "f32[m + n]");
    // So does one that inputs have: the claim is false unless `m` is 0.
    g.output = vec![value("y", 1, &["n"])];
    assert_eq!(ty(&checked(g).unwrap(), "y"), "f32[m + n]");
}
