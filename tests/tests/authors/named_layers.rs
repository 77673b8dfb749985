//! Tests of layers that names contain, of layers over every element type, and of layers that call or open themselves.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::layers::Passing;
use bb::ext::NnOp;
use bb::{
    BackendHandle, CompileOptions, DataType, Erased, InnerBackend, LayerCall, Module, Outputs, Primitive,
};
use bb_cpu::Cpu;
use bb_tests::few::Few;
use std::sync::{Arc, LazyLock, Mutex};

/// Notes the element types that its operations get.
#[derive(bb::Backend)]
#[bb(delegate = inner, extensions(Nn))]
struct Spy<B> {
    inner: B,
    seen: Arc<Mutex<Vec<(&'static str, DataType)>>>,
}

impl<B: InnerBackend> Spy<B> {
    fn note(&self, method: &'static str, x: &B::Tensor) {
        self.seen.lock().unwrap().push((method, bb::Tensor::dtype(x)));
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Spy<B> {
    fn add(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.note("add", a);
        self.inner.add(a, b)
    }
}

#[bb::native]
impl<B: InnerBackend> bb::ext::Nn for Spy<B> {
    /// The magnitude, so that results show that this method computed them.
    fn relu(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.note("relu", x);
        self.inner.abs(x)
    }
}

#[test]
fn a_layer_over_every_type_gets_the_types_of_the_call() {
    let seen: Arc<Mutex<Vec<(&'static str, DataType)>>> = Arc::default();
    let spy = || Spy { inner: Erased::new(Few::least()).with_every_type(), seen: seen.clone() };
    let stacks = [
        BackendHandle::start("spy", spy()),
        // A layer on top of it gets them, too.
        BackendHandle::start("over", Passing { inner: Erased::new(spy()).with_every_type() }),
    ];
    for on in stacks {
        let x = on.tensor(&[2], &[-3i64 << 40, 1]).unwrap();
        let elements = |y: &bb::Value| on.to_host(y).unwrap().as_slice::<i64>().unwrap().to_vec();
        let sum = on.call(Primitive::Add.spec(), &[Some(&x), Some(&x)], &[]).unwrap();
        assert_eq!(elements(&sum[0]), [-3 << 41, 2]);
        let magnitude = on.call(NnOp::Relu.spec(), &[Some(&x)], &[]).unwrap();
        assert_eq!(elements(&magnitude[0]), [3 << 40, 1]);
        let graph = bb::trace(&[("x", DataType::I64, &[2])], |on, inputs| {
            Ok(vec![bb::Backend::add(on, &inputs[0], &inputs[0])?])
        });
        let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
        let program = on.compile(module, &CompileOptions::default()).unwrap();
        assert_eq!(elements(&program.run(&[Some(&x)]).unwrap()[0]), [-3 << 41, 2]);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen, [("add", DataType::I64), ("relu", DataType::I64), ("add", DataType::I64)]);
    }
}

#[test]
fn a_named_layer_is_found_by_its_type() {
    let registry = bb::Registry::builder().declared::<Cpu>().build();
    let few = bb::Added {
        name: "few",
        version: "1",
        path: "tests::Few",
        options: &[],
        origin: bb::BackendOrigin::Registered,
    };
    registry.add(few, |_| -> Result<_, bb::BoxError> { Ok(Few::least()) }).unwrap();
    for name in ["passing+cpu", "passing+few"] {
        let on = registry.backend(name).unwrap();
        let x = on.tensor(&[1], &[2f32]).unwrap();
        let layer = on.typed::<Passing<Erased>>().unwrap();
        let y = layer.erase(bb::Backend::neg(layer.backend(), &layer.restore(&x).unwrap()).unwrap());
        assert_eq!(on.to_host(&y).unwrap().as_slice::<f32>().unwrap(), [-2.0], "{name}");
    }
}

/// Returns an error and its causes, joined by colons.
fn told(error: &bb::Error) -> String {
    let chain = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A layer that opens itself, fails or panics when it is opened.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Opening {
    inner: Erased,
}

#[bb::layer]
impl bb::Layer for Opening {}

impl bb::RegisteredLayer for Opening {
    const NAME: &'static str = "opening";
    const ABOUT: &'static str = "opens itself";
    const OPTIONS: &'static [bb::OpenOption] = &[bb::OpenOption::Own(bb::OwnOption::new(
        "panics",
        bb::OptionDefault::Bool(false),
        "whether it panics instead",
    ))];

