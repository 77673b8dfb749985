//! Tests that operations which exporters spell out become one operation, and have the results of their definition.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{LlmOp, NnOp, OpSet, QuantOp, ScalarOp};
use bb::ir::op::Family;
use bb::ir::proto::{GraphProto, NodeProto, TensorProto};
use bb::{CompileOptions, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{ints, node, serialized, untyped, value, with_int};
use std::collections::HashMap;

fn constant(name: &str, shape: &[i64], elements: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(1),
        dims: shape.to_vec(),
        float_data: elements.to_vec(),
        ..TensorProto::default()
    }
}

/// Returns the operations of each run.
fn operations(graph: &GraphProto) -> Vec<String> {
    let set = |ops: &[u16]| ops.iter().fold(OpSet::default(), |all, &op| all.with(op));
    let natives = [
        (Family::Nn, set(&[NnOp::LayerNormalization as u16, NnOp::Gelu as u16])),
        (Family::Llm, set(&[LlmOp::RmsNormalization as u16])),
        (Family::Scalar, set(&[ScalarOp::Reciprocal as u16, ScalarOp::Erf as u16, ScalarOp::Tanh as u16])),
        (Family::Quant, set(&QuantOp::ALL.iter().map(|&op| op as u16).collect::<Vec<_>>())),
    ];
    let module = Module::from_bytes(serialized(graph.clone())).unwrap();
    let text = module.print_mir_after(&HashMap::new(), &natives, "fold-constants").unwrap();
    let call = |line: &str| Some(line.split_once(" = ")?.1.split_once('(')?.0.to_owned());
    text.lines().filter(|line| line.starts_with('%')).filter_map(call).collect()
}

/// Runs a graph on every backend, as it is and recognised, and compares its first output.
fn assert_near(graph: &GraphProto, x: &TensorData, expected: &[f64], error: f64) {
    for (name, recognize) in backends::NAMES.iter().flat_map(|name| [(name, true), (name, false)]) {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(serialized(graph.clone())).unwrap();
        let mut options = CompileOptions::default();
        options.check_passes = true;
        options.passes.recognize = recognize;
        let compiled = on.clone().compile(module, &options).unwrap();
        let outputs = compiled.run(&[Some(&on.constant(x).unwrap())]).unwrap();
        let got = on.to_host(&outputs[0]).unwrap();
        let got = got.as_slice::<f32>().unwrap();
        assert_eq!(got.len(), expected.len());
        for (got, want) in got.iter().zip(expected) {
            let far = (f64::from(*got) - want).abs();
            assert!(
                far <= error * want.abs().max(1.0),
                "{got} for {want} on {name}, recognised: {recognize}"
            );
        }
    }
}

fn graph(
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    extents: &[&str],
    outputs: &[&str],
) -> GraphProto {
    GraphProto {
        name: Some("spelled_out".to_owned()),
        node: nodes,
        initializer: constants,
        input: vec![value("x", 1, extents)],
        output: outputs.iter().map(|name| untyped(name)).collect(),
        ..GraphProto::default()
    }
}

/// How a normalisation is written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Written {
    centred: bool,
    /// The mean is subtracted once for the square and once for the quotient.
    twice: bool,
    power: bool,
    inverse: Option<&'static str>,
    bias: bool,
}

const WRITTEN: Written = Written { centred: true, twice: false, power: true, inverse: None, bias: true };

impl Written {
    fn nodes(self, axes: &str) -> Vec<NodeProto> {
        let mut nodes = Vec::new();
        let mut distance = ["x", "x"];
        if self.centred {
            nodes.push(node("ReduceMean", &["x", axes], &["mean"]));
            nodes.push(node("Sub", &["x", "mean"], &["d"]));
            distance = ["d", "d"];
        }
        if self.twice {
            nodes.push(node("Sub", &["x", "mean"], &["d2"]));
            distance[1] = "d2";
        }
        let [first, second] = distance;
        nodes.push(match self.power {
            true => node("Pow", &[first, "two"], &["square"]),
            false => node("Mul", &[first, first], &["square"]),
        });
        nodes.push(node("ReduceMean", &["square", axes], &["variance"]));
        nodes.push(node("Add", &["variance", "epsilon"], &["shifted"]));
        nodes.push(node("Sqrt", &["shifted"], &["root"]));
        match self.inverse {
            None => nodes.push(node("Div", &[second, "root"], &["n"])),
            Some(op) => {
                nodes.push(match op {
                    "Div" => node("Div", &["one", "root"], &["inverse"]),
                    op => node(op, &["root"], &["inverse"]),
                });
                nodes.push(node("Mul", &["inverse", second], &["n"]));
            }
        }
        nodes.push(node("Mul", &["scale", "n"], &[if self.bias { "scaled" } else { "y" }]));
        if self.bias {
            nodes.push(node("Add", &["scaled", "bias"], &["y"]));
        }
        nodes
    }

