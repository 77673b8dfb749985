//! Many threads, many sessions, and runs that end later.

use crate::data;
use crate::raw::{Opened, OwnedValue, api, elements, ok, over, run};
use ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT as FLOAT;
use ort_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};

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

/// What the callback of a run sends: the first result, or nothing.
unsafe extern "C" fn ended(
    data: *mut c_void,
    outputs: *mut *mut OrtValue,
    count: usize,
    status: OrtStatusPtr,
) {
    // SAFETY: the test gave a sender of its own to each run.
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
        // SAFETY: all of the arguments live until the callback was called.
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