    fn on(inner: Erased, options: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        if options.own("panics")? {
            panic!("out of paper");
        }
        bb::backend("opening + cpu")?;
        Ok(Opening { inner })
    }
}

bb::register_layer!(Opening);

#[test]
fn layers_that_cannot_be_opened_say_why() {
    for (name, expected) in [
        (
            "opening+cpu",
            "layer `opening` cannot be opened: backend `opening+cpu` is opened by its own constructor",
        ),
        (
            "opening(panics=true)+cpu",
            "layer `opening` cannot be opened: layer `opening` failed in `on`: it panicked: out of paper",
        ),
        (
            "opening(panic=true)+cpu",
            "layer `opening` has no option `panic` (did you mean `panics`?); there are `panics`",
        ),
        (
            "opening(panics=perhaps)+cpu",
            "the option `panics` is `perhaps`; expected `true`, `false`, `1` or `0`",
        ),
        ("opening(threads=2)+cpu", "layer `opening` has no option `threads`; there are `panics`"),
        (
            "passing:1+cpu",
            "`passing:1`: the layer has no devices; the device stands behind the backend, as in `passing+gpu:1`",
        ),
    ] {
        assert_eq!(told(&bb::backend(name).unwrap_err()), expected);
    }
}

#[test]
fn a_layer_and_a_backend_without_a_plus_between_them_are_corrected() {
    for name in ["passing cpu", "passing,cpu", "passing, cpu"] {
        let error = told(&bb::backend(name).unwrap_err());
        let expected = format!("no backend is called `{name}` (did you mean `passing+cpu`?)");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_bound_stack_is_found_by_each_of_its_names() {
    let [stack, cpu] = ["passing+cpu(threads=1)", "cpu(threads=3)"].map(|name| bb::backend(name).unwrap());
    assert_eq!(bb::backend("passing + cpu( threads=1 )").unwrap().owner(), stack.owner());
    let backends = bb::Backends::new([stack.clone(), cpu.clone()]);
    for name in ["passing+cpu(threads=1)", " passing + cpu( threads = 1 )"] {
        assert_eq!(backends.named(name).unwrap().owner(), stack.owner(), "{name}");
    }
    assert_eq!(backends.named("cpu(threads=3)").unwrap().owner(), cpu.owner());
    let refused = |name: &str| told(&bb::Backends::new([cpu.clone()]).named(name).unwrap_err());
    assert_eq!(
        refused("passing+cpu"),
        "backend `passing+cpu` is not bound here, where `cpu` is bound: write `.backend(bb::backend(\"passing+cpu\")?)` before \
         `.ready()`"
    );
    assert!(refused("passin+cpu").starts_with("no layer is called `passin` (did you mean `passing`?)"));
    assert_eq!(
        refused("passing"),
        "`passing`: `passing` is a layer, and a backend stands last, as in `passing+cpu`"
    );
}

/// Calls its own method instead of the inner backend's.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Endless<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Endless<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        match call.operand(0) {
            Some(x) => Ok(Outputs::from_iter([bb::Backend::neg(self, x)?])),
            None => call.run(),
        }
    }
}

#[test]
fn a_layer_whose_hook_calls_itself_is_an_error() {
    let on = BackendHandle::start("endless", Endless { inner: Cpu::new() });
    let x = on.tensor(&[1], &[1f32]).unwrap();
    for _ in 0..2 {
        let error = told(&on.call(Primitive::Exp.spec(), &[Some(&x)], &[]).unwrap_err());
        let expected = "Endless<bb_cpu::cpu::Cpu>` calls itself again and again, last for `neg`: call the inner backend instead, \
                        as in `self.inner.neg(…)`, `self.inner.native(…)` for an operation of a family, or `call.run()` in `operation`";
        assert!(error.contains(expected), "{error}");
    }
}

/// Writes methods that call the layer itself instead of the inner backend.
#[derive(bb::Backend)]
#[bb(delegate = inner, extensions(Nn))]
struct Selfish<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Selfish<B> {
    fn exp(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        bb::Backend::log(self, x)
    }

    fn log(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        bb::Backend::exp(self, x)
    }
}

#[bb::native]
impl<B: InnerBackend> bb::ext::Nn for Selfish<B> {
    fn relu(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        Ok(InnerBackend::native(self, NnOp::Relu.spec(), &[Some(x)], &[])?.remove(0))
    }
}

