//! Tests that a backend with kernels and three element types has its own `dispatch`, `execute`, `compile` and `materialize_from_wire` called
//! for graphs and frames of its types.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::Create;
use bb::ir::op::Param;
use bb::ir::wire::type_hash;
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, CompletionHandle, ContractResponse, DataType,
    DataTypes, Executable, GraphProto, Module, Outputs, Port, Primitive, Runtime, TensorData, Value,
};
use bb_reference::{Error, Reference, Tensor};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Named = HashMap<String, Tensor>;

/// How often each method was called.
#[derive(Debug, Default)]
struct Calls {
    dispatch: AtomicUsize,
    execute: AtomicUsize,
    compile: AtomicUsize,
    run: AtomicUsize,
    materialize: AtomicUsize,
}

impl Calls {
    fn taken(&self) -> [usize; 5] {
        let Calls { dispatch, execute, compile, run, materialize } = self;
        [dispatch, execute, compile, run, materialize].map(|count| count.swap(0, Relaxed))
    }
}

/// The methods for graphs that a chip overrides.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It has a compiler, and answers later.
    Compiles,
    /// It runs graphs, and leaves the rest to `bb`.
    Executes,
    /// It has kernels only.
    Kernels,
    /// It answers later with what `bb` computes at once.
    Queues,
    /// It answers later with what `bb` computes on its thread.
    Threads,
    /// It refuses every graph.
    Refuses,
}

#[derive(Clone)]
struct Chip {
    kind: Kind,
    calls: Arc<Calls>,
    types: DataTypes,
}

const TYPES: [DataType; 3] = [DataType::F32, DataType::I32, DataType::Bool];

impl Chip {
    fn new(kind: Kind) -> Chip {
        Chip { kind, calls: Arc::default(), types: DataTypes::of(&TYPES) }
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tensor>, Error> {
        let results = bb::call_primitive(&Reference, op, inputs, params)?;
        for x in inputs.iter().flatten().copied().chain(&results) {
            let dtype = bb::Tensor::dtype(x);
            if !self.types.has(dtype) {
                return Err(bb::ir::Error::Unsupported { op: op.spec().method, dtype }.into());
            }
        }
        Ok(results)
    }
}

/// A graph that the reference compiled.
struct Compiled(Box<dyn Executable<Reference>>);

impl Executable<Chip> for Compiled {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(&self, on: &Chip, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, Error> {
        on.calls.run.fetch_add(1, Relaxed);
        self.0.run(&Reference, inputs)
    }
}

impl Backend for Chip {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.types
    }

    fn execute(&self, graph: &GraphProto, inputs: Named, attrs: BackendAttrs<'_>) -> Result<Named, Error> {
        self.calls.execute.fetch_add(1, Relaxed);
        match self.kind {
            Kind::Kernels | Kind::Queues | Kind::Threads => {
                bb::__private::execute_planned(self, graph, inputs, attrs)
            }
            Kind::Compiles | Kind::Executes | Kind::Refuses => {
                Reference.execute(graph, inputs, BackendAttrs::default())
            }
        }
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<Named, Error>,
    ) -> ContractResponse<Named, Error> {
        self.calls.dispatch.fetch_add(1, Relaxed);
        if self.kind == Kind::Refuses {
            let refused = bb::ir::Error::Unsupported { op: "graph", dtype: DataType::F32 };
            return ContractResponse::Now(Err(refused.into()));
        }
        if self.kind == Kind::Queues {
            let (answer, completer) = completion.later();
            let result = self.execute(&graph, inputs, attrs);
            std::thread::spawn(move || completer.complete(result));
            return answer;
        }
        if !matches!(self.kind, Kind::Compiles | Kind::Threads) {
            return ContractResponse::Now(self.execute(&graph, inputs, attrs));
        }
        let (answer, completer) = completion.later();
        let on = self.clone();
        std::thread::spawn(move || completer.complete(on.execute(&graph, inputs, BackendAttrs::default())));
        answer
    }

