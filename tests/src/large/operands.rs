//! Many operands and results of one node, and many links of one operator.

use super::{
    chain, fan, float, floats, graph, int, ints, link, list, listed, names, node, nodes_of, of_extents,
    of_vector, serialized, text, vector, with,
};
use crate::model::value;
use bb::ir::proto::NodeProto;

listed! {
    split_results: 1000,
    concat_operands: 1000,
    concat_of_one: 1000,
    sum_operands: 1000,
    sum_of_one: 2000,
    max_operands: 1000,
    min_operands: 1000,
    mean_operands: 1000,
    einsum_operands: 200,
    einsum_letters: 26,
    rank: 30,
    broadcasts: 500,
    reshapes: 500,
    transposes: 500,
    casts: 500,
    halves: 300,
    slices: 300,
    pads: 300,
    gathers: 300,
    expands: 300,
    tiles: 300,
    concats: 300,
    splits: 200,
    reductions: 300,
    softmaxes: 300,
    tops: 200,
    clips: 500,
    slopes: 2000,
    wheres: 500,
    products: 300,
    products_shared: 300,
    convolutions: 200,
    pools: 200,
    resizes: 150,
    cumulative_sums: 300,
    scatters: 200,
    identities: 1000,
    dropouts: 500,
    comparisons: 500,
    random_numbers: 300,
}

fn split_results(n: usize) -> Vec<u8> {
    let split = with(nodes_of("Split", ["x"], names("s", n)), int("num_outputs", n as i64));
    let join = with(nodes_of("Concat", names("s", n), ["y"]), int("axis", 0));
    of_extents(vec![split, join], &[&n.to_string()], &[&n.to_string()], Vec::new())
}

fn concat_operands(n: usize) -> Vec<u8> {
    let mut nodes: Vec<NodeProto> =
        (0..n).map(|i| node("Add", &["x", &format!("c{i}")], &[&format!("p{i}")])).collect();
    nodes.push(with(nodes_of("Concat", names("p", n), ["y"]), int("axis", 0)));
    let constants = (0..n).map(|i| floats(&format!("c{i}"), &[2], &[i as f32, 1.0]));
    of_extents(nodes, &["2"], &["?"], constants.collect())
}

fn concat_of_one(n: usize) -> Vec<u8> {
    let join = with(nodes_of("Concat", vec!["x"; n], ["y"]), int("axis", 0));
    of_extents(vec![join], &["rows"], &["?"], Vec::new())
}

fn combined(op: &str, n: usize) -> Vec<u8> {
    let mut nodes: Vec<NodeProto> =
        (0..n).map(|i| node("Mul", &["x", &format!("c{i}")], &[&format!("p{i}")])).collect();
    nodes.push(nodes_of(op, names("p", n), ["y"]));
    of_vector(nodes, (0..n).map(|i| floats(&format!("c{i}"), &[2], &[i as f32, 1.0])).collect())
}

fn sum_operands(n: usize) -> Vec<u8> {
    combined("Sum", n)
}

fn sum_of_one(n: usize) -> Vec<u8> {
    of_vector(vec![nodes_of("Sum", vec!["x"; n], ["y"])], Vec::new())
}

fn max_operands(n: usize) -> Vec<u8> {
    combined("Max", n)
}

fn min_operands(n: usize) -> Vec<u8> {
    combined("Min", n)
}

fn mean_operands(n: usize) -> Vec<u8> {
    combined("Mean", n)
}

fn einsum_operands(n: usize) -> Vec<u8> {
    let equation = format!("{}->i", vec!["i"; n].join(","));
    of_vector(vec![with(nodes_of("Einsum", vec!["x"; n], ["y"]), text("equation", &equation))], Vec::new())
}

fn einsum_letters(n: usize) -> Vec<u8> {
    let letters: String = ('a'..='z').chain('A'..='Z').take(n).collect();
    let equation = format!("{letters},{letters}->{letters}");
    let ones = vec!["1"; letters.len()];
    of_extents(
        vec![with(node("Einsum", &["x", "x"], &["y"]), text("equation", &equation))],
        &ones,
        &ones,
        Vec::new(),
    )
}

fn rank(n: usize) -> Vec<u8> {
    let ones = vec!["1"; n];
    let nodes = vec![
        node("Transpose", &["x"], &["t"]),
        node("Relu", &["t"], &["r"]),
        node("Add", &["r", "x"], &["y"]),
    ];
    of_extents(nodes, &ones, &ones, Vec::new())
}

