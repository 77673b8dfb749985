//! Tests that rows which are proven independent give the same bits in a run of their own and together with other rows of any numbers.
//! Also tests that no model that mixes rows is reported as independent.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::conformance::onnx::read_tensors;
use bb::ir::proto::NodeProto;
use bb::onnx::OnnxValue;
use bb::{CompileOptions, ErasedExecutable, Module, RowInput, RowProof, Runtime, TensorData};
use bb_tests::backends;
use bb_tests::model::{ints, model, named, node, with_floats, with_int, with_ints, with_text};
use std::path::Path;
use std::sync::Arc;

/// The most rows of a run here.
const MOST: usize = 9;

/// A model of one input `x`, of rows of these extents, and one output `y`.
struct Case {
    name: &'static str,
    row: &'static [usize],
    nodes: Vec<NodeProto>,
}

fn case(name: &'static str, row: &'static [usize], nodes: Vec<NodeProto>) -> Case {
    Case { name, row, nodes }
}

impl Case {
    fn module(&self) -> Module {
        let x: Vec<i64> =
            std::iter::once(-1).chain(self.row.iter().map(|n| i64::try_from(*n).unwrap())).collect();
        let module = Module::from_bytes(untyped(&x, &self.nodes));
        module.unwrap_or_else(|error| panic!("{}: {error:?}", self.name))
    }

    fn proof(&self) -> RowProof {
        let proof = self.module().prove_rows(&[RowInput::Rows(self.row.to_vec())], MOST);
        proof.unwrap_or_else(|error| panic!("{}: {error:?}", self.name))
    }
}

/// The same model, of whose output nothing is declared.
fn untyped(x: &[i64], nodes: &[NodeProto]) -> Vec<u8> {
    use bb::ir::proto::ModelProto;
    use prost::Message;
    let mut made = ModelProto::decode(&*model(&[("x", x)], nodes.to_vec(), &[("y", &[])])).unwrap();
    for output in &mut made.graph.as_mut().unwrap().output {
        *output = bb_tests::model::untyped("y");
    }
    made.encode_to_vec()
}

/// Numbers between -1 and 1.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let mut state = seed as u64 * 2 + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// A constant `name` of these extents.
fn weights(name: &str, shape: &[i64]) -> Vec<NodeProto> {
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
    let (flat, extents) = (format!("{name}_flat"), format!("{name}_shape"));
    let values = with_floats(node("Constant", &[], &[&flat]), "value_floats", &numbers(count, name.len()));
    vec![values, ints(&extents, shape), node("Reshape", &[&flat, &extents], &[name])]
}

fn with(mut before: Vec<NodeProto>, nodes: Vec<NodeProto>) -> Vec<NodeProto> {
    before.extend(nodes);
    before
}

/// An einsum to `y`.
fn equation(text: &str, inputs: &[&str]) -> NodeProto {
    with_text(node("Einsum", inputs, &["y"]), "equation", text)
}

/// The greatest elements along a dimension, and their places, as `y`.
fn top(axis: i64) -> Vec<NodeProto> {
    vec![
        ints("k", &[3]),
        with_int(node("TopK", &["x", "k"], &["v", "i"]), "axis", axis),
        with_int(node("Cast", &["i"], &["f"]), "to", 1),
        with_int(node("Concat", &["v", "f"], &["y"]), "axis", axis),
    ]
}

/// Writes the first element of each row to the place of its greatest one, along a dimension.
fn scattered(axis: i64, reduction: &str) -> Vec<NodeProto> {
    let scatter = with_int(node("ScatterElements", &["x", "i", "u"], &["y"]), "axis", axis);
    vec![
        with_int(node("ArgMax", &["x"], &["i"]), "axis", 1),
        ints("s", &[0]),
        ints("e", &[1]),
        ints("a", &[1]),
        node("Slice", &["x", "s", "e", "a"], &["u"]),
        with_text(scatter, "reduction", reduction),
    ]
}

