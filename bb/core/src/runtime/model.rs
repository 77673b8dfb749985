//! Model checks (`shuttle` tests) of the registry, of the cache of compiled graphs, and of counted calls.

use super::plans::Plans;
use super::status::{Counters, Pending};
use super::{BackendId, OpenOptions, Registration, Registry, Runtime};
use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{check, thread};
use crate::trace::Tracer;
use crate::{BackendOrigin, CompileOptions, CompletionHandle, ContractResponse, Error, GraphIdentity};
use shuttle::lazy_static::initialize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

type Started = Result<Arc<Runtime>, Error>;

/// Simulates a constructor: counts its call, pauses, and returns a result.
fn started(name: &'static str, constructed: &AtomicUsize) -> Started {
    constructed.fetch_add(1, SeqCst);
    thread::yield_now();
    running(name)
}

fn running(name: &'static str) -> Started {
    Ok(Runtime::named(name, Tracer::default()))
}

/// Returns the error of a constructor that failed.
fn unavailable(backend: &'static str) -> Error {
    Error::Unavailable { backend, origin: BackendOrigin::Linked, source: "it failed".into() }
}

shuttle::lazy_static! {
    static ref REGISTRY: Registry = registry();
    /// The numbers of calls of the constructors of `plain`, `outer` and `flaky`.
    static ref PLAIN: AtomicUsize = AtomicUsize::new(0);
    static ref OUTER: AtomicUsize = AtomicUsize::new(0);
    static ref FLAKY: AtomicUsize = AtomicUsize::new(0);
}

/// Returns a registry of backends whose constructors open other backends of the registry.
fn registry() -> Registry {
    let register = |name, open: fn(&OpenOptions) -> Started| Registration {
        name,
        version: "",
        path: "",
        options: &[],
        open,
        erased: |_| Err(crate::Error::Abandoned),
        lists_devices: false,
        listed: true,
        devices: || Ok(Vec::new()),
    };
    Registry::builder()
        .registration(register("plain", |_| started("plain", &PLAIN)))
        .registration(register("outer", |_| {
            REGISTRY.backend("plain")?;
            started("outer", &OUTER)
        }))
        .registration(register("left", |_| {
            REGISTRY.backend("right")?;
            running("left")
        }))
        .registration(register("right", |_| {
            REGISTRY.backend("left")?;
            running("right")
        }))
        .registration(register("lenient", |_| {
            let _other = REGISTRY.backend("strict");
            running("lenient")
        }))
        .registration(register("strict", |_| {
            REGISTRY.backend("lenient")?;
            running("strict")
        }))
        .registration(register("failing", |_| match FLAKY.fetch_add(1, SeqCst) {
            0 => Err(unavailable("failing")),
            _ => started("failing", &PLAIN),
        }))
        .registration(register("panicking", |_| match FLAKY.fetch_add(1, SeqCst) {
            0 => resume_unwind(Box::new("a constructor")),
            _ => started("panicking", &PLAIN),
        }))
        .build()
}

