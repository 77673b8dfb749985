//! Tests whole graphs through the interface, and asynchronous runs.

use crate::abuse::{good, linked};
use bb::ir::proto::{GraphProto, NodeProto, ValueInfoProto};
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, CompletionHandle, ContractResponse, DataType,
    GraphIdentity, LoadedBackend, LoadedError, LoadedTensor, Module, OpenOptions, TensorData,
};
use bb_c::abi::{Done, Failure, Items, Library, Primitives, Raw, RawTensor, Results, Slot, Status, Text};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static COMPILED: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicUsize = AtomicUsize::new(0);
static SHAPE: [usize; 1] = [2];

thread_local! {
    /// The numbers of graphs that this thread has compiled and released.
    static PROGRAMS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

const EMPTY: Slot = Slot { tensor: std::ptr::null_mut(), dtype: 1, rank: 1, shape: SHAPE.as_ptr() };

unsafe extern "C" fn compile(
    _: *mut Raw,
    model: Items<u8>,
    program: *mut *mut c_void,
    _: *mut Failure,
) -> Status {
    COMPILED.fetch_add(1, Ordering::SeqCst);
    let (compiled, released) = PROGRAMS.get();
    PROGRAMS.set((compiled + 1, released));
    // SAFETY: the host passes valid pointers.
    unsafe {
        assert!(model.slice().len() > 8);
        program.write(std::ptr::dangling_mut::<u8>().cast());
    }
    0
}

unsafe extern "C" fn release_program(_: *mut Raw, _: *mut c_void) {
    RELEASED.fetch_add(1, Ordering::SeqCst);
    let (compiled, released) = PROGRAMS.get();
    PROGRAMS.set((compiled, released + 1));
}

/// Adds the only input to itself, whatever the graph is.
unsafe extern "C" fn run(
    on: *mut Raw,
    _: *mut c_void,
    inputs: Items<*const RawTensor>,
    to: Results,
    count: usize,
    error: *mut Failure,
) -> Status {
    // SAFETY: the host passes valid pointers, and requests all results of the graph.
    unsafe {
        let x = inputs.slice()[0];
        *to = EMPTY;
        good().1.add.unwrap()(on, x, x, to, count, error)
    }
}

/// Does the same as `run`, but returns a rank that no tensor has.
unsafe extern "C" fn deep(
    on: *mut Raw,
    program: *mut c_void,
    inputs: Items<*const RawTensor>,
    to: Results,
    count: usize,
    error: *mut Failure,
) -> Status {
    // SAFETY: the host passes valid pointers.
    unsafe {
        let status = run(on, program, inputs, to, count, error);
        (*to).rank = 5000;
        status
    }
}

/// The work of a thread: the backend, the operand, and the address of the context.
struct Work(*mut Raw, *const RawTensor, usize);

// SAFETY: the interface guarantees that tensors may be used from any thread.
unsafe impl Send for Work {}

/// Starts a thread that computes, and then calls `finish`.
unsafe fn begin(
    on: *mut Raw,
    inputs: Items<*const RawTensor>,
    context: *mut c_void,
    finish: fn(Work, *mut c_void),
) -> Status {
    // SAFETY: the host passes a valid list.
    let work = Work(on, unsafe { inputs.slice() }[0], context.addr());
    std::thread::spawn(move || {
        let work = work;
        let context = std::ptr::without_provenance_mut(work.2);
        finish(work, context);
    });
    0
}

macro_rules! starts {
    ($($name:ident(|$done:ident, $context:ident, $slot:ident| $finish:expr))*) => { $(
        unsafe extern "C" fn $name(
            on: *mut Raw, _: *mut c_void, inputs: Items<*const RawTensor>, done: Done, context: *mut c_void, _: *mut Failure,
        ) -> Status {
            static DONE: std::sync::OnceLock<Done> = std::sync::OnceLock::new();
            DONE.get_or_init(|| done);
            fn finish(work: Work, $context: *mut c_void) {
                let mut $slot = EMPTY;
                let $done = DONE.get().unwrap().unwrap();
                // SAFETY: the host keeps the input alive until the run ends.
                unsafe {
                    good().1.add.unwrap()(work.0, work.1, work.1, &raw mut $slot, 1, std::ptr::null_mut());
                    $finish
                }
            }
            // SAFETY: the host passes valid pointers.
            unsafe { begin(on, inputs, context, finish) }
        }
    )* };
}

const NONE: Text = Text::new("");

starts! {
    once(|done, context, slot| done(context, 0, NONE, &raw const slot, 1))
    twice(|done, context, slot| {
        done(context, 0, NONE, &raw const slot, 1);
        done(context, 0, NONE, &raw const slot, 1);
    })
    never_began(|done, context, slot| {
        done(std::ptr::without_provenance_mut(usize::MAX), 0, NONE, std::ptr::null(), 0);
        done(context, 0, NONE, &raw const slot, 1);
    })
    too_few(|done, context, slot| {
        good().0.release.unwrap()(work_of(context), slot.tensor);
        done(context, 0, NONE, std::ptr::null(), 0);
    })
    leaving(|done, context, slot| done(context, 7, NONE, &raw const slot, 1))
    verbose(|done, context, slot| {
        good().0.release.unwrap()(work_of(context), slot.tensor);
        done(context, 7, Text::new(&"fire ".repeat(1000)), std::ptr::null(), 0);
    })
    failing(|done, context, slot| {
        good().0.release.unwrap()(work_of(context), slot.tensor);
        done(context, 7, Text::new("the device caught fire"), std::ptr::null(), 0);
    })
}

/// Returns null, because the backend written in C does not read this argument when it releases a tensor.
fn work_of(_: *mut c_void) -> *mut Raw {
    std::ptr::null_mut()
}

type Start = unsafe extern "C" fn(
    *mut Raw,
    *mut c_void,
    Items<*const RawTensor>,
    Done,
    *mut c_void,
    *mut Failure,
) -> Status;

type Run = unsafe extern "C" fn(
    *mut Raw,
    *mut c_void,
    Items<*const RawTensor>,
    Results,
    usize,
    *mut Failure,
) -> Status;

fn opened(start: Option<Start>) -> LoadedBackend {
    opened_with(run, start)
}

fn opened_with(run: Run, start: Option<Start>) -> LoadedBackend {
    let (table, primitives) = good();
    let primitives = Primitives { constant: primitives.constant, ..Primitives::NONE };
    let table = Library {
        size: size_of::<Library>(),
        compile: Some(compile),
        run: Some(run),
        release_program: Some(release_program),
        start,
        ..table
    };
    linked(table, primitives).unwrap().open(&OpenOptions::default()).unwrap()
}

fn graph() -> GraphProto {
    let name = |name: &str| Some(name.to_owned());
    let port = |port: &str| ValueInfoProto { name: name(port), ..ValueInfoProto::default() };
    let add = NodeProto {
        op_type: name("Add"),
        input: vec!["x".to_owned(), "x".to_owned()],
        output: vec!["y".to_owned()],
        ..NodeProto::default()
    };
    GraphProto {
        name: name("sum"),
        node: vec![add],
        input: vec![port("x")],
        output: vec![port("y")],
        ..GraphProto::default()
    }
}

fn inputs(on: &LoadedBackend) -> HashMap<String, LoadedTensor> {
    let x = on.constant(&TensorData::new(&[2], &[1f32, 2.]).unwrap()).unwrap();
    [("x".to_owned(), x)].into()
}

fn dispatched(start: Start) -> (LoadedBackend, Result<HashMap<String, LoadedTensor>, LoadedError>) {
    let on = opened(Some(start));
    let answer =
        on.dispatch(Arc::new(graph()), inputs(&on), BackendAttrs::default(), CompletionHandle::new());
    assert!(matches!(answer, ContractResponse::Later(_)));
    let result = answer.wait();
    (on, result)
}

#[test]
fn whole_graphs_run_and_are_compiled_once_for_each_identity() {
    let on = opened(None);
    assert!(on.runs_whole_graphs());
    let attrs = BackendAttrs::default().with_identity(GraphIdentity::fresh());
    let (compiled, released) = (COMPILED.load(Ordering::SeqCst), RELEASED.load(Ordering::SeqCst));
    for _ in 0..3 {
        let outputs = on.execute(&graph(), inputs(&on), attrs).unwrap();
        assert_eq!(on.to_host(&outputs["y"]).unwrap().as_slice::<f32>().unwrap(), [2., 4.]);
    }
    let missing = on.execute(&graph(), HashMap::new(), attrs).unwrap_err();
    assert!(missing.to_string().contains("`x` is missing"), "{missing}");
    drop(on);
    assert!(COMPILED.load(Ordering::SeqCst) > compiled && RELEASED.load(Ordering::SeqCst) > released);
}

/// Returns a model that adds its input to itself.
fn doubling() -> Module {
    let graph =
        bb::trace(&[("x", DataType::F32, &[2])], |on, inputs| Ok(vec![on.add(&inputs[0], &inputs[0])?]));
    Module::from_graph(&graph.unwrap(), &[], &[]).unwrap()
}

#[test]
fn a_graph_is_released_with_the_model_that_was_compiled_from_it() {
    let mine = BackendHandle::start("mine", opened(None));
    let other = BackendHandle::start("other", bb_reference::Reference);
    let both = BackendHandle::start("both", bb::first_of([mine.clone(), other]).unwrap().with_order());
    let model = doubling();
    let before = PROGRAMS.get();
    for on in [&mine, &both] {
        for _ in 0..4 {
            let since = PROGRAMS.get();
            let compiled = on.compile(model.clone(), &CompileOptions::default()).unwrap();
            let x = on.tensor(&[2], &[1f32, 2.]).unwrap();
            for _ in 0..3 {
                let outputs = compiled.run(&[Some(&x)]).unwrap();
                assert_eq!(outputs[0].to_host(64).unwrap().as_slice::<f32>().unwrap(), [2., 4.]);
            }
            assert_eq!(PROGRAMS.get(), (since.0 + 1, since.1));
            drop(compiled);
            assert_eq!(PROGRAMS.get(), (since.0 + 1, since.1 + 1));
        }
    }
    assert_eq!(PROGRAMS.get(), (before.0 + 8, before.1 + 8));
}

#[test]
fn an_instance_keeps_a_limited_number_of_other_graphs() {
    let on = opened(None);
    let before = PROGRAMS.get();
    let run = |identity| {
        let attrs = BackendAttrs::default().with_identity(identity);
        on.execute(&graph(), inputs(&on), attrs).unwrap();
    };
    let first = GraphIdentity::fresh();
    for _ in 0..300 {
        run(first);
        run(GraphIdentity::fresh());
    }
    // The first graph is used again and again, so it is never evicted.
    assert_eq!(PROGRAMS.get(), (before.0 + 301, before.1 + 301 - 256));
    drop(on);
    assert_eq!(PROGRAMS.get(), (before.0 + 301, before.1 + 301));
}

#[test]
fn answers_come_later_once() {
    for start in [once as Start, twice, never_began] {
        let (on, result) = dispatched(start);
        let outputs = result.unwrap();
        assert_eq!(on.to_host(&outputs["y"]).unwrap().as_slice::<f32>().unwrap(), [2., 4.]);
    }
}

#[test]
fn a_run_that_ends_badly_is_an_error() {
    let (_, result) = dispatched(too_few);
    let error = result.unwrap_err().to_string();
    assert!(error.ends_with("in `run`: the number of results: expected 1, got 0"), "{error}");
    let (_, result) = dispatched(failing);
    assert_eq!(result.unwrap_err().to_string(), "backend `plain` failed in `run`: the device caught fire");
    let (_, result) = dispatched(verbose);
    let error = result.unwrap_err().to_string();
    let (most, cut) = ("fire ".repeat(205), "backend `plain` failed in `run`: ");
    // A message has at most 1024 bytes. The mark has 3 of them.
    assert_eq!(error, format!("{cut}{}…", &most[..1021]));
    let (_, result) = dispatched(leaving);
    let error = result.unwrap_err().to_string();
    assert_eq!(
        error,
        "backend `plain` broke a promise of the interface in `run`: result 0 of a failed call: expected null, got a tensor, which was \
         released; the call failed: it does not say why"
    );
}

#[test]
fn a_result_of_a_graph_with_a_rank_that_no_tensor_has_is_an_error() {
    let on = opened_with(deep, None);
    let error = on.execute(&graph(), inputs(&on), BackendAttrs::default()).unwrap_err().to_string();
    let said = "backend `plain` broke a promise of the interface in `run`: ";
    assert_eq!(error, format!("{said}the rank of result 0: expected at most 4096, got 5000"));
}

#[test]
fn an_answer_that_nobody_waits_for_is_released() {
    let on = opened(Some(once));
    drop(on.dispatch(Arc::new(graph()), inputs(&on), BackendAttrs::default(), CompletionHandle::new()));
}
