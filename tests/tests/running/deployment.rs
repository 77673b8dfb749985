//! Tests deployments: models split between backends and components, coverage, and deferred answers.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::coverage::How;
use bb::deployment::{DeploymentBuilder, Executor, Side};
use bb::{
    Backend, BackendAttrs, BackendHandle, BoxError, CompletionHandle, ContractResponse, Ctx, DataType,
    Deployment, Error, GraphProto, Outputs, Primitive, Registry, Runtime, TensorData, Value,
};
use bb_reference::Reference;
use bb_tests::device::Device;
use bb_tests::model::{custom, model, node, with_graph, with_int};
use bb_tests::tampered::Tampered;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};

fn reference() -> BackendHandle {
    BackendHandle::new(Runtime::new(Reference))
}

fn device() -> BackendHandle {
    Registry::builder().declared::<Device>().build().backend("device").unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    value.to_host(1 << 20).unwrap().as_slice().unwrap().to_vec()
}

/// `z = exp(-(x + x)) * x`: the middle runs on another backend than the ends.
fn three_parts() -> Vec<u8> {
    let nodes = vec![
        node("Add", &["x", "x"], &["a"]),
        node("Neg", &["a"], &["b"]),
        node("Exp", &["b"], &["c"]),
        node("Mul", &["c", "x"], &["z"]),
    ];
    model(&[("x", &[2])], nodes, &[("z", &[2])])
}

fn expected(x: f32) -> f32 {
    (-(x + x)).exp() * x
}

fn two_backends() -> Deployment {
    Deployment::builder()
        .model("m", three_parts())
        .backend(reference())
        .backend(device())
        .bind_op("Neg", "device")
        .bind_node("Exp_c", "device")
        .metadata("device", "queue", "fast")
        .ready()
        .unwrap()
}

/// Drives a future by parking the thread until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn two_backends_run_one_model_side_by_side() {
    let node = two_backends();
    let x = node.backends().named("reference").unwrap().tensor(&[2], &[0.5f32, -1.0]).unwrap();
    for _ in 0..3 {
        let z = floats(&node.run_named([("x", x.clone())]).unwrap()["z"]);
        assert!((z[0] - expected(0.5)).abs() < 1e-6 && (z[1] - expected(-1.0)).abs() < 1e-5);
    }
}

#[test]
fn parts_are_maximal_and_transfers_are_listed() {
    let node = two_backends();
    let model = node.model("m").unwrap();
    let placement = model.placement();
    let subgraphs: Vec<&str> = model.subgraphs().map(|c| c.backend().name()).collect();
    assert_eq!(subgraphs, ["reference", "device", "reference"]);
    let on = |name: &str| Side::Backend(name.to_owned());
    let transfers: Vec<_> = placement.transfers.iter().map(|c| (&*c.value, &c.from, &c.to)).collect();
    assert_eq!(transfers, [("a", &on("reference"), &on("device")), ("c", &on("device"), &on("reference"))]);
    assert!(placement.nodes.iter().all(|n| matches!(n.executor, Executor::Backend { how: How::Native, .. })));
}

/// The value `a` goes to two parts of one backend, and is listed as one transfer.
#[test]
fn a_value_moves_once_to_each_backend_that_reads_it() {
    static MOVED: AtomicUsize = AtomicUsize::new(0);
    let counting = Tampered(|op, _, _| {
        MOVED.fetch_add(usize::from(op == Primitive::Constant), Ordering::SeqCst);
        None
    });
    let nodes = vec![
        node("Neg", &["x"], &["a"]),
        node("Exp", &["a"], &["b"]),
        node("Abs", &["b"], &["c"]),
        node("Add", &["c", "a"], &["z"]),
    ];
    let (on, bytes) = (reference(), model(&[("x", &[1])], nodes, &[("z", &[1])]));
    let ready = Deployment::builder()
        .model("m", bytes)
        .backend(on.clone())
        .backend(BackendHandle::new(Runtime::named("counting", counting)))
        .bind_op("Exp", "counting")
        .bind_op("Add", "counting")
        .ready()
        .unwrap();
    let counted = Side::Backend("counting".to_owned());
    let placement = ready.model("m").unwrap().placement();
    assert_eq!(placement.transfers.iter().filter(|transfer| transfer.to == counted).count(), 2);
    MOVED.store(0, Ordering::SeqCst);
    let z = floats(&ready.run(&[Some(&on.tensor(&[1], &[0.5f32]).unwrap())]).unwrap()[0]);
    assert!((z[0] - ((-0.5f32).exp() - 0.5)).abs() < 1e-6);
    assert_eq!(MOVED.load(Ordering::SeqCst), 2);
}

#[test]
fn a_subgraph_has_the_metadata_that_was_bound() {
    let node = two_backends();
    let subgraph = node.model("m").unwrap().subgraphs().nth(1).unwrap();
    let entry = &subgraph.attrs().metadata[0];
    assert_eq!((entry.key(), entry.value()), ("queue", "fast"));
    assert_eq!(subgraph.graph().unwrap().node.len(), 2);
}

