//! Many open extents, and long expressions of them.

use super::{
    chain, fan, graph, int, ints, link, list, listed, names, node, nodes_of, of_extents, serialized, with,
};
use crate::model::value;
use bb::ir::proto::ValueInfoProto;

listed! {
    extents_of_inputs: 500,
    extents_shared: 500,
    extents_without_names: 500,
    extents_of_one_input: 30,
    extents_joined: 300,
    extents_joined_at_once: 300,
    extents_doubled: 40,
    extents_added: 300,
    extents_multiplied: 300,
    extents_broadcast: 200,
    extents_equal: 200,
    extents_reshaped: 300,
    extents_halved: 150,
    extents_of_windows: 150,
    extents_cut: 200,
    extents_ranged: 200,
    extents_flattened: 200,
}

/// Inputs `x0`, `x1` and so on of one extent each.
fn inputs(n: usize, extent: impl Fn(usize) -> String) -> Vec<ValueInfoProto> {
    (0..n).map(|i| value(&format!("x{i}"), 1, &[&extent(i)])).collect()
}

fn each(n: usize, extent: impl Fn(usize) -> String) -> Vec<u8> {
    let nodes = (0..n).map(|i| node("Relu", &[&format!("x{i}")], &[&format!("y{i}")])).collect();
    let outputs = (0..n).map(|i| value(&format!("y{i}"), 1, &[&extent(i)])).collect();
    serialized(graph(nodes, inputs(n, &extent), outputs, Vec::new()))
}

fn extents_of_inputs(n: usize) -> Vec<u8> {
    each(n, |i| format!("d{i}"))
}

fn extents_shared(n: usize) -> Vec<u8> {
    each(n, |_| "d".to_owned())
}

fn extents_without_names(n: usize) -> Vec<u8> {
    each(n, |_| "?".to_owned())
}

fn extents_of_one_input(n: usize) -> Vec<u8> {
    let extents = names("d", n);
    let extents: Vec<&str> = extents.iter().map(String::as_str).collect();
    of_extents(
        vec![node("Relu", &["x"], &["r"]), node("Exp", &["r"], &["y"])],
        &extents,
        &extents,
        Vec::new(),
    )
}

fn extents_joined(n: usize) -> Vec<u8> {
    let mut all = vec![value("x", 1, &["d"])];
    all.extend(inputs(n, |i| format!("d{i}")));
    let join =
        |i: usize, x: &str, y: &str| vec![with(node("Concat", &[x, &format!("x{i}")], &[y]), int("axis", 0))];
    serialized(graph(chain(n, join), all, vec![value("y", 1, &["?"])], Vec::new()))
}

fn extents_joined_at_once(n: usize) -> Vec<u8> {
    let nodes =
        vec![with(nodes_of("Concat", names("x", n), ["z"]), int("axis", 0)), node("Relu", &["z"], &["y"])];
    serialized(graph(nodes, inputs(n, |i| format!("d{i}")), vec![value("y", 1, &["?"])], Vec::new()))
}

/// Each link has twice the elements of the one before it.
fn extents_doubled(n: usize) -> Vec<u8> {
    let nodes = chain(n, |_, x, y| vec![with(node("Concat", &[x, x], &[y]), int("axis", 0))]);
    of_extents(nodes, &["d"], &["?"], Vec::new())
}

/// Adds or multiplies the shape of `x` again and again, and expands `x` to what results.
fn computed(op: &str, n: usize) -> Vec<u8> {
    let mut nodes = vec![node("Shape", &["x"], &["s0"])];
    nodes.extend((0..n).map(|i| node(op, &[&format!("s{i}"), "s0"], &[&format!("s{}", i + 1)])));
    nodes.push(node("ConstantOfShape", &[&format!("s{n}")], &["z"]));
    nodes.push(with(node("ReduceSum", &["z"], &["y"]), int("keepdims", 0)));
    of_extents(nodes, &["d"], &[], Vec::new())
}

fn extents_added(n: usize) -> Vec<u8> {
    computed("Add", n)
}

