//! Tests that attributes and metadata of a node or a caller reach the backend, however the backend is run.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::op::Param;
use bb::ir::proto::{AttributeProto, StringStringEntryProto};
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, Deployment, Executable, GraphProto, Module,
    Outputs, Port, Primitive, Runtime, TensorData, Value,
};
use bb_reference::{Error, Reference, Tensor};
use bb_tests::model::{model, node};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type Named = HashMap<String, Tensor>;

/// Log of a backend's calls: the method, the operators of the graph, and the metadata.
#[derive(Default)]
struct Log(Mutex<Vec<(&'static str, String, String)>>);

impl Log {
    fn note(
        &self,
        at: &'static str,
        graph: &GraphProto,
        attributes: &[AttributeProto],
        metadata: &[StringStringEntryProto],
    ) {
        let ops: Vec<&str> = graph.node.iter().map(|node| node.op_type()).collect();
        let mut given: Vec<String> =
            metadata.iter().map(|entry| format!("{}={}", entry.key(), entry.value())).collect();
        given.extend(attributes.iter().map(|attribute| attribute.name().to_owned()));
        self.0.lock().unwrap().push((at, ops.join(" "), given.join(" ")));
    }

    fn take(&self) -> Vec<(&'static str, String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn kernel(op: Primitive, inputs: &[Option<&Tensor>], params: &[Param<'_>]) -> Result<Outputs<Tensor>, Error> {
    bb::call_primitive(&Reference, op, inputs, params)
}

/// A backend that runs whole graphs of primitives.
#[derive(Default, bb::Backend)]
struct WholeGraphs(Log);

impl WholeGraphs {
    fn run(&self, graph: &GraphProto, inputs: Named, attrs: BackendAttrs<'_>) -> Result<Named, Error> {
        self.0.note("run", graph, attrs.attributes, attrs.metadata);
        // The attributes are passed on unchanged; the reference backend finds no plans for itself in them.
        Reference.execute(graph, inputs, attrs)
    }
}

impl Backend for WholeGraphs {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }
}

/// A backend with kernels and its own `execute`.
#[derive(Default, bb::Backend)]
struct Executes(Log);

impl Executes {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tensor>, Error> {
        kernel(op, inputs, params)
    }
}

impl Backend for Executes {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }

    fn execute(&self, graph: &GraphProto, inputs: Named, attrs: BackendAttrs<'_>) -> Result<Named, Error> {
        self.0.note("execute", graph, attrs.attributes, attrs.metadata);
        Reference.execute(graph, inputs, attrs)
    }
}

/// A backend with kernels and its own `compile`, which refuses graphs if their metadata demands it.
#[derive(Default, bb::Backend)]
struct Compiles(Log);

impl Compiles {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tensor>, Error> {
        kernel(op, inputs, params)
    }
}

/// A graph that the reference backend runs for another backend.
struct Compiled(Box<dyn Executable<Reference>>);

impl Executable<Compiles> for Compiled {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(&self, _: &Compiles, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, Error> {
        self.0.run(&Reference, inputs)
    }
}

impl Backend for Compiles {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }

    fn compile(&self, module: Module, options: &CompileOptions) -> Result<Box<dyn Executable<Self>>, Error> {
        self.0.note("compile", &GraphProto::default(), options.attributes(), options.metadata());
        if options.metadata().iter().any(|entry| entry.value() == "impossible") {
            return Err(bb::Error::NotPrimitive { op: "impossible" }.into());
        }
        Ok(Box::new(Compiled(Reference.compile(module, options)?)))
    }
}

/// A backend with kernels for all operations except `exp`, which it runs as a graph.
#[derive(Default, bb::Backend)]
struct Both(Log);

impl Both {
    fn run(&self, graph: &GraphProto, inputs: Named, attrs: BackendAttrs<'_>) -> Result<Named, Error> {
        self.0.note("run", graph, attrs.attributes, attrs.metadata);
        Reference.execute(graph, inputs, attrs)
    }
}

/// Implements the methods that `Both` has kernels for.
macro_rules! kernels {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        impl Backend for Both {
            type Tensor = Tensor;
            type Error = Error;

            bb::forward_to_execute!(Self::run; exp);
            $( kernels!(@ $method ($($input: $kind),*) ($($($param: $pkind),+)?) $output); )*

            fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
                Reference.to_host(x)
            }
        }
    };
    (@ exp $($rest:tt)*) => {};
    (@ $method:ident ($($input:ident: $kind:ident),*) ($($param:ident: $pkind:ident),*) $output:ident) => {
        fn $method(&self $(, $input: bb::__input_type!($kind))* $(, $param: bb_ir::param_type!($pkind))*)
            -> Result<bb::__output_type!($output), Error> {
            Reference.$method($($input,)* $($param),*)
        }
    };
}

