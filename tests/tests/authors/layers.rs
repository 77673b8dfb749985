//! Tests of layers: backends that wrap a backend.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::NnOp;
use bb::ir::op::Param;
use bb::{
    BackendHandle, CompileOptions, DataType, Erased, InnerBackend, LayerCall, Module, Outputs, Primitive,
};
use bb_cpu::Cpu;
use bb_tests::few::Few;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes everything on.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
pub(super) struct Passing<B> {
    pub(super) inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Passing<B> {}

/// Counts operations, and those that prepared kernels compute.
#[derive(bb::Backend)]
#[bb(delegate = 0)]
struct Counting<B>(B, Arc<[AtomicUsize; 2]>);

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Counting<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        self.1[usize::from(call.is_prepared())].fetch_add(1, Ordering::Relaxed);
        call.run()
    }
}

/// Doubles products of matrices, and has a `relu` of its own.
#[derive(bb::Backend)]
#[bb(delegate = inner, extensions(Nn))]
struct Doubling<B> {
    inner: B,
    relus: Arc<AtomicUsize>,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Doubling<B> {
    fn matmul(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        let product = self.inner.matmul(a, b)?;
        self.inner.add(&product, &product)
    }
}

#[bb::native]
impl<B: InnerBackend> bb::ext::Nn for Doubling<B> {
    fn relu(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.relus.fetch_add(1, Ordering::Relaxed);
        Ok(self.inner.native(NnOp::Relu.spec(), &[Some(x)], &[])?.remove(0))
    }
}

/// The extents of the product: rows, summed dimension, columns. The CPU backend packs a weight of this size.
const EXTENTS: [usize; 3] = [2, 300, 512];

/// Small integers of both signs, whose products and sums are exact.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 7 % 11) as f32 - 5.0).collect()
}

/// `relu(x w)` with a constant weight.
fn module() -> Module {
    let [m, k, n] = EXTENTS;
    let trace = bb::export::ModelTrace::new(&[("x", bb::DataType::F32, &[m, k])], |on, inputs| {
        use bb::Backend as _;
        use bb::ext::Nn as _;
        let weight = on.constant(&bb::TensorData::new(&[k, n], &numbers(k * n))?)?;
        Ok(vec![on.relu(&on.matmul(&inputs[0], &weight)?)?])
    });
    let options =
        bb::export::ExportOptions::default().opset(bb::ir::opset::NEWEST).keep(bb::export::Keep::All);
    trace.unwrap().module(&options).unwrap()
}

fn run(on: &BackendHandle, options: &CompileOptions) -> Vec<f32> {
    let [m, k, _] = EXTENTS;
    let program = on.compile(module(), options).unwrap();
    let x = on.tensor(&[m, k], &numbers(m * k)).unwrap();
    let mut last = Vec::new();
    for _ in 0..2 {
        let results = program.run(&[Some(&x)]).unwrap();
        last = on.to_host(&results[0]).unwrap().as_slice::<f32>().unwrap().to_vec();
    }
    last
}

/// The model's result by its definition.
fn expected() -> Vec<f32> {
    let [m, k, n] = EXTENTS;
    let (x, w) = (numbers(m * k), numbers(k * n));
    let element = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * w[l * n + j]).sum::<f32>().max(0.0);
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

#[test]
fn a_layer_that_passes_on_is_the_inner_backend() {
    let plain = BackendHandle::start("plain", Cpu::default());
    let thrice = BackendHandle::start(
        "thrice",
        Passing { inner: Passing { inner: Passing { inner: Cpu::default() } } },
    );
    assert_eq!(run(&plain, &CompileOptions::default()), expected());
    assert_eq!(run(&thrice, &CompileOptions::default()), expected());
    let natives = |on: &BackendHandle| on.runtime().extension_opsets();
    assert_eq!(natives(&thrice), natives(&plain));
    assert_ne!(thrice.runtime().abi_fingerprint(), 0);
}

