//! Tests that an author's own operations work as ONNX's do: in models, in plans, in reports, and in single calls.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod bindings;
mod chip;

use bb::coverage::{Coverage, How, Why};
use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{AttributeProto, ModelProto, NodeProto, OperatorSetIdProto};
use bb::services::Requirements;
use bb::{
    BackendHandle, CompileOptions, DataType, Error, Module, Primitive, Registry, Runtime, TensorData, Value,
};
use bb_tests::backends;
use bb_tests::model::{model, node, typed, with_int};
use chip::{BlendOptions, Chip, ChipBackend, ChipCalls, ChipOp, KERNELS, SmallChip};
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;

const DOMAIN: &str = "com.example.chip";

/// Counts how often kernels ran in `body`, on this thread: a run of one thread stays on its caller's.
fn counted<R>(body: impl FnOnce() -> R) -> (R, usize) {
    let before = KERNELS.get();
    let result = body();
    (result, KERNELS.get() - before)
}

fn open(name: &str) -> BackendHandle {
    match name {
        "chip" => Registry::builder().declared::<ChipBackend>().build().backend(name).unwrap(),
        "small-chip" => Registry::builder().declared::<SmallChip>().build().backend(name).unwrap(),
        _ => BackendHandle::new(backends::start(name).unwrap()),
    }
}

/// Every kind of backend: with and without kernels, with few element types, whole graphs.
const ALL: [&str; 5] = ["chip", "small-chip", "cpu", "reference", "whole-graph"];

fn chip_node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: Some(DOMAIN.to_owned()), ..node(op, inputs, outputs) }
}

fn with_float(mut node: NodeProto, name: &str, value: f32) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Float as i32),
        f: Some(value),
        ..Default::default()
    });
    node
}

/// Imports an opset of the domain.
fn importing(bytes: Vec<u8>, domain: &str, version: i64) -> Vec<u8> {
    let mut model = ModelProto::decode(&*bytes).unwrap();
    model.opset_import.retain(|opset| opset.domain() != domain);
    model.opset_import.push(OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) });
    model.encode_to_vec()
}

fn module(bytes: Vec<u8>) -> Module {
    Module::from_bytes(importing(bytes, DOMAIN, 2)).unwrap()
}

fn run(on: &BackendHandle, module: Module, inputs: &[Value]) -> Result<Vec<TensorData>, Error> {
    let compiled = on.compile(module, &CompileOptions::default())?;
    let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
    compiled.run(&given)?.iter().map(|y| y.to_host(1 << 20)).collect()
}

/// Writes an error and what caused it on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

const X: [f32; 6] = [1.0, -2.0, 0.5, 3.0, -0.25, 8.0];
const GATE: [f32; 6] = [0.0, 1.0, -1.0, 2.0, 40.0, -40.0];

/// The definition, in `f64`.
fn gate(beta: f64) -> Vec<f32> {
    let one = |(x, gate): (&f32, &f32)| f64::from(*x) / (1.0 + (-beta * f64::from(*gate)).exp());
    X.iter().zip(&GATE).map(|pair| one(pair) as f32).collect()
}

fn assert_close(got: &TensorData, shape: &[usize], expected: &[f32]) {
    assert_eq!(got.shape(), shape);
    for (got, expected) in got.as_slice::<f32>().unwrap().iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-6 * expected.abs().max(1e-6), "{got} is not {expected}");
    }
}

fn inputs(on: &BackendHandle) -> Vec<Value> {
    [X, GATE].iter().map(|numbers| on.tensor(&[2, 3], numbers).unwrap()).collect()
}

fn gated_model(beta: Option<f32>) -> Module {
    let call = chip_node("Gated", &["x", "gate"], &["y"]);
    let call = match beta {
        Some(beta) => with_float(call, "beta", beta),
        None => call,
    };
    module(model(&[("x", &[-1, 3]), ("gate", &[-1, 3])], vec![call], &[("y", &[-1, 3])]))
}

#[test]
fn a_model_names_the_operation_on_every_backend_and_kernels_run_where_they_are() {
    for name in ALL {
        let on = open(name);
        for (beta, number) in [(None, 1.0), (Some(1.5), 1.5)] {
            let (got, kernels) = counted(|| run(&on, gated_model(beta), &inputs(&on)).unwrap());
            assert_close(&got[0], &[2, 3], &gate(number));
            assert_eq!(kernels, usize::from(name.ends_with("chip")), "{name}");
        }
    }
}

