//! Many repetitions of patterns that planning recognises, and of layers.

use super::{bytes, chain, floats, int, ints, list, listed, node, nodes_of, of_extents, of_vector, with};
use bb::ir::proto::TensorProto;

listed! {
    fused_programs: 1000,
    epilogues: 200,
    residuals: 200,
    attentions: 40,
    gelus: 100,
    normalisations: 60,
    batch_normalisations: 150,
    quantised_pairs: 150,
    quantised_layers: 60,
    integer_products: 60,
    tabulated: 100,
    recurrent_layers: 40,
    gated_layers: 40,
    squares: 200,
    normalised_rows: 100,
    depthwise: 100,
    moved_transposes: 100,
    einsums: 100,
    trees: 500,
    words: 1000,
}

/// Element-wise nodes with two readers each, so that the program is not only a chain.
fn fused_programs(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let exp = format!("e{i}");
        vec![node("Sigmoid", &[x], &[&exp]), node("Mul", &[x, &exp], &[y])]
    };
    of_vector(chain(n, one), Vec::new())
}

fn square(i: usize) -> TensorProto {
    floats(&format!("w{i}"), &[4, 4], &[0.01 * i as f32; 16])
}

fn epilogues(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [product, sum] = ["p", "s"].map(|name| format!("{name}{i}"));
        vec![
            node("MatMul", &[x, &format!("w{i}")], &[&product]),
            node("Add", &[&product, "b"], &[&sum]),
            node("Relu", &[&sum], &[y]),
        ]
    };
    let mut constants = vec![floats("b", &[4], &[0.5; 4])];
    constants.extend((0..n).map(square));
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], constants)
}

fn residuals(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [product, sum] = ["p", "s"].map(|name| format!("{name}{i}"));
        vec![
            node("MatMul", &[x, &format!("w{i}")], &[&product]),
            node("Add", &[&product, x], &[&sum]),
            node("Tanh", &[&sum], &[y]),
        ]
    };
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], (0..n).map(square).collect())
}

fn attentions(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [q, k, v, t, s, d, p] = ["q", "k", "values", "t", "s", "d", "p"].map(|name| format!("{name}{i}"));
        vec![
            node("MatMul", &[x, "wq"], &[&q]),
            node("MatMul", &[x, "wk"], &[&k]),
            node("MatMul", &[x, "wv"], &[&v]),
            with(node("Transpose", &[&k], &[&t]), list("perm", &[0, 1, 3, 2])),
            node("MatMul", &[&q, &t], &[&s]),
            node("Div", &[&s, "root"], &[&d]),
            node("Softmax", &[&d], &[&p]),
            node("MatMul", &[&p, &v], &[y]),
        ]
    };
    let weight = |name: &str| floats(name, &[4, 4], &[0.1; 16]);
    let constants = vec![weight("wq"), weight("wk"), weight("wv"), floats("root", &[], &[2.0])];
    let extents = ["batch", "2", "rows", "4"];
    of_extents(chain(n, one), &extents, &extents, constants)
}

fn gelus(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [scaled, erf, more, half] = ["s", "e", "m", "h"].map(|name| format!("{name}{i}"));
        vec![
            node("Div", &[x, "root"], &[&scaled]),
            node("Erf", &[&scaled], &[&erf]),
            node("Add", &[&erf, "one"], &[&more]),
            node("Mul", &[x, &more], &[&half]),
            node("Mul", &[&half, "half"], &[y]),
        ]
    };
    let constants = [("root", std::f32::consts::SQRT_2), ("one", 1.0), ("half", 0.5)];
    of_vector(chain(n, one), constants.map(|(name, number)| floats(name, &[], &[number])).to_vec())
}

fn normalisations(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [mean, less, square, var, sum, root, quotient, scaled] =
            ["m", "l", "q", "variance", "s", "r", "o", "k"].map(|name| format!("{name}{i}"));
        vec![
            node("ReduceMean", &[x, "last"], &[&mean]),
            node("Sub", &[x, &mean], &[&less]),
            node("Pow", &[&less, "two"], &[&square]),
            node("ReduceMean", &[&square, "last"], &[&var]),
            node("Add", &[&var, "tiny"], &[&sum]),
            node("Sqrt", &[&sum], &[&root]),
            node("Div", &[&less, &root], &[&quotient]),
            node("Mul", &[&quotient, "scale"], &[&scaled]),
            node("Add", &[&scaled, "scale"], &[y]),
        ]
    };
    let constants = vec![
        ints("last", &[1], &[-1]),
        floats("two", &[], &[2.0]),
        floats("tiny", &[], &[1e-5]),
        floats("scale", &[4], &[1.0; 4]),
    ];
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], constants)
}

