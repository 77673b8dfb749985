//! Tests that attention which exporters spell out becomes one operation, and has the results of its definition for all extents.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{LlmOp, NnOp, OpSet};
use bb::ir::op::Family;
use bb::ir::proto::{GraphProto, NodeProto};
use bb::onnx::OnnxValue;
use bb::profile::Profile;
use bb::{CompileOptions, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{ints, node, serialized, untyped, value, with_int, with_ints};
use std::collections::HashMap;

const HEADS: usize = 3;
const SIZE: usize = 4;

/// The greatest error of a result of the steps: sums of fewer than 32 products of numbers below 2, and a softmax.
const ERROR: f64 = 2e-5;

/// Returns how often the model calls attention in each run.
fn attentions(graph: &GraphProto) -> usize {
    let natives = [
        (Family::Nn, OpSet::default().with(NnOp::Softmax as u16)),
        (Family::Llm, OpSet::default().with(LlmOp::Attention as u16)),
    ];
    let module = Module::from_bytes(serialized(graph.clone())).unwrap();
    let text = module.print_mir_after(&HashMap::new(), &natives, "fold-constants").unwrap();
    let call = text.matches(" = attention(").count();
    assert_eq!(text.contains(" = softmax("), call == 0, "{text}");
    call
}

fn scalar(name: &str, number: f32) -> bb::ir::proto::TensorProto {
    TensorData::new(&[], &[number]).unwrap().to_proto(name)
}

fn graph(inputs: &[(&str, &[&str])], nodes: Vec<NodeProto>) -> GraphProto {
    GraphProto {
        name: Some("attention".to_owned()),
        node: nodes,
        initializer: vec![scalar("half", 0.5), scalar("two", 2.0), scalar("root", 0.707_106_77)],
        input: inputs.iter().map(|(name, extents)| value(name, 1, extents)).collect(),
        output: vec![untyped("y")],
        ..GraphProto::default()
    }
}

/// Numbers between -1 and 1.
fn drawn(shape: &[usize], seed: usize) -> TensorData {
    let number = |i: usize| ((i * 7919 + seed * 104_729 + 13) % 1009) as f32 / 504.5 - 1.0;
    TensorData::new(shape, &(0..shape.iter().product()).map(number).collect::<Vec<f32>>()).unwrap()
}

/// Returns the element at a position. Positions along dimensions of extent 1 count as 0.
fn at(x: &TensorData, position: [usize; 4]) -> f64 {
    let shape = [&[1; 4][x.shape().len()..], x.shape()].concat();
    let place = |all: usize, (&extent, at): (&usize, usize)| all * extent + if extent == 1 { 0 } else { at };
    let place = shape.iter().zip(position).fold(0, place);
    f64::from(x.as_slice::<f32>().unwrap()[place])
}

/// The definition in `f64`: averages of `v`, weighted by the exponentials of the scaled products, with the mask added.
fn attention([q, k, v]: [&TensorData; 3], mask: Option<&TensorData>, scale: f64) -> Vec<f64> {
    let (&[b, h, s, d], &[_, _, t, e]) = (q.shape(), v.shape()) else { unreachable!() };
    let mut all = Vec::new();
    for (i, j, row) in (0..b).flat_map(|i| (0..h).flat_map(move |j| (0..s).map(move |row| (i, j, row)))) {
        let score = |column: usize| {
            let product: f64 = (0..d).map(|l| at(q, [i, j, row, l]) * at(k, [i, j, column, l])).sum();
            product * scale + mask.map_or(0.0, |mask| at(mask, [i, j, row, column]))
        };
        let scores: Vec<f64> = (0..t).map(score).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = shares.iter().sum();
        for l in 0..e {
            all.push((0..t).map(|column| shares[column] / sum * at(v, [i, j, column, l])).sum());
        }
    }
    all
}

/// The inputs of a run, and the results of the definition.
type Case = (Vec<TensorData>, Vec<f64>);

/// Compiles a graph for every backend, as it is and recognised, and runs it with all inputs one after another.
fn assert_near(graph: &GraphProto, becomes_one: bool, cases: &[Case]) {
    assert_eq!(attentions(graph), usize::from(becomes_one));
    for (name, recognize) in backends::NAMES.iter().flat_map(|name| [(name, true), (name, false)]) {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(serialized(graph.clone())).unwrap();
        let mut options = CompileOptions::default();
        options.check_passes = true;
        options.passes.recognize = recognize;
        let compiled = on.clone().compile(module, &options).unwrap();
        for (inputs, expected) in cases {
            let inputs: Vec<_> = inputs.iter().map(|x| on.constant(x).unwrap()).collect();
            let given: Vec<_> = inputs.iter().map(Some).collect();
            let outputs = compiled.run(&given).unwrap();
            if *name == "cpu" {
                let items: Vec<_> = inputs.iter().map(|x| Some(OnnxValue::Tensor(x.clone()))).collect();
                let mut profile = Profile::new();
                compiled.run_profiled(&items, &mut profile).unwrap();
                let calls = profile.rows().iter().any(|row| row.operation == "attention");
                assert_eq!(calls, recognize && becomes_one, "recognised: {recognize}");
            }
            let got = on.to_host(&outputs[0]).unwrap();
            let got = got.as_slice::<f32>().unwrap();
            assert_eq!(got.len(), expected.len());
            for (got, want) in got.iter().zip(expected) {
                let alike = (f64::from(*got) - want).abs() <= ERROR || (got.is_nan() && want.is_nan());
                assert!(alike, "{got} for {want} on {name}, recognised: {recognize}");
            }
        }
    }
}

/// The batches, queries and keys of the runs of one model; the first has extents that many masks share.
const RUNS: [[usize; 3]; 4] = [[1, 1, 1], [2, 5, 6], [1, 7, 3], [3, 1, 9]];

fn operands([b, s, t]: [usize; 3]) -> [TensorData; 3] {
    [drawn(&[b, HEADS, s, SIZE], 1), drawn(&[b, HEADS, t, SIZE], 2), drawn(&[b, HEADS, t, 5], 3)]
}

const OPERANDS: [(&str, &[&str]); 3] =
    [("q", &["b", "3", "s", "4"]), ("k", &["b", "3", "t", "4"]), ("v", &["b", "3", "t", "5"])];

fn turned(name: &str, perm: &[i64]) -> NodeProto {
    with_ints(node("Transpose", &[name], &["turned"]), "perm", perm)
}

fn softmax(scores: &str) -> NodeProto {
    with_int(node("Softmax", &[scores], &["shares"]), "axis", -1)
}

#[test]
fn the_scale_may_be_anywhere_and_extents_any() {
    let before = vec![
        node("Mul", &["q", "root"], &["left"]),
        turned("k", &[0, 1, 3, 2]),
        node("Mul", &["turned", "root"], &["right"]),
        node("MatMul", &["left", "right"], &["scores"]),
    ];
    let behind = |op, by| {
        vec![
            turned("k", &[0, 1, 3, 2]),
            node("MatMul", &["q", "turned"], &["products"]),
            node(op, &["products", by], &["scores"]),
        ]
    };
    for mut nodes in [before, behind("Mul", "half"), behind("Div", "two")] {
        nodes.extend([softmax("scores"), node("MatMul", &["shares", "v"], &["y"])]);
        let graph = graph(&OPERANDS, nodes);
        let case = |run: [usize; 3]| {
            let [q, k, v] = operands(run);
            let expected = attention([&q, &k, &v], None, 0.5);
            (vec![q, k, v], expected)
        };
        assert_near(&graph, true, &RUNS.map(case));
    }
}

#[test]
fn a_mask_may_hide_some_keys_or_all() {
    let masks: [&[&str]; 3] = [&["b", "1", "1", "t"], &["s", "t"], &["b", "3", "s", "1"]];
    for (case, extents) in masks.into_iter().enumerate() {
        let nodes = vec![
            turned("k", &[0, 1, 3, 2]),
            node("MatMul", &["q", "turned"], &["products"]),
            node("Mul", &["products", "half"], &["scaled"]),
            node("Add", &["mask", "scaled"], &["scores"]),
            softmax("scores"),
            node("MatMul", &["shares", "v"], &["y"]),
        ];
        let mut inputs = OPERANDS.to_vec();
        inputs.push(("mask", extents));
        let graph = graph(&inputs, nodes);
        let cases = RUNS.map(|run @ [b, s, t]| {
            let [q, k, v] = operands(run);
            let shape = &[vec![b, 1, 1, t], vec![s, t], vec![b, HEADS, s, 1]][case];
            let mask = drawn(shape, 4);
            let hidden = |(i, &x): (usize, &f32)| match () {
                // The last row is hidden as a whole, and a few numbers elsewhere.
                () if i + shape[shape.len() - 1] >= mask.len() || i % 5 == 2 => f32::NEG_INFINITY,
                () => x,
            };
            let mask: Vec<f32> = mask.as_slice::<f32>().unwrap().iter().enumerate().map(hidden).collect();
            let mask = TensorData::new(shape, &mask).unwrap();
            let expected = attention([&q, &k, &v], Some(&mask), 0.5);
            assert!(expected.iter().any(|y| y.is_nan()));
            (vec![q, k, v, mask], expected)
        });
        assert_near(&graph, true, &cases);
    }
}

/// Splits `[b, s, 12]` into heads, as exporters do.
fn heads(from: &str, to: &str, perm: &[i64]) -> [NodeProto; 2] {
    let split = format!("{to}_split");
    [
        node("Reshape", &[from, "heads"], &[&split]),
        with_ints(node("Transpose", &[&split], &[to]), "perm", perm),
    ]
}

#[test]
fn heads_are_split_and_keys_transposed_at_once() {
    let mut nodes = vec![ints("heads", &[0, 0, HEADS as i64, SIZE as i64])];
    nodes.extend(heads("x", "q", &[0, 2, 1, 3]));
    nodes.extend(heads("x", "turned", &[0, 2, 3, 1]));
    nodes.extend(heads("x", "v", &[0, 2, 1, 3]));
    nodes.extend([
        node("MatMul", &["q", "turned"], &["products"]),
        node("Div", &["products", "two"], &["scores"]),
        softmax("scores"),
        node("MatMul", &["shares", "v"], &["y"]),
    ]);
    let graph = graph(&[("x", &["b", "s", "12"])], nodes);
    let cases = RUNS.map(|[b, s, _]| {
        let x = drawn(&[b, s, HEADS * SIZE], 5);
        let numbers = x.as_slice::<f32>().unwrap();
        let mut split = Vec::new();
        for (i, j, row) in
            (0..b).flat_map(|i| (0..HEADS).flat_map(move |j| (0..s).map(move |row| (i, j, row))))
        {
            split.extend((0..SIZE).map(|l| numbers[((i * s + row) * HEADS + j) * SIZE + l]));
        }
        let split = TensorData::new(&[b, HEADS, s, SIZE], &split).unwrap();
        let expected = attention([&split; 3], None, 0.5);
        (vec![x], expected)
    });
    assert_near(&graph, true, &cases);
}

/// Products stretch batches and heads, and attention does not: a model whose keys have a batch of their own is left as it is
/// written, and so it is where the first run has one batch of each.
#[test]
fn batches_that_may_differ_stay_products() {
    let nodes = vec![
        turned("k", &[0, 1, 3, 2]),
        node("MatMul", &["q", "turned"], &["products"]),
        node("Mul", &["products", "half"], &["scores"]),
        softmax("scores"),
        node("MatMul", &["shares", "v"], &["y"]),
    ];
    for own in ["1", "c"] {
        let inputs: [(&str, &[&str]); 3] =
            [("q", &["b", "3", "s", "4"]), ("k", &[own, "3", "t", "4"]), ("v", &[own, "3", "t", "5"])];
        let graph = graph(&inputs, nodes.clone());
        let cases = RUNS.map(|run @ [_, s, t]| {
            let [q, ..] = operands(run);
            let [_, k, v] = operands([1, s, t]);
            let expected = attention([&q, &k, &v], None, 0.5);
            (vec![q, k, v], expected)
        });
        assert_near(&graph, false, &cases);
    }
}
