//! Tests that inputs are compared with the graph's declarations, on every path and before anything runs.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::{GraphProto, TypeProto, ValueInfoProto, type_proto};
use bb::onnx::OnnxValue;
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, CompletionHandle, ContractResponse, DataType,
    Deployment, Error, Executable, GraphIdentity, InputMismatch, InputProblem, InputSpec, Module, Port,
    Runtime, TensorData, Value,
};
use bb_reference::Reference;
use bb_tests::backends;
use bb_tests::counting::Counting;
use bb_tests::model::{node, of_type, serialized, untyped, value};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

fn module(bytes: Vec<u8>) -> Module {
    Module::from_bytes(bytes).unwrap()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(name)).unwrap()
}

/// A graph whose only node returns the first input.
fn identity(inputs: Vec<ValueInfoProto>) -> GraphProto {
    let first = inputs[0].name().to_owned();
    GraphProto {
        name: Some("g".to_owned()),
        node: vec![node("Identity", &[&first], &["out"])],
        input: inputs,
        output: vec![untyped("out")],
        ..GraphProto::default()
    }
}

fn zeros(dtype: DataType, shape: &[usize]) -> TensorData {
    TensorData::zeros(dtype, shape, 1 << 20).unwrap()
}

fn f32s(shape: &[usize]) -> TensorData {
    zeros(DataType::F32, shape)
}

/// Runs a model on a backend, through its compiled graph. Extents of one name must be equal.
fn run(on: &Arc<Runtime>, bytes: &[u8], inputs: &[Option<TensorData>]) -> Result<Vec<Value>, Error> {
    let options = CompileOptions::default().with_strict(true);
    let graph = on.clone().compile(module(bytes.to_vec()), &options)?;
    let given: Vec<Option<Value>> =
        inputs.iter().map(|x| x.as_ref().map(|x| on.constant(x).unwrap())).collect();
    graph.run(&given.iter().map(Option::as_ref).collect::<Vec<_>>())
}

fn mismatch<T: std::fmt::Debug>(result: Result<T, Error>) -> InputMismatch {
    match result.unwrap_err() {
        Error::Input(found) => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn element_types_ranks_and_numbers_are_compared() {
    let declared = serialized(identity(vec![value("x", 1, &["n", "2"])]));
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for n in [0, 1, 5] {
            assert!(run(&on, &declared, &[Some(f32s(&[n, 2]))]).is_ok(), "{name}");
        }
        let got = |x: TensorData| mismatch(run(&on, &declared, &[Some(x)]));
        let wrong = got(zeros(DataType::I32, &[3, 2]));
        assert_eq!(wrong.problem, InputProblem::DataType { expected: DataType::F32, got: DataType::I32 });
        assert_eq!(wrong.name, "x");
        assert_eq!(
            (wrong.declared.to_string(), wrong.got.to_string()),
            ("f32[n, 2]".into(), "i32[3, 2]".into())
        );
        assert_eq!(got(f32s(&[2])).problem, InputProblem::Rank { expected: 2, got: 1 });
        assert_eq!(got(f32s(&[2, 3])).problem, InputProblem::Extent { axis: 1, expected: 2, got: 3 });
        let message = "input `x` is declared as f32[n, 2], got f32[2, 0]: extent 0 of axis 1 must be 2";
        assert_eq!(got(f32s(&[2, 0])).to_string(), message);
    }
}

#[test]
fn a_run_with_a_cached_plan_compares_its_inputs() {
    // The plan for [3, 2] does not depend on extents, so it would accept [4, 7].
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let bytes = serialized(identity(vec![value("x", 1, &["?", "2"])]));
        let graph = on.clone().compile(module(bytes), &CompileOptions::default()).unwrap();
        let give = |shape: &[usize]| graph.run(&[Some(&on.constant(&f32s(shape)).unwrap())]);
        assert!(give(&[3, 2]).is_ok() && give(&[4, 2]).is_ok());
        assert_eq!(mismatch(give(&[4, 7])).problem, InputProblem::Extent { axis: 1, expected: 2, got: 7 });
    }
}