#[test]
fn coverage_says_native_lowered_or_unsupported() {
    let parity = || {
        let call = chip_node("RowParity", &["x"], &["y"]);
        module(typed(model(&[("x", &[2, 3])], vec![call], &[("y", &[2])]), &[("y", DataType::I64)]))
    };
    let looked = |name: &str, module: &Module| {
        let runtime: Arc<Runtime> = open(name).runtime().clone();
        Coverage::of(module, &runtime).nodes.remove(0)
    };
    assert_eq!(looked("chip", &gated_model(None)).how, How::Native);
    let lowered = looked("reference", &gated_model(None)).how;
    assert!(matches!(lowered, How::Lowered(_)), "{lowered:?}");
    assert_eq!(looked("chip", &parity()).how, How::Native);
    let lacking = looked("reference", &parity());
    assert_eq!(lacking.how, How::Unsupported);
    assert_eq!(lacking.missing[0].why, Why::NoKernel { method: "row_parity" });
    let text = lacking.missing[0].to_string();
    assert!(text.contains("write `row_parity` under `#[bb::native]`"), "{text}");

    let on = open("chip");
    let x = on.tensor(&[2, 3], &X).unwrap();
    let (got, kernels) = counted(|| run(&on, parity(), &[x]).unwrap());
    // Two of the first row are positive, two of the second.
    assert_eq!((got[0].as_slice::<i64>().unwrap(), kernels), (&[0i64, 0][..], 1));
    let on = open("reference");
    let x = on.tensor(&[2, 3], &X).unwrap();
    let error = run(&on, parity(), std::slice::from_ref(&x)).unwrap_err();
    let text = causes(&error);
    assert!(text.contains("RowParity_y") && text.contains("has no body"), "{text}");
    assert!(matches!(on.row_parity(&x), Err(Error::Kernel { .. } | Error::NoBody { .. })));
}

/// Steps that a model spells out, with the names of their results.
fn spelled(gate: &str, last: &str, crossed: bool) -> Vec<NodeProto> {
    let beta = TensorData::new(&[], &[1.5f32]).unwrap().to_proto("value");
    let mut constant = node("Constant", &[], &["beta"]);
    constant.attribute.push(AttributeProto {
        name: Some("value".to_owned()),
        r#type: Some(AttributeType::Tensor as i32),
        t: Some(beta),
        ..Default::default()
    });
    let pair = |a, b| if crossed { [b, a] } else { [a, b] };
    vec![
        constant,
        node("Mul", &pair(gate, "beta"), &["scaled"]),
        node("Sigmoid", &["scaled"], &["curve"]),
        node(last, &pair("x", "curve"), &["y"]),
    ]
}

const SHAPES: [(&str, &[i64]); 2] = [("x", &[-1, 3]), ("gate", &[-1, 3])];

#[test]
fn a_plan_has_the_operation_for_the_steps_of_its_pattern() {
    for name in ["chip", "small-chip"] {
        let on = open(name);
        for crossed in [false, true] {
            let spelled = spelled("gate", "Mul", crossed);
            let module = module(model(&SHAPES, spelled, &[("y", &[-1, 3])]));
            let (got, kernels) = counted(|| run(&on, module, &inputs(&on)).unwrap());
            assert_close(&got[0], &[2, 3], &gate(1.5));
            assert_eq!(kernels, 1, "{name} {crossed}");
        }
        // The other pattern.
        let nodes = vec![node("Sigmoid", &["gate"], &["curve"]), node("Mul", &["curve", "x"], &["y"])];
        let module = module(model(&SHAPES, nodes, &[("y", &[-1, 3])]));
        let (got, kernels) = counted(|| run(&on, module, &inputs(&on)).unwrap());
        assert_close(&got[0], &[2, 3], &gate(1.0));
        assert_eq!(kernels, 1, "{name}");
    }
}

#[test]
fn one_plan_with_the_operation_serves_every_extent() {
    let on = open("chip");
    let module = module(model(&SHAPES, spelled("gate", "Mul", false), &[("y", &[-1, 3])]));
    let compiled = on.compile(module, &CompileOptions::default()).unwrap();
    let ((), kernels) = counted(|| {
        for rows in [2usize, 0, 1, 7] {
            let numbers: Vec<f32> = (0..rows * 3).map(|i| i as f32 / 4.0 - 2.0).collect();
            let x = on.tensor(&[rows, 3], &numbers).unwrap();
            let y = compiled.run(&[Some(&x), Some(&x)]).unwrap()[0].to_host(1 << 20).unwrap();
            let expected: Vec<f32> = numbers
                .iter()
                .map(|&x| (f64::from(x) / (1.0 + (-1.5 * f64::from(x)).exp())) as f32)
                .collect();
            assert_close(&y, &[rows, 3], &expected);
        }
    });
    assert_eq!(kernels, 4);
}

