//! The device, its state, and the errors that it reports.

pub(crate) mod pipelines;
pub(crate) mod pool;
pub(crate) mod stream;

use crate::{Result, WgpuError};
use pipelines::Pipelines;
use pool::Pool;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use stream::Stream;

/// A device with its queue, its memory and its compiled kernels.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: wgpu::Limits,
    pub(crate) features: wgpu::Features,
    pub(crate) info: wgpu::AdapterInfo,
    /// The maximum size of a binding in bytes.
    pub(crate) binding: u64,
    pub(crate) pool: Arc<Pool>,
    pub(crate) pipelines: Pipelines,
    pub(crate) stream: Stream,
    state: Arc<State>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("adapter", &self.info.name).finish_non_exhaustive()
    }
}

/// The device state that its callbacks have reported.
#[derive(Default)]
struct State {
    /// The reason for the loss of the device, if it is lost.
    lost: OnceLock<String>,
    shut: AtomicBool,
    /// Whether `failed` contains an error.
    has_failed: AtomicBool,
    /// The first error that no [`Scope`] caught.
    failed: Mutex<Option<wgpu::Error>>,
}

/// The options for opening a device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opening {
    /// The memory limit in bytes.
    pub(crate) memory: Option<u64>,
    /// The maximum size of a binding in bytes, if it is less than the device's limit.
    pub(crate) binding: Option<u64>,
}

impl Gpu {
    /// Opens a device on an adapter.
    pub(crate) async fn open(adapter: &wgpu::Adapter, opening: &Opening) -> Result<Gpu> {
        let info = adapter.get_info();
        let wanted = wgpu::Features::IMMEDIATES | wgpu::Features::SHADER_F16;
        #[cfg(feature = "passthrough")]
        let wanted = wanted | wgpu::Features::PASSTHROUGH_SHADERS;
        let features = adapter.features() & wanted;
        let limits = adapter.limits();
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("bb"),
            required_features: features,
            required_limits: limits.clone(),
            experimental_features: experimental(),
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let failed = |source| WgpuError::Open { adapter: info.name.clone(), source: Box::new(source) };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(failed)?;
        let state = Arc::new(State::default());
        let to = state.clone();
        device.on_uncaptured_error(Arc::new(move |error| to.fail(error)));
        let to = state.clone();
        device.set_device_lost_callback(move |reason, message| {
            let message = if message.is_empty() { format!("{reason:?}") } else { message };
            let _first_reason_stays = to.lost.set(message);
        });
        let binding = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        // The offset of a binding is a multiple of this alignment, so a much smaller binding might not contain the
        // requested element.
        let least = u64::from(limits.min_storage_buffer_offset_alignment) * 4;
        let binding = opening.binding.map_or(binding, |bytes| bytes.clamp(least, binding)) & !3;
        let pool = Pool::new(device.clone(), limits.max_buffer_size, opening.memory);
        let pipelines = Pipelines::default();
        let stream = Stream::new(&limits);
        Ok(Gpu { device, queue, limits, features, info, binding, pool, pipelines, stream, state })
    }

    /// Returns an error if the device is lost or shut down, or has reported an error that no scope caught.
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.shut.load(Ordering::Acquire) {
            return Err(WgpuError::Shutdown);
        }
        if let Some(reason) = self.state.lost.get() {
            return Err(WgpuError::Lost { reason: reason.clone() });
        }
        if self.state.has_failed.load(Ordering::Acquire) {
            let mut failed = self.state.failed.lock().unwrap_or_else(PoisonError::into_inner);
            self.state.has_failed.store(false, Ordering::Release);
            if let Some(error) = failed.take() {
                drop(failed);
                // A lost device rejects commands, but reports its loss only when it is polled. So poll before
                // choosing the error.
                let patience = Some(std::time::Duration::from_secs(10));
                let wait = wgpu::PollType::Wait { submission_index: None, timeout: patience };
                let _polled = self.device.poll(wait);
                return Err(match self.state.lost.get() {
                    Some(reason) => WgpuError::Lost { reason: reason.clone() },
                    None => refused("a command", error),
                });
            }
        }
        Ok(())
    }

    /// Returns the reason for the loss of the device, if it is lost.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.state.lost.get().map(String::as_str)
    }

    /// Makes all further work fail, and releases the pool's unused buffers.
    pub(crate) fn shut(&self) {
        self.state.shut.store(true, Ordering::Release);
        self.pool.trim(0);
    }
}

fn experimental() -> wgpu::ExperimentalFeatures {
    #[cfg(feature = "passthrough")]
    {
        crate::passthrough::experimental()
    }
    #[cfg(not(feature = "passthrough"))]
    {
        wgpu::ExperimentalFeatures::disabled()
    }
}

impl State {
    fn fail(&self, error: wgpu::Error) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
        self.has_failed.store(true, Ordering::Release);
    }
}

/// Creates the error for a request that the device refused.
pub(crate) fn refused(what: &'static str, error: wgpu::Error) -> WgpuError {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            WgpuError::Memory { used: 0, source: bb::services::OutOfMemory::new(0) }
        }
        error => WgpuError::Refused { what, source: Box::new(error) },
    }
}

/// Catches all errors that the device reports on this thread, until [`end`](Self::end).
pub(crate) struct Scope {
    memory: wgpu::ErrorScopeGuard,
    internal: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
}

impl Scope {
    pub(crate) fn new(device: &wgpu::Device) -> Scope {
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        Scope { memory, internal, validation }
    }

    /// Ends the scope and returns the first error. A browser reports errors too late for this; they reach the
    /// device's error handler instead.
    pub(crate) fn end(self) -> Option<wgpu::Error> {
        let validation = now(self.validation.pop()).flatten();
        let internal = now(self.internal.pop()).flatten();
        let memory = now(self.memory.pop()).flatten();
        validation.or(internal).or(memory)
    }
}

/// Returns the output of a future if it is ready immediately.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Wakes the thread that waits for a future.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until a future is ready, and returns its output.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
