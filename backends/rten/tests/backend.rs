//! Tests of the backends apart from results: reuse and release of sessions, refusals, threads, and models.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::conformance::onnx;
use bb::ir::proto::{
    GraphProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto, type_proto,
};
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, DataType, Deployment, GraphIdentity, Module,
    Runtime, TensorData,
};
use bb_engines::{EngineError, Host, Refusal, Rest};
use bb_rten::{Rten, RtenPrimitives, RtenStrict};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// An operator in the table of gaps, and the values of `relu(x) + op(relu(x))` for `x` = -1 and 3.
const GAP: (&str, [f32; 2]) = ("Sign", [0.0, 4.0]);

fn made() -> Rten {
    Rten::new()
}

fn node(op: &str, from: &[&str], to: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        name: Some(format!("make {to}")),
        input: from.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![to.to_owned()],
        ..Default::default()
    }
}

/// Creates a graph with these nodes, from `x` with two elements to `y`.
fn graph(dtype: DataType, nodes: Vec<NodeProto>) -> GraphProto {
    let two = tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(2)),
        ..Default::default()
    };
    let shape = Some(TensorShapeProto { dim: vec![two] });
    let tensor =
        type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape });
    let ty = Some(TypeProto { value: Some(tensor), ..Default::default() });
    GraphProto {
        name: Some("g".to_owned()),
        input: vec![ValueInfoProto { name: Some("x".to_owned()), r#type: ty, ..Default::default() }],
        output: vec![ValueInfoProto { name: Some("y".to_owned()), ..Default::default() }],
        node: nodes,
        ..Default::default()
    }
}

/// Creates a graph that computes the square of `relu(x)`.
fn squares() -> GraphProto {
    graph(DataType::F32, vec![node("Relu", &["x"], "r"), node("Mul", &["r", "r"], "y")])
}

fn opsets() -> Vec<OperatorSetIdProto> {
    vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(17) }]
}

fn x(elements: [f32; 2]) -> HashMap<String, Host> {
    HashMap::from([("x".to_owned(), TensorData::new(&[2], &elements).unwrap().into())])
}

fn floats(results: &HashMap<String, Host>) -> &[f32] {
    results["y"].data().as_slice().unwrap()
}

#[test]
fn a_graph_that_comes_again_is_not_loaded_again() {
    let on = made();
    let (graph, opsets) = (squares(), opsets());
    let attrs = BackendAttrs::default().with_opsets(&opsets).with_identity(GraphIdentity::fresh());
    for (elements, expected) in [([-1.0, 3.0], [0.0, 9.0]), ([2.0, -4.0], [4.0, 0.0])] {
        assert_eq!(floats(&on.execute(&graph, x(elements), attrs).unwrap()), expected);
    }
    let counts = on.counts();
    assert_eq!((counts.loaded, counts.runs, counts.rest), (1, 2, 0), "one session for the whole model");
    on.execute(&graph, x([1.0, 2.0]), attrs.with_identity(GraphIdentity::fresh())).unwrap();
    assert_eq!(on.counts().loaded, 2);
}

#[test]
fn a_deployment_hands_over_the_model_as_it_is() {
    let runtime: Arc<Runtime> = Runtime::named("engine", made());
    let on = BackendHandle::new(runtime);
    let model = Module::from_graph(&squares(), &opsets(), &[]).unwrap();
    let ready = Deployment::builder().model("m", model).backend(on.clone()).ready().unwrap();
    // Count only from here on, because building the deployment probes which operations the backend has.
    let before = on.typed::<Rten>().unwrap().counts();
    for _ in 0..3 {
        let outputs = ready.run_named([("x", on.tensor(&[2], &[3f32, -4.0]).unwrap())]).unwrap();
        for y in outputs.values() {
            assert_eq!(y.to_host(1024).unwrap().as_slice::<f32>().unwrap(), [9.0, 0.0]);
        }
    }
    let counts = on.typed::<Rten>().unwrap().counts();
    assert_eq!((counts.loaded - before.loaded, counts.runs - before.runs), (1, 3));
}

#[test]
fn sessions_are_freed_with_what_was_compiled() {
    let on = made();
    let module = Module::from_graph(&squares(), &opsets(), &[]).unwrap();
    let compiled = on.compile(module, &CompileOptions::default()).unwrap();
    assert_eq!(on.counts().alive, 1);
    drop(compiled);
    assert_eq!(on.counts().alive, 0);
}

/// The engine runs the nodes before and after a node that it cannot run. Without another backend, it refuses the model
/// before any node runs.
#[test]
fn a_model_with_a_gap_is_cut_around_it() {
    let (op, expected) = GAP;
    let nodes = vec![node("Relu", &["x"], "r"), node(op, &["r"], "g"), node("Add", &["g", "r"], "y")];
    let (graph, opsets) = (graph(DataType::F32, nodes), opsets());
    let attrs = BackendAttrs::default().with_opsets(&opsets);
    let on = made();
    assert_eq!(floats(&on.execute(&graph, x([-1.0, 3.0]), attrs).unwrap()), expected);
    let counts = on.counts();
    assert_eq!((counts.loaded, counts.runs, counts.rest), (2, 2, 1));

    let error = RtenStrict::new().execute(&graph, x([-1.0, 3.0]), attrs).unwrap_err();
    let EngineError::Refused { node, source: Refusal::Gap { .. }, .. } = &error else { panic!("{error:?}") };
    assert_eq!(&**node, "make g");
}