#[test]
fn steps_that_are_not_quite_the_pattern_stay() {
    let on = open("chip");
    let stays = |nodes: Vec<NodeProto>, shapes: &[(&str, &[i64])], outputs: &[(&str, &[i64])]| {
        let module = module(model(shapes, nodes, outputs));
        let mut given = inputs(&on);
        given.truncate(shapes.len());
        let (got, kernels) = counted(|| run(&on, module, &given).unwrap());
        assert_eq!(kernels, 0);
        got
    };
    // The graph also returns an intermediate result.
    stays(spelled("gate", "Mul", false), &SHAPES, &[("y", &[-1, 3]), ("curve", &[-1, 3])]);
    // Another operation at the end.
    stays(spelled("gate", "Add", false), &SHAPES, &[("y", &[-1, 3])]);
    stays(spelled("gate", "Div", false), &SHAPES, &[("y", &[-1, 3])]);
    // Another curve.
    let mut nodes = spelled("gate", "Mul", false);
    nodes[2].op_type = Some("Tanh".to_owned());
    stays(nodes, &SHAPES, &[("y", &[-1, 3])]);
    // The factor of the gate is no constant.
    let nodes = vec![
        node("Mul", &["gate", "x"], &["scaled"]),
        node("Sigmoid", &["scaled"], &["curve"]),
        node("Add", &["x", "curve"], &["y"]),
    ];
    stays(nodes, &SHAPES, &[("y", &[-1, 3])]);
    // A number of more dimensions gives the result its rank.
    let mut nodes = spelled("gate", "Mul", false);
    nodes[0].attribute[0].t = Some(TensorData::new(&[1, 1, 1], &[1.5f32]).unwrap().to_proto("value"));
    let got = stays(nodes, &SHAPES, &[("y", &[1, -1, 3])]);
    assert_close(&got[0], &[1, 2, 3], &gate(1.5));
}

#[test]
fn a_backend_without_the_kernel_keeps_the_steps() {
    for name in ["cpu", "reference", "whole-graph"] {
        let on = open(name);
        let module = module(model(&SHAPES, spelled("gate", "Mul", false), &[("y", &[-1, 3])]));
        let (got, kernels) = counted(|| run(&on, module, &inputs(&on)).unwrap());
        assert_close(&got[0], &[2, 3], &gate(1.5));
        assert_eq!(kernels, 0, "{name}");
    }
}

#[test]
fn inspection_shows_the_operation_after_its_pass() {
    let natives = open("chip").runtime().capabilities().families;
    let module = module(model(&SHAPES, spelled("gate", "Mul", false), &[("y", &[-1, 3])]));
    let before = module.print_mir_after(&HashMap::new(), &natives, "merge-duplicates").unwrap();
    assert!(!before.contains("gated"), "{before}");
    let after = module.print_mir_after(&HashMap::new(), &natives, "fuse-vendor").unwrap();
    assert!(after.contains("gated(") && after.contains("1.5") && !after.contains("mul("), "{after}");
}