fn transposed_conv() -> Vec<NodeProto> {
    let conv = with_ints(node("ConvTranspose", &["x", "w", "b"], &["y"]), "strides", &[2, 2]);
    with(with(weights("w", &[3, 4, 3, 3]), weights("b", &[4])), vec![conv])
}

/// Names the nodes of an operator `m`.
fn named_m(op: &str) -> impl Fn(NodeProto) -> NodeProto {
    move |node| if node.op_type() == op { named("m", node) } else { node }
}

fn independent() -> Vec<Case> {
    let axis = |op: &str, axis: i64| with_int(node(op, &["x"], &["y"]), "axis", axis);
    let hidden =
        |gates: i64| with(with(weights("w", &[1, gates * 4, 6]), weights("rr", &[1, gates * 4, 4])), vec![]);
    let recurrent = |op: &'static str, gates: i64| {
        let layer = with_int(node(op, &["t", "w", "rr"], &["s"]), "hidden_size", 4);
        let first = with_ints(node("Transpose", &["x"], &["t"]), "perm", &[1, 0, 2]);
        let squeeze = node("Squeeze", &["s", "one"], &["u"]);
        let last = with_ints(node("Transpose", &["u"], &["y"]), "perm", &[1, 0, 2]);
        with(hidden(gates), vec![ints("one", &[1]), first, layer, squeeze, last])
    };
    let conv = |attributes: &[(&str, &[i64])]| {
        let conv = node("Conv", &["x", "w", "b"], &["y"]);
        let conv = attributes.iter().fold(conv, |conv, (name, values)| with_ints(conv, name, values));
        with(with(weights("w", &[6, 3, 3, 3]), weights("b", &[6])), vec![conv])
    };
    vec![
        case("element-wise", &[5], vec![node("Add", &["x", "x"], &["d"]), node("Tanh", &["d"], &["y"])]),
        case("constants", &[37], with(weights("w", &[37]), vec![node("Mul", &["x", "w"], &["y"])])),
        case("softmax", &[4, 19], vec![axis("Softmax", -1)]),
        case(
            "normalised",
            &[3, 33],
            with(weights("w", &[33]), vec![node("LayerNormalization", &["x", "w"], &["y"])]),
        ),
        case("means", &[7, 5], vec![ints("a", &[1]), node("ReduceMean", &["x", "a"], &["y"])]),
        case(
            "sums",
            &[700],
            vec![ints("a", &[-1]), with_int(node("ReduceSum", &["x", "a"], &["y"]), "keepdims", 0)],
        ),
        case("product", &[64], with(weights("w", &[64, 48]), vec![node("MatMul", &["x", "w"], &["y"])])),
        case(
            "deep product",
            &[1000],
            with(weights("w", &[1000, 10]), vec![node("MatMul", &["x", "w"], &["y"])]),
        ),
        case("vector", &[300], with(weights("w", &[300, 1]), vec![node("MatMul", &["x", "w"], &["y"])])),
        case(
            "Gemm",
            &[48],
            with(
                with(weights("w", &[20, 48]), weights("b", &[20])),
                vec![with_int(node("Gemm", &["x", "w", "b"], &["y"]), "transB", 1)],
            ),
        ),
        case(
            "stacked product",
            &[9, 24],
            with(weights("w", &[24, 40]), vec![node("MatMul", &["x", "w"], &["y"])]),
        ),
        case(
            "scores",
            &[6, 16],
            vec![
                with_ints(node("Transpose", &["x"], &["t"]), "perm", &[0, 2, 1]),
                node("MatMul", &["x", "t"], &["s"]),
                with_int(node("Softmax", &["s"], &["p"]), "axis", -1),
                node("MatMul", &["p", "x"], &["y"]),
            ],
        ),
        case(
            "heads",
            &[6, 16],
            vec![
                ints("split", &[0, 6, 4, 4]),
                node("Reshape", &["x", "split"], &["h"]),
                with_ints(node("Transpose", &["h"], &["q"]), "perm", &[0, 2, 1, 3]),
                ints("joined", &[-1, 6, 4]),
                node("Reshape", &["q", "joined"], &["m"]),
                with_ints(node("Transpose", &["m"], &["k"]), "perm", &[0, 2, 1]),
                node("MatMul", &["m", "k"], &["s"]),
                ints("apart", &[-1, 4, 6, 6]),
                node("Reshape", &["s", "apart"], &["y"]),
            ],
        ),
        case("Conv", &[3, 9, 9], conv(&[("pads", &[1, 1, 1, 1])])),
        case("Conv with strides", &[3, 12, 12], conv(&[("strides", &[2, 2])])),
        case(
            "MaxPool",
            &[2, 8, 8],
            vec![with_ints(node("MaxPool", &["x"], &["y"]), "kernel_shape", &[2, 2])],
        ),
        case(
            "AveragePool",
            &[2, 8, 8],
            vec![with_ints(node("AveragePool", &["x"], &["y"]), "kernel_shape", &[3, 3])],
        ),
        case("GlobalAveragePool", &[2, 8, 8], vec![node("GlobalAveragePool", &["x"], &["y"])]),
        case("RNN", &[5, 6], recurrent("RNN", 1)),
        case("GRU", &[5, 6], recurrent("GRU", 3)),
        case("LSTM", &[5, 6], recurrent("LSTM", 4)),
        case("Flatten", &[3, 4], vec![node("Flatten", &["x"], &["y"])]),
        case("Concat", &[3], vec![with_int(node("Concat", &["x", "x"], &["y"]), "axis", 1)]),
        case(
            "Slice",
            &[9],
            vec![
                ints("s", &[2]),
                ints("e", &[7]),
                ints("a", &[1]),
                node("Slice", &["x", "s", "e", "a"], &["y"]),
            ],
        ),
        case("Pad", &[4], vec![ints("p", &[0, 1, 0, 2]), node("Pad", &["x", "p"], &["y"])]),
        case("LogSoftmax", &[7], vec![axis("LogSoftmax", 1)]),
        case(
            "RMSNormalization",
            &[3, 33],
            with(weights("w", &[33]), vec![node("RMSNormalization", &["x", "w"], &["y"])]),
        ),
        case(
            "BatchNormalization",
            &[3, 4, 4],
            with(
                ["w", "b", "m"].iter().flat_map(|name| weights(name, &[3])).collect(),
                vec![
                    node("Abs", &["w"], &["v"]),
                    node("BatchNormalization", &["x", "w", "b", "m", "v"], &["y"]),
                ],
            ),
        ),
        case("Attention", &[2, 5, 8], vec![node("Attention", &["x", "x", "x"], &["y"])]),
        case(
            "embedding",
            &[6],
            with(
                weights("w", &[6, 3]),
                vec![
                    with_int(with_int(node("ArgMax", &["x"], &["i"]), "axis", 1), "keepdims", 0),
                    node("Gather", &["w", "i"], &["y"]),
                ],
            ),
        ),
        case(
            "one of each row",
            &[6],
            vec![
                with_int(node("ArgMax", &["x"], &["i"]), "axis", 1),
                with_int(node("GatherElements", &["x", "i"], &["e"]), "axis", 1),
                with_int(node("GatherND", &["x", "i"], &["n"]), "batch_dims", 1),
                ints("a", &[1]),
                node("Unsqueeze", &["n", "a"], &["u"]),
                with_int(node("Concat", &["e", "u"], &["y"]), "axis", 1),
            ],
        ),
        case(
            "integer product",
            &[24],
            with(
                weights("w", &[24, 5]),
                vec![
                    with_floats(node("Constant", &[], &["scale"]), "value_floats", &[0.01]),
                    with_int(node("Constant", &[], &["ten"]), "value_int", 10),
                    node("Abs", &["w"], &["a"]),
                    with_int(node("Cast", &["ten"], &["f"]), "to", 1),
                    node("Mul", &["a", "f"], &["m"]),
                    with_int(node("Cast", &["m"], &["b"]), "to", 2),
                    node("Squeeze", &["scale"], &["s"]),
                    node("QuantizeLinear", &["x", "s"], &["q"]),
                    node("MatMulInteger", &["q", "b"], &["y"]),
                ],
            ),
        ),
        case(
            "parts of each row",
            &[6],
            vec![
                ints("sizes", &[2, 4]),
                with_int(node("Split", &["x", "sizes"], &["a", "b"]), "axis", 1),
                ints("row", &[1, 2, 4]),
                ints("one_axis", &[1]),
                node("Unsqueeze", &["b", "one_axis"], &["u"]),
                node("Expand", &["u", "row"], &["wide"]),
                node("Less", &["wide", "u"], &["less"]),
                node("Where", &["less", "u", "wide"], &["y"]),
            ],
        ),
        case("ArgMax", &[9], vec![with_int(node("ArgMax", &["x"], &["y"]), "axis", 1)]),
        case("TopK", &[9], top(1)),
        case("ScatterElements", &[6], scattered(1, "none")),
        case("ScatterElements that adds", &[6], scattered(1, "add")),
        case(
            "ScatterND",
            &[6],
            vec![
                node("Transpose", &["x"], &["t"]),
                ints("flat", &[4, 1]),
                ints("pairs", &[2, 1]),
                node("Reshape", &["flat", "pairs"], &["i"]),
                ints("s", &[0]),
                ints("e", &[2]),
                node("Slice", &["t", "s", "e"], &["u"]),
                node("ScatterND", &["t", "i", "u"], &["d"]),
                node("Transpose", &["d"], &["y"]),
            ],
        ),
        case("CumSum", &[37], vec![ints("a", &[1]), node("CumSum", &["x", "a"], &["y"])]),
        case(
            "CumSum backwards",
            &[3, 5],
            vec![
                ints("a", &[-2]),
                with_int(with_int(node("CumSum", &["x", "a"], &["y"]), "reverse", 1), "exclusive", 1),
            ],
        ),
        case("ConvTranspose", &[3, 5, 5], transposed_conv()),
        case(
            "GridSample",
            &[2, 5, 5],
            vec![
                with_ints(node("Transpose", &["x"], &["g"]), "perm", &[0, 2, 3, 1]),
                node("GridSample", &["x", "g"], &["y"]),
            ],
        ),
        case(
            "GridSample at places that all rows share",
            &[2, 5, 5],
            with(
                weights("w", &[1, 4, 3, 2]),
                vec![
                    with_int(node("Shape", &["x"], &["n"]), "end", 1),
                    ints("each", &[4, 3, 2]),
                    with_int(node("Concat", &["n", "each"], &["shape"]), "axis", 0),
                    node("Expand", &["w", "shape"], &["g"]),
                    node("GridSample", &["x", "g"], &["y"]),
                ],
            ),
        ),
        case(
            "GridSample of rows as channels",
            &[2, 5, 5],
            with(
                weights("w", &[2, 4, 3, 2]),
                vec![
                    with_ints(node("Transpose", &["x"], &["t"]), "perm", &[1, 0, 2, 3]),
                    node("GridSample", &["t", "w"], &["s"]),
                    with_ints(node("Transpose", &["s"], &["y"]), "perm", &[1, 0, 2, 3]),
                ],
            ),
        ),
        case("Einsum of scores", &[6, 16], vec![equation("bij,bkj->bik", &["x", "x"])]),
        case("Einsum of heads", &[2, 6, 8], vec![equation("bhid,bhjd->bihj", &["x", "x"])]),
        case(
            "Einsum with weights",
            &[6, 16],
            with(weights("w", &[16, 5]), vec![equation("bij,jk->bki", &["x", "w"])]),
        ),
        case("Einsum of one operand", &[6, 16], vec![equation("bij->bj", &["x"])]),
        case("Einsum of products", &[6, 16], vec![equation("...j,...j->...", &["x", "x"])]),
        case(
            "Einsum of three",
            &[6, 16],
            with(weights("w", &[16, 16]), vec![equation("bij,jk,bik->bi", &["x", "w", "x"])]),
        ),
        case(
            "zeros of as many rows",
            &[4],
            vec![
                node("Shape", &["x"], &["n"]),
                node("ConstantOfShape", &["n"], &["z"]),
                with_int(node("Concat", &["z", "x"], &["y"]), "axis", 1),
            ],
        ),
        case(
            "quantised by constants",
            &[8],
            with(
                vec![with_floats(node("Constant", &[], &["scale"]), "value_floats", &[0.125])],
                vec![
                    node("QuantizeLinear", &["x", "scale"], &["q"]),
                    node("DequantizeLinear", &["q", "scale"], &["y"]),
                ],
            ),
        ),
    ]
}