#[test]
fn the_hook_sees_every_operation_and_keeps_prepared_kernels() {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let on = BackendHandle::start("counting", Counting(Cpu::default(), counts.clone()));
    assert_eq!(run(&on, &CompileOptions::default()), expected());
    let [direct, prepared] = [counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed)];
    assert!(prepared >= 2, "the product is prepared: {prepared} in two runs");
    assert!(direct >= 1, "constants and the input are made: {direct}");
    let before = counts[0].load(Ordering::Relaxed);
    let x = on.tensor(&[1], &[2f32]).unwrap();
    let _ = on.call(Primitive::Neg.spec(), &[Some(&x)], &[]).unwrap();
    let _ = on.call(NnOp::Softmax.spec(), &[Some(&x)], &[Param::Int(0)]).unwrap();
    assert_eq!(counts[0].load(Ordering::Relaxed) - before, 3);
}

#[test]
fn written_operations_run_in_plans_and_natives_are_joined() {
    let relus = Arc::<AtomicUsize>::default();
    let layer = Doubling { inner: Counting(Cpu::default(), Arc::default()), relus: relus.clone() };
    let on = BackendHandle::start("doubling", layer);
    let natives = |on: &BackendHandle| -> Vec<&str> {
        let opsets = on.runtime().extension_opsets();
        opsets.iter().flat_map(|set| &set.ops).filter(|op| op.native).map(|op| op.spec.method).collect()
    };
    let (joined, mut lost) = (natives(&on), natives(&BackendHandle::start("plain", Cpu::default())));
    lost.retain(|method| !joined.contains(method));
    lost.sort();
    assert_eq!(lost, ["fused", "fused_conv"], "fused operations would replace the layer's own");
    let doubled: Vec<f32> = expected().iter().map(|x| 2.0 * x).collect();
    assert_eq!(run(&on, &CompileOptions::default().with_fuse(false)), doubled);
    assert!(relus.load(Ordering::Relaxed) > 0);
}

#[test]
fn layers_stand_on_erased_backends() {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let erased = Erased::new(Counting(Passing { inner: Cpu::default() }, counts.clone()));
    let on = BackendHandle::start("erased", Passing { inner: Counting(erased, Arc::default()) });
    assert_eq!(run(&on, &CompileOptions::default()), expected());
    assert!(counts[1].load(Ordering::Relaxed) >= 2, "kernels are prepared through erased types");
}

/// One of two backends, chosen at run time.
#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {
    Fast(Cpu),
    Plain(bb_reference::Reference),
}

#[test]
fn an_enum_of_backends_is_the_backend_of_its_variant() {
    for (name, either) in
        [("fast", Either::Fast(Cpu::default())), ("plain", Either::Plain(bb_reference::Reference))]
    {
        let natives = either.natives();
        let on = BackendHandle::start(name, either);
        assert_eq!(run(&on, &CompileOptions::default()), expected());
        assert_eq!(natives.is_empty(), name == "plain");
        let x = on.tensor(&[2], &[1i64, -2]).unwrap();
        let y = on.call(Primitive::Neg.spec(), &[Some(&x)], &[]).unwrap();
        assert_eq!(on.to_host(&y[0]).unwrap().as_slice::<i64>().unwrap(), [-1, 2]);
        let error =
            on.call(Primitive::MatMul.spec(), &[Some(&x), Some(&on.tensor(&[3], &[1i64; 3]).unwrap())], &[]);
        assert!(error.is_err());
    }
}

#[test]
fn tensors_of_two_variants_do_not_mix() {
    use bb::Backend;
    let (fast, plain) = (Either::Fast(Cpu::default()), Either::Plain(bb_reference::Reference));
    let one = bb::TensorData::new(&[1], &[1f32]).unwrap();
    let (a, b) = (fast.constant(&one).unwrap(), plain.constant(&one).unwrap());
    let Err(error) = fast.add(&a, &b) else { panic!("they were mixed") };
    let error = Either::wrapped(&error).unwrap();
    assert!(matches!(error, bb::Error::Operand { op: "add", index: 1, .. }), "{error}");
    assert!(plain.to_host(&a).is_err());
    // A layer stands on it as on any other.
    let layered = Passing { inner: fast };
    assert_eq!(
        layered.to_host(&Backend::neg(&layered, &a).unwrap()).unwrap().as_slice::<f32>().unwrap(),
        [-1.0]
    );
}

