//! A backend that takes whole graphs and has three element types.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{
    Backend, BackendAttrs, BackendHandle, DataType, DataTypes, Deployment, Error, GraphProto, Module,
    Runtime, TensorData, Value,
};
use bb_reference::{Reference, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Declarations of a graph: the number of its nodes, and the element types of its inputs, outputs and initializers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    nodes: usize,
    inputs: Vec<i32>,
    outputs: Vec<i32>,
}

/// A compiler for a chip that has `f32`, `i32` and `bool`. It counts the graphs that it gets.
#[derive(Default, Clone)]
struct Compiler {
    ran: Arc<Mutex<Vec<Seen>>>,
}

fn declared(values: &[bb::ir::proto::ValueInfoProto]) -> Vec<i32> {
    let of = |value: &bb::ir::proto::ValueInfoProto| match value
        .r#type
        .as_ref()
        .and_then(|ty| ty.value.as_ref())
    {
        Some(bb::ir::proto::type_proto::Value::TensorType(tensor)) => tensor.elem_type.unwrap_or(0),
        _ => 0,
    };
    values.iter().map(of).collect()
}

impl Compiler {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, bb_reference::Error> {
        let seen = Seen {
            nodes: graph.node.len(),
            inputs: declared(&graph.input),
            outputs: declared(&graph.output),
        };
        self.ran.lock().unwrap().push(seen);
        let has = |dtype| self.types().has(dtype);
        if let Some(x) = inputs.values().find(|x| !has(bb::Tensor::dtype(*x))) {
            return Err(bb::ir::Error::Unsupported { op: "graph", dtype: bb::Tensor::dtype(x) }.into());
        }
        let results = Reference.execute(graph, inputs, attrs)?;
        match results.values().find(|x| !has(bb::Tensor::dtype(*x))) {
            Some(x) => Err(bb::ir::Error::Unsupported { op: "graph", dtype: bb::Tensor::dtype(x) }.into()),
            None => Ok(results),
        }
    }

    fn taken(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.ran.lock().unwrap())
    }
}

impl Backend for Compiler {
    type Tensor = Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool])
    }
}

fn started(compiler: &Compiler) -> BackendHandle {
    BackendHandle::new(Runtime::erased("compiler", compiler.clone(), &[]))
}

const F32: i32 = 1;
const I32: i32 = 6;
const I64: i32 = 7;

/// Five operators: rows of a table by `i64` indices, times 2, plus 1, and the indices themselves, some of them masked.
fn model() -> Module {
    let table = TensorData::new(&[4, 2], &[0f32, 1., 10., 11., 20., 21., 30., 31.]).unwrap();
    let graph = bb::trace(&[("ids", DataType::I64, &[3])], move |on, inputs| {
        let [ids] = inputs else { return Ok(vec![]) };
        let rows = on.gather(&on.constant(&table)?, ids, 0)?;
        let twice = on.mul(&rows, &on.constant(&TensorData::scalar(2f32))?)?;
        let plus = on.add(&twice, &on.constant(&TensorData::scalar(1f32))?)?;
        let none = on.constant(&TensorData::scalar(0i64))?;
        let masked = on.r#where(&on.greater(ids, &on.constant(&TensorData::scalar(1i64))?)?, ids, &none)?;
        Ok(vec![plus, masked])
    });
    Module::from_graph(&graph.unwrap(), &[], &[]).unwrap()
}

fn deployed(on: &BackendHandle, model: Module) -> Result<Deployment, Error> {
    Deployment::builder().model("m", model).backend(on.clone()).ready()
}

/// Runs a model of one input, and returns its outputs in order.
fn outputs(on: &BackendHandle, model: &Module, ids: &[i64]) -> Vec<TensorData> {
    let options = bb::CompileOptions::default();
    let compiled = on.runtime().clone().compile(model.clone(), &options).unwrap();
    let ids: Value = on.tensor(&[ids.len()], ids).unwrap();
    compiled.run(&[Some(&ids)]).unwrap().iter().map(|y| y.to_host(1 << 20).unwrap()).collect()
}

#[test]
fn asking_what_runs_and_which_types_there_are_runs_nothing() {
    let compiler = Compiler::default();
    let on = started(&compiler);
    deployed(&on, model()).unwrap();
    assert_eq!(compiler.taken(), []);
}

#[test]
fn a_graph_comes_whole_and_in_the_types_of_the_backend() {
    let compiler = Compiler::default();
    let on = started(&compiler);
    let model = model();
    let got = outputs(&on, &model, &[2, 0, 3]);
    assert_eq!(got[0].as_slice::<f32>().unwrap(), [41., 43., 1., 3., 61., 63.]);
    assert_eq!(got[1].as_slice::<i64>().unwrap(), [2, 0, 3]);
    let seen = compiler.taken();
    let whole: Vec<&Seen> = seen.iter().filter(|seen| seen.nodes > 1).collect();
    assert!(whole.len() == 1 && whole[0].nodes >= 5, "{seen:?}");
    assert_eq!((&whole[0].inputs, &whole[0].outputs), (&vec![I32], &vec![F32, I32]));
    assert!(seen.iter().all(|seen| !seen.inputs.contains(&I64) && !seen.outputs.contains(&I64)), "{seen:?}");
}