#[test]
fn rows_that_are_proven_independent_give_the_same_bits_alone_and_beside_any_others() {
    let proofs = independent().into_iter().map(|case| (case.proof(), case));
    let unproven: Vec<String> = proofs
        .filter(|(proof, _)| *proof != RowProof::Independent)
        .map(|(proof, case)| format!("{}: {proof}", case.name))
        .collect();
    assert!(unproven.is_empty(), "{}", unproven.join("\n"));
    let mut differ = Vec::new();
    for case in independent() {
        for name in ["cpu", "reference"] {
            let on = backends::start(name).unwrap();
            let graph = on.clone().compile(case.module(), &CompileOptions::default()).unwrap();
            let width = case.row.iter().product();
            let row = numbers(width, 5);
            let shape = |rows: usize| [&[rows], case.row].concat();
            let run = |x: Vec<f32>, rows: usize| {
                let x = TensorData::new(&shape(rows), &x).unwrap();
                outputs(&on, &*graph, &[x]).remove(0)
            };
            let alone = run(row.clone(), 1);
            let bytes = alone.byte_len();
            for (rows, outlier) in [(2, 1e6f32), (3, f32::INFINITY), (4, f32::NAN), (9, -1e6), (8, 0.5)] {
                for at in [0, rows / 2, rows - 1] {
                    let mut x = vec![outlier; rows * width];
                    x[at * width..][..width].copy_from_slice(&row);
                    let joined = run(x, rows);
                    let got = &joined.unaligned_bytes().unwrap()[at * bytes..][..bytes];
                    if *got != alone.unaligned_bytes().unwrap()[..] {
                        differ.push(format!("{} on {name}: row {at} of {rows} beside {outlier}", case.name));
                    }
                }
            }
        }
    }
    assert!(
        differ.is_empty(),
        "{}",
        differ.join(
            "
"
        )
    );
}

