//! Tests of backends that combine several backends.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use bb::deployment::{Executor, Placement, Side};
use bb::ext::NnOp;
use bb::ir::op::Param;
use bb::{
    Backend, BackendHandle, CompileOptions, DataType, Error, ErrorKind, Fallback, FirstOf, Module, Outputs,
    Primitive, Runtime, TensorData, first_of,
};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::device::Device;
use bb_tests::few::Few;
use bb_tests::lossy::Lossy;
use bb_tests::model::{model, named, node};
use bb_tests::on_reference::by_reference;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// The tensors of the reference backend.
pub(crate) type ReferenceTensor = <Reference as Backend>::Tensor;

/// A test's replacement of the reference backend's operations; `None` leaves an operation to the reference backend.
pub(crate) type Hook = dyn Fn(
        Primitive,
        &[Option<&ReferenceTensor>],
    ) -> Option<Result<Outputs<ReferenceTensor>, bb_reference::Error>>
    + Send
    + Sync;

/// The reference backend, except for operations that a test replaces.
#[derive(bb::Backend)]
#[bb(name = "hooked", new = Mine::plain)]
pub(crate) struct Mine {
    pub(crate) hook: Box<Hook>,
}

impl Mine {
    fn plain() -> Mine {
        Mine { hook: Box::new(|_, _| None) }
    }

    /// Starts the backend with a test's answers.
    pub(crate) fn start(
        name: &'static str,
        hook: impl Fn(
            Primitive,
            &[Option<&ReferenceTensor>],
        ) -> Option<Result<Outputs<ReferenceTensor>, bb_reference::Error>>
        + Send
        + Sync
        + 'static,
    ) -> BackendHandle {
        BackendHandle::start(name, Mine { hook: Box::new(hook) })
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&ReferenceTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ReferenceTensor>, bb_reference::Error> {
        (self.hook)(op, inputs).unwrap_or_else(|| by_reference(self, op, inputs, params))
    }
}

impl Backend for Mine {
    type Tensor = ReferenceTensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &ReferenceTensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }
}

/// Returns the number of elements of the largest operand.
fn elements(inputs: &[Option<&ReferenceTensor>]) -> usize {
    let count = |x: &&ReferenceTensor| bb::Tensor::shape(*x).iter().product();
    inputs.iter().flatten().map(count).max().unwrap_or(0)
}

/// The message of an error with its causes.
pub(crate) fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(crate) fn handle(backend: FirstOf) -> BackendHandle {
    BackendHandle::start("several", backend)
}

