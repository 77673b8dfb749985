//! Tests types that are inferred before inputs are given. The expected values follow from ONNX's rules.

use super::build::*;
use bb_ir::proto::GraphProto;
use bb_ir::{Error, TensorData};

fn input(dims: &[&str]) -> GraphProto {
    let mut g = graph(&[], vec![], &[]);
    g.input = vec![value("x", 1, dims)];
    g
}

fn with(mut g: GraphProto, nodes: Vec<bb_ir::proto::NodeProto>, output: &str) -> GraphProto {
    g.node = nodes;
    g.output = vec![untyped(output)];
    g
}

fn i64s(v: &[i64]) -> TensorData {
    TensorData::new(&[v.len()], v).unwrap()
}

#[test]
fn symbolic_dimensions_survive() {
    let w = TensorData::new(&[3, 4], &[0f32; 12]).unwrap();
    let nodes = vec![
        node("MatMul", &["x", "w"], &["m"]),
        node("Transpose", &["m"], &["t"]),
        node("ReduceSum", &["t"], &["r"]).with(int("keepdims", 0)),
        node("Greater", &["m", "m"], &["g"]),
        node("Cast", &["m"], &["k"]).with(int("to", 7)),
    ];
    let g = checked(initializer(with(input(&["batch", "3"]), nodes, "k"), "w", &w)).unwrap();
    assert_eq!(ty(&g, "m"), "f32[batch, 4]");
    assert_eq!(ty(&g, "t"), "f32[4, batch]");
    assert_eq!(ty(&g, "r"), "f32[]");
    assert_eq!(ty(&g, "g"), "bool[batch, 4]");
    assert_eq!(ty(&g, "k"), "i64[batch, 4]");
}

/// Exporters write "flatten all but the first dimension" in this way.
#[test]
fn shapes_computed_from_shapes_are_followed() {
    let nodes = vec![
        node("Shape", &["x"], &["s"]),
        node("Gather", &["s", "zero"], &["b"]),
        node("Unsqueeze", &["b", "axes"], &["b1"]),
        node("Concat", &["b1", "rest"], &["to"]).with(int("axis", 0)),
        node("Reshape", &["x", "to"], &["y"]),
    ];
    let g = with(input(&["n", "4", "5"]), nodes, "y");
    let g = initializer(g, "zero", &TensorData::scalar(0i64));
    let g = initializer(initializer(g, "axes", &i64s(&[0])), "rest", &i64s(&[-1]));
    let g = checked(g).unwrap();
    assert_eq!(ty(&g, "s"), "i64[3]");
    assert_eq!(ty(&g, "y"), "f32[n, 20]");
}

#[test]
fn slices_and_splits_compute_known_extents() {
    let nodes = vec![
        node("Slice", &["x", "from", "to", "axes"], &["s"]),
        node("Split", &["x"], &["p", "q"]).with(int("axis", 1)).with(int("num_outputs", 2)),
        node("Concat", &["p", "q"], &["c"]).with(int("axis", -1)),
        node("Gather", &["x", "from"], &["g"]),
    ];
    let g = with(input(&["n", "5"]), nodes, "c");
    let g = initializer(g, "from", &i64s(&[0, 1]));
    let g = initializer(g, "to", &i64s(&[i64::MAX, -1]));
    let g = checked(initializer(g, "axes", &i64s(&[0, 1]))).unwrap();
    assert_eq!(ty(&g, "s"), "f32[n, 3]");
    assert_eq!((ty(&g, "p"), ty(&g, "q")), ("f32[n, 3]".to_owned(), "f32[n, 2]".to_owned()));
    assert_eq!(ty(&g, "c"), "f32[n, 5]");
    assert_eq!(ty(&g, "g"), "f32[2, 5]");
}

#[test]
fn shapes_that_can_never_fit_are_refused() {
    let add = vec![node("Add", &["x", "w"], &["y"])];
    let w = TensorData::new(&[3], &[0f32; 3]).unwrap();
    let error = checked(initializer(with(input(&["n", "4"]), add, "y"), "w", &w)).unwrap_err();
    assert!(matches!(cause(error), Error::Dims { op: "add", .. }));
    let gather = vec![node("Gather", &["x", "w"], &["y"])];
    let error = checked(initializer(with(input(&["4"]), gather, "y"), "w", &i64s(&[-5]))).unwrap_err();
    assert!(matches!(cause(error), Error::Index { index: -5, extent: 4, .. }));
}

/// A caller may override an initializer that is also an input, so its elements are not used.
#[test]
fn overridable_contents_are_not_relied_on() {
    let mut g = with(input(&["4"]), vec![node("Reshape", &["x", "to"], &["y"])], "y");
    g.input.push(value("to", 7, &["2"]));
    let g = checked(initializer(g, "to", &i64s(&[2, 2]))).unwrap();
    assert_eq!(ty(&g, "y"), "f32[?, ?]");
}
