//! Values computed from several quantised functions of the same bytes become one look-up.

use super::{Drawn, Graph, Grid, Input, Real, X, Y, assert_bytes, node, operations};
use bb::DataType;

/// The bytes between: coarser than the operands, so that a table that does not round between two functions is found.
const BETWEEN: Grid = Grid(DataType::I8, 0.25, -7);

/// Writes `between`: half of `x` and 2, but at least 0.
fn halved(graph: &mut Graph, from: Grid) {
    graph.dequantize("x", "xf", from);
    graph.floats("half", &[], &[0.5]);
    graph.floats("two", &[], &[2.0]);
    graph.push(node("Mul", &["xf", "half"], &["a"]));
    graph.push(node("Add", &["a", "two"], &["b"]));
    graph.push(node("Relu", &["b"], &["c"]));
    graph.quantize("c", "between", BETWEEN);
    graph.dequantize("between", "f", BETWEEN);
}

fn half(x: f64) -> f64 {
    BETWEEN.number(BETWEEN.byte((x * 0.5 + 2.0).max(0.0)))
}

#[test]
fn sums_and_products_of_functions_of_the_same_bytes_are_one_look_up() {
    let mut drawn = Drawn(21);
    for from in [X, Grid(DataType::I8, 0.25, 6)] {
        // Every byte is there.
        let bytes = if from.0 == DataType::I8 { -128..128 } else { 0..256 };
        let all = Real { shape: vec![2, 128], elements: bytes.map(|byte| from.number(byte)).collect() };
        for (op, operands) in [
            ("Mul", ["xf", "f"]),
            ("Mul", ["f", "xf"]),
            ("Add", ["f", "f"]),
            ("Mul", ["xf", "xf"]),
            ("Sub", ["xf", "f"]),
        ] {
            for x in [Input { real: all.clone(), grid: from }, Input::drawn(&mut drawn, &[3, 5, 2], from)] {
                let mut graph = Graph::default();
                halved(&mut graph, from);
                graph.push(node(op, &operands, &["s"]));
                graph.quantize("s", "y", Y);
                let graph = graph.finish(&x, &["y"]);
                assert_eq!(operations(&graph), ["lookup"], "{op} of {operands:?}");
                let [a, b] = operands.map(|name| x.real.map(|x| if name == "f" { half(x) } else { x }));
                let y = a.with(&b, |a, b| match op {
                    "Add" => a + b,
                    "Sub" => a - b,
                    _ => a * b,
                });
                assert_bytes(&graph, &x, &[(y, Y)]);
            }
        }
    }
}

/// A look-up stays if its result has another reader. A function of its result is still a look-up of the first bytes.
#[test]
fn functions_of_functions_are_one_look_up() {
    let mut drawn = Drawn(22);
    let x = Input::drawn(&mut drawn, &[4, 6], X);
    for returned in [false, true] {
        let mut graph = Graph::default();
        halved(&mut graph, X);
        graph.push(node("Neg", &["f"], &["n"]));
        graph.quantize("n", "y", Y);
        let graph = graph.finish(&x, if returned { &["y", "between"] } else { &["y"] });
        assert_eq!(operations(&graph).len(), if returned { 2 } else { 1 }, "{:?}", operations(&graph));
        let outputs = [(x.real.map(|x| -half(x)), Y), (x.real.map(half), BETWEEN)];
        assert_bytes(&graph, &x, &outputs[..if returned { 2 } else { 1 }]);
    }
}

/// Bytes that were moved meanwhile are others.
#[test]
fn functions_of_other_bytes_stay() {
    let mut drawn = Drawn(23);
    let x = Input::drawn(&mut drawn, &[4, 4], X);
    let mut graph = Graph::default();
    halved(&mut graph, X);
    graph.push(super::with_ints(node("Transpose", &["f"], &["t"]), "perm", &[1, 0]));
    graph.push(node("Mul", &["xf", "t"], &["s"]));
    graph.quantize("s", "y", Y);
    let graph = graph.finish(&x, &["y"]);
    assert_eq!(operations(&graph), ["lookup", "transpose", "qlinear_mul"]);
    let f = x.real.map(half).transposed(&[1, 0]);
    assert_bytes(&graph, &x, &[(x.real.with(&f, |x, f| x * f), Y)]);
}