impl bb::RegisteredLayer for Selfish<Erased> {
    const NAME: &'static str = "endless";
    const ABOUT: &'static str = "calls itself";

    fn on(inner: Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Selfish { inner })
    }
}

bb::register_layer!(Selfish<Erased>);

#[test]
fn a_layer_whose_methods_call_themselves_is_an_error() {
    let typed = BackendHandle::start("typed", Selfish { inner: Cpu::new() });
    for on in [typed, bb::backend("endless+cpu").unwrap()] {
        let x = on.tensor(&[1], &[1f32]).unwrap();
        for spec in [Primitive::Exp.spec(), NnOp::Relu.spec()] {
            let error = on.call(spec, &[Some(&x)], &[]).unwrap_err();
            let expected = "the layer `endless` calls itself again and again, last for `";
            assert!(told(&error).contains(expected), "{}", told(&error));
            assert_eq!(on.error_kind(&error), bb::ErrorKind::Device);
        }
        assert!(on.call(Primitive::Neg.spec(), &[Some(&x)], &[]).is_ok());
    }
}

/// Returns a number of copies of each result.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Copies<B> {
    inner: B,
    number: usize,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Copies<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        if call.spec() != Primitive::Exp.spec() {
            return call.run();
        }
        let result = call.run()?.remove(0);
        Ok(std::iter::repeat_n(result, self.number).collect())
    }
}

#[test]
fn a_wrong_number_of_results_names_the_layer() {
    for number in [0, 2] {
        let on = BackendHandle::start("copies", Copies { inner: Cpu::new(), number });
        let x = on.tensor(&[1], &[1f32]).unwrap();
        let error = told(&on.call(Primitive::Exp.spec(), &[Some(&x)], &[]).unwrap_err());
        let expected = format!("layer `Copies` failed in `exp`: `exp` returned {number} results, expected 1");
        assert!(error.contains(&expected), "{error}");
    }
}

/// A layer with an option.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Bits<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Bits<B> {}

impl bb::RegisteredLayer for Bits<Erased> {
    const NAME: &'static str = "few-bits";
    const ABOUT: &'static str = "has an option";
    const OPTIONS: &'static [bb::OpenOption] =
        &[bb::OpenOption::Own(bb::OwnOption::new("bits", bb::OptionDefault::Count(8), "bits"))];

    fn on(inner: Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Bits { inner })
    }
}

bb::register_layer!(Bits<Erased>);

#[test]
fn an_option_of_a_layer_that_the_backend_gets_is_pointed_into_the_name() {
    let options = bb::OpenOptions::default().with_own("bits", 4);
    let error = bb::backend_with("passing+few-bits+cpu", &options).unwrap_err();
    assert_eq!(
        told(&error),
        "backend `cpu` has no option `bits`, but layer `few-bits` has: write it into the name, as in `few-bits(bits=VALUE)+cpu`"
    );
    assert_eq!(error.kind(), bb::ErrorKind::Configuration);
}

#[test]
fn a_layer_that_needs_a_feature_names_it() {
    let error = bb::Error::UnknownLayer { name: "trace".to_owned(), nearest: None, linked: Vec::new() };
    assert_eq!(
        error.to_string(),
        "no layer is called `trace`; `bb-layers` has it only with its feature `tracing`"
    );
}

/// Counts the calls of the methods that get graphs.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Graphs<B> {
    inner: B,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

type Tensors<B> = std::collections::HashMap<String, <B as bb::Backend>::Tensor>;

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Graphs<B> {
    fn execute(
        &self,
        graph: &bb::GraphProto,
        inputs: Tensors<B>,
        attrs: bb::BackendAttrs<'_>,
    ) -> Result<Tensors<B>, B::Error> {
        self.calls.lock().unwrap().push("execute");
        self.inner.execute(graph, inputs, attrs)
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn bb::Executable<Self>>, B::Error> {
        self.calls.lock().unwrap().push("compile");
        bb::compile_layer(self, module, options)
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<B::Tensor, B::Error> {
        self.calls.lock().unwrap().push("materialize_from_wire");
        self.inner.materialize_from_wire(type_hash, bytes)
    }
}

/// The calls of the layer `graphs`.
static CALLS: LazyLock<Arc<Mutex<Vec<&'static str>>>> = LazyLock::new(Arc::default);

impl bb::RegisteredLayer for Graphs<Erased> {
    const NAME: &'static str = "graphs";
    const ABOUT: &'static str = "counts the calls of the methods that get graphs";
    const OPTIONS: &'static [bb::OpenOption] =
        &[bb::OpenOption::Own(bb::OwnOption::new("step", bb::OptionDefault::float(1.0), "no effect"))];

    fn on(inner: Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Graphs { inner, calls: CALLS.clone() })
    }
}

bb::register_layer!(Graphs<Erased>);

/// Writes an operation and `execute`, but not `compile`.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Executing<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Executing<B> {
    fn neg(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.neg(x)
    }

    fn execute(
        &self,
        graph: &bb::GraphProto,
        inputs: Tensors<B>,
        attrs: bb::BackendAttrs<'_>,
    ) -> Result<Tensors<B>, B::Error> {
        self.inner.execute(graph, inputs, attrs)
    }
}