fn batch_normalisations(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let conv = format!("c{i}");
        vec![
            node("Conv", &[x, &format!("w{i}")], &[&conv]),
            node("BatchNormalization", &[&conv, "s", "s", "s", "s"], &[y]),
        ]
    };
    let mut constants = vec![floats("s", &[2], &[1.0, 0.5])];
    constants.extend((0..n).map(|i| floats(&format!("w{i}"), &[2, 2, 1, 1], &[i as f32, 0.0, 0.0, 1.0])));
    of_extents(chain(n, one), &["1", "2", "3", "3"], &["1", "2", "3", "3"], constants)
}

fn scales() -> Vec<TensorProto> {
    vec![floats("scale", &[], &[0.5]), bytes("zero", 2, &[], &[128])]
}

fn quantised_pairs(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [q, d] = ["q", "d"].map(|name| format!("{name}{i}"));
        vec![
            node("QuantizeLinear", &[x, "scale", "zero"], &[&q]),
            node("DequantizeLinear", &[&q, "scale", "zero"], &[&d]),
            node("Relu", &[&d], &[y]),
        ]
    };
    of_vector(chain(n, one), scales())
}

fn quantised_layers(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [q, d, w, p] = ["q", "d", "e", "p"].map(|name| format!("{name}{i}"));
        vec![
            node("QuantizeLinear", &[x, "scale", "zero"], &[&q]),
            node("DequantizeLinear", &[&q, "scale", "zero"], &[&d]),
            node("DequantizeLinear", &[&format!("w{i}"), "scale", "none"], &[&w]),
            node("MatMul", &[&d, &w], &[&p]),
            node("Relu", &[&p], &[y]),
        ]
    };
    let mut constants = scales();
    constants.push(bytes("none", 3, &[], &[0]));
    constants.extend((0..n).map(|i| bytes(&format!("w{i}"), 3, &[4, 4], &[(i % 100) as i32; 16])));
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], constants)
}

fn integer_products(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [q, s, z, p, f, a] = ["q", "s", "z", "p", "f", "a"].map(|name| format!("{name}{i}"));
        vec![
            node("DynamicQuantizeLinear", &[x], &[&q, &s, &z]),
            node("MatMulInteger", &[&q, &format!("w{i}"), &z], &[&p]),
            with(node("Cast", &[&p], &[&f]), int("to", 1)),
            node("Mul", &[&s, "scale"], &[&a]),
            node("Mul", &[&f, &a], &[y]),
        ]
    };
    let mut constants = scales();
    constants.extend((0..n).map(|i| bytes(&format!("w{i}"), 3, &[4, 4], &[(i % 100) as i32; 16])));
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], constants)
}

/// Functions of bytes, which become tables.
fn tabulated(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [q, d, e, r] = ["q", "d", "e", "r"].map(|name| format!("{name}{i}"));
        vec![
            node("QuantizeLinear", &[x, "scale", "zero"], &[&q]),
            node("DequantizeLinear", &[&q, "scale", "zero"], &[&d]),
            node("Sigmoid", &[&d], &[&e]),
            node("QuantizeLinear", &[&e, "scale", "zero"], &[&r]),
            node("DequantizeLinear", &[&r, "scale", "zero"], &[y]),
        ]
    };
    of_vector(chain(n, one), scales())
}

/// Recurrent layers of hidden size 2.
fn recurrent(op: &str, gates: i64, n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let all = format!("a{i}");
        let layer = with(node(op, &[x, "w", "r"], &[&all]), int("hidden_size", 2));
        vec![layer, node("Squeeze", &[&all, "one"], &[y])]
    };
    let weight = |name: &str| floats(name, &[1, 2 * gates, 2], &vec![0.1; 4 * gates as usize]);
    let constants = vec![weight("w"), weight("r"), ints("one", &[1], &[1])];
    let extents = ["steps", "1", "2"];
    of_extents(chain(n, one), &extents, &extents, constants)
}

fn recurrent_layers(n: usize) -> Vec<u8> {
    recurrent("LSTM", 4, n)
}

fn gated_layers(n: usize) -> Vec<u8> {
    recurrent("GRU", 3, n)
}

fn squares(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [square, root] = ["q", "r"].map(|name| format!("{name}{i}"));
        vec![
            node("Mul", &[x, x], &[&square]),
            node("Sqrt", &[&square], &[&root]),
            node("Add", &[&root, "x"], &[y]),
        ]
    };
    of_vector(chain(n, one), Vec::new())
}

fn normalised_rows(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let norm = format!("n{i}");
        vec![node("ReduceL2", &[x, "last"], &[&norm]), node("Div", &[x, &norm], &[y])]
    };
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], vec![ints("last", &[1], &[-1])])
}