    /// The formula, in `f64`.
    fn of(self, rows: &[f32], scale: &[f32], bias: &[f32]) -> Vec<f64> {
        let mut all = Vec::new();
        for row in rows.chunks(scale.len()) {
            let row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
            let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
            let centre = if self.centred { mean(&row) } else { 0.0 };
            let distances: Vec<f64> = row.iter().map(|x| x - centre).collect();
            let squares: Vec<f64> = distances.iter().map(|d| d * d).collect();
            let root = (mean(&squares) + f64::from(1e-5f32)).sqrt();
            for ((d, &scale), &bias) in distances.iter().zip(scale).zip(bias) {
                all.push(d / root * f64::from(scale) + if self.bias { bias.into() } else { 0.0 });
            }
        }
        all
    }
}

fn constants(row: &[i64], scale: &[f32], bias: &[f32]) -> Vec<TensorProto> {
    vec![
        constant("two", &[], &[2.0]),
        constant("one", &[], &[1.0]),
        constant("epsilon", &[1], &[1e-5]),
        constant("scale", row, scale),
        constant("bias", row, bias),
    ]
}

/// Draws numbers around `around`.
fn drawn(count: usize, around: f32) -> Vec<f32> {
    (0..count).map(|i| around + ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0).collect()
}

#[test]
fn normalisations_of_rows_become_one_operation() {
    let all = [
        WRITTEN,
        Written { twice: true, ..WRITTEN },
        Written { power: false, bias: false, ..WRITTEN },
        Written { inverse: Some("Reciprocal"), ..WRITTEN },
        Written { inverse: Some("Div"), twice: true, ..WRITTEN },
        Written { centred: false, bias: false, ..WRITTEN },
        Written { centred: false, bias: false, power: false, inverse: Some("Reciprocal"), ..WRITTEN },
        Written { centred: false, inverse: Some("Div"), ..WRITTEN },
    ];
    for written in all {
        for (extents, row, axes) in
            [(["b", "s", "20"], vec![20i64], vec![-1i64]), (["b", "4", "5"], vec![4, 5], vec![2, 1])]
        {
            let length: i64 = row.iter().product();
            let (scale, bias) = (drawn(length as usize, 1.0), drawn(length as usize, -0.5));
            let mut nodes = vec![ints("axes", &axes)];
            nodes.extend(written.nodes("axes"));
            let graph = graph(nodes, constants(&row, &scale, &bias), &extents, &["y"]);
            let expected: &[&str] = match (written.centred, written.bias) {
                (true, _) => &["layer_normalization"],
                (false, false) => &["rms_normalization"],
                (false, true) => &["rms_normalization", "add"],
            };
            assert_eq!(operations(&graph), expected, "{written:?}");
            let shape = if row.len() == 1 { [2, 3, 20] } else { [6, 4, 5] };
            let x = drawn(shape.iter().product(), 3.0);
            let expected = written.of(&x, &scale, &bias);
            assert_near(&graph, &TensorData::new(&shape, &x).unwrap(), &expected, 1e-5);
        }
    }
}

/// A normalisation stays as written if an intermediate result has another reader, if it normalises other dimensions, or if it scales by
/// something else than a row.
#[test]
fn what_is_no_normalisation_of_rows_stays() {
    let (scale, bias) = (drawn(5, 1.0), drawn(5, 0.0));
    for (case, axes, row, outputs) in [
        ("returned mean", vec![-1], vec![5], vec!["y", "mean"]),
        ("returned root", vec![-1], vec![5], vec!["y", "root"]),
        ("returned quotient", vec![-1], vec![5], vec!["y", "n"]),
        ("first dimension", vec![0], vec![5], vec!["y"]),
        ("a scale for each row", vec![-1], vec![5, 1], vec!["y"]),
    ] {
        let mut nodes = vec![ints("axes", &axes)];
        nodes.extend(WRITTEN.nodes("axes"));
        let graph = graph(nodes, constants(&row, &scale, &bias), &["5", "5"], &outputs);
        let found = operations(&graph);
        assert!(!found.iter().any(|name| name.contains("normalization")), "{case}: {found:?}");
    }
}

