//! Types that hold a device have a constructor, which may fail, and need neither `Default` nor serde.
#![deny(warnings)]
#![expect(clippy::extra_unused_type_parameters, reason = "the parameter is part of the path in `new`")]

use bb::Declared;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

#[derive(bb::Backend)]
#[bb(new = Self::start)]
struct Worker {
    _queue: Mutex<Sender<Box<dyn FnOnce() + Send>>>,
}
ui_tests::backend!(Worker);

impl Worker {
    fn start() -> Worker {
        Worker { _queue: Mutex::new(channel().0) }
    }
}

#[derive(bb::Backend)]
#[bb(new = first_device)]
struct Gpu;
ui_tests::backend!(Gpu);

#[derive(Debug)]
struct NoDevice;

impl std::fmt::Display for NoDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no device")
    }
}

impl std::error::Error for NoDevice {}

fn first_device() -> Result<Gpu, NoDevice> {
    let _gpu = Gpu;
    Err(NoDevice)
}

#[derive(bb::Backend)]
#[bb(new = open::<Npu>)]
struct Npu;
ui_tests::backend!(Npu);

fn open<T>() -> Result<Npu, String> {
    Ok(Npu)
}

fn main() {
    assert!(Worker::create(&bb::OpenOptions::default()).is_ok());
    assert!(Npu::create(&bb::OpenOptions::default()).is_ok());
    assert!(Gpu::create(&bb::OpenOptions::default()).is_err_and(|error| error.is::<NoDevice>()));
    assert!(matches!(bb::backend("gpu"), Err(bb::Error::Unavailable { .. })));
}