bb::ir::for_each_primitive!(kernels);

/// `z = softmax(exp(x))`; `Softmax` is not a primitive.
fn softmax() -> Vec<u8> {
    let nodes = vec![node("Exp", &["x"], &["e"]), node("Softmax", &["e"], &["z"])];
    model(&[("x", &[3])], nodes, &[("z", &[3])])
}

/// Runs the model twice on a backend, through a node with metadata and an attribute. `ready` is called in
/// between, because before that the node tries operations, which have no caller.
fn run_twice(backend: &BackendHandle, ready: impl Fn()) {
    let attribute = AttributeProto { name: Some("priority".to_owned()), i: Some(1), ..Default::default() };
    let built = Deployment::builder()
        .model("m", softmax())
        .backend(backend.clone())
        .metadata(backend.name(), "queue", "fast")
        .attribute(backend.name(), attribute)
        .ready()
        .unwrap();
    ready();
    let x = backend.tensor(&[3], &[0f32, 0.0, 0.0]).unwrap();
    for _ in 0..2 {
        let z = &built.run_named([("x", x.clone())]).unwrap()["z"];
        check(z);
    }
}

fn check(z: &Value) {
    for z in z.to_host(64).unwrap().as_slice::<f32>().unwrap() {
        assert!((z - 1.0 / 3.0).abs() < 1e-6, "{z}");
    }
}

const GIVEN: &str = "queue=fast priority";

#[test]
fn a_backend_for_whole_graphs_gets_them_with_graphs_of_primitives() {
    let backend = BackendHandle::new(Runtime::new(WholeGraphs::default()));
    run_twice(&backend, || drop(backend.typed::<WholeGraphs>().unwrap().0.take()));
    let log = backend.typed::<WholeGraphs>().unwrap().0.take();
    // The input is made by a graph of one node that has no caller.
    let (made, ran): (Vec<_>, Vec<_>) = log.into_iter().partition(|(_, ops, _)| ops == "Constant");
    assert!(made.iter().any(|(.., given)| given.is_empty()), "{made:?}");
    assert!(ran.len() >= 2 && ran.iter().all(|(.., given)| given == GIVEN), "{ran:?}");
    assert!(ran.iter().all(|(_, ops, _)| ops.contains("Exp") && !ops.contains("Softmax")), "{ran:?}");
}

#[test]
fn an_execute_of_its_own_gets_them_with_the_graph_of_the_model() {
    let backend = BackendHandle::new(Runtime::new(Executes::default()));
    run_twice(&backend, || drop(backend.typed::<Executes>().unwrap().0.take()));
    let log = backend.typed::<Executes>().unwrap().0.take();
    assert_eq!(log, vec![("execute", "Exp Softmax".to_owned(), GIVEN.to_owned()); 2]);
}

#[test]
fn a_compile_of_its_own_gets_them_once() {
    let backend = BackendHandle::new(Runtime::new(Compiles::default()));
    run_twice(&backend, || drop(backend.typed::<Compiles>().unwrap().0.take()));
    let log = backend.typed::<Compiles>().unwrap().0.take();
    assert_eq!(log, [("compile", String::new(), GIVEN.to_owned())]);
}

#[test]
fn an_operation_that_is_forwarded_gets_them_with_its_graph_of_one_node() {
    let backend = BackendHandle::new(Runtime::new(Both::default()));
    run_twice(&backend, || drop(backend.typed::<Both>().unwrap().0.take()));
    let log = backend.typed::<Both>().unwrap().0.take();
    assert!(log.len() >= 2 && log.iter().all(|(_, ops, given)| ops == "Exp" && given == GIVEN), "{log:?}");
    // An operation outside of any graph has no caller.
    let x = backend.tensor(&[1], &[0f32]).unwrap();
    backend.exp(&x).unwrap();
    assert_eq!(backend.typed::<Both>().unwrap().0.take(), [("run", "Exp".to_owned(), String::new())]);
}