fn extents_multiplied(n: usize) -> Vec<u8> {
    computed("Mul", n)
}

fn extents_broadcast(n: usize) -> Vec<u8> {
    let nodes = vec![nodes_of("Sum", names("x", n), ["y"])];
    serialized(graph(nodes, inputs(n, |i| format!("d{i}")), vec![value("y", 1, &["?"])], Vec::new()))
}

fn extents_equal(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| vec![node("MatMul", &[&format!("x{i}"), &format!("x{}", i + 1)], &[y])];
    let all = inputs(n + 1, |i| format!("d{i}"));
    serialized(graph(fan(n, one), all, vec![value("y", 1, &[])], Vec::new()))
}

fn extents_reshaped(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [shape, first, last, both, exp] = ["s", "f", "l", "b", "e"].map(|name| format!("{name}{i}"));
        vec![
            node("Exp", &[x], &[&exp]),
            node("Shape", &[x], &[&shape]),
            node("Gather", &[&shape, "zero"], &[&first]),
            node("Gather", &[&shape, "one"], &[&last]),
            with(node("Concat", &[&last, &first], &[&both]), int("axis", 0)),
            node("Reshape", &[&exp, &both], &[y]),
        ]
    };
    let constants = vec![ints("zero", &[1], &[0]), ints("one", &[1], &[1])];
    of_extents(chain(n, one), &["a", "b"], &["?", "?"], constants)
}

/// Windows of stride 2 halve an extent, and `Concat` doubles it.
fn extents_halved(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let half = format!("h{i}");
        let pool = with(node("MaxPool", &[x], &[&half]), list("kernel_shape", &[2]));
        vec![with(pool, list("strides", &[2])), with(node("Concat", &[&half, &half], &[y]), int("axis", 2))]
    };
    of_extents(chain(n, one), &["1", "1", "wide"], &["1", "1", "?"], Vec::new())
}

fn extents_of_windows(n: usize) -> Vec<u8> {
    let pool = |x: &str, y: &str| {
        let pool = with(node("MaxPool", &[x], &[y]), list("kernel_shape", &[2]));
        with(pool, list("pads", &[1, 0]))
    };
    let nodes = chain(n, |_, x, y| vec![pool(x, y)]);
    of_extents(nodes, &["1", "1", "wide"], &["1", "1", "?"], Vec::new())
}

/// Each link is cut to a length that the extent may be below.
fn extents_cut(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| vec![node("Slice", &[x, "zero", &format!("end{i}")], &[y])];
    let mut constants = vec![ints("zero", &[1], &[0])];
    constants.extend((0..n).map(|i| ints(&format!("end{i}"), &[1], &[10_000_000 - i as i64])));
    of_extents(chain(n, one), &["d"], &["?"], constants)
}

fn extents_ranged(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        let [shape, size, range, like] = ["s", "z", "r", "l"].map(|name| format!("{name}{i}"));
        vec![
            node("Shape", &["x"], &[&shape]),
            node("Squeeze", &[&shape], &[&size]),
            node("Range", &["zero", &size, "one"], &[&range]),
            node("CastLike", &[&range, "x"], &[&like]),
            node("Add", &["x", &like], &[y]),
        ]
    };
    let constants = vec![ints("zero", &[], &[0]), ints("one", &[], &[1])];
    of_extents(fan(n, one), &["d"], &["d"], constants)
}

fn extents_flattened(n: usize) -> Vec<u8> {
    let inputs: Vec<ValueInfoProto> =
        (0..n).map(|i| value(&format!("x{i}"), 1, &[&format!("a{i}"), &format!("b{i}")])).collect();
    let nodes =
        (0..n).map(|i| with(node("Flatten", &[&format!("x{i}")], &[&format!("y{i}")]), int("axis", 0)));
    let outputs = (0..n).map(|i| value(&format!("y{i}"), 1, &["?", "?"])).collect();
    let nodes = nodes.chain([node("Identity", &["x0"], &[&link(1)])]).collect();
    serialized(graph(nodes, inputs, outputs, Vec::new()))
}