fn outputs(on: &Arc<Runtime>, graph: &dyn ErasedExecutable, inputs: &[TensorData]) -> Vec<TensorData> {
    let inputs: Vec<_> = inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
    let outputs = graph.run_items(&inputs).unwrap();
    outputs.iter().filter_map(|x| Some(on.to_host(x.tensor()?).unwrap())).collect()
}

/// Each mixes rows at the node `m`, in another way.
fn mixing() -> Vec<Case> {
    let axis = |op: &str, axis: i64| named("m", with_int(node(op, &["x"], &["y"]), "axis", axis));
    let m = |op: &str, inputs: &[&str], outputs: &[&str]| named("m", node(op, inputs, outputs));
    let reduced =
        |op: &str| vec![ints("a", &[0]), m(op, &["x", "a"], &["r"]), node("Sub", &["x", "r"], &["y"])];
    vec![
        case("maximum", &[4], reduced("ReduceMax")),
        case("mean", &[4], reduced("ReduceMean")),
        case("norm", &[4], reduced("ReduceL2")),
        case("all", &[4], vec![m("ReduceSum", &["x"], &["r"]), node("Div", &["x", "r"], &["y"])]),
        case(
            "dynamic quantisation",
            &[4],
            vec![
                m("DynamicQuantizeLinear", &["x"], &["q", "s", "z"]),
                node("DequantizeLinear", &["q", "s", "z"], &["y"]),
            ],
        ),
        case("softmax", &[4], vec![axis("Softmax", 0)]),
        case(
            "sorted",
            &[4],
            vec![ints("k", &[1]), named("m", with_int(node("TopK", &["x", "k"], &["y", "i"]), "axis", 0))],
        ),
        case("sums so far", &[4], vec![ints("a", &[0]), m("CumSum", &["x", "a"], &["y"])]),
        case(
            "products of rows",
            &[4],
            vec![node("Transpose", &["x"], &["t"]), m("MatMul", &["x", "t"], &["y"])],
        ),
        case(
            "products over rows",
            &[4],
            vec![
                node("Transpose", &["x"], &["t"]),
                m("MatMul", &["t", "x"], &["g"]),
                node("MatMul", &["x", "g"], &["y"]),
            ],
        ),
        case(
            "the first row",
            &[4],
            vec![
                ints("i", &[0]),
                named("m", with_int(node("Gather", &["x", "i"], &["f"]), "axis", 0)),
                node("Add", &["x", "f"], &["y"]),
            ],
        ),
        case(
            "reversed",
            &[4],
            vec![
                ints("s", &[-1]),
                ints("e", &[i64::MIN + 1]),
                ints("a", &[0]),
                ints("t", &[-1]),
                m("Slice", &["x", "s", "e", "a", "t"], &["y"]),
            ],
        ),
        case("shifted", &[4], vec![ints("p", &[1, 0, -1, 0]), m("Pad", &["x", "p"], &["y"])]),
        case(
            "the number of rows",
            &[4],
            vec![
                named("shape", with_int(node("Shape", &["x"], &["n"]), "end", 1)),
                named("cast", with_int(node("Cast", &["n"], &["f"]), "to", 1)),
                node("Mul", &["x", "f"], &["y"]),
            ],
        ),
        case(
            "positions",
            &[4],
            vec![
                with_int(node("Shape", &["x"], &["n"]), "end", 1),
                ints("axis", &[0]),
                node("Squeeze", &["n", "axis"], &["count"]),
                with_int(node("Constant", &[], &["zero"]), "value_int", 0),
                with_int(node("Constant", &[], &["step"]), "value_int", 1),
                m("Range", &["zero", "count", "step"], &["r"]),
                with_int(node("Cast", &["r"], &["f"]), "to", 1),
                node("Unsqueeze", &["f", "one"], &["column"]),
                node("Add", &["x", "column"], &["y"]),
            ],
        ),
        case(
            "regrouped",
            &[4],
            vec![
                ints("flat", &[2, -1]),
                m("Reshape", &["x", "flat"], &["two"]),
                ints("back", &[-1, 4]),
                with_int(node("Softmax", &["two"], &["p"]), "axis", -1),
                node("Reshape", &["p", "back"], &["y"]),
            ],
        ),
        case(
            "twice as many",
            &[4],
            vec![named("m", with_int(node("Concat", &["x", "x"], &["y"]), "axis", 0))],
        ),
        case(
            "data decides",
            &[4],
            vec![
                m("NonZero", &["x"], &["i"]),
                node("Transpose", &["i"], &["t"]),
                node("GatherND", &["x", "t"], &["y"]),
            ],
        ),
        case("chance", &[4], vec![m("RandomNormalLike", &["x"], &["r"]), node("Add", &["x", "r"], &["y"])]),
        case("moments", &[2, 3, 3], vec![named("m", node("MeanVarianceNormalization", &["x"], &["y"]))]),
        case(
            "norm of columns",
            &[4],
            vec![named("m", with_int(node("LpNormalization", &["x"], &["y"]), "axis", 0))],
        ),
        case("products of all rows", &[4], vec![named("m", equation("bi,ci->bc", &["x", "x"]))]),
        case("log of sums", &[4], reduced("ReduceLogSumExp")),
        case(
            "sums of columns",
            &[4],
            vec![named("m", equation("bi,bi->i", &["x", "x"])), node("Add", &["x", "y"], &["z"])],
        ),
        case(
            "scattered among rows",
            &[6],
            scattered(0, "none").into_iter().map(named_m("ScatterElements")).collect(),
        ),
        case(
            "written to the first row",
            &[4],
            with(
                weights("w", &[1, 4]),
                vec![
                    ints("flat", &[0]),
                    ints("pairs", &[1, 1]),
                    node("Reshape", &["flat", "pairs"], &["i"]),
                    m("ScatterND", &["x", "i", "w"], &["y"]),
                ],
            ),
        ),
        case(
            "written to rows by number",
            &[4],
            vec![
                with_int(with_int(node("ArgMax", &["x"], &["i"]), "axis", 1), "keepdims", 1),
                m("ScatterND", &["x", "i", "x"], &["y"]),
            ],
        ),
        case(
            "transposed convolution over rows",
            &[3, 5, 5],
            with(
                weights("w", &[5, 4, 3, 3]),
                vec![
                    with_ints(node("Transpose", &["x"], &["t"]), "perm", &[1, 2, 0, 3]),
                    m("ConvTranspose", &["t", "w"], &["c"]),
                    with_ints(node("Transpose", &["c"], &["y"]), "perm", &[2, 0, 1, 3]),
                ],
            ),
        ),
        case(
            "images sampled across rows",
            &[2, 5, 5],
            with(
                weights("w", &[2, 4, 3, 2]),
                vec![
                    with_ints(node("Transpose", &["x"], &["t"]), "perm", &[1, 2, 0, 3]),
                    m("GridSample", &["t", "w"], &["y"]),
                ],
            ),
        ),
    ]
}