    fn compile(&self, module: Module, options: &CompileOptions) -> Result<Box<dyn Executable<Chip>>, Error> {
        self.calls.compile.fetch_add(1, Relaxed);
        match self.kind {
            Kind::Compiles => Ok(Box::new(Compiled(Reference.compile(module, options)?))),
            _ => bb::compile_whole_graph(self, module, options),
        }
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Tensor, Error> {
        self.calls.materialize.fetch_add(1, Relaxed);
        Reference.materialize_from_wire(type_hash, bytes)
    }
}

fn started(chip: &Chip) -> BackendHandle {
    BackendHandle::new(Runtime::erased("chip", chip.clone(), &[]))
}

/// `y = max(x · w, 0) + x` of one element type, with a shape of `i64` among the constants.
fn graph(dtype: DataType) -> GraphProto {
    let weights = TensorData::new(&[2, 2], &[1f32, -1., 2., 0.5]).unwrap();
    let weights = bb::ir::convert::cast(&weights, dtype, Default::default()).unwrap();
    let graph = bb::trace(&[("x", dtype, &[2, 2])], move |on, inputs| {
        let [x] = inputs else { return Ok(vec![]) };
        let product = on.matmul(x, &on.constant(&weights)?)?;
        let zero = on.scalar_like(&product, 0.0)?;
        Ok(vec![on.add(&on.r#where(&on.greater(&product, &zero)?, &product, &zero)?, x)?])
    });
    graph.unwrap()
}

/// The result of [`graph`] for 1, 2, 3, -4, in `f32` and in integers, whose weights are 1, -1, 2, 0.
const EXPECTED: [f32; 4] = [6., 2., 3., -4.];

fn run(on: &BackendHandle, module: &Module, x: &Value) -> TensorData {
    let compiled = on.runtime().clone().compile(module.clone(), &CompileOptions::default()).unwrap();
    compiled.run(&[Some(x)]).unwrap().first().unwrap().to_host(1 << 20).unwrap()
}

fn dispatched(on: &BackendHandle, graph: &GraphProto, x: &Value) -> TensorData {
    let (input, output) = (graph.input.first().unwrap().name(), graph.output.first().unwrap().name());
    let inputs = HashMap::from([(input.to_owned(), x.clone())]);
    let answer = on.runtime().clone().dispatch(Arc::new(graph.clone()), inputs, BackendAttrs::default());
    answer.wait().unwrap().get(output).unwrap().to_host(1 << 20).unwrap()
}

#[test]
fn a_graph_of_own_types_goes_to_the_own_methods() {
    let chip = Chip::new(Kind::Compiles);
    let on = started(&chip);
    let graph = graph(DataType::F32);
    let x = on.tensor(&[2, 2], &[1f32, 2., 3., -4.]).unwrap();
    chip.calls.taken();
    let y = run(&on, &Module::from_graph(&graph, &[], &[]).unwrap(), &x);
    assert_eq!(y.as_slice::<f32>().unwrap(), EXPECTED);
    assert_eq!(chip.calls.taken(), [0, 0, 1, 1, 0]);
    assert_eq!(dispatched(&on, &graph, &x).as_slice::<f32>().unwrap(), EXPECTED);
    assert_eq!(chip.calls.taken(), [1, 1, 0, 0, 0]);
}

#[test]
fn a_graph_of_other_types_is_narrowed() {
    for kind in [Kind::Compiles, Kind::Executes, Kind::Kernels] {
        let chip = Chip::new(kind);
        let on = started(&chip);
        let graph = graph(DataType::I64);
        let x = on.tensor(&[2, 2], &[1i64, 2, 3, -4]).unwrap();
        chip.calls.taken();
        let module = Module::from_graph(&graph, &[], &[]).unwrap();
        for y in [run(&on, &module, &x), dispatched(&on, &graph, &x)] {
            assert_eq!(y.as_slice::<i64>().unwrap(), [6, 2, 3, -4]);
        }
        assert_eq!(chip.calls.taken(), [0; 5]);
    }
}

/// The rows of a table at `i64` indices, through [`graph`]'s formula, and the sum of the indices.
fn mixed_graph() -> GraphProto {
    let table = TensorData::new(&[3, 2], &[0f32, 0., 1., 2., 3., -4.]).unwrap();
    let weights = TensorData::new(&[2, 2], &[1f32, -1., 2., 0.5]).unwrap();
    let graph = bb::trace(&[("ids", DataType::I64, &[2])], move |on, inputs| {
        let [ids] = inputs else { return Ok(vec![]) };
        let x = on.gather(&on.constant(&table)?, ids, 0)?;
        let product = on.matmul(&x, &on.constant(&weights)?)?;
        let zero = on.scalar_like(&product, 0.0)?;
        let y = on.add(&on.r#where(&on.greater(&product, &zero)?, &product, &zero)?, &x)?;
        Ok(vec![y, on.reduce_sum(ids, &[], false)?])
    });
    graph.unwrap()
}

#[test]
fn the_parts_of_a_graph_that_need_no_narrowing_go_to_the_own_compile() {
    let module = Module::from_graph(&mixed_graph(), &[], &[]).unwrap();
    for (kind, calls) in [(Kind::Compiles, [0, 0, 1, 1, 0]), (Kind::Executes, [0, 0, 1, 0, 0])] {
        let chip = Chip::new(kind);
        let on = started(&chip);
        let ids = on.tensor(&[2], &[1i64, 2]).unwrap();
        chip.calls.taken();
        let compiled = on.runtime().clone().compile(module.clone(), &CompileOptions::default()).unwrap();
        let results = compiled.run(&[Some(&ids)]).unwrap();
        let results: Vec<TensorData> = results.iter().map(|y| y.to_host(1 << 20).unwrap()).collect();
        assert_eq!(results.first().unwrap().as_slice::<f32>().unwrap(), EXPECTED);
        assert_eq!(results.get(1).unwrap(), &TensorData::scalar(3i64));
        assert_eq!(chip.calls.taken(), calls);
    }
}

/// `dispatch` may answer later, and may call the default of `execute`, whose plan is kept.
#[test]
fn the_parts_of_a_graph_that_need_no_narrowing_go_to_the_own_dispatch() {
    let graph = mixed_graph();
    let checked = bb::CheckedGraph::new(Module::from_graph(&graph, &[], &[]).unwrap()).unwrap();
    let names: Vec<&str> = graph.output.iter().map(|output| output.name()).collect();
    let once = [1, 1, 0, 0, 0];
    for (kind, calls) in [
        (Kind::Compiles, [once, once, once]),
        (Kind::Executes, [once, once, once]),
        (Kind::Kernels, [[1, 1, 1, 0, 0], once, once]),
    ] {
        let chip = Chip::new(kind);
        let on = started(&chip);
        let ids = on.tensor(&[2], &[1i64, 2]).unwrap();
        chip.calls.taken();
        for calls in calls {
            let inputs = HashMap::from([("ids".to_owned(), ids.clone())]);
            let answer = on.runtime().clone().dispatch_checked(&checked, inputs, BackendAttrs::default());
            assert_eq!(matches!(answer, ContractResponse::Later(_)), kind == Kind::Compiles);
            let results = answer.wait().unwrap();
            let [y, sum] = names[..] else { panic!("two outputs") };
            let host = |name| results.get(name).unwrap().to_host(1 << 20).unwrap();
            assert_eq!(host(y).as_slice::<f32>().unwrap(), EXPECTED);
            assert_eq!(host(sum), TensorData::scalar(3i64));
            assert_eq!(chip.calls.taken(), calls, "{:?}", kind as usize);
        }
    }
    let chip = Chip::new(Kind::Refuses);
    let on = started(&chip);
    let inputs = HashMap::from([("ids".to_owned(), on.tensor(&[2], &[1i64, 2]).unwrap())]);
    let answer = on.runtime().clone().dispatch_checked(&checked, inputs, BackendAttrs::default());
    assert!(matches!(answer.wait().unwrap_err(), bb::Error::Kernel { op: "dispatch", .. }));
}

#[test]
fn what_an_own_method_leaves_to_bb_runs_as_without_it() {
    for kind in [Kind::Executes, Kind::Kernels] {
        let chip = Chip::new(kind);
        let on = started(&chip);
        let graph = graph(DataType::F32);
        let x = on.tensor(&[2, 2], &[1f32, 2., 3., -4.]).unwrap();
        chip.calls.taken();
        let y = run(&on, &Module::from_graph(&graph, &[], &[]).unwrap(), &x);
        assert_eq!(y.as_slice::<f32>().unwrap(), EXPECTED);
        assert_eq!(chip.calls.taken(), [0, 0, 1, 0, 0]);
        assert_eq!(dispatched(&on, &graph, &x).as_slice::<f32>().unwrap(), EXPECTED);
        assert_eq!(chip.calls.taken().get(..2).unwrap(), [1, 1]);
    }
}

/// An error of an own method is the caller's, also if `bb` could run the graph.
#[test]
fn an_error_of_an_own_method_is_no_reason_to_go_on() {
    let chip = Chip::new(Kind::Refuses);
    let on = started(&chip);
    let graph = graph(DataType::F32);
    let x = on.tensor(&[2, 2], &[1f32, 2., 3., -4.]).unwrap();
    let inputs = HashMap::from([(graph.input.first().unwrap().name().to_owned(), x)]);
    chip.calls.taken();
    let answer = on.runtime().clone().dispatch(Arc::new(graph), inputs, BackendAttrs::default());
    let error = answer.wait().unwrap_err();
    assert!(matches!(error, bb::Error::Kernel { op: "dispatch", .. }), "{error}");
    assert_eq!(chip.calls.taken(), [1, 0, 0, 0, 0]);
}

/// The pages show both ways to write `dispatch`.
#[test]
fn an_own_dispatch_may_call_the_default_execute() {
    let moved = bb::trace(&[("x", DataType::F32, &[2, 2])], |on, inputs| {
        let [x] = inputs else { return Ok(vec![]) };
        Ok(vec![on.transpose(&on.reshape(x, &[4, 1])?, &[1, 0])?])
    });
    for kind in [Kind::Queues, Kind::Threads] {
        let chip = Chip::new(kind);
        let on = started(&chip);
        let x = on.tensor(&[2, 2], &[1f32, 2., 3., -4.]).unwrap();
        assert_eq!(dispatched(&on, &graph(DataType::F32), &x).as_slice::<f32>().unwrap(), EXPECTED);
        let y = dispatched(&on, moved.as_ref().unwrap(), &x);
        assert_eq!((y.shape(), y.as_slice::<f32>().unwrap()), (&[1, 4][..], &[1f32, 2., 3., -4.][..]));
        let ids = on.tensor(&[2], &[1i64, 2]).unwrap();
        let inputs = HashMap::from([("ids".to_owned(), ids)]);
        let mixed = Arc::new(mixed_graph());
        chip.calls.taken();
        let answer = on.runtime().clone().dispatch(mixed, inputs, BackendAttrs::default());
        assert!(matches!(answer, ContractResponse::Later(_)));
        let results = answer.wait().unwrap();
        assert_eq!(chip.calls.taken().get(..2).unwrap(), [1, 1]);
        let floats = results.values().find(|y| y.dtype() == DataType::F32).unwrap();
        assert_eq!(floats.to_host(1 << 20).unwrap().as_slice::<f32>().unwrap(), EXPECTED);
    }
}

#[test]
fn frames_of_own_types_go_to_the_own_method() {
    let chip = Chip::new(Kind::Kernels);
    let on = started(&chip);
    for (data, calls) in [(TensorData::scalar(2.5f32), 1), (TensorData::scalar(1i64 << 40), 0)] {
        let frame = bb::ir::wire::encode(&data).unwrap();
        let value = on.runtime().materialize_from_wire(type_hash(data.dtype()), frame).unwrap();
        assert_eq!(value.to_host(1 << 20).unwrap(), data);
        assert_eq!(chip.calls.taken(), [0, 0, 0, 0, calls]);
    }
}