#[test]
fn extents_of_one_name_are_equal() {
    let declared = vec![value("x", 1, &["n", "m", "n"]), value("y", 7, &["m"])];
    let bytes = serialized(identity(declared));
    let on = backends::start("reference").unwrap();
    let give = |x: &[usize], y: &[usize]| run(&on, &bytes, &[Some(f32s(x)), Some(zeros(DataType::I64, y))]);
    assert!(give(&[2, 3, 2], &[3]).is_ok() && give(&[0, 0, 0], &[0]).is_ok());
    let within = mismatch(give(&[2, 3, 1], &[3]));
    assert_eq!((within.name.as_str(), &within.problem), ("x", &symbol(2, "n", 2, 1, ("x", 0))));
    let across = mismatch(give(&[2, 3, 2], &[2]));
    assert_eq!((across.name.as_str(), &across.problem), ("y", &symbol(0, "m", 3, 2, ("x", 1))));
    assert_eq!(
        across.to_string(),
        "input `y` is declared as i64[m], got i64[2]: extent 2 of axis 0 must be 3, because `m` is 3 at axis 1 of input \
         `x`"
    );
}

/// Numbers from `first` on.
fn counted(first: usize, shape: &[usize]) -> TensorData {
    let numbers: Vec<f32> = (first..first + shape.iter().product::<usize>()).map(|n| n as f32).collect();
    TensorData::new(shape, &numbers).unwrap()
}

#[test]
fn one_name_for_two_extents_is_a_claim() {
    // Softmax reads `x` along `n`, and the sum broadcasts `y`: a plan that takes both extents for one computes something else.
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![
            node("Shape", &["y"], &["of_y"]),
            node("Expand", &["x", "of_y"], &["wide"]),
            node("Mul", &["wide", "y"], &["product"]),
            node("MatMul", &["product", "z"], &["out"]),
        ],
        input: vec![value("x", 1, &["n"]), value("y", 1, &["n", "n"]), value("z", 1, &["n"])],
        output: vec![untyped("out")],
        ..GraphProto::default()
    };
    let bytes = serialized(graph);
    let product = |x: &[f32], y: &[f32], z: &[f32]| -> Vec<f32> {
        let row = |row: &[f32]| row.iter().zip(z).enumerate().map(|(i, (y, z))| x[i % x.len()] * y * z).sum();
        y.chunks(z.len()).map(row).collect()
    };
    let spec = InputSpec::new(module(bytes.clone()).graph());
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let graph = on.clone().compile(module(bytes.clone()), &CompileOptions::default()).unwrap();
        // In this order, a plan for equal extents is there when different ones come, and then one for different ones.
        for [x, rows, columns] in
            [[3, 3, 3], [4, 4, 4], [1, 2, 5], [5, 2, 5], [1, 1, 1], [1, 3, 1], [3, 3, 3]]
        {
            let given = [counted(1, &[x]), counted(2, &[rows, columns]), counted(3, &[columns])];
            let values: Vec<Value> = given.iter().map(|x| on.constant(x).unwrap()).collect();
            let out = graph.run(&values.iter().map(Some).collect::<Vec<_>>()).unwrap();
            let out = on.to_host(&out[0]).unwrap();
            let [x_numbers, y, z] = given.each_ref().map(|data| data.as_slice::<f32>().unwrap());
            assert_eq!(
                out.as_slice::<f32>().unwrap(),
                product(x_numbers, y, z),
                "{name} {x} {rows} {columns}"
            );
            let found = spec.contradictions(&|i| given.get(i).map(|x| (x.dtype(), x.shape())));
            assert_eq!(found.is_empty(), x == rows && rows == columns);
        }
        // What is no claim stays a condition.
        let wrong =
            [counted(1, &[1, 1]), counted(2, &[2, 2]), counted(3, &[2])].map(|x| on.constant(&x).unwrap());
        let wrong = mismatch(graph.run(&wrong.iter().map(Some).collect::<Vec<_>>()));
        assert_eq!(wrong.problem, InputProblem::Rank { expected: 1, got: 2 });
    }
    let given = [counted(1, &[8]), counted(2, &[8, 8]), counted(3, &[4])];
    let found = spec.contradictions(&|i| given.get(i).map(|x| (x.dtype(), x.shape())));
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "input `z` is declared as f32[n], got f32[4]: extent 4 of axis 0 must be 8, because `n` is 8 at axis 0 of input `x`"
        ]
    );
}