impl bb::RegisteredLayer for Passing<Erased> {
    const NAME: &'static str = "passing";
    const ABOUT: &'static str = "passes everything on";

    fn on(inner: Erased, _options: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Passing { inner })
    }
}

bb::register_layer!(Passing<Erased>);

/// A backend whose constructor opens a layer on the backend itself.
#[derive(bb::Backend)]
#[bb(name = "ouroboros", new = Ouroboros::new)]
struct Ouroboros;

impl Ouroboros {
    fn new() -> Result<Ouroboros, bb::Error> {
        bb::backend("passing+ouroboros")?;
        Ok(Ouroboros)
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&bb_reference::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<bb_reference::Tensor>, bb_reference::Error> {
        bb::call_primitive(&bb_reference::Reference, op, inputs, params)
    }
}

impl bb::Backend for Ouroboros {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<bb::TensorData, bb_reference::Error> {
        bb_reference::Reference.to_host(x)
    }
}

#[test]
fn a_constructor_that_opens_a_layer_on_itself_is_an_error() {
    for name in ["passing+ouroboros", "passing+passing+ouroboros", "ouroboros"] {
        let Err(error) = bb::backend(name) else { panic!("it was opened") };
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let told: Vec<String> = chain.map(ToString::to_string).collect();
        assert!(told.iter().any(|text| text.contains("ouroboros")), "{told:?}");
    }
}

#[test]
fn threads_that_open_the_same_stack_get_one_instance() {
    let open = || bb::backend("passing+passing+cpu(threads=2)").unwrap().owner();
    let owners: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(owners.windows(2).all(|pair| pair[0] == pair[1]), "{owners:?}");
}

/// A layer on a backend that it names.
#[derive(bb::Backend)]
#[bb(delegate = on)]
struct Concrete {
    on: Passing<Cpu>,
}

#[bb::layer]
impl bb::Layer for Concrete {}

#[test]
fn a_layer_may_name_the_backend_that_it_stands_on() {
    let on = BackendHandle::start("concrete", Concrete { on: Passing { inner: Cpu::new() } });
    assert_eq!(run(&on, &CompileOptions::default()), expected());
}

/// Counts the steps that plans ask to be prepared.
#[derive(Default, bb::Backend)]
#[bb(name = "asked")]
struct Asked(Arc<AtomicUsize>);

impl Asked {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&bb_reference::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<bb_reference::Tensor>, bb_reference::Error> {
        bb::call_primitive(&bb_reference::Reference, op, inputs, params)
    }
}

impl bb::Backend for Asked {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<bb::TensorData, bb_reference::Error> {
        bb_reference::Reference.to_host(x)
    }

    fn prepare(
        &self,
        _step: &bb::PrepareStep<'_, bb_reference::Tensor>,
    ) -> Result<Option<Box<dyn bb::Kernel<Self>>>, bb_reference::Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }
}

#[test]
fn graphs_that_pass_through_layers_are_planned_once() {
    let asked = Arc::<AtomicUsize>::default();
    let on = BackendHandle::start("once", Passing { inner: Passing { inner: Asked(asked.clone()) } });
    let graph = bb::trace(&[("x", bb::DataType::F32, &[2])], |on, inputs| {
        Ok(vec![bb::Backend::neg(on, &inputs[0])?])
    })
    .unwrap();
    let input = graph.input[0].name().to_owned();
    let graph = bb::CheckedGraph::new(Module::from_graph(&graph, &[], &[]).unwrap()).unwrap();
    for _ in 0..3 {
        let x = on.tensor(&[2], &[1f32, -2.0]).unwrap();
        let inputs = [(input.clone(), x)].into();
        let answer = on.runtime().clone().dispatch_checked(&graph, inputs, bb::BackendAttrs::default());
        let bb::ContractResponse::Now(results) = answer else { panic!("it answers now") };
        let results = results.unwrap();
        let y = results.values().next().unwrap();
        assert_eq!(on.to_host(y).unwrap().as_slice::<f32>().unwrap(), [-1.0, 2.0]);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1, "one step of one plan");
}

