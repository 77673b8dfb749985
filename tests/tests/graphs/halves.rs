//! Tests of halves between operations: kept in `f32` unless the switch is off, and rounded where they leave a run.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::GraphProto;
use bb::{CompileOptions, DataType, Module, TensorData, f16};
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_int};

/// Backends whose operations are called one by one.
const ONE_BY_ONE: [&str; 2] = ["cpu", "reference"];

fn halves(values: &[f32]) -> TensorData {
    let values: Vec<f16> = values.iter().copied().map(f16::from_f32).collect();
    TensorData::new(&[values.len()], &values).unwrap()
}

/// A graph of one input `x` of halves, or of `f32` if `wide`, and one output `y`.
fn graph(nodes: Vec<bb::ir::proto::NodeProto>, constants: &[(&str, &[f32])], wide: bool) -> GraphProto {
    let dtype = if wide { DataType::F32 } else { DataType::F16 };
    GraphProto {
        name: Some("halves".to_owned()),
        node: nodes,
        initializer: constants.iter().map(|(name, values)| halves(values).to_proto(name)).collect(),
        input: vec![value("x", dtype.to_onnx(), &["n"])],
        output: vec![untyped("y")],
        ..GraphProto::default()
    }
}

fn run(name: &str, graph: &GraphProto, x: &TensorData, widen: bool) -> TensorData {
    let on = backends::start(name).unwrap();
    let module = Module::from_bytes(serialized(graph.clone())).unwrap();
    let options = CompileOptions::default().with_widen_halves(widen).with_check_passes(true);
    let compiled = on.clone().compile(module, &options).unwrap();
    let outputs = compiled.run(&[Some(&on.constant(x).unwrap())]).unwrap();
    on.to_host(&outputs[0]).unwrap()
}

fn numbers(x: &TensorData) -> Vec<f32> {
    x.as_slice::<f16>().unwrap().iter().map(|x| x.to_f32()).collect()
}

#[test]
fn a_value_between_operations_may_exceed_the_range() {
    let nodes = vec![node("Mul", &["x", "x"], &["square"]), node("Mul", &["square", "half"], &["y"])];
    let graph = graph(nodes, &[("half", &[0.5])], false);
    for name in ONE_BY_ONE {
        let x = halves(&[320.0, -3.0]);
        assert_eq!(numbers(&run(name, &graph, &x, true)), [51_200.0, 4.5], "{name}");
        assert_eq!(numbers(&run(name, &graph, &x, false)), [f32::INFINITY, 4.5], "{name}");
    }
}

#[test]
fn the_result_is_the_exact_one_rounded_once() {
    // y = (x * 1.1 + 0.3) * 0.7 - 0.9, with the constants that halves have.
    let nodes = vec![
        node("Mul", &["x", "a"], &["1"]),
        node("Add", &["1", "b"], &["2"]),
        node("Mul", &["2", "c"], &["3"]),
        node("Sub", &["3", "d"], &["y"]),
    ];
    let graph = graph(nodes, &[("a", &[1.1]), ("b", &[0.3]), ("c", &[0.7]), ("d", &[0.9])], false);
    let x: Vec<f32> = (0..1000).map(|i| f16::from_f32(i as f32 / 61.0 - 8.0).to_f32()).collect();
    let [a, b, c, d] = [1.1f32, 0.3, 0.7, 0.9].map(|v| f64::from(f16::from_f32(v).to_f32()));
    let exact: Vec<f64> = x.iter().map(|&x| (f64::from(x) * a + b) * c - d).collect();
    for name in ONE_BY_ONE {
        let far = |widen: bool| {
            let got = numbers(&run(name, &graph, &halves(&x), widen));
            let distance =
                |(got, want): (&f32, &f64)| (f64::from(*got) - want).abs() - want.abs() * 2f64.powi(-11);
            got.iter().zip(&exact).map(distance).fold(f64::MIN, f64::max)
        };
        // Half a unit in the last place of a half, and what sums of f32 lose to cancellation.
        assert!(far(true) <= 1e-6, "{name}: {}", far(true));
        assert!(far(false) > 1e-3, "{name}: {}", far(false));
    }
}

#[test]
fn a_cast_of_the_model_rounds() {
    let to = |dtype: DataType| i64::from(dtype.to_onnx());
    let nodes = vec![
        with_int(node("Cast", &["x"], &["rounded"]), "to", to(DataType::F16)),
        with_int(node("Cast", &["rounded"], &["y"]), "to", to(DataType::F32)),
    ];
    let graph = graph(nodes, &[], true);
    let x = TensorData::new(&[2], &[0.1f32, 1e6]).unwrap();
    for (name, widen) in ONE_BY_ONE.iter().flat_map(|name| [(name, true), (name, false)]) {
        let got = run(name, &graph, &x, widen);
        assert_eq!(
            got.as_slice::<f32>().unwrap(),
            [f16::from_f32(0.1).to_f32(), f32::INFINITY],
            "{name}, {widen}"
        );
    }
}

#[test]
fn with_the_switch_off_results_are_those_of_single_operations() {
    let nodes =
        vec![node("Exp", &["x"], &["1"]), node("Mul", &["1", "x"], &["2"]), node("Sqrt", &["2"], &["y"])];
    let graph = graph(nodes, &[], false);
    let x = halves(&(1..500).map(|i| i as f32 / 71.0).collect::<Vec<_>>());
    for name in ONE_BY_ONE {
        let on = bb::BackendHandle::new(backends::start(name).unwrap());
        let given = on.constant(&x).unwrap();
        let single = given.exp().unwrap().mul(&given).unwrap().sqrt().unwrap().to_host(1 << 20).unwrap();
        let planned = run(name, &graph, &x, false);
        assert_eq!(single.as_slice::<f16>().unwrap(), planned.as_slice::<f16>().unwrap(), "{name}");
    }
}