/// Opens each of the backends on its own thread, and returns the instances. A panic becomes an error.
fn open<const N: usize>(names: [&'static str; N]) -> [Result<BackendId, Error>; N] {
    // The statics are initialized here, because `shuttle` reports a static as poisoned if it is initialized while
    // another thread unwinds.
    initialize(&REGISTRY);
    initialize(&PLAIN);
    initialize(&OUTER);
    initialize(&FLAKY);
    let opener = |name| {
        thread::spawn(move || {
            let opened = catch_unwind(AssertUnwindSafe(|| REGISTRY.backend(name)));
            opened.unwrap_or_else(|_| Err(unavailable(name))).map(|handle| handle.runtime().owner())
        })
    };
    names.map(opener).map(|opener| opener.join().expect("no panic"))
}

#[test]
fn threads_that_open_one_backend_get_one_instance() {
    check(|| {
        let [a, b, c] = open(["plain"; 3]).map(|opened| opened.expect("opened"));
        assert!(a == b && b == c);
        assert_eq!(PLAIN.load(SeqCst), 1);
    });
}

#[test]
fn a_constructor_that_opens_a_backend_shares_it() {
    check(|| {
        let [outer, plain, again] = open(["outer", "plain", "outer"]).map(|opened| opened.expect("opened"));
        assert!(outer == again && outer != plain);
        assert_eq!((PLAIN.load(SeqCst), OUTER.load(SeqCst)), (1, 1));
    });
}

#[test]
fn constructors_that_wait_for_each_other_get_errors() {
    check(|| {
        let [left, right] = open(["left", "right"]);
        for (backend, opened) in [("left", left), ("right", right)] {
            assert!(matches!(opened, Err(Error::OpenCycle { .. })), "{backend}: {opened:?}");
        }
        // The failed opening leaves no entry in the table that other threads would wait for.
        let [_, plain] = open(["left", "plain"]);
        assert!(plain.is_ok());
    });
}

#[test]
fn a_constructor_that_does_without_the_other_is_opened() {
    check(|| {
        let [lenient, _, again] = open(["lenient", "strict", "lenient"]);
        assert_eq!(lenient.expect("opened"), again.expect("opened"));
        // Now that `lenient` is open, `strict` opens too.
        assert!(REGISTRY.backend("strict").is_ok());
    });
}

#[test]
fn a_constructor_that_failed_is_tried_by_the_next() {
    for name in ["failing", "panicking"] {
        check(move || {
            let opened = open([name; 3]);
            let instances: Vec<BackendId> = opened.into_iter().flatten().collect();
            assert_eq!(instances.len(), 2);
            assert_eq!(instances.first(), instances.last());
            assert_eq!((FLAKY.load(SeqCst), PLAIN.load(SeqCst)), (2, 1));
        });
    }
}

/// Compiles one graph from three threads; the first `failures` compilations fail. Returns the number of compilations,
/// and the number of threads that got the graph.
fn compile(failures: usize, fail: fn() -> Error) -> (usize, usize) {
    let mut options = CompileOptions::default();
    options.identity = Some(GraphIdentity::fresh());
    let shared = Arc::new((Plans::<()>::default(), options, AtomicUsize::new(0)));
    let compiler = |_| {
        let shared = shared.clone();
        thread::spawn(move || {
            let (plans, options, compiled) = &*shared;
            let compile = || {
                let before = compiled.fetch_add(1, SeqCst);
                thread::yield_now();
                if before < failures { Err(fail()) } else { Ok(()) }
            };
            catch_unwind(AssertUnwindSafe(|| plans.get_or(options, compile).is_ok())).unwrap_or(false)
        })
    };
    let compilers: Vec<_> = (0..3).map(compiler).collect();
    let got = compilers.into_iter().map(|compiler| usize::from(compiler.join().expect("no panic"))).sum();
    (shared.2.load(SeqCst), got)
}

#[test]
fn a_graph_is_compiled_once() {
    check(|| assert_eq!(compile(0, || Error::Abandoned), (1, 3)));
}

#[test]
fn a_compilation_that_failed_or_panicked_is_tried_by_the_next() {
    check(|| assert_eq!(compile(1, || Error::Abandoned), (2, 2)));
    check(|| assert_eq!(compile(2, || resume_unwind(Box::new("a compiler"))), (3, 1)));
}

/// Shuts down while two threads make calls. The threads count their calls either in one shared slot or in two slots.
fn shut_down_while_others_call(in_one_slot: bool) {
    let (counters, inside) = (Arc::new(Counters::default()), Arc::new(AtomicUsize::new(0)));
    let owner = BackendId::of_new("model");
    if in_one_slot {
        // This takes the only slot that is not shared, so both threads use the shared slot.
        drop(counters.begin(owner).expect("not shut down"));
    }
    let caller = |_| {
        let (counters, inside) = (counters.clone(), inside.clone());
        thread::spawn(move || {
            let Ok(call) = counters.begin(owner) else { return };
            inside.fetch_add(1, SeqCst);
            thread::yield_now();
            inside.fetch_sub(1, SeqCst);
            drop(call);
        })
    };
    let callers: Vec<_> = (0..2).map(caller).collect();
    counters.shut_down();
    assert_eq!(inside.load(SeqCst), 0, "a call is still running");
    assert!(matches!(counters.begin(owner), Err(Error::ShutDown { .. })));
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    assert_eq!(inside.load(SeqCst), 0);
}

#[test]
fn shutting_down_waits_for_every_call_that_was_let_in() {
    check(|| shut_down_while_others_call(false));
    check(|| shut_down_while_others_call(true));
}

#[test]
fn shutting_down_inside_a_call_does_not_wait_for_itself() {
    check(|| {
        let counters = Arc::new(Counters::default());
        let owner = BackendId::of_new("model");
        let other = counters.clone();
        let other = thread::spawn(move || {
            let call = other.begin(owner);
            other.shut_down();
            drop(call);
        });
        let call = counters.begin(owner);
        counters.shut_down();
        drop(call);
        other.join().expect("no panic");
        counters.shut_down();
    });
}

#[test]
fn shutting_down_and_synchronizing_wait_for_answers_and_not_for_who_reads_them() {
    check(|| {
        let (counters, completed) = (Arc::new(Counters::default()), Arc::new(AtomicUsize::new(0)));
        let owner = BackendId::of_new("model");
        let call = counters.begin(owner).expect("not shut down");
        let (answer, completer) = CompletionHandle::<u32, Error>::new().later();
        if let ContractResponse::Later(later) = &answer {
            later.keep_until_end(Box::new(Pending::new(counters.clone())));
        }
        let done = completed.clone();
        let device = thread::spawn(move || {
            done.store(1, SeqCst);
            completer.complete(Ok(7));
        });
        drop(call);
        let other = counters.clone();
        let done = completed.clone();
        let other = thread::spawn(move || {
            other.wait_idle();
            assert_eq!(done.load(SeqCst), 1, "synchronized before the answer");
        });
        counters.shut_down();
        assert_eq!(completed.load(SeqCst), 1, "shut down before the answer");
        assert_eq!(counters.status().pending, 0);
        // The answer is read only after the shutdown.
        assert!(matches!(answer.wait(), Ok(7)));
        device.join().expect("no panic");
        other.join().expect("no panic");
    });
}
