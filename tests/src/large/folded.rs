//! Many constants, and much that follows from constants.

use super::{chain, fan, floats, int, ints, listed, names, node, nodes_of, of_vector, with, with_tensor};

listed! {
    constants: 1000,
    constants_in_a_chain: 500,
    constants_large: 300,
    constants_computed: 300,
    constants_of_shapes: 300,
    constants_joined: 1000,
    constants_equal: 1000,
    constants_scaled: 200,
    lookups: 200,
}

fn constants(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        let tensor = floats("", &[2], &[i as f32, 1.0]);
        vec![with_tensor(node("Constant", &[], &[y]), "value", tensor)]
    };
    let mut nodes = fan(n, one);
    if let Some(sum) = nodes.last_mut() {
        sum.input.push("x".to_owned());
    }
    of_vector(nodes, Vec::new())
}

/// A chain of small constants that planning computes.
fn constants_in_a_chain(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("Exp", &[if x == "x" { "c" } else { x }], &[y])];
    let mut nodes = chain(n, one);
    nodes.pop();
    nodes.push(node("Add", &["x", &format!("v{n}")], &["y"]));
    of_vector(nodes, vec![floats("c", &[2], &[0.0, 1.0])])
}

/// A chain of constants that are too large to be computed while tracing.
fn constants_large(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("Tanh", &[if x == "x" { "c" } else { x }], &[y])];
    let mut nodes = chain(n, one);
    nodes.pop();
    nodes.push(node("ReduceMax", &[&format!("v{n}")], &["m"]));
    nodes.push(node("Add", &["x", "m"], &["y"]));
    of_vector(nodes, vec![floats("c", &[2000], &[0.5; 2000])])
}

fn constants_computed(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        let product = format!("p{i}");
        vec![node("MatMul", &["c", &format!("w{i}")], &[&product]), node("Mul", &["x", &product], &[y])]
    };
    let mut constants = vec![floats("c", &[2], &[0.0, 1.0])];
    constants.extend((0..n).map(|i| floats(&format!("w{i}"), &[2, 2], &[i as f32, 1.0, 0.0, 1.0])));
    of_vector(fan(n, one), constants)
}

fn constants_of_shapes(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        let (shape, ones) = (format!("s{i}"), format!("o{i}"));
        vec![
            node("Shape", &["x"], &[&shape]),
            with_tensor(node("ConstantOfShape", &[&shape], &[&ones]), "value", floats("", &[1], &[i as f32])),
            node("Mul", &["x", &ones], &[y]),
        ]
    };
    of_vector(fan(n, one), Vec::new())
}

fn constants_joined(n: usize) -> Vec<u8> {
    let join = with(nodes_of("Concat", names("c", n), ["j"]), int("axis", 0));
    let nodes = vec![join, node("ReduceMax", &["j"], &["m"]), node("Add", &["x", "m"], &["y"])];
    of_vector(nodes, (0..n).map(|i| floats(&format!("c{i}"), &[1], &[i as f32])).collect())
}

fn constants_equal(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| vec![node("Mul", &[x, &format!("c{i}")], &[y])];
    of_vector(chain(n, one), (0..n).map(|i| floats(&format!("c{i}"), &[2], &[0.5, 1.0])).collect())
}

/// Scales between products, which folding moves into weights.
fn constants_scaled(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [product, scaled, shifted] = ["p", "s", "t"].map(|name| format!("{name}{i}"));
        vec![
            node("MatMul", &[x, &format!("w{i}")], &[&product]),
            node("Mul", &[&product, "scale"], &[&scaled]),
            node("Add", &[&scaled, "shift"], &[&shifted]),
            node("Relu", &[&shifted], &[y]),
        ]
    };
    let mut constants = vec![floats("scale", &[2], &[0.5, 2.0]), floats("shift", &[2], &[1.0, 2.0])];
    constants.extend((0..n).map(|i| floats(&format!("w{i}"), &[2, 2], &[i as f32, 1.0, 0.0, 1.0])));
    of_vector(chain(n, one), constants)
}

/// Each link looks up two rows of a table by numbers that another table holds.
fn lookups(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [whole, at, row] = ["w", "a", "r"].map(|name| format!("{name}{i}"));
        vec![
            with(node("Cast", &[x], &[&whole]), int("to", 7)),
            node("Gather", &["numbers", &whole], &[&at]),
            node("Gather", &["table", &at], &[&row]),
            node("Identity", &[&row], &[y]),
        ]
    };
    of_vector(chain(n, one), vec![ints("numbers", &[3], &[0, 1, 0]), floats("table", &[2], &[0.0, 1.0])])
}
