//! Tests when a running backend counts as busy, and that panics in the code of a tensor's author are errors.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, Completer, CompletionHandle, ContractResponse,
    DataType, Error, GraphProto, Module, Outputs, Primitive, Runtime, SlotValue, State, TensorData, Value,
    ir::op::Param,
};
use bb_reference::Reference;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Inner = <Reference as Backend>::Tensor;
type Named<T> = HashMap<String, T>;

thread_local! {
    /// The method of [`Touchy`] that panics in this thread.
    static PANICS: Cell<&'static str> = const { Cell::new("") };
}

fn touch(method: &str) {
    assert!(PANICS.get() != method, "{method} is broken");
}

/// A tensor whose methods panic on request.
struct Touchy(Inner);

impl Clone for Touchy {
    fn clone(&self) -> Touchy {
        touch("clone");
        Touchy(self.0.clone())
    }
}

struct Erased(Inner);

impl SlotValue for Erased {
    fn dtype(&self) -> DataType {
        bb::Tensor::dtype(&self.0)
    }

    fn shape(&self) -> &[usize] {
        bb::Tensor::shape(&self.0)
    }
}

impl bb::Tensor for Touchy {
    fn dtype(&self) -> DataType {
        touch("dtype");
        bb::Tensor::dtype(&self.0)
    }

    fn shape(&self) -> &[usize] {
        touch("shape");
        bb::Tensor::shape(&self.0)
    }

    fn erase(self) -> Arc<dyn SlotValue> {
        touch("erase");
        Arc::new(Erased(self.0))
    }

    fn restore(value: &Arc<dyn SlotValue>) -> Option<Touchy> {
        touch("restore");
        let any: &dyn std::any::Any = value.as_ref();
        any.downcast_ref::<Erased>().map(|erased| Touchy(erased.0.clone()))
    }
}

/// Signals between the test's thread and the backend.
struct Blocking {
    /// Told when `exp` has begun.
    begun: Sender<()>,
    /// Ends `exp`.
    end: Mutex<Receiver<()>>,
    /// The means to answer the dispatched graphs.
    completers: Mutex<Vec<Completer<Named<Touchy>, bb_reference::Error>>>,
    /// Shut down in `log`.
    own: Mutex<Option<BackendHandle>>,
}

impl Blocking {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Touchy>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Touchy>, bb_reference::Error> {
        if op == Primitive::Exp {
            self.begun.send(()).unwrap();
            self.end.lock().unwrap().recv().unwrap();
        }
        if op == Primitive::Log
            && let Some(own) = self.own.lock().unwrap().take()
        {
            own.shut_down().unwrap();
        }
        let inputs: Vec<Option<&Inner>> = inputs.iter().map(|x| x.map(|x| &x.0)).collect();
        Ok(bb::call_primitive(&Reference, op, &inputs, params)?.into_iter().map(Touchy).collect())
    }
}

impl Backend for Blocking {
    type Tensor = Touchy;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Touchy) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(&x.0)
    }

    fn dispatch(
        &self,
        _graph: Arc<GraphProto>,
        _inputs: Named<Touchy>,
        _attrs: BackendAttrs<'_>,
        completion: CompletionHandle<Named<Touchy>, bb_reference::Error>,
    ) -> ContractResponse<Named<Touchy>, bb_reference::Error> {
        let (response, completer) = completion.later();
        self.completers.lock().unwrap().push(completer);
        response
    }
}

/// A running backend, and the test's ends of its channels.
struct Subject {
    handle: BackendHandle,
    begun: Receiver<()>,
    end: Sender<()>,
}

fn subject() -> Subject {
    let ((begun, seen), (end, ended)) = (channel(), channel());
    let backend =
        Blocking { begun, end: Mutex::new(ended), completers: Mutex::default(), own: Mutex::default() };
    Subject { handle: BackendHandle::new(Runtime::named("blocking", backend)), begun: seen, end }
}

impl Subject {
    fn backend(&self) -> impl std::ops::Deref<Target = Blocking> {
        self.handle.typed::<Blocking>().unwrap()
    }

    fn one(&self) -> Value {
        self.handle.tensor(&[1], &[1f32]).unwrap()
    }

    fn dispatch(&self) -> ContractResponse<Named<Value>, Error> {
        self.handle.runtime().clone().dispatch(Arc::default(), HashMap::new(), BackendAttrs::default())
    }

    fn complete(&self) {
        let completer = self.backend().completers.lock().unwrap().pop().unwrap();
        let y = Reference.constant(&TensorData::new(&[1], &[7f32]).unwrap()).unwrap();
        completer.complete(Ok(HashMap::from([("y".to_owned(), Touchy(y))])));
    }

    fn pending(&self) -> u64 {
        self.handle.runtime().status().pending
    }

    /// Runs a function on another thread and returns a receiver that tells when it has ended.
    fn meanwhile(&self, run: impl FnOnce(&BackendHandle) + Send + 'static) -> Receiver<()> {
        let (handle, (done, ended)) = (self.handle.clone(), channel());
        std::thread::spawn(move || {
            run(&handle);
            done.send(()).unwrap();
        });
        ended
    }
}

fn ends(ended: &Receiver<()>) {
    ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
}