/// Elements are multiples of 1/16 from 0 to 255/16, so that the scale is exact and nothing rounds.
#[test]
fn products_that_are_quantised_by_their_range_become_one_operation() {
    let (w, scales) = ([3i8, -2, 0, 127, -128, 5, 7, 11, -1, 2, 4, -6], [0.5f32, 0.25, 2.0]);
    let quantise = node("DynamicQuantizeLinear", &["x"], &["q", "q_scale", "q_zero"]);
    let multiply = node("MatMulInteger", &["q", "w", "q_zero", "w_zero"], &["whole"]);
    let cast = with_int(node("Cast", &["whole"], &["floats"]), "to", 1);
    let bytes = |name: &str, shape: &[i64], elements: &[i8]| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(3),
        dims: shape.to_vec(),
        raw_data: Some(elements.iter().map(|&x| x as u8).collect::<Vec<_>>().into()),
        ..TensorProto::default()
    };
    let x: Vec<f32> = [0, 255, 17, 4, 96, 128, 1, 33].iter().map(|&x| x as f32 / 16.0).collect();
    for (case, zero, several) in [
        ("one scale", 0, false),
        ("a scale for each column", 0, true),
        ("a zero point", 3, true),
        ("shared", 0, true),
    ] {
        let nodes = vec![
            quantise.clone(),
            node("Mul", &["q_scale", "w_scale"], &["both"]),
            multiply.clone(),
            cast.clone(),
            node("Mul", &["floats", "both"], &["y"]),
        ];
        let mut outputs = vec!["y"];
        if case == "shared" {
            outputs.push("q");
        }
        let scales = if several { &scales[..] } else { &scales[..1] };
        let shape: &[i64] = if several { &[3] } else { &[] };
        let constants =
            vec![bytes("w", &[4, 3], &w), bytes("w_zero", &[], &[zero]), constant("w_scale", shape, scales)];
        let graph = graph(nodes, constants, &["n", "4"], &outputs);
        let found = operations(&graph);
        assert_eq!(found.iter().any(|name| name == "dynamic_matmul"), case != "shared", "{case}: {found:?}");
        assert_eq!(found.len(), if case == "shared" { 5 } else { 1 }, "{case}: {found:?}");
        let mut expected = Vec::new();
        for row in x.chunks(4) {
            for column in 0..3 {
                let at = |k: usize| f64::from(w[k * 3 + column]) - f64::from(zero);
                let sum: f64 = (0..4).map(|k| f64::from(row[k]) * at(k)).sum();
                expected.push(sum * f64::from(scales[if several { column } else { 0 }]));
            }
        }
        assert_near(&graph, &TensorData::new(&[2, 4], &x).unwrap(), &expected, 0.0);
    }
}