fn symbol(axis: usize, symbol: &str, expected: usize, got: usize, bound: (&str, usize)) -> InputProblem {
    InputProblem::Symbol {
        axis,
        symbol: symbol.to_owned(),
        expected,
        got,
        bound_by: bound.0.to_owned(),
        bound_axis: bound.1,
    }
}

#[test]
fn placeholder_names_are_not_symbolic_dimensions() {
    let bytes = serialized(identity(vec![value("x", 1, &["None", "None"]), value("y", 1, &["None"])]));
    let on = backends::start("reference").unwrap();
    assert!(run(&on, &bytes, &[Some(f32s(&[2, 3])), Some(f32s(&[4]))]).is_ok());
}

#[test]
fn no_shape_is_any_shape_and_an_empty_one_is_rank_0() {
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: None };
    let any = serialized(identity(vec![of_type("x", type_proto::Value::TensorType(tensor))]));
    let scalar = serialized(identity(vec![value("x", 1, &[])]));
    let on = backends::start("reference").unwrap();
    assert!(run(&on, &any, &[Some(f32s(&[2, 3]))]).is_ok() && run(&on, &any, &[Some(f32s(&[]))]).is_ok());
    assert!(run(&on, &scalar, &[Some(f32s(&[]))]).is_ok());
    let wrong = mismatch(run(&on, &scalar, &[Some(f32s(&[1]))]));
    assert_eq!(wrong.problem, InputProblem::Rank { expected: 0, got: 1 });
}

#[test]
fn overridden_and_kept_defaults_bind_symbolic_dimensions() {
    let mut graph = identity(vec![value("x", 1, &["n"]), value("w", 1, &["n"])]);
    graph.initializer.push(f32s(&[3]).to_proto("w"));
    let bytes = serialized(graph);
    let on = backends::start("reference").unwrap();
    assert!(run(&on, &bytes, &[Some(f32s(&[3])), None]).is_ok());
    assert!(run(&on, &bytes, &[Some(f32s(&[5])), Some(f32s(&[5]))]).is_ok());
    let wrong = mismatch(run(&on, &bytes, &[Some(f32s(&[5])), Some(f32s(&[3]))]));
    assert_eq!((wrong.name.as_str(), wrong.problem), ("w", symbol(0, "n", 5, 3, ("x", 0))));
    // A default may also precede the other use of its symbolic dimension.
    let mut graph = identity(vec![value("w", 1, &["n"]), value("x", 1, &["n"])]);
    graph.initializer.push(f32s(&[3]).to_proto("w"));
    let wrong = mismatch(run(&on, &serialized(graph), &[None, Some(f32s(&[5]))]));
    assert_eq!((wrong.name.as_str(), wrong.problem), ("x", symbol(0, "n", 3, 5, ("w", 0))));
}

#[test]
fn more_inputs_than_the_graph_has_are_refused() {
    let bytes = serialized(identity(vec![value("x", 1, &["n"])]));
    let on = backends::start("reference").unwrap();
    let result = run(&on, &bytes, &[Some(f32s(&[1])), Some(f32s(&[1]))]);
    assert!(matches!(result, Err(Error::InputCount { expected: 1, got: 2 })));
}

fn boxed(value: type_proto::Value) -> Option<Box<TypeProto>> {
    Some(Box::new(TypeProto { value: Some(value), ..TypeProto::default() }))
}

/// Runs a model that has one input.
fn run_item(bytes: &[u8], item: OnnxValue<TensorData>) -> Result<(), Error> {
    let on = backends::start("reference").unwrap();
    let graph = on.clone().compile(module(bytes.to_vec()), &CompileOptions::default().with_strict(true))?;
    graph.run_items(&[Some(item.map(&mut |x| on.constant(x).unwrap()))]).map(drop)
}