fn depthwise(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [conv, gate] = ["c", "g"].map(|name| format!("{name}{i}"));
        let layer = with(node("Conv", &[x, &format!("w{i}")], &[&conv]), int("group", 2));
        vec![
            with(layer, list("pads", &[1; 4])),
            node("HardSigmoid", &[&conv], &[&gate]),
            node("Mul", &[&conv, &gate], &[y]),
        ]
    };
    let constants = (0..n).map(|i| floats(&format!("w{i}"), &[2, 1, 3, 3], &[0.01 * i as f32; 18]));
    of_extents(chain(n, one), &["1", "2", "h", "w"], &["1", "2", "h", "w"], constants.collect())
}

/// Transposes around element-wise nodes, which planning moves towards each other.
fn moved_transposes(n: usize) -> Vec<u8> {
    let one = |i: usize, x: &str, y: &str| {
        let [there, exp, sum] = ["t", "e", "s"].map(|name| format!("{name}{i}"));
        vec![
            with(node("Transpose", &[x], &[&there]), list("perm", &[0, 2, 1])),
            node("Exp", &[&there], &[&exp]),
            node("Add", &[&exp, &there], &[&sum]),
            with(node("Transpose", &[&sum], &[y]), list("perm", &[0, 2, 1])),
        ]
    };
    of_extents(chain(n, one), &["b", "3", "4"], &["b", "3", "4"], Vec::new())
}

fn einsums(n: usize) -> Vec<u8> {
    let one = |_: usize, x: &str, y: &str| {
        vec![with(node("Einsum", &[x, "w"], &[y]), super::text("equation", "bi,ij->bj"))]
    };
    of_extents(chain(n, one), &["rows", "4"], &["rows", "4"], vec![floats("w", &[4, 4], &[0.1; 16])])
}

/// A regression tree of nodes in a row.
fn trees(n: usize) -> Vec<u8> {
    use super::{attribute, text};
    use bb::ir::proto::{AttributeProto, attribute_proto::AttributeType};
    let all = 2 * n + 1;
    let is_leaf = |i: usize| i % 2 == 1 || i == all - 1;
    let ints =
        |name: &str, value: &dyn Fn(usize) -> i64| list(name, &(0..all).map(value).collect::<Vec<_>>());
    let modes = (0..all).map(|i| if is_leaf(i) { b"LEAF".to_vec() } else { b"BRANCH_LEQ".to_vec() });
    let leaves: Vec<usize> = (0..all).filter(|i| is_leaf(*i)).collect();
    let of_leaves = |name: &str, value: &dyn Fn(usize) -> i64| {
        list(name, &leaves.iter().map(|i| value(*i)).collect::<Vec<_>>())
    };
    let floats = |name: &str, values: Vec<f32>| AttributeProto {
        floats: values,
        ..attribute(name, AttributeType::Floats)
    };
    let mut tree = nodes_of("TreeEnsembleRegressor", ["x"], ["z"]);
    tree.domain = Some("ai.onnx.ml".to_owned());
    tree.attribute = vec![
        int("n_targets", 1),
        text("post_transform", "NONE"),
        ints("nodes_nodeids", &|i| i as i64),
        ints("nodes_treeids", &|_| 0),
        ints("nodes_featureids", &|_| 0),
        ints("nodes_truenodeids", &|i| if is_leaf(i) { 0 } else { i as i64 + 1 }),
        ints("nodes_falsenodeids", &|i| if is_leaf(i) { 0 } else { i as i64 + 2 }),
        floats("nodes_values", (0..all).map(|i| i as f32).collect()),
        AttributeProto { strings: modes.collect(), ..attribute("nodes_modes", AttributeType::Strings) },
        of_leaves("target_nodeids", &|i| i as i64),
        of_leaves("target_treeids", &|_| 0),
        of_leaves("target_ids", &|_| 0),
        floats("target_weights", vec![1.0; leaves.len()]),
    ];
    of_extents(vec![tree, node("Relu", &["z"], &["y"])], &["1", "1"], &["1", "1"], Vec::new())
}

/// A vocabulary of `n` words.
fn words(n: usize) -> Vec<u8> {
    use super::{attribute, text};
    use bb::ir::proto::{AttributeProto, attribute_proto::AttributeType};
    let mut node = node("TfIdfVectorizer", &["w"], &["y"]);
    let numbers: Vec<i64> = (0..n as i64).collect();
    node.attribute = vec![
        text("mode", "TF"),
        int("min_gram_length", 1),
        int("max_gram_length", 1),
        int("max_skip_count", 0),
        list("ngram_counts", &[0]),
        list("ngram_indexes", &numbers),
        list("pool_int64s", &numbers),
        AttributeProto { floats: vec![1.0; n], ..attribute("weights", AttributeType::Floats) },
    ];
    let nodes = vec![with(super::node("Cast", &["x"], &["w"]), int("to", 7)), node];
    of_extents(nodes, &["2"], &["?"], Vec::new())
}