#[test]
fn models_that_mix_rows_are_not_proven_and_the_node_is_named() {
    for mut case in mixing() {
        case.nodes.insert(0, ints("one", &[1]));
        match case.proof() {
            RowProof::Unproven { node, reason, .. } => {
                let named = case.nodes.iter().any(|n| n.name() == "m");
                assert!(!named || node == "m", "{}: {node} {reason}", case.name);
            }
            proof => panic!("{}: {proof}", case.name),
        }
    }
}

#[test]
fn real_models_are_proven() {
    let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models").join(name);
    for name in [
        "skl_random_forest",
        "surfaces_gbr",
        "skl_pls",
        "skl_ovo",
        "magika",
        "basic_pitch",
        "tiny_llama_fused_op23",
    ] {
        let module = Module::load(file(name).join("model.onnx")).unwrap();
        let inputs = module.row_inputs(&Default::default()).unwrap();
        assert_eq!(module.prove_rows(&inputs, 64).unwrap(), RowProof::Independent, "{name}");
    }
    // The branch that runs depends on values.
    let module = Module::load(file("silero_vad_op16").join("model.onnx")).unwrap();
    let inputs = module.row_inputs(&Default::default()).unwrap();
    let proof = module.prove_rows(&inputs, 64).unwrap();
    assert!(matches!(&proof, RowProof::Unproven { op, .. } if op == "If"), "{proof}");
}