#[test]
fn run_async_is_driven_by_any_executor() {
    fn is_send<T: Send>(x: T) -> T {
        x
    }
    let node = two_backends();
    let x = node.backends().named("reference").unwrap().tensor(&[2], &[0.5f32, -1.0]).unwrap();
    let z = block_on(is_send(node.run_named_async([("x", x)]))).unwrap();
    assert!((floats(&z["z"])[0] - expected(0.5)).abs() < 1e-6);
}

#[test]
fn a_deferred_result_works_in_the_next_operation() {
    let gpu = device();
    let node = Deployment::builder().model("m", three_parts()).backend(gpu.clone()).ready().unwrap();
    let z = node.run_named([("x", gpu.tensor(&[2], &[0.5f32, 1.0]).unwrap())]).unwrap().remove("z").unwrap();
    assert_eq!(z.owner(), gpu.owner());
    let twice = node.backends().add(&z, &z).unwrap();
    assert!((floats(&twice)[0] - 2.0 * expected(0.5)).abs() < 1e-6);
    assert_eq!(gpu.runtime().status().pending, 0);
}

/// Adds the attribute `amount` to every element.
fn shift(ctx: &Ctx<'_>, inputs: &[Option<&Value>]) -> Result<Vec<Value>, BoxError> {
    let [Some(x)] = inputs else { return Err("expected one operand".into()) };
    let amount = ctx.attributes().and_then(|a| a.int("amount").ok().flatten()).ok_or("expected `amount`")?;
    let amount = ctx.backends.scalar_like(x, amount as f64)?;
    Ok(vec![ctx.backends.add(x, &amount)?])
}

#[test]
fn a_component_computes_where_its_operands_are() {
    let nodes = vec![
        node("Neg", &["x"], &["a"]),
        with_int(custom("Shift", &["a"], &["b"]), "amount", 3),
        node("Neg", &["b"], &["z"]),
    ];
    let bytes = model(&[("x", &[2])], nodes, &[("z", &[2])]);
    for backend in [reference(), device()] {
        let ready = Deployment::builder()
            .model("m", bytes.clone())
            .backend(backend.clone())
            .component("test", "Shift", shift);
        let ready = ready.ready().unwrap();
        let z = ready.run_named([("x", backend.tensor(&[2], &[1f32, 10.0]).unwrap())]).unwrap();
        assert_eq!(floats(&z["z"]), [-2.0, 7.0]);
        assert_eq!(ready.model("m").unwrap().placement().parts.len(), 3);
    }
}

#[test]
fn a_component_that_panics_is_an_error_and_the_next_run_works() {
    let bytes = model(&[("x", &[1])], vec![custom("Trip", &["x"], &["z"])], &[("z", &[1])]);
    let trip = |ctx: &Ctx<'_>, inputs: &[Option<&Value>]| -> Result<Vec<Value>, BoxError> {
        let x = inputs[0].ok_or("expected an operand")?;
        assert!(floats(x)[0] > 0.0, "expected a positive number");
        Ok(vec![ctx.backends.neg(x)?])
    };
    let backend = reference();
    let ready = Deployment::builder()
        .model("m", bytes)
        .backend(backend.clone())
        .component("test", "Trip", trip)
        .ready()
        .unwrap();
    let run = |x: f32| ready.run_named([("x", backend.tensor(&[1], &[x]).unwrap())]);
    let error = run(-1.0).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the component panicked: expected a positive number");
    assert_eq!(floats(&run(2.0).unwrap()["z"]), [-2.0]);
}

#[test]
fn missing_and_unknown_inputs_are_named() {
    let backend = reference();
    let ready = Deployment::builder().model("m", three_parts()).backend(backend.clone()).ready().unwrap();
    let none: [(&str, Value); 0] = [];
    assert!(matches!(ready.run_named(none), Err(Error::MissingInput { name, .. }) if name == "x"));
    let x = backend.tensor(&[2], &[1f32, 2.0]).unwrap();
    let both = [("x", x.clone()), ("y", x)];
    assert!(matches!(ready.run_named(both), Err(Error::UnknownInput { name, .. }) if name == "y"));
}

/// `z = [-x, x]`, joined through a sequence; one operator is bound to the device.
fn through_a_sequence(bound: &str) -> DeploymentBuilder {
    let nodes = vec![
        node("Neg", &["x"], &["a"]),
        node("SequenceConstruct", &["a", "x"], &["s"]),
        with_int(node("ConcatFromSequence", &["s"], &["z"]), "axis", 0),
    ];
    let model = model(&[("x", &[2])], nodes, &[("z", &[4])]);
    Deployment::builder().model("m", model).backend(reference()).backend(device()).bind_op(bound, "device")
}

#[test]
fn a_sequence_stays_on_its_backend() {
    let node = through_a_sequence("Neg").ready().unwrap();
    let x = node.backends().named("reference").unwrap().tensor(&[2], &[0.5f32, -1.0]).unwrap();
    assert_eq!(floats(&node.run_named([("x", x)]).unwrap()["z"]), [-0.5, 1.0, 0.5, -1.0]);
}