/// Products of a matrix with the same row.
fn broadcasts(n: usize) -> Vec<u8> {
    let inputs = vec![value("x", 1, &["rows", "4"]), value("b", 1, &["4"])];
    let nodes = chain(n, |_, x, y| vec![node("Mul", &[x, "b"], &[y])]);
    serialized(graph(nodes, inputs, vec![value("y", 1, &["rows", "4"])], Vec::new()))
}

fn reshapes(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (shape, exp) = (if i.is_multiple_of(2) { "a" } else { "b" }, format!("e{i}"));
        vec![node("Exp", &[x], &[&exp]), node("Reshape", &[&exp, shape], &[y])]
    };
    let shapes = vec![ints("a", &[2], &[4, -1]), ints("b", &[2], &[-1, 4])];
    of_extents(chain(n, one), &["rows", "4"], &["?", "?"], shapes)
}

fn transposes(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let exp = format!("e{i}");
        vec![node("Exp", &[x], &[&exp]), with(node("Transpose", &[&exp], &[y]), list("perm", &[1, 0]))]
    };
    of_extents(chain(n, one), &["3", "4"], &["?", "?"], Vec::new())
}

fn casts(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let whole = format!("w{i}");
        vec![
            with(node("Cast", &[x], &[&whole]), int("to", 6)),
            with(node("Cast", &[&whole], &[y]), int("to", 1)),
        ]
    };
    of_vector(chain(n, one), Vec::new())
}

fn halves(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (half, exp) = (format!("h{i}"), format!("e{i}"));
        vec![
            with(node("Cast", &[x], &[&half]), int("to", 10)),
            node("Exp", &[&half], &[&exp]),
            with(node("Cast", &[&exp], &[y]), int("to", 1)),
        ]
    };
    of_vector(chain(n, one), Vec::new())
}

fn slices(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (cut, longer) = (format!("c{i}"), format!("l{i}"));
        vec![
            node("Slice", &[x, "one", "many", "zero"], &[&cut]),
            with(node("Concat", &[&cut, &cut], &[&longer]), int("axis", 0)),
            node("Slice", &[&longer, "zero", "two", "zero"], &[y]),
        ]
    };
    let constants = [("zero", 0), ("one", 1), ("two", 2), ("many", i64::MAX)];
    let constants = constants.map(|(name, number)| ints(name, &[1], &[number]));
    of_vector(chain(n, one), constants.to_vec())
}

fn pads(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let wide = format!("w{i}");
        vec![node("Pad", &[x, "pads"], &[&wide]), node("Slice", &[&wide, "one", "back"], &[y])]
    };
    let constants = vec![ints("pads", &[2], &[1, 1]), ints("one", &[1], &[1]), ints("back", &[1], &[-1])];
    of_extents(chain(n, one), &["rows"], &["?"], constants)
}

fn gathers(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("Gather", &[x, "at"], &[y])];
    of_vector(chain(n, one), vec![ints("at", &[2], &[1, 0])])
}

fn expands(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let wide = format!("w{i}");
        vec![
            node("Expand", &[x, "shape"], &[&wide]),
            with(node("ReduceMax", &[&wide, "axis"], &[y]), int("keepdims", 0)),
        ]
    };
    of_vector(chain(n, one), vec![ints("shape", &[2], &[3, 2]), ints("axis", &[1], &[0])])
}

fn tiles(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let wide = format!("w{i}");
        vec![node("Tile", &[x, "times"], &[&wide]), node("Slice", &[&wide, "zero", "two"], &[y])]
    };
    let constants = [("times", 3), ("zero", 0), ("two", 2)].map(|(name, number)| ints(name, &[1], &[number]));
    of_vector(chain(n, one), constants.to_vec())
}

/// Each link is longer than the one before it by an element.
fn concats(n: usize) -> Vec<u8> {
    let nodes = chain(n, |_, x, y| vec![with(node("Concat", &[x, "one"], &[y]), int("axis", 0))]);
    of_extents(nodes, &["2"], &["?"], vec![floats("one", &[1], &[1.0])])
}

fn splits(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (a, b) = (format!("a{i}"), format!("b{i}"));
        vec![
            with(node("Split", &[x], &[&a, &b]), int("num_outputs", 2)),
            with(node("Concat", &[&b, &a], &[y]), int("axis", 0)),
        ]
    };
    of_vector(chain(n, one), Vec::new())
}

fn reductions(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let most = format!("m{i}");
        vec![node("ReduceMax", &[x], &[&most]), node("Sub", &[x, &most], &[y])]
    };
    of_vector(chain(n, one), Vec::new())
}