fn still_waits(ended: &Receiver<()>) {
    assert!(ended.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
}

#[test]
fn a_complete_answer_that_nobody_reads_is_not_pending() {
    let on = subject();
    let response = on.dispatch();
    assert_eq!(on.pending(), 1);
    let synchronized = on.meanwhile(|handle| handle.synchronize().unwrap());
    still_waits(&synchronized);
    on.complete();
    ends(&synchronized);
    assert_eq!(on.pending(), 0);
    ends(&on.meanwhile(|handle| handle.shut_down().unwrap()));
    let outputs = response.wait().unwrap();
    assert_eq!(outputs.get("y").unwrap().shape(), [1]);
}

#[test]
fn a_graph_is_pending_until_the_backend_ends_it_even_if_its_caller_gave_up() {
    let on = subject();
    drop(on.dispatch());
    drop(on.dispatch());
    let shut_down = on.meanwhile(|handle| handle.shut_down().unwrap());
    still_waits(&shut_down);
    assert_eq!(on.pending(), 2);
    on.complete();
    let given_up = on.backend().completers.lock().unwrap().pop().unwrap();
    assert!(given_up.is_abandoned());
    still_waits(&shut_down);
    drop(given_up);
    ends(&shut_down);
    assert_eq!(on.pending(), 0);
}

#[test]
fn shutting_down_waits_for_running_calls_and_refuses_others() {
    let on = subject();
    let x = on.one();
    let called = on.meanwhile({
        let x = x.clone();
        move |handle| drop(handle.exp(&x).unwrap())
    });
    on.begun.recv_timeout(Duration::from_secs(60)).unwrap();
    let shut_down = on.meanwhile(|handle| handle.shut_down().unwrap());
    still_waits(&shut_down);
    let status = on.handle.runtime().status();
    assert_eq!(status.state, State::ShutDown);
    assert!(matches!(on.handle.neg(&x), Err(Error::ShutDown { .. })));
    assert_eq!(on.handle.runtime().status().calls, status.calls, "a refused call does not count");
    on.end.send(()).unwrap();
    ends(&shut_down);
    ends(&called);
}

#[test]
fn a_call_that_shuts_its_own_backend_down_does_not_wait_for_itself() {
    let on = subject();
    let x = on.one();
    *on.backend().own.lock().unwrap() = Some(on.handle.clone());
    ends(&on.meanwhile({
        let x = x.clone();
        move |handle| drop(handle.log(&x).unwrap())
    }));
    assert!(matches!(on.handle.neg(&x), Err(Error::ShutDown { .. })));
}

/// Expects that a call reports the panic of the method, and that the next call works.
fn reports<T>(on: &Subject, method: &'static str, call: impl Fn() -> Result<T, Error>) {
    let before = on.handle.runtime().status();
    PANICS.set(method);
    let result = call();
    PANICS.set("");
    match result {
        Err(Error::Panicked { backend: "blocking", message, .. }) => {
            assert_eq!(message, format!("{method} is broken"));
        }
        Err(other) => panic!("{method}: {other:?}"),
        Ok(_) => panic!("{method} was not called"),
    }
    let after = on.handle.runtime().status();
    assert_eq!((after.panics, after.failures), (before.panics + 1, before.failures + 1), "{method}");
    on.handle.neg(&on.one()).unwrap();
}

#[test]
fn panics_while_erasing_and_restoring_are_errors() {
    let on = subject();
    let x = on.one();
    let frame = bb::ir::wire::encode(&TensorData::new(&[1], &[1f32]).unwrap()).unwrap();
    let hash = bb::ir::wire::type_hash(DataType::F32);
    let graph = bb::trace(&[("x", DataType::F32, &[1])], |on, inputs| match inputs {
        [x] => Ok(vec![on.neg(x)?]),
        _ => Ok(Vec::new()),
    });
    let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
    let plan = on.handle.compile(module, &CompileOptions::default()).unwrap();
    let item = || [Some(bb::onnx::OnnxValue::Tensor(x.clone()))];

    reports(&on, "erase", || on.handle.tensor(&[1], &[1f32]));
    reports(&on, "erase", || on.handle.materialize_from_wire(hash, frame.clone()));
    reports(&on, "erase", || on.handle.neg(&x));
    reports(&on, "erase", || plan.run(&[Some(&x)]));
    reports(&on, "erase", || plan.run_items(&item()));
    reports(&on, "restore", || on.handle.to_host(&x));
    reports(&on, "restore", || x.to_host(64));
    reports(&on, "restore", || on.handle.neg(&x));
    reports(&on, "restore", || plan.run(&[Some(&x)]));
    reports(&on, "restore", || plan.run_items(&item()));
    reports(&on, "restore", || on.handle.typed::<Blocking>().unwrap().restore(&x).map(drop));
    reports(&on, "shape", || plan.run(&[Some(&x)]));
    reports(&on, "dtype", || plan.run(&[Some(&x)]));
    reports(&on, "clone", || plan.run_items(&item()));

    let response = on.dispatch();
    on.complete();
    PANICS.set("erase");
    let result = response.wait();
    PANICS.set("");
    assert!(matches!(result, Err(Error::Panicked { op: "dispatch", .. })), "{result:?}");
}
