//! Tests prepared kernels: each step is prepared once and shared between plans, constants that only the preparation of kernels needed
//! are released, and a kernel owns an operand only at its last use.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::op::Param;
use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, attribute_proto::AttributeType};
use bb::profile::Profile;
use bb::{
    Backend, CompileOptions, DataType, DataTypes, ErasedExecutable, Kernel, KernelOperands, Module, Outputs,
    PrepareStep, Primitive, Runtime, TensorData,
};
use bb_reference::{Error, Reference};
use bb_tests::model::{ints, named, node, serialized, untyped, value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

type Inner = <Reference as Backend>::Tensor;

/// A tensor that counts as alive as long as any clone of it exists.
#[derive(Clone)]
struct Counted(Arc<Token>);

struct Token {
    tensor: Inner,
    notes: Notes,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.notes.0.tensors.fetch_sub(1, Ordering::SeqCst);
    }
}

impl bb::Tensor for Counted {
    fn dtype(&self) -> bb::DataType {
        self.0.tensor.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.tensor.shape()
    }
}

/// Log of events, by operation.
#[derive(Clone, Default)]
struct Notes(Arc<State>);

#[derive(Default)]
struct State {
    /// The tensors and the kernels that exist.
    tensors: AtomicUsize,
    kernels: AtomicUsize,
    events: Mutex<BTreeMap<String, usize>>,
}

impl Notes {
    fn note(&self, event: String) {
        *self.events().entry(event).or_default() += 1;
    }

    fn events(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.events.lock().unwrap()
    }

    fn count(&self, event: &str) -> usize {
        self.events().get(event).copied().unwrap_or(0)
    }

    fn tensors(&self) -> usize {
        self.0.tensors.load(Ordering::SeqCst)
    }

    fn kernels(&self) -> usize {
        self.0.kernels.load(Ordering::SeqCst)
    }
}

/// How the backend of these tests prepares.
#[derive(Clone, Copy, Default)]
struct Habits {
    /// The primitives that it prepares.
    prepares: &'static [Primitive],
    /// Whether kernels read their constants in each run, rather than copies of their own.
    reads: bool,
    /// Whether a preparation requires the extents of operands.
    asks: bool,
    /// Fails while it prepares, or in runs of kernels.
    fails: Option<&'static str>,
    /// Number of bytes that a kernel reports.
    bytes: usize,
    /// Whether the backend lacks element types.
    few: bool,
}

/// A backend that prepares kernels; the reference backend computes.
struct Preparing {
    notes: Notes,
    habits: Habits,
}

impl Preparing {
    fn counted(&self, tensor: Inner) -> Counted {
        self.notes.0.tensors.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::new(Token { tensor, notes: self.notes.clone() }))
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Counted>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Counted>, Error> {
        self.notes.note(format!("call {}", op.spec().method));
        if matches!(params, [Param::Data(data)] if data.shape() == [2, 2]) {
            self.notes.note("upload of weight".to_owned());
        }
        self.compute(op, &inputs.iter().map(|x| x.map(|x| &x.0.tensor)).collect::<Vec<_>>(), params)
    }