/// Has the name of another layer.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Namesake {
    inner: Erased,
}

#[bb::layer]
impl bb::Layer for Namesake {}

impl bb::RegisteredLayer for Namesake {
    const NAME: &'static str = "twice";
    const ABOUT: &'static str = "passes everything on";

    fn on(inner: Erased, _options: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Namesake { inner })
    }
}

bb::register_layer!(Namesake);
bb::register_layer!(Namesake);

#[test]
fn two_layers_of_one_name_are_an_error() {
    let error = bb::backend("twice+cpu").unwrap_err();
    assert!(matches!(error, bb::Error::DuplicateLayer { name: "twice", .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "two layers are called `twice`: `authors::layers::Namesake` and `authors::layers::Namesake`; register the type once, and \
         link one version of the crate `authors`: `cargo tree --duplicates` lists the versions"
    );
}

/// Refuses graphs of more than some nodes, and compiles the others without fused operations.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Refusing<B> {
    inner: B,
    most: usize,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Refusing<B> {
    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn bb::Executable<Self>>, B::Error> {
        if module.graph().nodes.len() > self.most {
            let refused = format!("at most {} nodes", self.most);
            return Err(bb::Error::layer("refusing", "compile", bb::ErrorKind::Limit, refused).into());
        }
        bb::compile_layer(self, module, &options.clone().with_fuse(false))
    }
}

/// Doubles products, and counts compiled graphs.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Planning<B> {
    inner: B,
    compiled: Arc<AtomicUsize>,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Planning<B> {
    fn matmul(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        let product = self.inner.matmul(a, b)?;
        self.inner.add(&product, &product)
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn bb::Executable<Self>>, B::Error> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        bb::compile_layer(self, module, &options.clone().with_fuse(false))
    }
}

#[test]
fn a_layer_that_writes_compile_ends_with_the_default() {
    // No operation is written: the inner backend compiles, and its kernels are prepared.
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let layer = Refusing { inner: Counting(Cpu::default(), counts.clone()), most: 2 };
    let on = BackendHandle::start("refusing", layer);
    assert_eq!(run(&on, &CompileOptions::default()), expected());
    assert!(counts[1].load(Ordering::Relaxed) >= 2);
    let few = BackendHandle::start("refusing", Refusing { inner: Cpu::default(), most: 1 });
    let error = few.compile(module(), &CompileOptions::default()).err().unwrap();
    assert_eq!(few.error_kind(&error), bb::ErrorKind::Limit, "{error:?}");
    // An operation is written: plans call the layer.
    let compiled = Arc::<AtomicUsize>::default();
    let layer = Planning { inner: Cpu::default(), compiled: compiled.clone() };
    let doubled: Vec<f32> = expected().iter().map(|x| 2.0 * x).collect();
    assert_eq!(run(&BackendHandle::start("planning", layer), &CompileOptions::default()), doubled);
    assert_eq!(compiled.load(Ordering::Relaxed), 1);
}

/// Has its own convolution. The CPU backend fuses convolutions with the functions of their results.
#[derive(bb::Backend)]
#[bb(delegate = inner, extensions(Nn))]
struct Convolving<B> {
    inner: B,
    convs: Arc<AtomicUsize>,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Convolving<B> {}

#[bb::native]
impl<B: InnerBackend> bb::ext::Nn for Convolving<B> {
    fn conv(
        &self,
        x: &B::Tensor,
        w: &B::Tensor,
        bias: Option<&B::Tensor>,
        options: bb::ext::ConvOptions<'_>,
    ) -> Result<B::Tensor, B::Error> {
        self.convs.fetch_add(1, Ordering::Relaxed);
        bb::ext::Nn::conv(&bb::ext::Extended::new(&self.inner, &[]), x, w, bias, options)
    }
}

/// Has its own sum.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Adding<B> {
    inner: B,
    sums: Arc<AtomicUsize>,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Adding<B> {
    fn add(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.sums.fetch_add(1, Ordering::Relaxed);
        self.inner.add(a, b)
    }
}

/// `relu(conv(x, w) + x)` with a weight of one element that is 2.
fn residual() -> Module {
    let trace = bb::export::ModelTrace::new(&[("x", DataType::F32, &[1, 1, 2, 2])], |on, inputs| {
        use bb::Backend as _;
        use bb::ext::Nn as _;
        let weight = on.constant(&bb::TensorData::new(&[1, 1, 1, 1], &[2f32])?)?;
        let product = on.conv(&inputs[0], &weight, None, bb::ext::ConvOptions::default())?;
        Ok(vec![on.relu(&on.add(&product, &inputs[0])?)?])
    });
    let options =
        bb::export::ExportOptions::default().opset(bb::ir::opset::NEWEST).keep(bb::export::Keep::All);
    trace.unwrap().module(&options).unwrap()
}

#[test]
fn a_fused_operation_does_not_replace_an_operation_that_the_layer_writes() {
    let [convs, sums] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let convolving =
        BackendHandle::start("convolving", Convolving { inner: Cpu::default(), convs: convs.clone() });
    let adding = BackendHandle::start("adding", Adding { inner: Cpu::default(), sums: sums.clone() });
    for (on, calls) in [(&convolving, &convs), (&adding, &sums)] {
        let program = on.compile(residual(), &CompileOptions::default()).unwrap();
        let before = calls.load(Ordering::Relaxed);
        let x = on.tensor(&[1, 1, 2, 2], &[1f32, -2., 3., -4.]).unwrap();
        let results = program.run(&[Some(&x)]).unwrap();
        assert_eq!(on.to_host(&results[0]).unwrap().as_slice::<f32>().unwrap(), [3., 0., 9., 0.]);
        assert_eq!(calls.load(Ordering::Relaxed) - before, 1);
    }
    let has = |on: &BackendHandle, spec: &bb::ir::op::OpSpec| {
        let natives = on.runtime().capabilities().families;
        natives.iter().any(|(family, set)| *family == spec.family && set.contains(spec.index))
    };
    let plain = BackendHandle::start("plain", Cpu::default());
    let [conv, program] = [NnOp::FusedConv.spec(), bb::ext::ScalarOp::Fused.spec()];
    assert_eq!([has(&plain, conv), has(&plain, program)], [true, true]);
    // The convolution is not an element-wise function, so the programs of these functions remain.
    assert_eq!([has(&convolving, conv), has(&convolving, program)], [false, true]);
    assert_eq!([has(&adding, conv), has(&adding, program)], [false, false]);
}

/// Rounds products of matrices to `bf16`.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Coarse {
    inner: Erased,
}

#[bb::layer]
impl bb::Layer for Coarse {
    fn matmul(&self, a: &ErasedTensor, b: &ErasedTensor) -> Result<ErasedTensor, ErasedError> {
        let cast = |x: &ErasedTensor, to| bb::Backend::cast(&self.inner, x, to, true, bb::RoundMode::Up);
        let product = bb::Backend::matmul(&self.inner, a, b)?;
        cast(&cast(&product, DataType::BF16)?, DataType::F32)
    }
}

type ErasedTensor = <Erased as bb::Backend>::Tensor;
type ErasedError = <Erased as bb::Backend>::Error;

#[test]
fn a_layer_computes_in_types_that_its_inner_backend_lacks() {
    let third = |inner: Erased| {
        let on = BackendHandle::start("coarse", Coarse { inner });
        let [x, y] = [on.tensor(&[1, 1], &[1f32 / 3.0])?, on.tensor(&[1, 1], &[1f32])?];
        on.to_host(&x.matmul(&y)?)
    };
    let exact = third(Erased::new(Few::least()).with_every_type()).unwrap();
    // The nearest number of `bf16` is 0x3EAB.
    assert_eq!(exact.as_slice::<f32>().unwrap(), [f32::from_bits(0x3EAB_0000)]);
    assert!(third(Erased::new(Few::least())).is_err());
    assert_eq!(third(Erased::new(Cpu::default()).with_every_type()).unwrap(), exact);
}