impl bb::RegisteredLayer for Executing<Erased> {
    const NAME: &'static str = "executing";
    const ABOUT: &'static str = "writes an operation and `execute`";

    fn on(inner: Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Executing { inner })
    }
}

bb::register_layer!(Executing<Erased>);

#[test]
fn a_stack_whose_layer_would_never_get_graphs_is_refused() {
    for (name, method, outer, order) in [
        ("endless+graphs+cpu", "compile", "endless", "graphs+endless+cpu"),
        ("endless + graphs(step=0.5) + cpu", "compile", "endless", "graphs(step=0.5)+endless+cpu"),
        ("passing+endless+passing+graphs+cpu", "compile", "endless", "passing+graphs+endless+passing+cpu"),
        ("executing+graphs+cpu", "compile", "executing", "graphs+executing+cpu"),
    ] {
        let error = bb::backend(name).unwrap_err();
        assert_eq!(
            told(&error),
            format!(
                "`{name}`: `graphs` writes `{method}`, and `{outer}` to its left writes operations, so `{method}` of `graphs` would never be \
                 called: write `{order}`"
            )
        );
        assert_eq!(error.kind(), bb::ErrorKind::Configuration);
        assert!(bb::backend(order).is_ok(), "{order}");
    }
    // A layer that writes no operation passes graphs on, and the layers on a backend in parentheses are checked, too.
    assert!(bb::backend("passing+graphs+passing+cpu").is_ok());
    assert!(bb::backend("first_of(graphs+endless+cpu, cpu)").is_ok());
    assert!(bb::backend("first_of(endless+graphs+cpu, cpu)").is_err());
}

#[test]
fn an_inner_layer_of_a_stack_gets_graphs_like_the_outermost_one() {
    let calls: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let inner = || Graphs { inner: Erased::new(Cpu::new()), calls: calls.clone() };
    let called = |on: BackendHandle| {
        let graph = bb::trace(&[("x", DataType::F32, &[2])], |on, inputs| {
            Ok(vec![bb::Backend::neg(on, &inputs[0])?])
        });
        let graph = graph.unwrap();
        let input = graph.input[0].name().to_owned();
        let module = Module::from_graph(&graph, &[], &[]).unwrap();
        let x = on.tensor(&[2], &[1f32, -2.0]).unwrap();
        let elements = |y: &bb::Value| on.to_host(y).unwrap().as_slice::<f32>().unwrap().to_vec();
        let program = on.compile(module.clone(), &CompileOptions::default()).unwrap();
        assert_eq!(elements(&program.run(&[Some(&x)]).unwrap()[0]), [-1.0, 2.0]);
        let checked = bb::CheckedGraph::new(module).unwrap();
        let inputs = [(input, x)].into();
        let answer = on.runtime().clone().dispatch_checked(&checked, inputs, bb::BackendAttrs::default());
        let results = answer.wait().unwrap();
        assert_eq!(elements(results.values().next().unwrap()), [-1.0, 2.0]);
        std::mem::take(&mut *calls.lock().unwrap())
    };
    let outermost = called(BackendHandle::start("graphs", inner()));
    assert_eq!(outermost, ["compile", "execute"]);
    let stack = |layer: Erased| BackendHandle::start("stack", Passing { inner: layer });
    assert_eq!(called(stack(Erased::new(inner()))), outermost);
    assert_eq!(called(stack(Erased::new(Passing { inner: Erased::new(inner()) }))), outermost);
    // The layer passes `execute` on, too, if another layer calls it.
    let over = Graphs { inner: Erased::new(Passing { inner: inner() }), calls: calls.clone() };
    assert_eq!(called(BackendHandle::start("over", over)), ["compile", "compile", "execute", "execute"]);
}