    fn compute(
        &self,
        op: Primitive,
        inputs: &[Option<&Inner>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Counted>, Error> {
        let results = bb::call_primitive(&Reference, op, inputs, params)?;
        Ok(results.into_iter().map(|x| self.counted(x)).collect())
    }
}

fn failed(what: &'static str) -> Error {
    Error::Bb(bb::Error::Operand { op: what, index: 0, expected: "luck" })
}

impl Backend for Preparing {
    type Tensor = Counted;
    type Error = Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Counted) -> Result<TensorData, Error> {
        Reference.to_host(&x.0.tensor)
    }

    fn types(&self) -> DataTypes {
        match self.habits.few {
            true => DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool]),
            false => DataTypes::ALL,
        }
    }

    fn prepare(&self, step: &PrepareStep<'_, Counted>) -> Result<Option<Box<dyn Kernel<Self>>>, Error> {
        let op = step.primitive().unwrap();
        self.notes.note(format!("prepare {}", op.spec().method));
        if !self.habits.prepares.contains(&op) {
            return Ok(None);
        }
        if self.habits.fails == Some("prepare") {
            return Err(failed("prepare"));
        }
        if self.habits.asks {
            step.operands().flatten().for_each(|operand| {
                let extents: Vec<String> =
                    operand.extents().iter().map(|n| n.map_or("?".to_owned(), |n| n.to_string())).collect();
                self.notes.note(format!("extents {}", extents.join("x")));
            });
        }
        let copies = (0..step.operands().len())
            .map(|at| step.constant(at).map(|x| x.0.tensor.clone()).filter(|_| !self.habits.reads))
            .collect();
        self.notes.0.kernels.fetch_add(1, Ordering::SeqCst);
        let params = step.params().into();
        Ok(Some(Box::new(Copied { op, params, copies, habits: self.habits, notes: self.notes.clone() })))
    }
}