#[test]
fn a_caller_gives_them_in_the_options_of_a_compilation() {
    let backend = BackendHandle::new(Runtime::new(WholeGraphs::default()));
    let module = Module::from_bytes(softmax()).unwrap();
    let entry = StringStringEntryProto { key: Some("queue".to_owned()), value: Some("slow".to_owned()) };
    let options = CompileOptions::default().with_node(&[], &[entry]);
    let compiled = backend.compile(module, &options).unwrap();
    let x = backend.tensor(&[3], &[0f32, 0.0, 0.0]).unwrap();
    backend.typed::<WholeGraphs>().unwrap().0.take();
    check(&compiled.run(&[Some(&x)]).unwrap()[0]);
    let log = backend.typed::<WholeGraphs>().unwrap().0.take();
    assert!(!log.is_empty() && log.iter().all(|(.., given)| given == "queue=slow"), "{log:?}");
}

/// Dispatches the model to a backend with metadata, as a node does.
fn dispatch(
    backend: &BackendHandle,
    identity: Option<bb::GraphIdentity>,
    queue: &str,
    ready: impl Fn(),
) -> Result<Value, bb::Error> {
    let built = Deployment::builder().model("m", softmax()).backend(backend.clone()).ready().unwrap();
    ready();
    let subgraph = built.model("m").unwrap().subgraphs().next().unwrap().clone();
    let entry = [StringStringEntryProto { key: Some("queue".to_owned()), value: Some(queue.to_owned()) }];
    let opsets = subgraph.attrs().opsets.to_vec();
    let mut attrs = BackendAttrs::default().with_opsets(&opsets).with_node(&[], &entry);
    if let Some(identity) = identity {
        attrs = attrs.with_identity(identity);
    }
    let x = backend.tensor(&[3], &[0f32, 0.0, 0.0]).unwrap();
    let graph = Arc::new(subgraph.graph().unwrap().clone());
    let name = graph.input[0].name().to_owned();
    let mut outputs = backend.runtime().clone().dispatch(graph, [(name, x)].into(), attrs).wait()?;
    Ok(outputs.remove("z").unwrap())
}

#[test]
fn a_graph_with_other_metadata_is_compiled_again() {
    let backend = BackendHandle::new(Runtime::new(Compiles::default()));
    let identity = Some(bb::GraphIdentity::fresh());
    for queue in ["fast", "slow", "fast"] {
        check(&dispatch(&backend, identity, queue, || ()).unwrap());
    }
    let log = backend.typed::<Compiles>().unwrap().0.take();
    let given: Vec<&str> = log.iter().map(|(.., given)| &**given).collect();
    assert_eq!(given, ["queue=fast", "queue=slow"]);
}

#[test]
fn a_graph_without_identity_is_lowered_too() {
    let backend = BackendHandle::new(Runtime::new(WholeGraphs::default()));
    let ready = || drop(backend.typed::<WholeGraphs>().unwrap().0.take());
    check(&dispatch(&backend, None, "fast", ready).unwrap());
    let log = backend.typed::<WholeGraphs>().unwrap().0.take();
    let ran: Vec<_> = log.iter().filter(|(_, ops, _)| ops.contains("Exp")).collect();
    assert!(ran.iter().all(|(_, ops, given)| !ops.contains("Softmax") && given == "queue=fast"), "{log:?}");
}

#[test]
fn the_reason_why_a_graph_does_not_compile_is_kept() {
    let backend = BackendHandle::new(Runtime::new(Compiles::default()));
    for identity in [None, Some(bb::GraphIdentity::fresh())] {
        let error = dispatch(&backend, identity, "impossible", || ()).unwrap_err();
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        let mut words = Vec::new();
        while let Some(cause) = source {
            words.push(cause.to_string());
            source = cause.source();
        }
        assert!(words.iter().any(|w| w.contains("`impossible` is no primitive")), "{words:?}");
    }
    // The backend can still be used.
    check(&dispatch(&backend, None, "fast", || ()).unwrap());
}

/// Counts how often `dispatch` is called.
#[derive(Default, bb::Backend)]
struct Dispatches(Mutex<usize>);

impl Dispatches {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tensor>, Error> {
        kernel(op, inputs, params)
    }
}

impl Backend for Dispatches {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        _: bb::CompletionHandle<Named, Error>,
    ) -> bb::ContractResponse<Named, Error> {
        *self.0.lock().unwrap() += 1;
        bb::ContractResponse::Now(self.execute(&graph, inputs, attrs))
    }
}

#[test]
fn a_dispatch_of_its_own_is_asked_once_for_each_run() {
    let backend = BackendHandle::new(Runtime::new(Dispatches::default()));
    run_twice(&backend, || ());
    assert_eq!(*backend.typed::<Dispatches>().unwrap().0.lock().unwrap(), 2);
}
