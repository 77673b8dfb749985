//! A backend whose device can be lost, whose queue can be stopped, and which counts live objects.
//!
//! The reference backend computes. Each operation also puts an entry into the queue of a thread, which finishes entries only
//! while the queue runs. Kernels of users are SPIR-V or WGSL as far as their validation goes; they copy their first input.

use bb::services::{
    KernelCall, KernelFormat, KernelLimits, Kernels, Lifecycle, LoadedKernel, ServiceError, UserKernel,
};
use bb::{Backend, DataType, Outputs, Primitive, TensorData, ir::op::Param};
use bb_reference::Reference;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Inner = <Reference as Backend>::Tensor;

/// Current state of the device.
#[derive(Debug, Default)]
struct Now {
    lost: Option<String>,
    stopped: bool,
    queued: u64,
    done: u64,
}

/// The device, as its thread and its tensors see it.
#[derive(Debug, Default)]
pub struct Board {
    now: Mutex<Now>,
    changed: Condvar,
    tensors: Arc<()>,
    kernels: Arc<()>,
    running: AtomicUsize,
}

impl Board {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now());
        self.changed.notify_all();
    }

    fn wait<'a>(&self, now: MutexGuard<'a, Now>) -> MutexGuard<'a, Now> {
        self.changed.wait(now).unwrap_or_else(PoisonError::into_inner)
    }

    /// Loses the device.
    pub fn lose(&self, reason: &str) {
        self.change(|now| now.lost = Some(reason.to_owned()));
    }

    /// Stops the queue.
    pub fn stop(&self) {
        self.change(|now| now.stopped = true);
    }

    /// Lets the queue run again.
    pub fn go_on(&self) {
        self.change(|now| now.stopped = false);
    }

    /// Returns how many entries the queue has finished.
    pub fn done(&self) -> u64 {
        self.now().done
    }

    /// Returns how many tensors are alive.
    pub fn tensors(&self) -> usize {
        Arc::strong_count(&self.tensors) - 1
    }

    /// Returns how many kernels are alive.
    pub fn kernels(&self) -> usize {
        Arc::strong_count(&self.kernels) - 1
    }

    /// Returns how many calls of kernels run.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), LossyError> {
        match &self.now().lost {
            Some(_) => Err(LossyError::NoAnswer),
            None => Ok(()),
        }
    }

    /// Waits while the queue is stopped.
    fn pass(&self) {
        let mut now = self.now();
        while now.stopped && now.lost.is_none() {
            now = self.wait(now);
        }
    }
}

/// The error of the device.
#[derive(Debug)]
pub enum LossyError {
    /// The device does not answer.
    NoAnswer,
    /// An operation failed.
    Operation(bb_reference::Error),
}

impl std::fmt::Display for LossyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LossyError::NoAnswer => f.write_str("the device does not answer"),
            LossyError::Operation(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LossyError {}

impl From<bb_reference::Error> for LossyError {
    fn from(error: bb_reference::Error) -> LossyError {
        LossyError::Operation(error)
    }
}

impl From<bb::Error> for LossyError {
    fn from(error: bb::Error) -> LossyError {
        LossyError::Operation(error.into())
    }
}

/// A tensor that counts as alive.
#[derive(Clone)]
pub struct Tracked {
    inner: Inner,
    _alive: Arc<()>,
}

impl bb::Tensor for Tracked {
    fn dtype(&self) -> DataType {
        bb::Tensor::dtype(&self.inner)
    }

    fn shape(&self) -> &[usize] {
        bb::Tensor::shape(&self.inner)
    }
}

/// The backend.
#[derive(bb::Backend)]
#[bb(name = "lossy", new = Lossy::start)]
pub struct Lossy {
    board: Arc<Board>,
    queue: Sender<()>,
}

impl Lossy {
    /// Starts the device with its thread, which ends when the backend is dropped.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start() -> Result<Lossy, std::io::Error> {
        let (queue, entries) = std::sync::mpsc::channel();
        let board = Arc::new(Board::default());
        let device = board.clone();
        std::thread::Builder::new().name("lossy".to_owned()).spawn(move || {
            for () in entries {
                device.pass();
                device.change(|now| {
                    now.queued -= 1;
                    now.done += 1;
                });
            }
        })?;
        Ok(Lossy { board, queue })
    }

    /// Returns the device.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    fn made(&self, inner: Inner) -> Tracked {
        Tracked { inner, _alive: self.board.tensors.clone() }
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tracked>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tracked>, LossyError> {
        self.board.check()?;
        let inputs: Vec<Option<&Inner>> = inputs.iter().map(|x| x.map(|x| &x.inner)).collect();
        let made = bb::call_primitive(&Reference, op, &inputs, params)?;
        self.board.change(|now| now.queued += 1);
        self.queue.send(()).map_err(|_| LossyError::NoAnswer)?;
        Ok(made.into_iter().map(|inner| self.made(inner)).collect())
    }
}

impl Backend for Lossy {
    type Tensor = Tracked;
    type Error = LossyError;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tracked) -> Result<TensorData, LossyError> {
        self.board.check()?;
        Ok(Reference.to_host(&x.inner)?)
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }

    fn kernels(&self) -> Option<&dyn Kernels<Tracked>> {
        Some(self)
    }
}

impl Lifecycle for Lossy {
    fn synchronize(&self) -> Result<(), ServiceError> {
        let mut now = self.board.now();
        while now.queued > 0 && now.lost.is_none() {
            now = self.board.wait(now);
        }
        match &now.lost {
            Some(reason) => Err(ServiceError::Lost { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn lost(&self) -> Option<String> {
        self.board.now().lost.clone()
    }

    fn is_asynchronous(&self) -> bool {
        true
    }

    fn queued(&self) -> Option<u64> {
        Some(self.board.now().queued)
    }
}

impl Kernels<Tracked> for Lossy {
    fn limits(&self) -> KernelLimits {
        KernelLimits::webgpu(vec![KernelFormat::Wgsl, KernelFormat::SpirV]).with_binding_bytes(1024)
    }

    fn load(&self, _kernel: &UserKernel) -> Result<Box<dyn LoadedKernel<Tracked>>, ServiceError> {
        Ok(Box::new(Copies { board: self.board.clone(), _alive: self.board.kernels.clone() }))
    }
}

/// A kernel that copies its first input.
struct Copies {
    board: Arc<Board>,
    _alive: Arc<()>,
}

impl LoadedKernel<Tracked> for Copies {
    fn run(&self, call: &KernelCall<'_, Tracked>) -> Result<Vec<Tracked>, ServiceError> {
        self.board.running.fetch_add(1, Ordering::SeqCst);
        self.board.pass();
        self.board.running.fetch_sub(1, Ordering::SeqCst);
        self.board.check().map_err(ServiceError::own)?;
        Ok(call.inputs.iter().take(1).map(|&x| x.clone()).collect())
    }
}