/// A kernel with copies of its constants.
struct Copied {
    op: Primitive,
    params: Box<[Param<'static>]>,
    copies: Vec<Option<Inner>>,
    habits: Habits,
    notes: Notes,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.notes.0.kernels.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Kernel<Preparing> for Copied {
    fn run(
        &self,
        on: &Preparing,
        operands: &mut KernelOperands<'_, Counted>,
    ) -> Result<Outputs<Counted>, Error> {
        let name = self.op.spec().method;
        self.notes.note(format!("run {name}"));
        if self.habits.fails == Some("run") {
            return Err(failed("run"));
        }
        let mut owned: Vec<Option<Counted>> = Vec::new();
        for at in 0..operands.len() {
            owned.push(operands.take(at));
            if let Some(x) = &owned[at] {
                assert_eq!(Arc::strong_count(&x.0), 1, "nobody else holds what a kernel owns");
                assert!(operands.get(at).is_none());
                self.notes.note(format!("own {name}"));
            } else if operands.get(at).is_some() {
                self.notes.note(format!("share {name}"));
            }
        }
        let inputs: Vec<Option<&Inner>> = (0..operands.len())
            .map(|at| {
                let given = owned[at].as_ref().or_else(|| operands.get(at)).map(|x| &x.0.tensor);
                given.or(self.copies[at].as_ref())
            })
            .collect();
        on.compute(self.op, &inputs, &self.params)
    }

    fn bytes(&self) -> usize {
        self.habits.bytes
    }

    fn reads(&self, _operand: usize) -> bool {
        self.habits.reads
    }
}

/// A graph of f32 tensors with one weight, `w: [2, 2]` of 1, 2, 3, 4.
fn graph(input: &[&str], nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    let w = TensorData::new(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    GraphProto {
        name: Some("g".to_owned()),
        node: nodes,
        input: vec![value("x", 1, input)],
        output: outputs.iter().map(|name| untyped(name)).collect(),
        initializer: vec![w.to_proto("w")],
        ..GraphProto::default()
    }
}

struct Compiled {
    notes: Notes,
    on: Arc<Runtime>,
    plan: Arc<dyn ErasedExecutable>,
}

impl Compiled {
    fn new(graph: GraphProto, habits: Habits) -> Compiled {
        Compiled::with(graph, habits, &CompileOptions::default())
    }

    fn with(graph: GraphProto, habits: Habits, options: &CompileOptions) -> Compiled {
        let notes = Notes::default();
        let backend = Preparing { notes: notes.clone(), habits };
        let on: Arc<Runtime> = match habits.few {
            true => Runtime::erased("preparing", backend, &[]),
            false => Runtime::named("preparing", backend),
        };
        let plan = on.clone().compile(Module::from_bytes(serialized(graph)).unwrap(), options).unwrap();
        Compiled { notes, on, plan }
    }

    fn run(&self, shape: &[usize], elements: &[f32]) -> Result<Vec<Vec<f32>>, bb::Error> {
        let x = self.on.constant(&TensorData::new(shape, elements).unwrap()).unwrap();
        let outputs = self.plan.run(&[Some(&x)])?;
        let read = |x| self.on.to_host(x).unwrap().as_slice::<f32>().unwrap().to_vec();
        Ok(outputs.iter().map(read).collect())
    }
}

const MATMUL: Habits =
    Habits { prepares: &[Primitive::MatMul], reads: false, asks: false, fails: None, bytes: 0, few: false };

fn product_and_sum() -> GraphProto {
    graph(&["n", "2"], vec![node("MatMul", &["x", "w"], &["p"]), node("Neg", &["p"], &["y"])], &["y"])
}

#[test]
fn each_step_is_prepared_once_and_its_kernel_runs_in_place_of_the_call() {
    let compiled = Compiled::new(product_and_sum(), MATMUL);
    for _ in 0..3 {
        assert_eq!(compiled.run(&[1, 2], &[1.0, 10.0]).unwrap(), [[-31.0, -42.0]]);
    }
    let notes = &compiled.notes;
    assert_eq!((notes.count("prepare matmul"), notes.count("prepare neg")), (1, 1));
    assert_eq!((notes.count("run matmul"), notes.count("call matmul"), notes.count("call neg")), (3, 0, 3));
    drop(compiled.plan);
    assert_eq!(compiled.notes.kernels(), 0);
}

#[test]
fn a_backend_with_few_types_prepares_the_steps_of_its_own_types() {
    const BOTH: &[Primitive] = &[Primitive::MatMul, Primitive::Neg];
    for (prepares, reads) in [(MATMUL.prepares, false), (BOTH, false), (BOTH, true)] {
        let compiled = Compiled::new(product_and_sum(), Habits { prepares, reads, few: true, ..MATMUL });
        for rows in 1..4 {
            assert_eq!(
                compiled.run(&[rows, 2], &[1.0, 10.0].repeat(rows)).unwrap(),
                [[-31.0, -42.0].repeat(rows)]
            );
        }
        let notes = &compiled.notes;
        assert_eq!((notes.count("prepare matmul"), notes.count("prepare neg")), (1, 1));
        assert_eq!((notes.count("run matmul"), notes.count("call matmul")), (3, 0));
        let runs = if prepares == BOTH { 3 } else { 0 };
        assert_eq!(
            (notes.count("run neg"), notes.count("own neg"), notes.count("call neg")),
            (runs, runs, 3 - runs)
        );
        // The weight is an operand only if the kernel reads it.
        assert_eq!(notes.count("share matmul"), if reads { 6 } else { 3 });
        drop(compiled.plan);
        assert_eq!(compiled.notes.kernels(), 0);
    }
}

#[test]
fn a_plan_made_ahead_prepares_and_calls_nothing() {
    let compiled = Compiled::new(product_and_sum(), MATMUL);
    compiled.plan.plan_ahead(&[Some((DataType::F32, &[16, 2]))]).unwrap();
    let notes = &compiled.notes;
    assert_eq!((notes.count("prepare matmul"), notes.kernels()), (1, 1));
    assert_eq!((notes.count("run matmul"), notes.count("call neg")), (0, 0));
    // The plan holds for any number of rows.
    for rows in 1..3 {
        assert_eq!(
            compiled.run(&[rows, 2], &[1.0, 10.0].repeat(rows)).unwrap(),
            [[-31.0, -42.0].repeat(rows)]
        );
    }
    assert_eq!((notes.count("prepare matmul"), notes.count("run matmul")), (1, 2));
}

#[test]
fn a_plan_made_ahead_for_other_extents_leaves_its_kernels() {
    let compiled = Compiled::new(tied(), MATMUL);
    compiled.plan.plan_ahead(&[Some((DataType::F32, &[4, 2]))]).unwrap();
    assert_eq!(compiled.run(&[3, 2], &[1.0; 6]).unwrap(), [[4.0, 6.0].repeat(4)]);
    assert_eq!(compiled.notes.count("prepare matmul"), 1);
}

/// The number of rows is an element of an input.
#[test]
fn nothing_is_planned_ahead_that_depends_on_elements() {
    let nodes = vec![node("Reshape", &["x", "to"], &["s"]), node("MatMul", &["s", "w"], &["y"])];
    let mut reshaped = graph(&["n", "2"], nodes, &["y"]);
    reshaped.input.push(value("to", 7, &["2"]));
    let compiled = Compiled::new(reshaped, MATMUL);
    compiled.plan.plan_ahead(&[Some((DataType::F32, &[4, 2])), Some((DataType::I64, &[2]))]).unwrap();
    compiled.plan.plan_ahead(&[Some((DataType::F32, &[4, 2])), None]).unwrap();
    assert_eq!(compiled.notes.kernels(), 0);
}

#[test]
fn a_plan_ahead_is_for_inputs_as_declared() {
    let compiled = Compiled::new(product_and_sum(), MATMUL);
    for wrong in [(DataType::F64, &[1, 2][..]), (DataType::F32, &[1, 3]), (DataType::F32, &[2])] {
        let error = compiled.plan.plan_ahead(&[Some(wrong)]).unwrap_err();
        let cause = format!("{error:?}");
        assert!(cause.contains("`x`"), "{cause}");
    }
}

#[test]
fn a_constant_that_only_kernels_were_made_of_is_released() {
    let compiled = Compiled::new(product_and_sum(), MATMUL);
    compiled.run(&[1, 2], &[1.0, 10.0]).unwrap();
    assert_eq!((compiled.notes.tensors(), compiled.notes.kernels()), (0, 1));
    let compiled = Compiled::new(product_and_sum(), Habits { reads: true, ..MATMUL });
    compiled.run(&[1, 2], &[1.0, 10.0]).unwrap();
    assert_eq!((compiled.notes.tensors(), compiled.notes.kernels()), (1, 1));
}

#[test]
fn a_constant_that_another_step_or_the_caller_reads_stays() {
    let read = vec![node("MatMul", &["x", "w"], &["p"]), node("Add", &["p", "w"], &["y"])];
    let returned = vec![node("MatMul", &["x", "w"], &["y"]), node("Identity", &["w"], &["v"])];
    for (nodes, outputs) in [(read, &["y"][..]), (returned, &["y", "v"])] {
        let compiled = Compiled::new(graph(&["2", "2"], nodes, outputs), MATMUL);
        for _ in 0..2 {
            compiled.run(&[2, 2], &[1.0, 0.0, 0.0, 1.0]).unwrap();
            assert_eq!((compiled.notes.tensors(), compiled.notes.kernels()), (1, 1));
        }
        assert_eq!(compiled.notes.count("run matmul"), 2);
    }
}

#[test]
fn a_constant_that_was_computed_once_is_released_too() {
    let nodes = vec![node("Neg", &["w"], &["v"]), node("MatMul", &["x", "v"], &["y"])];
    let compiled = Compiled::new(graph(&["2", "2"], nodes, &["y"]), MATMUL);
    assert_eq!(compiled.run(&[2, 2], &[1.0, 0.0, 0.0, 1.0]).unwrap(), [[-1.0, -2.0, -3.0, -4.0]]);
    assert_eq!((compiled.notes.tensors(), compiled.notes.kernels()), (0, 1));
}

/// A model that needs a plan for each number of rows, because it repeats the first row.
fn tied() -> GraphProto {
    let mut pad = node("Pad", &["x", "pads"], &["s"]);
    pad.attribute.push(AttributeProto {
        name: Some("mode".to_owned()),
        r#type: Some(AttributeType::String as i32),
        s: Some("edge".into()),
        ..AttributeProto::default()
    });
    let nodes = vec![ints("pads", &[1, 0, 0, 0]), pad, node("MatMul", &["s", "w"], &["y"])];
    graph(&["n", "2"], nodes, &["y"])
}

#[test]
fn plans_share_a_kernel_that_does_not_depend_on_extents() {
    let compiled = Compiled::new(tied(), MATMUL);
    for rows in 3..6 {
        let got = compiled.run(&[rows, 2], &vec![1.0; rows * 2]).unwrap();
        assert_eq!(got, [[4.0, 6.0].repeat(rows + 1)]);
    }
    let notes = &compiled.notes;
    assert_eq!((notes.count("prepare matmul"), notes.count("run matmul"), notes.kernels()), (1, 3, 1));
    // The plans that found the kernel needed no weight.
    assert_eq!(notes.count("upload of weight"), 1);
}

#[test]
fn a_kernel_whose_preparation_asked_for_extents_serves_no_others() {
    let compiled = Compiled::new(tied(), Habits { asks: true, ..MATMUL });
    for rows in [1, 2, 1] {
        compiled.run(&[rows, 2], &vec![1.0; rows * 2]).unwrap();
    }
    let notes = &compiled.notes;
    assert_eq!((notes.count("prepare matmul"), notes.kernels()), (2, 2));
    assert_eq!((notes.count("extents 2x2"), notes.count("extents 3x2")), (3, 1), "{:?}", notes.events());
}

#[test]
fn extents_that_differ_between_runs_are_not_known() {
    let nodes = vec![node("MatMul", &["x", "w"], &["y"])];
    let compiled = Compiled::new(graph(&["n", "2"], nodes, &["y"]), Habits { asks: true, ..MATMUL });
    for rows in 1..4 {
        compiled.run(&[rows, 2], &vec![1.0; rows * 2]).unwrap();
    }
    let notes = &compiled.notes;
    assert_eq!((notes.count("extents ?x2"), notes.count("prepare matmul")), (1, 1), "{:?}", notes.events());
}

#[test]
fn equal_steps_of_a_plan_share_a_kernel() {
    let nodes = vec![node("MatMul", &["x", "w"], &["p"]), node("MatMul", &["p", "w"], &["y"])];
    let compiled = Compiled::new(graph(&["n", "2"], nodes, &["y"]), MATMUL);
    assert_eq!(compiled.run(&[1, 2], &[1.0, 0.0]).unwrap(), [[7.0, 10.0]]);
    assert_eq!((compiled.notes.count("prepare matmul"), compiled.notes.count("run matmul")), (1, 2));
}

#[test]
fn a_kernel_owns_an_operand_at_its_last_use_alone() {
    const HABITS: Habits = Habits { prepares: &[Primitive::Neg, Primitive::Add], ..MATMUL };
    let cases: [(Vec<NodeProto>, &[&str], [usize; 2]); 6] = [
        // An input of the plan.
        (vec![node("Neg", &["x"], &["y"])], &["y"], [0, 1]),
        // The result of a step that nothing reads again.
        (vec![node("Abs", &["x"], &["a"]), node("Neg", &["a"], &["y"])], &["y"], [1, 0]),
        // A result that a later step reads.
        (
            vec![node("Abs", &["x"], &["a"]), node("Neg", &["a"], &["b"]), node("Mul", &["a", "b"], &["y"])],
            &["y"],
            [0, 1],
        ),
        // A result that is returned as well.
        (vec![node("Abs", &["x"], &["a"]), node("Neg", &["a"], &["y"])], &["y", "a"], [0, 1]),
        // What is two operands at once.
        (vec![node("Abs", &["x"], &["a"]), node("Add", &["a", "a"], &["y"])], &["y"], [0, 2]),
        // The kernel has a copy of the constant.
        (vec![node("Abs", &["x"], &["a"]), node("Add", &["w", "a"], &["y"])], &["y"], [1, 0]),
    ];
    for (at, (nodes, outputs, expected)) in cases.into_iter().enumerate() {
        let compiled = Compiled::new(graph(&["2", "2"], nodes, outputs), HABITS);
        compiled.run(&[2, 2], &[1.0; 4]).unwrap();
        let of =
            |what: &str| ["neg", "add"].map(|op| compiled.notes.count(&format!("{what} {op}"))).iter().sum();
        let got: [usize; 2] = [of("own"), of("share")];
        assert_eq!(got, expected, "case {at}: {:?}", compiled.notes.events());
    }
}

#[test]
fn a_kernel_may_keep_what_it_took_and_the_plan_still_counts() {
    // Both runs give the same although the kernels took operands out of the slots.
    let nodes = vec![
        node("Abs", &["x"], &["a"]),
        node("Neg", &["a"], &["b"]),
        node("Neg", &["b"], &["c"]),
        node("Add", &["c", "x"], &["y"]),
    ];
    let habits = Habits { prepares: &[Primitive::Neg, Primitive::Add], ..MATMUL };
    let mut options = CompileOptions::default();
    // So few that each value is counted: the input with its handle, and two results.
    options.run_bytes = 16 + 64 + 2 * 16;
    let compiled = Compiled::with(graph(&["n", "2"], nodes, &["y"]), habits, &options);
    for _ in 0..2 {
        assert_eq!(compiled.run(&[2, 2], &[1.0, -2.0, 3.0, -4.0]).unwrap(), [[2.0, 0.0, 6.0, 0.0]]);
    }
}

#[test]
fn a_graph_that_runs_once_is_not_prepared() {
    let notes = Notes::default();
    let on = Preparing { notes: notes.clone(), habits: MATMUL };
    let x = on.constant(&TensorData::new(&[1, 2], &[1f32, 10.0]).unwrap()).unwrap();
    let attrs = bb::BackendAttrs::default();
    let outputs = on.execute(&product_and_sum(), [("x".to_owned(), x)].into(), attrs).unwrap();
    let y = on.to_host(&outputs["y"]).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [-31.0, -42.0]);
    assert_eq!((notes.count("prepare matmul"), notes.count("call matmul")), (0, 1));
}

#[test]
fn a_failure_names_the_node() {
    for when in ["prepare", "run"] {
        let mut model = product_and_sum();
        model.node[0] = named("projection", model.node[0].clone());
        let compiled = Compiled::new(model, Habits { fails: Some(when), ..MATMUL });
        let error = compiled.run(&[1, 2], &[1.0, 10.0]).unwrap_err();
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let chain: Vec<String> = chain.map(ToString::to_string).collect();
        assert!(chain.contains(&"node `projection` (MatMul) failed".to_owned()), "{when}: {chain:?}");
        assert_eq!(chain.last(), Some(&format!("`{when}` is missing operand 0: it takes luck")), "{chain:?}");
    }
}

#[test]
fn kernels_count_towards_the_memory_of_plans() {
    let mut options = CompileOptions::default();
    options.plan_bytes = 3 << 20;
    let habits = Habits { asks: true, bytes: 1 << 20, ..MATMUL };
    let compiled = Compiled::with(tied(), habits, &options);
    for rows in 1..10 {
        compiled.run(&[rows, 2], &vec![1.0; rows * 2]).unwrap();
    }
    assert_eq!(compiled.notes.kernels(), 2);
    assert_eq!(compiled.notes.count("prepare matmul"), 9);
}

#[test]
fn a_profile_tells_of_operands_that_a_kernel_took() {
    let nodes = vec![node("Abs", &["x"], &["a"]), node("Neg", &["a"], &["y"])];
    let habits = Habits { prepares: &[Primitive::Neg], ..MATMUL };
    let compiled = Compiled::new(graph(&["2", "2"], nodes, &["y"]), habits);
    let x = compiled.on.constant(&TensorData::new(&[2, 2], &[1f32; 4]).unwrap()).unwrap();
    let mut profile = Profile::new();
    let inputs = [Some(bb::onnx::OnnxValue::Tensor(x))];
    compiled.plan.run_profiled(&inputs, &mut profile).unwrap();
    let row = profile.rows().iter().find(|row| row.operation == "neg").unwrap();
    assert_eq!(compiled.notes.count("own neg"), 1);
    assert_eq!(row.inputs, [Some((bb::DataType::F32, bb::Shape::from_slice(&[2, 2])))]);
    assert_eq!(row.cost.flops, Some(4), "a negation counts one operation per element");
}