#[test]
fn elements_of_sequences_and_optionals_are_compared() {
    let tensor = |extents| match value("", 1, extents).r#type.unwrap().value {
        Some(tensor) => boxed(tensor),
        None => None,
    };
    let sequence =
        type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: tensor(&["n", "2"]) }));
    let bytes = serialized(identity(vec![of_type("s", sequence)]));
    let list = |shapes: &[&[usize]]| {
        OnnxValue::Sequence(shapes.iter().map(|s| OnnxValue::Tensor(f32s(s))).collect())
    };
    // All elements have the same declared type, but may have different lengths.
    assert!(run_item(&bytes, list(&[&[1, 2], &[3, 2]])).is_ok() && run_item(&bytes, list(&[])).is_ok());
    let wrong = mismatch(run_item(&bytes, list(&[&[1, 2], &[3, 4]])));
    let problem = Box::new(InputProblem::Extent { axis: 1, expected: 2, got: 4 });
    assert_eq!((wrong.name.as_str(), wrong.problem), ("s", InputProblem::Element { index: 1, problem }));
    assert_eq!(mismatch(run_item(&bytes, OnnxValue::Tensor(f32s(&[1, 2])))).problem, InputProblem::Kind);
    let ints = OnnxValue::Sequence(vec![OnnxValue::Tensor(zeros(DataType::I64, &[1, 2]))]);
    assert!(matches!(mismatch(run_item(&bytes, ints)).problem, InputProblem::Element { index: 0, .. }));

    let optional =
        type_proto::Value::OptionalType(Box::new(type_proto::Optional { elem_type: tensor(&["n", "n"]) }));
    let bytes = serialized(identity(vec![of_type("o", optional)]));
    assert!(
        run_item(&bytes, OnnxValue::Absent).is_ok()
            && run_item(&bytes, OnnxValue::Tensor(f32s(&[2, 2]))).is_ok()
    );
    let wrong = mismatch(run_item(&bytes, OnnxValue::Tensor(f32s(&[2, 3]))));
    assert_eq!(wrong.problem, symbol(1, "n", 2, 3, ("o", 0)));
}

/// A graph with one input `x` of two elements, and the problem that three elements cause.
fn pair() -> (GraphProto, InputProblem) {
    (identity(vec![value("x", 1, &["2"])]), InputProblem::Extent { axis: 0, expected: 2, got: 3 })
}