#[test]
fn single_calls_reach_kernels_and_bodies() {
    for name in ALL {
        let on = open(name);
        let [x, gate_by] = &inputs(&on)[..] else { panic!("two inputs") };
        let (y, kernels) = counted(|| on.gated(x, gate_by, 1.5).unwrap().to_host(1 << 20).unwrap());
        assert_close(&y, &[2, 3], &gate(1.5));
        assert_eq!(kernels, usize::from(name.ends_with("chip")), "{name}");
        // A body calls the kernel of another operation.
        let zeros = on.tensor(&[2, 3], &[0f32; 6]).unwrap();
        let (sum, kernels) = counted(|| on.gated_sum(&[x, &zeros]).unwrap().to_host(1 << 20).unwrap());
        let expected: Vec<f32> =
            X.iter().map(|&x| (f64::from(x) / (1.0 + (-f64::from(x)).exp())) as f32).collect();
        assert_close(&sum, &[2, 3], &expected);
        assert_eq!(kernels, usize::from(name.ends_with("chip")), "{name}");
        // Options, an operand that is left out, several results.
        let options = BlendOptions { weight: 0.25, ..BlendOptions::default() };
        let y = on.blend(x, Some(gate_by), options).unwrap().to_host(1 << 20).unwrap();
        let expected: Vec<f32> = X.iter().zip(&GATE).map(|(x, y)| 0.25 * x + 0.75 * y).collect();
        assert_close(&y, &[2, 3], &expected);
        let options = BlendOptions { bounds: &[-1.0, 1.0], ..BlendOptions::default() };
        let y = on.blend(x, None, options).unwrap().to_host(1 << 20).unwrap();
        assert_close(&y, &[2, 3], &X.map(|x| x.clamp(-1.0, 1.0)));
        let parts = on.head_and_tail(x).unwrap();
        let shapes: Vec<&[usize]> = parts.iter().map(Value::shape).collect();
        assert_eq!(shapes, [&[1usize, 3][..], &[1, 3]]);
        // Through the list of backends, which finds the owner.
        let list = bb::Backends::new([on.clone()]);
        assert_close(&list.gated(x, gate_by, 1.5).unwrap().to_host(1 << 20).unwrap(), &[2, 3], &gate(1.5));
    }
}

#[test]
fn typed_code_calls_the_trait() {
    let x = bb::Backend::constant(&ChipBackend, &TensorData::new(&[2, 3], &X).unwrap()).unwrap();
    let (y, kernels) = counted(|| ChipBackend.gated_sum(&[&x]).unwrap());
    assert_eq!((kernels, bb::Tensor::shape(&y)), (1, &[2usize, 3][..]));
    assert_eq!(ChipOp::ALL.len(), 5);
    assert_eq!(ChipOp::from_name("Blend"), Some(ChipOp::Blend));
}

#[test]
fn models_have_lists_options_and_several_results() {
    let on = open("reference");
    let blend = with_float(chip_node("Blend", &["x", "gate"], &["b"]), "weight", 1.0);
    let parts = chip_node("HeadAndTail", &["b"], &["head", "tail"]);
    let sum = chip_node("GatedSum", &["head", "tail", "head"], &["y"]);
    let module = module(model(&SHAPES, vec![blend, parts, sum], &[("y", &[1, 3])]));
    let got = run(&on, module, &inputs(&on)).unwrap();
    let expected: Vec<f32> = (0..3)
        .map(|i| {
            let (head, tail) = (f64::from(X[i]), f64::from(X[i + 3]));
            ((2.0 * head + tail) / (1.0 + (-head).exp())) as f32
        })
        .collect();
    assert_close(&got[0], &[1, 3], &expected);
}

#[test]
fn what_a_node_has_wrong_is_named() {
    let on = open("chip");
    let fails = |call: NodeProto| {
        let module = module(model(&SHAPES, vec![call], &[("y", &[-1, 3])]));
        causes(&run(&on, module, &inputs(&on)).unwrap_err())
    };
    let text = fails(with_int(chip_node("Gated", &["x", "gate"], &["y"]), "gamma", 1));
    assert!(text.contains("gamma is no parameter") && text.contains("has `beta`"), "{text}");
    let text = fails(with_int(chip_node("Gated", &["x", "gate"], &["y"]), "beta", 1));
    assert!(text.contains("beta") && text.contains("float"), "{text}");
    let text = fails(chip_node("Gated", &["x"], &["y"]));
    assert!(text.contains("`gated` is missing operand 1: it takes the tensor `gate`"), "{text}");
    let text = fails(chip_node("Gated", &["x", "gate", "x"], &["y"]));
    assert!(text.contains("takes 2"), "{text}");
    let text = fails(chip_node("Gaited", &["x", "gate"], &["y"]));
    assert!(text.contains("the nearest name is `Gated`"), "{text}");
    let text = fails(chip_node("RowParity", &["x"], &["y", "z"]));
    assert!(text.contains("RowParity"), "{text}");
}

#[test]
fn an_operation_that_is_newer_than_the_opset_says_so() {
    let call = chip_node("RowParity", &["x"], &["y"]);
    let bytes = importing(model(&[("x", &[2, 3])], vec![call], &[("y", &[2])]), DOMAIN, 1);
    let on = open("chip");
    let error = run(&on, Module::from_bytes(bytes).unwrap(), &[on.tensor(&[2, 3], &X).unwrap()]).unwrap_err();
    let text = causes(&error);
    assert!(text.contains("from opset 2 on"), "{text}");
}