/// Starts a backend without one operation, and returns the number of its calls of others.
pub(crate) fn without(lacks: Primitive) -> (BackendHandle, Arc<AtomicUsize>) {
    let calls = Arc::<AtomicUsize>::default();
    let counted = calls.clone();
    let first = Mine::start("first", move |op, inputs| {
        if op == lacks {
            let dtype = inputs.iter().flatten().next().map_or(DataType::F32, |x| bb::Tensor::dtype(*x));
            return Some(Err(bb::ir::Error::Unsupported { op: op.spec().method, dtype }.into()));
        }
        if op != Primitive::Constant {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        None
    });
    (first, calls)
}

pub(crate) fn cpu() -> BackendHandle {
    BackendHandle::start("cpu", Cpu::default())
}

/// `exp(x · x) · x`, with extents at which a product costs more than a transfer.
pub(crate) fn products() -> Module {
    let nodes = vec![
        named("before", node("MatMul", &["x", "x"], &["a"])),
        named("middle", node("Exp", &["a"], &["b"])),
        named("after", node("MatMul", &["b", "x"], &["y"])),
    ];
    Module::from_bytes(model(&[("x", &[128, 128])], nodes, &[("y", &[128, 128])])).unwrap()
}

/// The same for 1/128 in each element: the sum of 128 products of 1/128² is 1/128.
fn run_products(on: &BackendHandle) -> Vec<f32> {
    let compiled = on.compile(products(), &CompileOptions::default()).unwrap();
    let x = on.tensor(&[128, 128], &[1f32 / 128.0; 128 * 128]).unwrap();
    let y = compiled.run(&[Some(&x)]).unwrap();
    on.to_host(&y[0]).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn assert_products(got: &[f32]) {
    let expected = (1.0f64 / 128.0).exp() as f32;
    assert_eq!(got.len(), 128 * 128);
    assert!(got.iter().all(|y| (y - expected).abs() < 1e-5), "{} instead of {expected}", got[0]);
}

pub(crate) fn names(placement: &Placement) -> Vec<&str> {
    fn name(executor: &Executor) -> &str {
        match executor {
            Executor::Backend { name, .. } => name,
            _ => panic!("no component is bound"),
        }
    }
    placement.nodes.iter().map(|node| name(&node.executor)).collect()
}

#[test]
fn what_the_first_lacks_runs_on_the_next_and_transfers_are_those_of_the_placement() {
    let (first, calls) = without(Primitive::Exp);
    let both = first_of([first, cpu()]).unwrap();
    let placement = both.placement(&products());
    assert_eq!(names(&placement), ["first", "cpu", "first"]);
    let moves: Vec<_> = placement.transfers.iter().map(|t| (t.value.as_str(), &t.from, &t.to)).collect();
    let side = |name: &str| Side::Backend(name.to_owned());
    assert_eq!(moves, [("a", &side("first"), &side("cpu")), ("b", &side("cpu"), &side("first"))]);
    let parts: Vec<_> = placement.parts.iter().map(|part| (&part.side, part.nodes.join(" "))).collect();
    let [first_side, cpu_side] = [side("first"), side("cpu")];
    let expected = [(&first_side, "before"), (&cpu_side, "middle"), (&first_side, "after")];
    assert_eq!(parts, expected.map(|(side, nodes)| (side, nodes.to_owned())));
    let on = handle(both.clone());
    // Operations are tried on one element.
    calls.store(0, Ordering::Relaxed);
    for run in 1..=3u64 {
        assert_products(&run_products(&on));
        assert_eq!(both.transfers().values, run * placement.transfers.len() as u64);
        assert_eq!(both.transfers().bytes, run * 2 * 4 * 128 * 128);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 6, "two products in each run");
    // The coverage says which backend.
    let coverage = bb::coverage::Coverage::of(&products(), on.runtime());
    let backends: Vec<_> = coverage.nodes.iter().map(|node| node.backend).collect();
    assert_eq!(backends, ["first", "cpu", "first"]);
    assert!(coverage.missing().0.is_empty());
}

#[test]
fn a_deployment_runs_models_on_several() {
    let both = first_of([without(Primitive::Exp).0, cpu()]).unwrap();
    let on = handle(both.clone());
    let ready = bb::Deployment::builder().model("m", products()).backend(on.clone()).ready().unwrap();
    let x = on.tensor(&[128, 128], &[1f32 / 128.0; 128 * 128]).unwrap();
    for run in 1..=2 {
        let y = ready.run(&[Some(&x)]).unwrap();
        assert_products(y[0].to_host(1 << 20).unwrap().as_slice::<f32>().unwrap());
        assert_eq!((both.transfers().values, both.parts()), (2 * run, vec![2 * run, run]));
    }
}

/// Does not compile `Exp`, which no trial of an operation shows.
#[derive(bb::Backend)]
#[bb(delegate = 0)]
struct Choosy(Reference);

#[bb::layer]
impl bb::Layer for Choosy {
    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn bb::Executable<Self>>, bb_reference::Error> {
        match module.graph().nodes.iter().any(|node| node.op_type == "Exp") {
            true => Err(Error::Abandoned.into()),
            false => bb::compile_whole_graph(self, module, options),
        }
    }
}

#[test]
fn what_does_not_compile_goes_elsewhere_unless_it_is_pinned() {
    let choosy = BackendHandle::start("choosy", Choosy(Reference));
    let both = first_of([choosy, cpu()]).unwrap();
    assert_eq!(names(&both.placement(&products())), ["choosy"; 3]);
    assert_products(&run_products(&handle(both.clone())));
    assert_eq!(both.parts(), [2, 1]);
    let pinned = handle(both.with_pin("middle", "choosy").unwrap());
    assert!(pinned.compile(products(), &CompileOptions::default()).is_err());
}

/// Four small operations, each on the result of the one before.
pub(crate) fn chain() -> Module {
    let chain = ["Neg", "Exp", "Abs", "Sqrt"];
    let nodes = (0..chain.len()).map(|at| {
        let [from, to] = [at, at + 1].map(|at| format!("v{at}"));
        node(chain[at], &[&from], &[&to])
    });
    Module::from_bytes(model(&[("v0", &[4])], nodes.collect(), &[("v4", &[4])])).unwrap()
}

#[test]
fn small_neighbours_stay_together() {
    let small = chain();
    // Two transfers cost more than that the other backend is slower.
    let both = first_of([without(Primitive::Exp).0, cpu()]).unwrap();
    assert_eq!(names(&both.placement(&small)), ["cpu"; 4]);
    // All of it runs on the first if that one lacks nothing.
    let both = first_of([without(Primitive::Concat).0, cpu()]).unwrap();
    assert_eq!(names(&both.placement(&small)), ["first"; 4]);
}

#[test]
fn nodes_and_operators_are_pinned() {
    let pinned = |pins: &[(&str, &str)]| {
        let both = first_of([without(Primitive::Exp).0, cpu()]).unwrap();
        pins.iter().fold(both, |both, (name, on)| both.with_pin(*name, on).unwrap())
    };
    assert_eq!(names(&pinned(&[("before", "cpu")]).placement(&products())), ["cpu", "cpu", "first"]);
    let all = pinned(&[("after", "first"), ("MatMul", "cpu")]);
    assert_eq!(names(&all.placement(&products())), ["cpu", "cpu", "first"]);
    assert_products(&run_products(&handle(all)));
    let unknown = first_of([cpu()]).unwrap().with_pin("Exp", "cpo").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "`cpo` is not a backend of `first_of` (did you mean `cpu`?); they are: [\"cpu\"]"
    );
}

#[test]
fn a_pin_that_matches_nothing_is_refused() {
    let compile = |pin: &str| {
        let both = first_of([without(Primitive::Exp).0, cpu()]).unwrap().with_pin(pin, "cpu").unwrap();
        handle(both).compile(products(), &CompileOptions::default()).map(drop)
    };
    // The model has no `Softmax`, and another one may have it.
    for known in ["before", "MatMul", "Softmax"] {
        compile(known).unwrap();
    }
    let refused = compile("MatMull").unwrap_err();
    let text = "`MatMull=cpu` has no effect: the model has no node `MatMull`, and there is no operator of this name; did you mean `MatMul`?";
    assert!(causes(&refused).contains(text), "{}", causes(&refused));
}

/// A node that is pinned to a backend without its operation fails there, with the node's name.
#[test]
fn a_pin_to_a_backend_that_lacks_the_operation_is_an_error_of_the_node() {
    let both = first_of([without(Primitive::Exp).0, cpu()]).unwrap().with_pin("middle", "first").unwrap();
    let on = handle(both);
    let x = on.tensor(&[128, 128], &[0f32; 128 * 128]).unwrap();
    let failed = on
        .compile(products(), &CompileOptions::default())
        .and_then(|compiled| compiled.run(&[Some(&x)]).map(drop))
        .unwrap_err();
    let text = causes(&failed);
    assert!(text.contains("middle") && text.contains("exp"), "{text}");
}

#[test]
fn the_device_that_is_lost_in_a_run_is_replaced_if_that_is_allowed() {
    for (fallback, survives) in
        [(Fallback::Never, false), (Fallback::WhenLost, true), (Fallback::WhenFailed, true)]
    {
        let lossy = Lossy::start().unwrap();
        let board = lossy.board().clone();
        let first = BackendHandle::start("lossy", lossy);
        let both = first_of([first, cpu()]).unwrap().with_fallback(fallback);
        assert_eq!(names(&both.placement(&products())), ["lossy"; 3]);
        let on = handle(both);
        let compiled = on.compile(products(), &CompileOptions::default()).unwrap();
        let x = on.tensor(&[128, 128], &[1f32 / 128.0; 128 * 128]).unwrap();
        assert!(compiled.run(&[Some(&x)]).is_ok());
        board.lose("it fell off the bus");
        for _ in 0..2 {
            match compiled.run(&[Some(&x)]) {
                Ok(y) => {
                    assert!(survives);
                    assert_products(on.to_host(&y[0]).unwrap().as_slice::<f32>().unwrap());
                }
                Err(error) => {
                    assert!(!survives, "{}", causes(&error));
                    assert_eq!(on.error_kind(&error), ErrorKind::Device);
                }
            }
        }
        // Single operations go to the remaining backends.
        let sum = on.call(Primitive::Neg.spec(), &[Some(&on.tensor(&[1], &[2f32]).unwrap())], &[]).unwrap();
        assert_eq!(on.to_host(&sum[0]).unwrap().as_slice::<f32>().unwrap(), [-2.0]);
    }
}

/// The device is lost while another backend computes the middle.
#[test]
fn the_device_that_is_lost_within_a_run_is_replaced_if_that_is_allowed() {
    for (fallback, survives) in [(Fallback::Never, false), (Fallback::WhenLost, true)] {
        let lossy = Lossy::start().unwrap();
        let board = lossy.board().clone();
        let first = BackendHandle::start("lossy", lossy);
        let middle = Mine::start("middle", move |op, inputs| {
            if op == Primitive::Exp && elements(inputs) > 1000 {
                board.lose("it fell off the bus");
            }
            None
        });
        let both = first_of([first, middle]).unwrap().with_pin("middle", "middle").unwrap();
        let both = both.with_fallback(fallback);
        assert_eq!(names(&both.placement(&products())), ["lossy", "middle", "lossy"]);
        let on = handle(both.clone());
        let compiled = on.compile(products(), &CompileOptions::default()).unwrap();
        let x = on.tensor(&[128, 128], &[1f32 / 128.0; 128 * 128]).unwrap();
        match compiled.run(&[Some(&x)]) {
            Ok(y) => assert_products(on.to_host(&y[0]).unwrap().as_slice::<f32>().unwrap()),
            Err(error) => assert_eq!(on.error_kind(&error), ErrorKind::Device, "{}", causes(&error)),
        }
        assert_eq!(both.fallbacks(), u64::from(survives));
    }
}

/// No trial of an operation shows an `exp` that fails on more than a few elements.
#[test]
fn a_part_that_fails_runs_elsewhere_if_that_is_allowed() {
    let flaky = || {
        Mine::start("flaky", |op, inputs| {
            let fails = op == Primitive::Exp && elements(inputs) > 1000;
            fails.then(|| Err(Error::Abandoned.into()))
        })
    };
    for fallback in [Fallback::Never, Fallback::WhenLost] {
        let on = handle(first_of([flaky(), cpu()]).unwrap().with_fallback(fallback));
        let x = on.tensor(&[128, 128], &[0f32; 128 * 128]).unwrap();
        let compiled = on.compile(products(), &CompileOptions::default()).unwrap();
        let text = causes(&compiled.run(&[Some(&x)]).unwrap_err());
        assert!(text.contains("middle"), "{text}");
    }
    let both = first_of([flaky(), cpu()]).unwrap().with_fallback(Fallback::WhenFailed);
    let on = handle(both.clone());
    let compiled = on.compile(products(), &CompileOptions::default()).unwrap();
    let x = on.tensor(&[128, 128], &[1f32 / 128.0; 128 * 128]).unwrap();
    for run in 1..=2 {
        let y = compiled.run(&[Some(&x)]).unwrap();
        assert_products(on.to_host(&y[0]).unwrap().as_slice::<f32>().unwrap());
        assert_eq!((both.fallbacks(), both.parts()), (run, vec![run, run]));
    }
    // Wrong inputs are the caller's on any backend.
    let wrong = on.tensor(&[2], &[0f32; 2]).unwrap();
    let error = compiled.run(&[Some(&wrong)]).unwrap_err();
    assert_eq!((on.error_kind(&error), both.fallbacks()), (ErrorKind::WrongInput, 2));
}

#[test]
fn parts_that_do_not_depend_on_each_other_run_at_the_same_time() {
    let extents = [1024i64, 1024];
    let nodes = vec![
        named("left", node("MatMul", &["x", "x"], &["a"])),
        named("right", node("MatMul", &["x", "x"], &["b"])),
        named("end", node("Add", &["a", "b"], &["y"])),
    ];
    let two = Module::from_bytes(model(&[("x", &extents)], nodes, &[("y", &extents)])).unwrap();
    let barrier = Arc::new(Barrier::new(2));
    // Large products meet here: each waits until the other has begun.
    let meeting = |name| {
        let barrier = barrier.clone();
        Mine::start(name, move |op, inputs| {
            (op == Primitive::MatMul && elements(inputs) > 1000).then(|| {
                barrier.wait();
                Ok(inputs.iter().flatten().take(1).map(|x| ReferenceTensor::clone(x)).collect())
            })
        })
    };
    let both = first_of([meeting("one"), meeting("other")]).unwrap();
    let both = both.with_pin("left", "one").unwrap().with_pin("right", "other").unwrap();
    let on = handle(both);
    let compiled = on.compile(two, &CompileOptions::default()).unwrap();
    let x = on.tensor(&[1024, 1024], &vec![1f32; 1 << 20]).unwrap();
    // A run that did one after the other would wait for ever.
    let options =
        bb::RunOptions::default().with_deadline(std::time::Instant::now() + Duration::from_secs(60));
    let y = compiled.run_with(&[Some(&x)], &options).unwrap();
    assert_eq!(on.to_host(&y[0]).unwrap().as_slice::<f32>().unwrap()[0], 2.0);
}

/// The operand `u` of the part that fails is read by no later part.
#[test]
fn a_part_that_fails_beside_another_runs_elsewhere() {
    let extents = [512i64, 512];
    let nodes = vec![
        named("left", node("MatMul", &["u", "u"], &["a"])),
        named("right", node("MatMul", &["x", "x"], &["b"])),
        named("end", node("Add", &["a", "b"], &["y"])),
    ];
    let two = model(&[("u", &extents), ("x", &extents)], nodes, &[("y", &extents)]);
    let flaky = Mine::start("flaky", |op, inputs| {
        let fails = op == Primitive::MatMul && elements(inputs) > 1000;
        fails.then(|| Err(Error::Abandoned.into()))
    });
    let both = first_of([flaky, cpu()]).unwrap().with_fallback(Fallback::WhenFailed);
    let both = both.with_pin("left", "flaky").unwrap().with_pin("right", "cpu").unwrap();
    let on = handle(both.clone());
    let compiled = on.compile(Module::from_bytes(two).unwrap(), &CompileOptions::default()).unwrap();
    let x = on.tensor(&[512, 512], &vec![1f32 / 512.0; 512 * 512]).unwrap();
    let y = compiled.run(&[Some(&x), Some(&x)]).unwrap();
    assert_eq!(on.to_host(&y[0]).unwrap().as_slice::<f32>().unwrap()[0], 2.0 / 512.0);
    assert_eq!(both.fallbacks(), 1);
}

#[test]
fn single_operations_run_where_their_operands_lie() {
    let (first, calls) = without(Primitive::Exp);
    let both = first_of([first.clone(), cpu()]).unwrap();
    let on = handle(both.clone());
    let x = on.tensor(&[2], &[1f32, -2.0]).unwrap();
    let neg = || on.call(Primitive::Neg.spec(), &[Some(&x)], &[]).unwrap().remove(0);
    // Each operation is tried once.
    let _ = neg();
    calls.store(0, Ordering::Relaxed);
    let negative = &neg();
    assert_eq!((calls.load(Ordering::Relaxed), both.transfers().values), (1, 0));
    // The operand of an operation that the first backend lacks moves once.
    let exp = &on.call(Primitive::Exp.spec(), &[Some(negative)], &[]).unwrap()[0];
    let again = &on.call(Primitive::Exp.spec(), &[Some(negative)], &[]).unwrap()[0];
    assert_eq!((calls.load(Ordering::Relaxed), both.transfers().values), (1, 1));
    let got = on.to_host(exp).unwrap();
    assert_eq!(got.as_slice::<f32>().unwrap(), on.to_host(again).unwrap().as_slice::<f32>().unwrap());
    let error = got.as_slice::<f32>().unwrap()[1] - 2f32.exp();
    assert!(error.abs() < 1e-5);
    // The CPU backend has softmax natively, the first one only its body.
    let soft = &on.call(NnOp::Softmax.spec(), &[Some(&x)], &[Param::Int(0)]).unwrap()[0];
    assert_eq!(soft.shape(), [2]);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn sequences_pass_between_backends() {
    let nodes = vec![
        named("make", node("SequenceConstruct", &["x", "x"], &["s"])),
        named("take", node("SequenceLength", &["s"], &["n"])),
        named("exp", node("Exp", &["x"], &["y"])),
    ];
    let module = bb_tests::model::typed(
        model(&[("x", &[2])], nodes, &[("n", &[]), ("y", &[2])]),
        &[("n", DataType::I64)],
    );
    let both = first_of([without(Primitive::Exp).0, cpu()]).unwrap();
    let both = both.with_pin("make", "first").unwrap().with_pin("take", "cpu").unwrap();
    let on = handle(both);
    let compiled = on.compile(Module::from_bytes(module).unwrap(), &CompileOptions::default()).unwrap();
    let results = compiled.run(&[Some(&on.tensor(&[2], &[0f32, 0.0]).unwrap())]).unwrap();
    assert_eq!(on.to_host(&results[0]).unwrap().as_slice::<i64>().unwrap(), [2]);
    assert_eq!(on.to_host(&results[1]).unwrap().as_slice::<f32>().unwrap(), [1.0, 1.0]);
}

/// A backend of whole graphs that answers later, and one with few types, are members like others.
#[test]
fn members_of_all_kinds_give_the_same_results() {
    let device = BackendHandle::start("device", Device::start().unwrap());
    let few = BackendHandle::new(Runtime::erased("few", Few::least(), &[]));
    for on in [
        first_of([device, cpu()]).unwrap().with_pin("middle", "cpu").unwrap(),
        first_of([few, cpu()]).unwrap().with_pin("middle", "few").unwrap(),
        first_of([handle(first_of([cpu()]).unwrap()), BackendHandle::start("reference", Reference)]).unwrap(),
    ] {
        assert_products(&run_products(&handle(on)));
    }
}

#[test]
fn names_open_several() {
    let on = bb::backend("first_of(reference, limt(memory=1G)+cpu, MatMul=reference, fallback=lost)");
    assert!(matches!(on, Err(Error::UnknownLayer { .. })));
    let on = bb::backend("first_of(hooked, cpu, MatMul=hooked, fallback=lost)").unwrap();
    let same = bb::backend("first_of(hooked, cpu, MatMul=hooked, fallback=lost)").unwrap();
    assert_eq!(on.owner(), same.owner());
    assert_products(&run_products(&on));
    let threads = bb::OpenOptions::default().with_threads(std::num::NonZeroUsize::MIN);
    assert!(bb::backend_with("first_of(hooked, cpu)", &threads).is_ok());
    let refused = bb::backend_with("first_of(hooked)", &threads).unwrap_err();
    assert!(matches!(refused, Error::OpenOption { .. }), "{refused}");
    // The message lists the options of the members.
    let device = bb::OpenOptions::default().with_device("1");
    assert_eq!(
        bb::backend_with("first_of(hooked, cpu)", &device).unwrap_err().to_string(),
        "backend `first_of(hooked, cpu)` does not take the option `device`; it takes `memory`, `threads`"
    );
    let said = |name: &str| bb::backend(name).unwrap_err().to_string();
    assert_eq!(
        said("first_of()"),
        "`first_of` names no backends; write them in the parentheses, as in `first_of(gpu, cpu)`"
    );
    assert!(said("first_of(cpu, cpv)").contains("cpv"));
    assert!(said("first_of(cpu, cpu)").contains("cpu"));
    assert!(said("first_of(cpu, fallback=always)").contains("`never`, `lost` or `failed`"));
    assert!(said("first_of(cpu, Exp=gpu)").contains("gpu"));
    let deep = "first_of(".repeat(100_000) + "cpu" + &")".repeat(100_000);
    assert!(bb::backend(&deep).is_err());
    assert!(!bb::supports_device(&deep));
    assert!(bb::supports_device("first_of(hooked, cpu)"));
    assert!(!bb::supports_device("first_of(hooked, tpu)"));
}

/// Returns where the elements of a tensor begin on the host.
fn begins(on: &BackendHandle, x: &bb::Value) -> usize {
    on.to_host(x).unwrap().bytes().unwrap().as_ptr().addr()
}

#[test]
fn what_lies_in_host_memory_moves_without_a_copy_of_its_elements() {
    let [fast, plain] = ["fast", "plain"].map(|name| BackendHandle::start(name, Cpu::new()));
    let n = 1usize << 18;
    let bytes = 4 * n as u64;
    let x = fast.neg(&fast.tensor(&[n], &vec![1f32; n]).unwrap()).unwrap();
    assert_eq!(begins(&plain, &plain.adopt(&x).unwrap()), begins(&fast, &x));
    drop(x);
    // In a plan: the other backend allocates only its own result.
    let several = first_of([fast.clone(), plain.clone()]).unwrap();
    let several = several.with_pin("Neg", "fast").unwrap().with_pin("MatMul", "plain").unwrap();
    let on = handle(several.clone());
    let nodes = vec![node("Neg", &["x"], &["z"]), node("MatMul", &["z", "z"], &["y"])];
    let extents: &[i64] = &[512, 512];
    let module = Module::from_bytes(model(&[("x", extents)], nodes, &[("y", extents)])).unwrap();
    let program = on.compile(module, &CompileOptions::default()).unwrap();
    let x = on.tensor(&[512, 512], &vec![1f32 / 512.0; n]).unwrap();
    let y = program.run(&[Some(&x)]).unwrap().remove(0);
    assert_eq!(on.to_host(&y).unwrap().as_slice::<f32>().unwrap(), vec![1f32 / 512.0; n]);
    assert_eq!((several.transfers().values, several.transfers().bytes), (1, bytes));
    let live = |on: &BackendHandle| on.runtime().status().memory.unwrap().live;
    assert_eq!(live(&plain), bytes, "only the product lies in memory of the second backend");
}