fn softmaxes(n: usize) -> Vec<u8> {
    of_vector(chain(n, |_, x, y| vec![node("Softmax", &[x], &[y])]), Vec::new())
}

fn tops(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| vec![node("TopK", &[x, "two"], &[y, &format!("i{i}")])];
    of_vector(chain(n, one), vec![ints("two", &[1], &[2])])
}

fn clips(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("Clip", &[x, "low", "high"], &[y])];
    of_vector(chain(n, one), vec![floats("low", &[], &[0.0]), floats("high", &[], &[6.0])])
}

/// Each link has another parameter.
fn slopes(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        vec![with(node("LeakyRelu", &[x], &[y]), float("alpha", i as f32 / n as f32))]
    };
    of_vector(chain(n, one), Vec::new())
}

fn wheres(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (truth, twice) = (format!("t{i}"), format!("d{i}"));
        vec![
            node("Less", &[x, "x"], &[&truth]),
            node("Add", &[x, x], &[&twice]),
            node("Where", &[&truth, &twice, x], &[y]),
        ]
    };
    of_vector(chain(n, one), Vec::new())
}

fn products(n: usize) -> Vec<u8> {
    let nodes = chain(n, |i, x, y| vec![node("MatMul", &[x, &format!("w{i}")], &[y])]);
    let weight = |i: usize| floats(&format!("w{i}"), &[2, 2], &[i as f32, 0.0, 1.0, 0.5]);
    of_vector(nodes, (0..n).map(weight).collect())
}

fn products_shared(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let product = format!("p{i}");
        vec![node("MatMul", &[x, "w"], &[&product]), node("Tanh", &[&product], &[y])]
    };
    of_extents(
        chain(n, one),
        &["rows", "2"],
        &["rows", "2"],
        vec![floats("w", &[2, 2], &[1.0, 0.0, 1.0, 0.5])],
    )
}

fn convolutions(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let (weight, c) = (format!("w{i}"), format!("c{i}"));
        vec![with(node("Conv", &[x, &weight], &[&c]), list("pads", &[1, 1, 1, 1])), node("Relu", &[&c], &[y])]
    };
    let weight = |i: usize| floats(&format!("w{i}"), &[1, 1, 3, 3], &[i as f32; 9]);
    of_extents(chain(n, one), &["1", "1", "4", "4"], &["1", "1", "4", "4"], (0..n).map(weight).collect())
}

fn pools(n: usize) -> Vec<u8> {
    let pool = |x: &str, y: &str| {
        let pool = with(node("MaxPool", &[x], &[y]), list("kernel_shape", &[3, 3]));
        with(pool, list("pads", &[1, 1, 1, 1]))
    };
    let nodes = chain(n, |_, x, y| vec![pool(x, y)]);
    of_extents(nodes, &["1", "1", "high", "wide"], &["1", "1", "high", "wide"], Vec::new())
}

fn resizes(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("Resize", &[x, "", "scales"], &[y])];
    let scales = floats("scales", &[4], &[1.0; 4]);
    of_extents(chain(n, one), &["1", "1", "high", "wide"], &["1", "1", "?", "?"], vec![scales])
}

fn cumulative_sums(n: usize) -> Vec<u8> {
    of_vector(chain(n, |_, x, y| vec![node("CumSum", &[x, "axis"], &[y])]), vec![ints("axis", &[], &[0])])
}

fn scatters(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| vec![node("ScatterElements", &[x, "at", "x"], &[y])];
    of_vector(chain(n, one), vec![ints("at", &[2], &[1, 0])])
}

fn identities(n: usize) -> Vec<u8> {
    of_vector(chain(n, |_, x, y| vec![node("Identity", &[x], &[y])]), Vec::new())
}

fn dropouts(n: usize) -> Vec<u8> {
    of_vector(chain(n, |_, x, y| vec![node("Dropout", &[x], &[y])]), Vec::new())
}

fn comparisons(n: usize) -> Vec<u8> {
    let one = |i: usize, y: &str| {
        let truth = format!("t{i}");
        vec![
            node("Less", &["x", &format!("c{i}")], &[&truth]),
            with(node("Cast", &[&truth], &[y]), int("to", 1)),
        ]
    };
    of_vector(fan(n, one), (0..n).map(|i| floats(&format!("c{i}"), &[], &[i as f32])).collect())
}

fn random_numbers(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let noise = format!("n{i}");
        vec![node("RandomNormalLike", &[x], &[&noise]), node("Add", &[x, &noise], &[y])]
    };
    let nodes = chain(n, one);
    serialized(graph(nodes, vec![vector(&link(0))], vec![vector("y")], Vec::new()))
}