#[test]
fn a_sequence_that_would_change_its_backend_is_an_error() {
    let text = through_a_sequence("ConcatFromSequence").ready().unwrap_err().to_string();
    assert!(text.contains("`s` of the model `m` is a sequence"), "{text}");
    assert!(text.contains("from a part on `reference` to a part on `device`"), "{text}");
}

/// The branch multiplies by a value that another backend computed. The part gives new numbers to the values that its
/// branches read.
#[test]
fn a_branch_reads_what_another_part_made() {
    let then = vec![node("Mul", &["a", "x"], &["t"])];
    let choice = with_graph(node("If", &["c"], &["z"]), "then_branch", &[], then, &["t"]);
    let choice = with_graph(choice, "else_branch", &[], vec![node("Identity", &["x"], &["e"])], &["e"]);
    let nodes = vec![
        node("Neg", &["x"], &["a"]),
        with_int(node("ReduceSum", &["x"], &["s"]), "keepdims", 0),
        with_int(node("Cast", &["s"], &["c"]), "to", DataType::Bool.to_onnx().into()),
        choice,
    ];
    let bytes = model(&[("x", &[2])], nodes, &[("z", &[2])]);
    let ready = Deployment::builder().model("m", bytes).backend(reference()).backend(device());
    let ready = ready.bind_op("Neg", "device").ready().unwrap();
    let run = |x: [f32; 2]| {
        let x = ready.backends().named("reference").unwrap().tensor(&[2], &x).unwrap();
        floats(&ready.run(&[Some(&x)]).unwrap()[0])
    };
    assert_eq!(run([1.0, 2.0]), [-1.0, -4.0]);
    assert_eq!(run([1.0, -1.0]), [1.0, -1.0]);
}

/// A backend that records which checked graphs it gets: for the graph itself, and for a copy of it.
#[derive(Default)]
struct Recorder(Arc<Mutex<Vec<[usize; 2]>>>);

impl Recorder {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, bb_reference::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, bb_reference::Tensor>, bb_reference::Error> {
        Reference.execute(graph, inputs, attrs)
    }
}

type Tensors = HashMap<String, bb_reference::Tensor>;

impl Backend for Recorder {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        Reference.to_host(x)
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Tensors,
        attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<Tensors, Self::Error>,
    ) -> ContractResponse<Tensors, Self::Error> {
        let given = attrs.module(&graph).unwrap();
        let copied = attrs.module(&GraphProto::clone(&graph)).unwrap();
        let places = [&given, &copied].map(|module| std::ptr::from_ref(module.graph()).addr());
        self.0.lock().unwrap().push(places);
        ContractResponse::Now(self.execute(&graph, inputs, attrs))
    }
}

#[test]
fn a_part_reaches_its_backend_as_it_was_checked() {
    let backend = Recorder::default();
    let recorded = backend.0.clone();
    let on = BackendHandle::new(Runtime::named("recorder", backend));
    let ready = Deployment::builder().model("m", three_parts()).backend(on.clone()).ready().unwrap();
    let x = on.tensor(&[2], &[0.5f32, -1.0]).unwrap();
    for _ in 0..2 {
        let z = floats(&ready.run(&[Some(&x)]).unwrap()[0]);
        assert!((z[0] - expected(0.5)).abs() < 1e-6 && (z[1] - expected(-1.0)).abs() < 1e-5);
    }
    let part = ready.model("m").unwrap().subgraphs().next().unwrap();
    let checked = std::ptr::from_ref(part.checked().module().graph()).addr();
    for [given, copied] in recorded.lock().unwrap().iter() {
        assert_eq!(*given, checked, "the graph was checked again");
        assert_ne!(*copied, checked, "another graph was taken for the checked one");
    }
    assert_eq!(recorded.lock().unwrap().len(), 2);
}

/// A backend whose `dispatch` returns results of other extents.
struct Flattens;

impl Flattens {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&bb_reference::Tensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<Outputs<bb_reference::Tensor>, bb_reference::Error> {
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for Flattens {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        Reference.to_host(x)
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Tensors,
        attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<Tensors, Self::Error>,
    ) -> ContractResponse<Tensors, Self::Error> {
        let flat = |(name, y)| Ok((name, Reference.reshape(&y, &[1, 2])?));
        let results = Reference.execute(&graph, inputs, attrs);
        ContractResponse::Now(results.and_then(|results| results.into_iter().map(flat).collect()))
    }
}

#[test]
fn a_result_of_other_extents_than_the_model_declares_is_an_error() {
    let on = BackendHandle::new(Runtime::named("flattens", Flattens));
    let ready = Deployment::builder().model("m", three_parts()).backend(on.clone()).ready().unwrap();
    let x = on.tensor(&[2], &[0.5f32, -1.0]).unwrap();
    let error = ready.run(&[Some(&x)]).unwrap_err().to_string();
    assert_eq!(error, "result 0 of `dispatch` is f32[1, 2], expected f32[2]: the backend returned it");
}
