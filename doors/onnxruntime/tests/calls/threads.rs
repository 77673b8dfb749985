//! Tests many threads, many sessions, and asynchronous runs.

use crate::data;
use crate::raw::{Opened, OwnedValue, api, elements, environment, fails, ok, over, run};
use ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT as FLOAT;
use ort_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

fn point() -> [f32; 4] {
    [0.57730556, 0.506829, 0.14141674, 0.8114217]
}

fn height(session: &Opened) -> f32 {
    let mut numbers = point();
    let given = over(&mut numbers, &[1, 4], FLOAT);
    let result = run(session, (c"input", &given), c"variable", null()).unwrap();
    elements::<f32>(&result)[0]
}

#[test]
fn sixteen_threads_share_a_session() {
    let session = Opened::of_file(&data("models/surfaces_gbr/model.onnx"));
    let alone = height(&session);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..50).for_each(|_| assert_eq!(height(&session), alone)));
        }
    });
}

#[test]
fn sessions_come_and_go() {
    let file = data("models/surfaces_gbr/model.onnx");
    let heights: Vec<f32> = (0..25).map(|_| height(&Opened::of_file(&file))).collect();
    assert!(heights.iter().all(|height| *height == heights[0]));
}

/// The callback of asynchronous runs. Sends the first result of a run, or `None` after an error.
unsafe extern "C" fn ended(
    data: *mut c_void,
    outputs: *mut *mut OrtValue,
    count: usize,
    status: OrtStatusPtr,
) {
    // SAFETY: the test passed a separate sender to each run.
    let sender = unsafe { Box::from_raw(data.cast::<Sender<Option<f32>>>()) };
    if crate::raw::error(status).is_some() {
        sender.send(None).unwrap();
        return;
    }
    assert_eq!(count, 1);
    // SAFETY: the run wrote the output.
    let result = OwnedValue(unsafe { *outputs });
    sender.send(Some(elements::<f32>(&result)[0])).unwrap();
}

#[test]
fn a_run_calls_the_program_when_it_has_ended() {
    let session = Opened::of_file(&data("models/surfaces_gbr/model.onnx"));
    let (sender, receiver) = channel::<Option<f32>>();
    let mut numbers = point();
    let given = over(&mut numbers, &[1, 4], FLOAT);
    let values = [given.0.cast_const()];
    let mut results = [null_mut()];
    for (output, expected) in [(c"variable", Some(height(&session))), (c"none", None)] {
        let (names, outputs) = ([c"input".as_ptr()], [output.as_ptr()]);
        // SAFETY: all arguments live until the callback is called.
        unsafe {
            let data = Box::into_raw(Box::new(sender.clone())).cast();
            let (names, values, outputs) = (names.as_ptr(), values.as_ptr(), outputs.as_ptr());
            let run = api().RunAsync;
            ok(run(session.0, null(), names, values, 1, outputs, 1, results.as_mut_ptr(), Some(ended), data));
        }
        assert_eq!(receiver.recv().unwrap(), expected);
        results = [null_mut()];
    }
}

/// Counts the threads of a program that creates them itself.
#[derive(Default)]
struct Threads {
    made: AtomicUsize,
    /// The maximum number of threads. Creating a further one fails.
    most: usize,
}

/// The number of threads that the tests below have joined.
static JOINED: AtomicUsize = AtomicUsize::new(0);

/// A parameter from the library for a thread's function.
struct Parameter(*mut c_void);

// SAFETY: the library passes the parameter for use in another thread.
unsafe impl Send for Parameter {}

unsafe extern "C" fn make(
    threads: *mut c_void,
    work: OrtThreadWorkerFn,
    parameter: *mut c_void,
) -> OrtCustomThreadHandle {
    // SAFETY: the test passed its counter.
    let threads = unsafe { &*threads.cast::<Threads>() };
    if threads.made.load(Ordering::SeqCst) >= threads.most {
        return null();
    }
    threads.made.fetch_add(1, Ordering::SeqCst);
    let parameter = Parameter(parameter);
    let thread = std::thread::spawn(move || {
        let Parameter(parameter) = { parameter };
        // SAFETY: the library allows calling the function with this parameter.
        unsafe { work(parameter) };
    });
    Box::into_raw(Box::new(thread)).cast::<OrtCustomHandleType>().cast_const()
}

unsafe extern "C" fn wait(thread: OrtCustomThreadHandle) {
    // SAFETY: `make` returned the handle.
    let thread = unsafe { Box::from_raw(thread.cast_mut().cast::<JoinHandle<()>>()) };
    thread.join().unwrap();
    JOINED.fetch_add(1, Ordering::SeqCst);
}

/// Opens a session on three threads that these functions create.
fn opened_on(threads: &Threads, joins: bool) -> Result<Opened, OrtStatusPtr> {
    let path = std::ffi::CString::new(data("models/surfaces_gbr/model.onnx").to_str().unwrap()).unwrap();
    let (mut options, mut session) = (null_mut(), null_mut());
    // SAFETY: the arguments have the types of the header, and the counter outlives the session.
    unsafe {
        ok((api().CreateSessionOptions)(&mut options));
        ok((api().SetIntraOpNumThreads)(options, 3));
        ok((api().SessionOptionsSetCustomCreateThreadFn)(options, Some(make)));
        let counter = std::ptr::from_ref(threads).cast_mut().cast();
        ok((api().SessionOptionsSetCustomThreadCreationOptions)(options, counter));
        if joins {
            ok((api().SessionOptionsSetCustomJoinThreadFn)(options, Some(wait)));
        }
        let status = (api().CreateSession)(environment(), path.as_ptr(), options, &mut session);
        (api().ReleaseSessionOptions)(options);
        if status.0.is_null() { Ok(Opened(session)) } else { Err(status) }
    }
}

#[test]
fn a_program_makes_the_threads_and_waits_for_them() {
    let alone = height(&Opened::of_file(&data("models/surfaces_gbr/model.onnx")));
    let threads = Threads { most: 5, ..Threads::default() };
    for turn in 1..3 {
        let session = opened_on(&threads, true).map_err(crate::raw::error).unwrap();
        assert_eq!(height(&session), alone);
        assert_eq!(threads.made.load(Ordering::SeqCst), 2 * turn);
        drop(session);
        assert_eq!(JOINED.load(Ordering::SeqCst), 2 * turn);
    }
    // Of the next two threads, only one can be created. It ends again.
    let status = opened_on(&threads, true).err().unwrap();
    fails(status, OrtErrorCode::ORT_RUNTIME_EXCEPTION, "made no thread");
    assert_eq!((threads.made.load(Ordering::SeqCst), JOINED.load(Ordering::SeqCst)), (5, 5));
    // A function for creating threads without one for joining them is an error.
    let status = opened_on(&threads, false).err().unwrap();
    fails(status, OrtErrorCode::ORT_INVALID_ARGUMENT, "waits for threads");
}