/// A caller can select another backend for the nodes that the engine cannot run.
#[test]
fn the_rest_runs_where_it_is_bound() {
    let rest = Rest::On(BackendHandle::new(Runtime::named("also cpu", bb_cpu::Cpu::new())));
    let on = Rten::with_rest(rest);
    let graph = graph(DataType::F32, vec![node(GAP.0, &["x"], "y")]);
    let opsets = opsets();
    on.execute(&graph, x([1.0, 3.0]), BackendAttrs::default().with_opsets(&opsets)).unwrap();
    assert_eq!((on.counts().loaded, on.counts().rest), (0, 1));
}

/// Operators that the engine lacks may run on the same engine, lowered to primitives.
#[test]
fn the_rest_runs_as_primitives() {
    let primitives = BackendHandle::new(Runtime::named("primitives", RtenPrimitives::new()));
    let on = Rten::with_rest(Rest::On(primitives.clone()));
    let (op, expected) = GAP;
    let nodes = vec![node("Relu", &["x"], "r"), node(op, &["r"], "g"), node("Add", &["g", "r"], "y")];
    let (graph, opsets) = (graph(DataType::F32, nodes), opsets());
    let results = on.execute(&graph, x([-1.0, 3.0]), BackendAttrs::default().with_opsets(&opsets)).unwrap();
    assert_eq!(floats(&results), expected);
    assert_eq!((on.counts().runs, on.counts().rest), (2, 1));
    assert!(primitives.typed::<RtenPrimitives>().unwrap().counts().runs > 0);
}

/// Strings are computed by the other backend. Without another backend, the engine refuses them with an error that names
/// the value.
#[test]
fn an_element_type_that_the_engine_does_not_take_is_refused() {
    let graph = graph(DataType::String, vec![node("Identity", &["x"], "y")]);
    let opsets = opsets();
    let attrs = BackendAttrs::default().with_opsets(&opsets);
    let texts = TensorData::strings(&[2], &["a", "b"]).unwrap();
    let inputs = || HashMap::from([("x".to_owned(), texts.clone().into())]);
    let results = made().execute(&graph, inputs(), attrs).unwrap();
    assert_eq!(results["y"].data().iter_str().collect::<Vec<_>>(), ["a", "b"]);
    let error = RtenStrict::new().execute(&graph, inputs(), attrs).unwrap_err();
    let EngineError::Refused { source: Refusal::Type { value, dtype }, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((value.as_str(), *dtype), ("x", DataType::String));
}

#[test]
fn models_run_as_primitives() {
    let on = RtenPrimitives::new();
    let opsets = opsets();
    // `Softplus` is not a primitive, so the model must be lowered.
    let graph = graph(DataType::F32, vec![node("Softplus", &["x"], "y")]);
    let results = on.execute(&graph, x([0.0, 1.0]), BackendAttrs::default().with_opsets(&opsets)).unwrap();
    let expected = [0f32.exp().ln_1p(), 1f32.exp().ln_1p()];
    assert!(floats(&results).iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-6));
    assert!(on.counts().runs > 0);
}

#[test]
fn a_missing_and_an_unknown_input_are_errors() {
    let on = made();
    let (graph, opsets) = (squares(), opsets());
    let attrs = BackendAttrs::default().with_opsets(&opsets);
    let error = on.execute(&graph, HashMap::new(), attrs).unwrap_err();
    assert!(matches!(error, EngineError::Graph(bb::Error::MissingInput { .. })), "{error:?}");
    let mut more = x([1.0, 2.0]);
    more.insert("z".to_owned(), TensorData::scalar(1f32).into());
    let error = on.execute(&graph, more, attrs).unwrap_err();
    assert!(matches!(error, EngineError::Graph(bb::Error::UnknownInput { .. })), "{error:?}");
    let wrong = HashMap::from([("x".to_owned(), TensorData::new(&[3], &[1f32; 3]).unwrap().into())]);
    let error = on.execute(&graph, wrong, attrs).unwrap_err();
    assert!(matches!(error, EngineError::Graph(bb::Error::Input(_))), "{error:?}");
}

#[test]
fn a_foreign_tensor_is_refused() {
    let on: BackendHandle = BackendHandle::new(Runtime::named("engine", made()));
    let other = BackendHandle::new(Runtime::named("other", bb_cpu::Cpu::new()));
    let foreign = other.tensor(&[2], &[1f32, 2.0]).unwrap();
    let module = Module::from_graph(&squares(), &opsets(), &[]).unwrap();
    let error = on.compile(module, &CompileOptions::default()).unwrap().run(&[Some(&foreign)]).unwrap_err();
    assert!(matches!(error, bb::Error::ForeignTensor { .. }), "{error:?}");
}

/// Eight threads run a graph that is not loaded: exactly one of them loads it.
#[test]
fn threads_share_a_session() {
    let on = made();
    let (graph, opsets) = (squares(), opsets());
    let identity = GraphIdentity::fresh();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let (on, graph, opsets) = (&on, &graph, &opsets);
            scope.spawn(move || {
                let attrs = BackendAttrs::default().with_opsets(opsets).with_identity(identity);
                for n in 0..20u8 {
                    let (a, b) = (f32::from(thread), f32::from(n));
                    assert_eq!(floats(&on.execute(graph, x([a, -b]), attrs).unwrap()), [a * a, 0.0]);
                }
            });
        }
    });
    assert_eq!((on.counts().loaded, on.counts().runs), (1, 160));
}

#[test]
fn real_models_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    let runtime: Arc<Runtime> = Runtime::named("engine", made());
    let mut failed = Vec::new();
    for model in onnx::find(&folder).unwrap() {
        if let Err(failure) = onnx::run(&model, &runtime) {
            let cause = std::error::Error::source(&failure).map(ToString::to_string);
            failed.push(format!("{}: {failure} {cause:?}", model.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let on = BackendHandle::new(runtime);
    assert!(on.typed::<Rten>().unwrap().counts().runs > 0);
}