#[test]
fn typed_calls_compare() {
    let (graph, expected) = pair();
    let x = Reference.constant(&f32s(&[3])).unwrap();
    let compiled = Reference.compile(module(serialized(graph.clone())), &CompileOptions::default()).unwrap();
    let named = HashMap::from([("x".to_owned(), x.clone())]);
    for error in [
        compiled.run(&Reference, &[Some(&x)]).unwrap_err(),
        compiled.run_items(&Reference, &[Some(OnnxValue::Tensor(&x))]).unwrap_err(),
        Reference.execute(&graph, named, BackendAttrs::default()).unwrap_err(),
    ] {
        match error {
            bb_reference::Error::Bb(error) => assert_eq!(mismatch::<()>(Err(error)).problem, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn graphs_that_are_dispatched_and_nodes_compare() {
    let (graph, expected) = pair();
    let mut backends: Vec<Arc<Runtime>> =
        backends::NAMES.iter().map(|name| backends::start(name).unwrap()).collect();
    backends.push(Runtime::named("own", Own));
    for on in backends {
        let known = BackendAttrs::default().with_identity(GraphIdentity::fresh());
        for attrs in [BackendAttrs::default(), known, known] {
            let inputs = HashMap::from([("x".to_owned(), on.constant(&f32s(&[3])).unwrap())]);
            let answer = on.clone().dispatch(Arc::new(graph.clone()), inputs, attrs).wait();
            assert_eq!(mismatch(answer).problem, expected, "{}", on.name());
        }
        let handle = BackendHandle::new(on.clone());
        let node =
            Deployment::builder().model("m", serialized(graph.clone())).backend(handle).ready().unwrap();
        let x = on.constant(&f32s(&[3])).unwrap();
        assert_eq!(mismatch(node.run_named([("x", x)])).problem, expected, "{}", on.name());
    }
}

/// A backend that runs graphs itself; its own executable does not check inputs.
struct Own;

type Tensor = <Reference as Backend>::Tensor;
type OwnError = <Reference as Backend>::Error;
type Named = HashMap<String, Tensor>;

impl Own {
    fn call(
        &self,
        op: bb::Primitive,
        inputs: &[Option<&Tensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<bb::Outputs<Tensor>, OwnError> {
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for Own {
    type Tensor = Tensor;
    type Error = OwnError;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, OwnError> {
        Reference.to_host(x)
    }

    fn dispatch(
        &self,
        _graph: Arc<GraphProto>,
        inputs: Named,
        _attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<Named, OwnError>,
    ) -> ContractResponse<Named, OwnError> {
        ContractResponse::Now(Ok(inputs.into_values().map(|x| ("out".to_owned(), x)).collect()))
    }

    fn compile(
        &self,
        module: Module,
        _options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, OwnError> {
        let port = |value: &bb::ir::graph::ValueId| Port {
            name: module.graph().name_of(*value).to_owned(),
            ty: Default::default(),
            optional: false,
        };
        let ports = [&module.graph().inputs, &module.graph().outputs].map(|v| v.iter().map(port).collect());
        Ok(Box::new(Blind(ports)))
    }
}

struct Blind([Vec<Port>; 2]);

impl Executable<Own> for Blind {
    fn inputs(&self) -> &[Port] {
        &self.0[0]
    }

    fn outputs(&self) -> &[Port] {
        &self.0[1]
    }

    fn run(&self, _on: &Own, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, OwnError> {
        Ok(inputs.iter().flatten().map(|x| Tensor::clone(x)).collect())
    }
}

#[test]
fn inputs_of_a_backends_own_executable_are_compared() {
    let (graph, expected) = pair();
    let bytes = serialized(graph);
    let on: Arc<Runtime> = Runtime::named("own", Own);
    assert!(run(&on, &bytes, &[Some(f32s(&[2]))]).is_ok());
    assert_eq!(mismatch(run(&on, &bytes, &[Some(f32s(&[3]))])).problem, expected);
    // Without a runtime, the author must check the inputs.
    let spec = InputSpec::new(module(bytes).graph());
    let x = Reference.constant(&f32s(&[3])).unwrap();
    assert_eq!(mismatch(spec.check(&[Some(&x)])).problem, expected);
}

#[test]
fn nothing_runs_before_inputs_are_compared() {
    let counting = Counting::default();
    let counts = counting.counts();
    let on: Arc<Runtime> = Runtime::named("counting", counting);
    let mut graph = identity(vec![value("x", 1, &["2"])]);
    graph.node = vec![node("Neg", &["x"], &["out"])];
    let graph = on.clone().compile(module(serialized(graph)), &CompileOptions::default()).unwrap();
    let x = on.constant(&f32s(&[3])).unwrap();
    let before = counts.operations();
    assert_eq!(mismatch(graph.run(&[Some(&x)])).name, "x");
    assert_eq!(counts.operations(), before);
}

#[test]
fn trained_models_refuse_features_that_they_were_not_trained_with() {
    let wrong = |model: Vec<u8>, columns: usize| {
        let on = backends::start("reference").unwrap();
        mismatch(run(&on, &model, &[Some(f32s(&[4, columns]))]))
    };
    let bayes = wrong(file("declarations/gnb.onnx"), 1);
    assert_eq!(bayes.problem, InputProblem::Extent { axis: 1, expected: 4, got: 1 });
    let forest = file("models/skl_random_forest/model.onnx");
    let columns = match &module(forest.clone()).graph().values[0].ty {
        bb::ir::graph::ValueType::Tensor { shape: Some(dims), .. } => {
            dims[1].to_string().parse::<usize>().unwrap()
        }
        other => panic!("{other}"),
    };
    let wrong = wrong(forest, columns + 3);
    assert_eq!(wrong.problem, InputProblem::Extent { axis: 1, expected: columns, got: columns + 3 });
}