/// The error function, by its power series, in `f64`. Up to 3 the terms are below 2000, so that few digits cancel.
fn erf(x: f64) -> f64 {
    let mut power = x;
    let mut sum = x;
    for n in 1..80 {
        power *= -x * x / f64::from(n);
        sum += power / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn gelu_becomes_one_operation_however_it_is_written() {
    let by_erf = |op, by| {
        vec![
            node(op, &["x", by], &["u"]),
            node("Erf", &["u"], &["curve"]),
            node("Add", &["curve", "one"], &["sum"]),
        ]
    };
    let by_tanh = |cube: Vec<NodeProto>| {
        let mut nodes = cube;
        nodes.extend([
            node("Mul", &["cube", "share"], &["part"]),
            node("Add", &["x", "part"], &["both"]),
            node("Mul", &["factor", "both"], &["u"]),
            node("Tanh", &["u"], &["curve"]),
            node("Add", &["one", "curve"], &["sum"]),
        ]);
        nodes
    };
    let power = vec![node("Pow", &["x", "three"], &["cube"])];
    let product = vec![node("Mul", &["x", "x"], &["square"]), node("Mul", &["square", "x"], &["cube"])];
    let orders = [
        vec![node("Mul", &["x", "sum"], &["z"]), node("Mul", &["z", "half"], &["y"])],
        vec![node("Mul", &["half", "x"], &["z"]), node("Mul", &["z", "sum"], &["y"])],
        vec![node("Mul", &["half", "sum"], &["z"]), node("Mul", &["x", "z"], &["y"])],
    ];
    let curves = [
        (false, by_erf("Div", "root")),
        (false, by_erf("Mul", "inverse")),
        (true, by_tanh(power)),
        (true, by_tanh(product)),
    ];
    let constants: Vec<TensorProto> = [
        ("one", 1.0f32),
        ("half", 0.5),
        ("three", 3.0),
        ("root", std::f32::consts::SQRT_2),
        ("inverse", std::f32::consts::FRAC_1_SQRT_2),
        ("share", 0.044_715),
        ("factor", 0.797_884_6),
    ]
    .iter()
    .map(|(name, number)| constant(name, &[], &[*number]))
    .collect();
    for ((tanh, curve), order) in
        curves.iter().flat_map(|curve| orders.iter().map(move |order| (curve, order)))
    {
        let nodes = [curve.as_slice(), order].concat();
        let own = graph(nodes, constants.clone(), &["b", "s"], &["y"]);
        assert_eq!(operations(&own), ["gelu"]);
        for shape in [[1, 1], [7, 9], [1, 101]] {
            let x: Vec<f32> = drawn(shape.iter().product(), 0.0).iter().map(|x| x * 4.0).collect();
            let of = |&x: &f32| {
                let x = f64::from(x);
                let share = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                let curve = if *tanh { share.tanh() } else { erf(x / 2f64.sqrt()) };
                0.5 * x * (1.0 + curve)
            };
            let expected: Vec<f64> = x.iter().map(of).collect();
            // Each step rounds once, and the argument of tanh by a few units more.
            assert_near(&own, &TensorData::new(&shape, &x).unwrap(), &expected, 2e-6);
        }
        let mut halves = constants.clone();
        halve(&mut halves);
        let mut halves = graph([curve.as_slice(), order].concat(), halves, &["b", "s"], &["y"]);
        halves.input = vec![value("x", 10, &["b", "s"])];
        assert_eq!(operations(&halves), ["gelu"]);
        let nodes = [curve.as_slice(), order].concat();
        let shared = graph(nodes, constants.clone(), &["b", "s"], &["y", "sum"]);
        assert!(!operations(&shared).contains(&"gelu".to_owned()));
    }
}

/// The graph of a written normalisation of `f16`.
fn of_halves(nodes: Vec<NodeProto>) -> GraphProto {
    let mut constants = constants(&[20], &drawn(20, 1.0), &drawn(20, -0.5));
    halve(&mut constants);
    let mut graph = graph(nodes, constants, &["b", "s", "20"], &["y"]);
    graph.input = vec![value("x", 10, &["b", "s", "20"])];
    graph
}

/// Makes constants of `f32` constants of `f16`.
fn halve(constants: &mut [TensorProto]) {
    for constant in constants {
        let halves = constant.float_data.iter().map(|&x| bb::f16::from_f32(x).to_bits().into());
        constant.int32_data = halves.collect();
        (constant.float_data, constant.data_type) = (Vec::new(), Some(10));
    }
}

/// Squares of halves overflow between operations but not within one operation, so fusing halves needs no option.
#[test]
fn normalisations_of_halves_become_one_operation() {
    for written in
        [WRITTEN, Written { twice: true, ..WRITTEN }, Written { centred: false, bias: false, ..WRITTEN }]
    {
        let mut nodes = vec![ints("axes", &[-1])];
        nodes.extend(written.nodes("axes"));
        let expected = if written.centred { "layer_normalization" } else { "rms_normalization" };
        assert_eq!(operations(&of_halves(nodes)), [expected], "{written:?}");
    }
}

/// Llama, as PyTorch exports it: the quotient is of `f32`, and is scaled as a half.
#[test]
fn normalisations_of_halves_by_way_of_floats_become_one_operation() {
    let nodes = vec![
        ints("axes", &[-1]),
        with_int(node("Cast", &["x"], &["w"]), "to", 1),
        with_int(node("Cast", &["epsilon"], &["small"]), "to", 1),
        with_int(node("Cast", &["two"], &["power"]), "to", 1),
        node("Pow", &["w", "power"], &["square"]),
        node("ReduceMean", &["square", "axes"], &["variance"]),
        node("Add", &["variance", "small"], &["shifted"]),
        node("Sqrt", &["shifted"], &["root"]),
        node("Reciprocal", &["root"], &["inverse"]),
        node("Mul", &["w", "inverse"], &["n"]),
        with_int(node("Cast", &["n"], &["back"]), "to", 10),
        node("Mul", &["scale", "back"], &["y"]),
    ];
    assert_eq!(operations(&of_halves(nodes)), ["rms_normalization"]);
}