/// The rows of ONNX Runtime's inputs, each in a run of its own and all together.
#[test]
fn real_models_give_the_same_bits_alone_and_together() {
    let on = backends::start("cpu").unwrap();
    for name in ["skl_random_forest", "surfaces_gbr", "skl_pls", "skl_ovo", "magika"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models").join(name);
        let module = Module::load(folder.join("model.onnx")).unwrap();
        let graph = on.clone().compile(module, &CompileOptions::default()).unwrap();
        let x = read_tensors(&folder.join("test_data_set_0"), "input").unwrap().remove(0);
        let (row, bytes) = (x.shape()[1..].to_vec(), x.unaligned_bytes().unwrap());
        let each = x.byte_len() / x.shape()[0];
        let rows: Vec<&[u8]> = bytes.chunks(each).cycle().take(5).collect();
        let tensor = |rows: &[&[u8]]| {
            TensorData::adopt(x.dtype(), &[&[rows.len()], &row[..]].concat(), rows.concat().into()).unwrap()
        };
        let together = outputs(&on, &*graph, &[tensor(&rows)]);
        for (at, row) in rows.iter().enumerate() {
            let alone = outputs(&on, &*graph, &[tensor(&[row])]);
            for (alone, together) in alone.iter().zip(&together) {
                let part = &together.unaligned_bytes().unwrap()[at * alone.byte_len()..][..alone.byte_len()];
                assert!(*part == alone.unaligned_bytes().unwrap()[..], "{name}: row {at}");
            }
        }
    }
}
