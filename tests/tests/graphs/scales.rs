//! Tests that constants which scale and shift the results of convolutions and products become weights, with the same results.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{NnOp, OpSet, ScalarOp};
use bb::ir::convert::{self, Rounding};
use bb::ir::op::Family;
use bb::ir::proto::{GraphProto, NodeProto, TensorProto};
use bb::{CompileOptions, DataType, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_int};
use std::collections::HashMap;

/// Returns the operations of each run with an input of this shape.
fn operations(graph: &GraphProto, shape: &[usize]) -> Vec<String> {
    let natives = [
        (Family::Nn, OpSet::default().with(NnOp::Conv as u16)),
        (Family::Scalar, OpSet::default().with(ScalarOp::Fused as u16)),
    ];
    let module = Module::from_bytes(serialized(graph.clone())).unwrap();
    let text = module
        .print_mir_after(&HashMap::from([("x".to_owned(), shape.to_vec())]), &natives, "fold-constants")
        .unwrap();
    let call = |line: &str| Some(line.split_once(" = ")?.1.split_once('(')?.0.to_owned());
    text.lines().filter(|line| line.starts_with('%')).filter_map(call).collect()
}

/// Numbers between -1 and 1.
fn drawn(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn constant(name: &str, shape: &[usize], numbers: &[f32]) -> TensorProto {
    TensorData::new(shape, numbers).unwrap().to_proto(name)
}

fn graph(
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    extents: &[&str],
    outputs: &[&str],
) -> GraphProto {
    GraphProto {
        name: Some("scales".to_owned()),
        node: nodes,
        initializer: constants,
        input: vec![value("x", 1, extents)],
        output: outputs.iter().map(|name| untyped(name)).collect(),
        ..GraphProto::default()
    }
}

/// Compiles a graph for every backend, with the option and without, and runs it with all inputs one after another. The error
/// of a sum of products is at most the number of terms times the sum of their sizes times the error of `f32`; 1e-5 is above this bound
/// here.
fn assert_near(graph: &GraphProto, cases: &[(TensorData, Vec<f64>)]) {
    for (name, fold_scales) in backends::NAMES.iter().flat_map(|name| [(name, true), (name, false)]) {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(serialized(graph.clone())).unwrap();
        let mut options = CompileOptions::default();
        options.check_passes = true;
        options.passes.fold_scales = fold_scales;
        let compiled = on.clone().compile(module, &options).unwrap();
        for (x, expected) in cases {
            let outputs = compiled.run(&[Some(&on.constant(x).unwrap())]).unwrap();
            let got = on.to_host(&outputs[0]).unwrap();
            let got = got.as_slice::<f32>().unwrap();
            assert_eq!(got.len(), expected.len());
            for (got, want) in got.iter().zip(expected) {
                let far = (f64::from(*got) - want).abs();
                assert!(
                    far <= 1e-5 * want.abs().max(1.0),
                    "{got} for {want} on {name}, folded: {fold_scales}"
                );
            }
        }
    }
}

const FILTERS: usize = 4;

/// A correlation of `[n, c, s, s]` with filters of 3 by 3 elements, in `f64`, of `groups` groups.
fn correlated(x: &TensorData, w: &[f32], groups: usize) -> Vec<f64> {
    let &[n, c, rows, columns] = x.shape() else { unreachable!() };
    let numbers = x.as_slice::<f32>().unwrap();
    let depth = c / groups;
    let mut all = Vec::new();
    for (image, filter) in (0..n).flat_map(|image| (0..FILTERS).map(move |filter| (image, filter))) {
        let first = filter / (FILTERS / groups) * depth;
        for (row, column) in (0..rows - 2).flat_map(|row| (0..columns - 2).map(move |column| (row, column))) {
            let mut sum = 0.0;
            for (channel, i, j) in (0..depth * 9).map(|k| (k / 9, k / 3 % 3, k % 3)) {
                let from = ((image * c + first + channel) * rows + row + i) * columns + column + j;
                sum += f64::from(numbers[from]) * f64::from(w[(filter * depth + channel) * 9 + i * 3 + j]);
            }
            all.push(sum);
        }
    }
    all
}

/// Applies a function to each number and its channel.
fn by_channel(all: Vec<f64>, x: &TensorData, function: impl Fn(f64, usize) -> f64) -> Vec<f64> {
    let places = (x.shape()[2] - 2) * (x.shape()[3] - 2);
    all.into_iter().enumerate().map(|(i, y)| function(y, i / places % FILTERS)).collect()
}

const IMAGES: [[usize; 4]; 3] = [[1, 2, 5, 5], [3, 2, 4, 7], [2, 2, 3, 3]];

#[test]
fn batch_normalisations_and_scales_after_convolutions_become_weights() {
    let numbers = |seed| drawn(FILTERS, seed);
    let [scale, shift, mean, bias] = [1, 2, 3, 4].map(numbers);
    let variance: Vec<f32> = numbers(5).iter().map(|x| x.abs() + 0.5).collect();
    for (groups, with_bias) in [(1, true), (2, false)] {
        let w = drawn(FILTERS * 2 / groups * 9, 6);
        let of = |shape: &[usize], name, numbers: &[f32]| constant(name, shape, numbers);
        let channels = [FILTERS, 1, 1];
        let constants = vec![
            of(&[FILTERS, 2 / groups, 3, 3], "w", &w),
            of(&[FILTERS], "b", &bias),
            of(&[FILTERS], "scale", &scale),
            of(&[FILTERS], "shift", &shift),
            of(&[FILTERS], "mean", &mean),
            of(&[FILTERS], "variance", &variance),
            of(&channels, "scale_3", &scale),
            of(&channels, "shift_3", &shift),
            of(&[1], "third", &[3.0]),
        ];
        let operands: &[&str] = if with_bias { &["x", "w", "b"] } else { &["x", "w"] };
        let conv = with_int(node("Conv", operands, &["c"]), "group", groups as i64);
        let start = |x: &TensorData| {
            let y = correlated(x, &w, groups);
            by_channel(y, x, |y, at| y + if with_bias { f64::from(bias[at]) } else { 0.0 })
        };
        let cases = |function: &dyn Fn(f64, usize) -> f64| -> Vec<(TensorData, Vec<f64>)> {
            let case = |shape: [usize; 4]| {
                let x = TensorData::new(&shape, &drawn(shape.iter().product(), 7)).unwrap();
                let expected = by_channel(start(&x), &x, function);
                (x, expected)
            };
            IMAGES.map(case).into()
        };
        let normal = node("BatchNormalization", &["c", "scale", "shift", "mean", "variance"], &["y"]);
        let normalised = graph(vec![conv.clone(), normal], constants.clone(), &["n", "2", "r", "s"], &["y"]);
        assert_eq!(operations(&normalised, &IMAGES[0]), ["conv"]);
        let wide = |x: &[f32], at: usize| f64::from(x[at]);
        let expected = cases(&|y, at| {
            let root = (wide(&variance, at) + f64::from(1e-5f32)).sqrt();
            (y - wide(&mean, at)) / root * wide(&scale, at) + wide(&shift, at)
        });
        assert_near(&normalised, &expected);
        let nodes = vec![
            conv,
            node("Mul", &["scale_3", "c"], &["scaled"]),
            node("Sub", &["scaled", "shift_3"], &["shifted"]),
            node("Div", &["shifted", "third"], &["y"]),
        ];
        let scaled = graph(nodes, constants, &["n", "2", "r", "s"], &["y"]);
        assert_eq!(operations(&scaled, &IMAGES[0]), ["conv"]);
        let expected = cases(&|y, at| (y * wide(&scale, at) - wide(&shift, at)) / 3.0);
        assert_near(&scaled, &expected);
    }
}

/// Halves are widened before scales are folded.
#[test]
fn scales_of_halves_become_weights_too() {
    let halves = |name: &str, shape: &[usize], numbers: Vec<f32>| {
        let numbers = TensorData::new(shape, &numbers).unwrap();
        convert::cast(&numbers, DataType::F16, Rounding::default()).unwrap().to_proto(name)
    };
    let constants = vec![
        halves("w", &[FILTERS, 2, 3, 3], drawn(FILTERS * 18, 6)),
        halves("scale", &[FILTERS], drawn(FILTERS, 1)),
        halves("shift", &[FILTERS], drawn(FILTERS, 2)),
        halves("mean", &[FILTERS], drawn(FILTERS, 3)),
        halves("variance", &[FILTERS], vec![0.5; FILTERS]),
    ];
    let normal = node("BatchNormalization", &["c", "scale", "shift", "mean", "variance"], &["y"]);
    let mut graph =
        graph(vec![node("Conv", &["x", "w"], &["c"]), normal], constants, &["1", "2", "5", "5"], &["y"]);
    graph.input = vec![value("x", DataType::F16.to_onnx(), &["1", "2", "5", "5"])];
    let operations = operations(&graph, &IMAGES[0]);
    assert!(operations.iter().filter(|name| *name == "conv").count() == 1, "{operations:?}");
    assert!(operations.iter().all(|name| ["cast", "conv"].contains(&name.as_str())), "{operations:?}");
}

#[test]
fn scales_of_columns_become_weights_of_products() {
    let (inner, columns) = (6, 5);
    let (w, scale) = (drawn(inner * columns, 8), drawn(columns, 9));
    let constants = vec![constant("w", &[inner, columns], &w), constant("scale", &[columns], &scale)];
    let nodes = vec![node("MatMul", &["x", "w"], &["p"]), node("Mul", &["p", "scale"], &["y"])];
    let graph = graph(nodes, constants, &["a", "b", "6"], &["y"]);
    assert_eq!(operations(&graph, &[1, 1, 6]), ["matmul"]);
    let cases = [[1, 1, 6], [2, 3, 6], [4, 1, 6]].map(|shape: [usize; 3]| {
        let x = TensorData::new(&shape, &drawn(shape.iter().product(), 10)).unwrap();
        let mut expected = Vec::new();
        for row in x.as_slice::<f32>().unwrap().chunks(inner) {
            for column in 0..columns {
                let term = |k: usize| f64::from(row[k]) * f64::from(w[k * columns + column]);
                expected.push((0..inner).map(term).sum::<f64>() * f64::from(scale[column]));
            }
        }
        (x, expected)
    });
    assert_near(&graph, &cases);
}

/// A product stays as written if its operand has another reader, or if it scales rows or a sum.
#[test]
fn what_is_no_scale_of_channels_stays() {
    let w = drawn(FILTERS * 2 * 9, 11);
    let constants = |shape: &[usize]| {
        vec![
            constant("w", &[FILTERS, 2, 3, 3], &w),
            constant("scale", shape, &drawn(shape.iter().product(), 12)),
        ]
    };
    let nodes = vec![node("Conv", &["x", "w"], &["c"]), node("Mul", &["c", "scale"], &["y"])];
    for (shape, outputs) in [
        (&[FILTERS, 1, 1][..], &["y", "c"][..]),
        (&[3, 1], &["y"]),
        (&[FILTERS, 3, 3], &["y"]),
        (&[2, 1, 1, 1], &["y"]),
    ] {
        let graph = graph(nodes.clone(), constants(shape), &["n", "2", "5", "5"], outputs);
        assert_eq!(operations(&graph, &IMAGES[0]), ["conv", "mul"], "{shape:?}");
    }
}