/// `ready()` reports the node that may exceed `i32`. In a program that accepts this, the node runs by itself, with exact sums, and the
/// rest runs as one graph.
#[test]
fn what_may_exceed_is_said_and_called_alone() {
    let graph = bb::trace(&[("x", DataType::I64, &[2])], |on, inputs| {
        let [x] = inputs else { return Ok(vec![]) };
        let sum = on.add(x, x)?;
        let rows = on.concat(&[&sum, x], 0)?;
        Ok(vec![on.reshape(&rows, &[2, 2])?])
    });
    let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
    let compiler = Compiler::default();
    let on = started(&compiler);
    let error = deployed(&on, module.clone()).unwrap_err().to_string();
    assert!(error.contains("Add") && error.contains("i32"), "{error}");
    let most = i64::from(i32::MAX);
    let got = outputs(&on, &module, &[most, 1]);
    assert_eq!(got[0].as_slice::<i64>().unwrap(), [2 * most, 2, most, 1]);
    // What `i32` does not hold cannot be an input of a graph; its steps are called.
    let wide = outputs(&on, &module, &[1 << 40, 1]);
    assert_eq!(wide[0].as_slice::<i64>().unwrap(), [1 << 41, 2, 1 << 40, 1]);
    compiler.taken();
    outputs(&on, &module, &[4, 5]);
    assert_eq!(compiler.taken().iter().filter(|seen| seen.nodes > 1).count(), 1);
}

#[test]
fn single_operations_are_narrowed_as_before() {
    let compiler = Compiler::default();
    let on = started(&compiler);
    let x = on.tensor(&[2], &[i64::from(i32::MAX), 1]).unwrap();
    assert_eq!(
        x.add(&x).unwrap().to_host(64).unwrap().as_slice::<i64>().unwrap(),
        [2 * i64::from(i32::MAX), 2]
    );
    assert!(compiler.taken().iter().all(|seen| seen.nodes == 1));
}

/// A compiler without logarithms.
#[derive(Default, bb::Backend)]
#[bb(name = "no-log")]
struct NoLog;

impl NoLog {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, bb_reference::Error> {
        assert!(graph.node.iter().all(|node| node.op_type() != "Log"), "a logarithm came");
        Reference.execute(graph, inputs, attrs)
    }
}

impl Backend for NoLog {
    type Tensor = Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn runs_primitive(&self, op: bb::Primitive) -> bool {
        op != bb::Primitive::Log
    }

    fn wrapped(error: &bb_reference::Error) -> Option<&Error> {
        Reference::wrapped(error)
    }

    fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }
}

/// A model of one node.
fn one(op: &str) -> Module {
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![bb_tests::model::node(op, &["x"], &["y"])],
        input: vec![bb_tests::model::value("x", 1, &["2", "3"])],
        output: vec![bb_tests::model::untyped("y")],
        ..GraphProto::default()
    };
    Module::from_bytes(bb_tests::model::serialized(graph)).unwrap()
}

/// Covers the backend by itself and below a layer, and the primitive as an operator and as the lowering of another operator.
#[test]
fn a_primitive_that_a_compiler_does_not_run_is_known_before_a_run() {
    use bb_layers as _;
    for name in ["no-log", "metrics+no-log"] {
        let on = bb::backend(name).unwrap();
        let x = on.tensor(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        for (op, runs) in [("Exp", true), ("Softmax", true), ("Log", false), ("LogSoftmax", false)] {
            let coverage = bb::coverage::Coverage::of(&one(op), on.runtime());
            let missing = coverage.nodes.iter().flat_map(|node| &node.missing).map(ToString::to_string);
            let told = missing.collect::<String>().contains("needs `log`, which the backend does not run");
            assert_eq!(told, !runs, "{name} {op}: {coverage}");
            assert_eq!(deployed(&on, one(op)).is_ok(), runs, "{name} {op}");
            let compiled = on.compile(one(op), &bb::CompileOptions::default()).unwrap();
            let result = compiled.run(&[Some(&x)]);
            assert_eq!(result.is_ok(), runs, "{name} {op}");
            if let Err(error) = result {
                let text = format!("{error:?}");
                assert!(text.contains(&format!("({op})")) && text.contains("does not run `log`"), "{text}");
                assert_eq!(on.error_kind(&error), bb::ErrorKind::Unsupported);
            }
        }
        assert!(on.log(&x).is_err(), "{name}");
    }
}

mod suite_of_a_compiler_without_logarithms {
    bb::conformance!(super::NoLog, cases = 40);
}
