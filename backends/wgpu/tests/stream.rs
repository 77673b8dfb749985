//! Tests when work is submitted, and that graphs complete asynchronously.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::services::Lifecycle;
use bb::{Backend, TensorData};
use bb_wgpu::Wgpu;
use std::future::Future;

fn open() -> Wgpu {
    Wgpu::first().unwrap()
}

#[test]
fn many_operations_are_one_submission() {
    let on = open();
    let x = on.constant(&TensorData::new(&[256], &[0.5f32; 256]).unwrap()).unwrap();
    let before = on.stream();
    let mut y = x.clone();
    for _ in 0..40 {
        y = on.exp(&on.neg(&y).unwrap()).unwrap();
    }
    let recorded = on.stream();
    assert_eq!((recorded.kernels - before.kernels, recorded.submissions), (80, before.submissions));
    let y = on.to_host(&y).unwrap();
    let read = on.stream();
    assert_eq!((read.submissions - before.submissions, read.waits - before.waits), (1, 1));
    // The limit of the iteration x = exp(-x).
    assert!((y.as_slice::<f32>().unwrap()[0] - 0.567_143_3).abs() < 1e-5);
    Lifecycle::synchronize(&on).unwrap();
    assert_eq!(Lifecycle::queued(&on), Some(0));
}

/// An upload to a reused buffer must not run before recorded commands that read the buffer.
#[test]
fn an_upload_does_not_overtake_commands() {
    let on = open();
    let mut results = Vec::new();
    for i in 0..200 {
        let x = on.constant(&TensorData::new(&[2000], &vec![i as f32; 2000]).unwrap()).unwrap();
        let y = on.add(&x, &x).unwrap();
        drop(x);
        results.push(y);
    }
    for (i, y) in results.iter().enumerate() {
        let y = on.to_host(y).unwrap();
        assert!(y.as_slice::<f32>().unwrap().iter().all(|&v| v == 2.0 * i as f32), "{i}");
    }
}

#[test]
fn a_read_is_a_future_too() {
    let on = open();
    let x = on.constant(&TensorData::new(&[2000], &vec![2f32; 2000]).unwrap()).unwrap();
    let y = on.mul(&x, &x).unwrap();
    let mut reading = std::pin::pin!(on.read(&y));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let y = loop {
        if let std::task::Poll::Ready(y) = reading.as_mut().poll(&mut cx) {
            break y.unwrap();
        }
    };
    assert_eq!(y.as_slice::<f32>().unwrap()[1999], 4.0);
}

#[test]
fn threads_share_a_device() {
    let on = open();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let on = &on;
            scope.spawn(move || {
                for i in 0..30 {
                    let value = (t * 100 + i) as f32;
                    let x = on.constant(&TensorData::new(&[1500], &vec![value; 1500]).unwrap()).unwrap();
                    let sum = on.reduce_sum(&on.add(&x, &x).unwrap(), &[], false).unwrap();
                    assert_eq!(on.to_host(&sum).unwrap().as_slice::<f32>().unwrap(), [3000.0 * value]);
                }
            });
        }
    });
}

/// A graph is passed to the device by `dispatch`, and its results stay there.
#[test]
fn a_model_is_answered_later() {
    let on = bb::backend("wgpu").unwrap();
    let own = on.typed::<Wgpu>().unwrap();
    let graph = bb::trace(&[("x", bb::DataType::F32, &[2])], |on, inputs| match inputs {
        [x] => Ok(vec![on.exp(&on.mul(x, x)?)?]),
        _ => Ok(vec![]),
    })
    .unwrap();
    let model = bb::Module::from_graph(&graph, &[], &[]).unwrap();
    let node = bb::Deployment::builder().model("m", model).backend(on.clone()).ready().unwrap();
    let x = on.tensor(&[2], &[0.5f32, 1.5]).unwrap();
    let before = own.stream().submissions;
    let outputs = node.run_named([("x", x)]).unwrap();
    assert_eq!(own.stream().submissions - before, 1);
    for y in outputs.values() {
        let y = y.to_host(1024).unwrap();
        for (y, want) in y.as_slice::<f32>().unwrap().iter().zip([0.25f64.exp(), 2.25f64.exp()]) {
            assert!((f64::from(*y) - want).abs() < 1e-5, "{y}");
        }
    }
}