#[test]
fn a_domain_that_two_crates_define_is_refused() {
    let call = NodeProto { domain: Some("com.example.twice".to_owned()), ..node("Negated", &["x"], &["y"]) };
    let bytes = importing(model(&[("x", &[2, 3])], vec![call], &[("y", &[2, 3])]), "com.example.twice", 1);
    let on = open("chip");
    let error = run(&on, Module::from_bytes(bytes).unwrap(), &[on.tensor(&[2, 3], &X).unwrap()]).unwrap_err();
    let text = causes(&error);
    assert!(text.contains("twice::one::Twice") && text.contains("twice::two::Twice"), "{text}");
    // What the types say is not in doubt.
    let x = bb::Backend::constant(&ChipBackend, &TensorData::new(&[2], &[1f32, 2.]).unwrap()).unwrap();
    let extended = bb::ext::Extended::new(&ChipBackend, &[]);
    let error = chip::twice::one::Twice::negated(&extended, &x).unwrap_err();
    assert!(causes(&error).contains("twice::two::Twice"), "{error}");
}

#[test]
fn a_traced_function_is_exported_without_the_operation() {
    let traced =
        bb::trace(&[("x", DataType::F32, &[2, 3])], |on, xs| Ok(vec![on.gated(&xs[0], &xs[0], 2.0)?]));
    let graph = traced.unwrap();
    let operators: Vec<&str> = graph.node.iter().map(NodeProto::op_type).collect();
    assert!(
        operators.len() > 2 && operators.iter().all(|op| Primitive::from_name(op).is_some()),
        "{operators:?}"
    );
    let error = bb::trace(&[("x", DataType::F32, &[2, 3])], |on, xs| Ok(vec![on.row_parity(&xs[0])?]));
    assert!(causes(&error.unwrap_err()).contains("has no body"));
}

#[test]
fn a_body_has_a_gradient() {
    let on = bb::ext::Extended::new(&ChipBackend, &[]);
    let x = bb::Backend::constant(&on, &TensorData::new(&[6], &X).unwrap()).unwrap();
    let by = bb::gradient(&on, &[&x], &[0], |on, xs| {
        bb::Backend::reduce_sum(on, &on.gated(&xs[0], &xs[0], 1.0)?, &[], false)
    });
    let got = bb::Backend::to_host(&on, &by.unwrap().gradients[0]).unwrap();
    let definition = |x: f64| {
        let curve = 1.0 / (1.0 + (-x).exp());
        curve + x * curve * (1.0 - curve)
    };
    assert_close(&got, &[6], &X.map(|x| definition(f64::from(x)) as f32));
}

#[test]
fn a_saved_plan_has_the_operation() {
    let on = open("chip");
    let path = std::env::temp_dir().join(format!("bb-vendor-{}.bb", std::process::id()));
    let module = module(model(&SHAPES, spelled("gate", "Mul", false), &[("y", &[-1, 3])]));
    let options = CompileOptions::default();
    let compiled = on.compile(module, &options).unwrap();
    let given = inputs(&on);
    let given: Vec<Option<&Value>> = given.iter().map(Some).collect();
    counted(|| compiled.run(&given).unwrap());
    compiled.save(&path).unwrap();
    let loaded = on.compile(Module::load(&path).unwrap(), &options).unwrap();
    let (y, kernels) = counted(|| loaded.run(&given).unwrap()[0].to_host(1 << 20).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_close(&y, &[2, 3], &gate(1.5));
    assert_eq!(kernels, 1);
}

#[test]
fn requirements_and_fingerprints_know_the_operation() {
    let registry = Registry::builder()
        .declared::<ChipBackend>()
        .declared::<SmallChip>()
        .running(backends::start("reference").unwrap())
        .build();
    let needs = |operation: ChipOp| Requirements { operations: vec![operation.spec()], ..Default::default() };
    let found = registry.backends().unwrap().find(&needs(ChipOp::RowParity)).unwrap();
    assert_eq!(found.name(), "chip");
    let error = registry.backends().unwrap().find(&needs(ChipOp::Blend)).unwrap_err();
    assert!(causes(&error).contains("blend"), "{error}");
    let [chip, small, plain] = ["chip", "small-chip", "reference"].map(open);
    assert_ne!(chip.runtime().abi_fingerprint(), small.runtime().abi_fingerprint());
    let differences = chip.runtime().fingerprint().differences(&plain.runtime().fingerprint());
    let text = format!("{differences:?}");
    assert!(text.contains("com.example.chip"), "{text}");
}
