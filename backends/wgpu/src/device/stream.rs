//! Records commands into an encoder, and submits them in batches.
//!
//! A batch is submitted when a result is read, when its parameters fill the parameter buffer, or when it contains enough work that
//! the device should start before the remaining commands are recorded.

use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::device::pool::Storage;
use crate::wgsl::MAX_DIMS;
use crate::{Result, WgpuError};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of 32-bit words of a kernel's parameters; see `wgsl::PARAMS`.
pub(crate) const WORDS: usize = 16 + 4 * MAX_DIMS;
/// The number of bytes of a kernel's parameters.
pub(crate) const PARAM_BYTES: u64 = WORDS as u64 * 4;
/// The maximum number of kernels in a batch.
const BATCH: usize = 256;
/// The number of bytes written by kernels after which a batch is submitted. This is enough work to keep a device busy.
const BATCH_BYTES: u64 = 256 << 20;

/// The parameters of one call of a kernel.
pub(crate) type Params = [u32; WORDS];

/// The range of a buffer that a kernel accesses.
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) storage: Arc<Storage>,
    /// The offset in bytes, a multiple of the device's alignment.
    pub(crate) offset: u64,
    /// The size in bytes, a multiple of 4.
    pub(crate) size: u64,
}

/// One call of a kernel.
pub(crate) struct KernelCall<'a> {
    pub(crate) op: &'static str,
    pub(crate) key: Key,
    pub(crate) params: &'a Params,
    /// The bindings; the result is first.
    pub(crate) bindings: &'a [Binding],
    pub(crate) groups: [u32; 3],
}

/// Counters of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStats {
    /// The number of recorded kernels.
    pub kernels: u64,
    /// The number of submitted batches.
    pub submissions: u64,
    /// The number of times that the host waited for the device.
    pub waits: u64,
}

/// The recorded commands that have not been submitted.
struct Recording {
    encoder: wgpu::CommandEncoder,
    pass: Option<wgpu::ComputePass<'static>>,
    uniforms: wgpu::Buffer,
    /// The contents to write to `uniforms` on submission.
    params: Vec<u8>,
    kernels: usize,
    bytes: u64,
}

#[derive(Default)]
struct StreamState {
    recording: Option<Recording>,
    /// Parameter buffers that no recording uses.
    uniforms: Vec<wgpu::Buffer>,
    /// Buffers that results are copied to before the host reads them.
    staging: Vec<wgpu::Buffer>,
    last: Option<wgpu::SubmissionIndex>,
    stats: StreamStats,
}

/// The command stream of one device.
pub(crate) struct Stream {
    inner: Mutex<StreamState>,
    /// The index of the batch that is being recorded.
    batch: AtomicU64,
    /// The number of submissions that the device is known to have finished.
    finished: Arc<AtomicU64>,
    /// The distance in bytes between the parameters of two kernels.
    stride: u64,
}

/// A result that is being copied to memory that the host can map.
pub(crate) struct Copied {
    staging: wgpu::Buffer,
    bytes: u64,
    mapped: Arc<Mapped>,
    submission: wgpu::SubmissionIndex,
}

/// The state of a request to map a buffer.
#[derive(Default)]
struct Mapped {
    state: Mutex<(Option<bool>, Option<std::task::Waker>)>,
    changed: Condvar,
}

impl Mapped {
    fn set(&self, done: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(done);
        self.changed.notify_all();
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    /// Blocks until the buffer is mapped, and returns whether that succeeded. Another thread that polls the device may run the
    /// callback, so this thread waits for it and polls only occasionally.
    fn get(&self, device: &wgpu::Device) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(done) = state.0 {
                return done;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(1));
            let (locked, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            if timeout.timed_out() && state.0.is_none() {
                drop(state);
                // Poll, because a lost device then calls back with an error.
                let _polled = device.poll(wgpu::PollType::Poll);
                state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    async fn wait(&self) -> bool {
        std::future::poll_fn(|cx| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match state.0 {
                Some(done) => std::task::Poll::Ready(done),
                None => {
                    state.1 = Some(cx.waker().clone());
                    std::task::Poll::Pending
                }
            }
        })
        .await
    }
}

impl Stream {
    pub(crate) fn new(limits: &wgpu::Limits) -> Stream {
        let align = u64::from(limits.min_uniform_buffer_offset_alignment).max(16);
        let stride = PARAM_BYTES.div_ceil(align) * align;
        Stream { inner: Mutex::default(), batch: AtomicU64::new(1), finished: Arc::default(), stride }
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the batch that is being recorded.
    pub(crate) fn batch(&self) -> u64 {
        self.batch.load(Ordering::Relaxed)
    }

    /// Returns the number of submissions that the device may not have finished yet.
    pub(crate) fn queued(&self) -> u64 {
        self.stats().submissions.saturating_sub(self.finished.load(Ordering::Relaxed))
    }

    pub(crate) fn stats(&self) -> StreamStats {
        self.lock().stats
    }

    /// Discards the recorded commands that have not been submitted.
    pub(crate) fn discard(&self) {
        let mut inner = self.lock();
        inner.recording = None;
        inner.staging.clear();
        inner.uniforms.clear();
    }
}

impl StreamState {
    /// Returns the current recording, and begins a batch if there is none.
    fn recording(&mut self, gpu: &Gpu) -> &mut Recording {
        if self.recording.is_none() {
            let uniforms = self.uniforms.pop().unwrap_or_else(|| {
                gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: gpu.stream.stride * BATCH as u64,
                    usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                })
            });
            let encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let params = Vec::with_capacity(4096);
            self.recording = Some(Recording { encoder, pass: None, uniforms, params, kernels: 0, bytes: 0 });
        }
        // The code above has set it.
        #[expect(clippy::unwrap_used, reason = "it was just made")]
        self.recording.as_mut().unwrap()
    }

    /// Submits the recorded commands.
    fn submit(&mut self, gpu: &Gpu) {
        let Some(recording) = self.recording.take() else { return };
        let Recording { encoder, pass, uniforms, mut params, kernels, .. } = recording;
        drop(pass);
        // Pad the last kernel's parameters with zeros, so that they overwrite the parameters of an earlier batch.
        params.resize(kernels * gpu.stream.stride as usize, 0);
        if !params.is_empty() {
            gpu.queue.write_buffer(&uniforms, 0, &params);
        }
        self.last = Some(gpu.queue.submit([encoder.finish()]));
        self.stats.submissions += 1;
        let finished = gpu.stream.finished.clone();
        gpu.queue.on_submitted_work_done(move || {
            finished.fetch_add(1, Ordering::Relaxed);
        });
        gpu.stream.batch.fetch_add(1, Ordering::Relaxed);
        // The next write to these parameters happens after this batch, because the queue keeps the order.
        self.uniforms.push(uniforms);
    }
}

impl Gpu {
    /// Records a kernel call.
    pub(crate) fn record(&self, call: &KernelCall<'_>) -> Result<()> {
        self.check()?;
        bb::RunOptions::check_current()?;
        let most = self.limits.max_compute_workgroups_per_dimension;
        if call.groups.iter().any(|&groups| groups > most) {
            let elements = call.groups.iter().map(|&groups| groups as usize).product();
            return Err(WgpuError::Elements { op: call.op, elements });
        }
        let pipeline = self.pipelines.get(self, &call.key, call.bindings.len())?;
        let mut inner = self.stream.lock();
        inner.stats.kernels += 1;
        let stride = self.stream.stride;
        let batch = self.stream.batch();
        let recording = inner.recording(self);
        let at = recording.kernels as u64 * stride;
        let used = call.params.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1);
        recording.params.resize(at as usize, 0);
        recording
            .params
            .extend_from_slice(bytemuck::cast_slice(call.params.get(..used).unwrap_or(call.params)));
        let uniform = wgpu::BufferBinding {
            buffer: &recording.uniforms,
            offset: 0,
            size: wgpu::BufferSize::new(PARAM_BYTES),
        };
        let mut entries: SmallVec<[wgpu::BindGroupEntry<'_>; 6]> = SmallVec::new();
        entries.push(wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(uniform) });
        for (i, bound) in call.bindings.iter().enumerate() {
            let Some(buffer) = bound.storage.buffer() else { continue };
            bound.storage.batch.store(batch, Ordering::Relaxed);
            let size = wgpu::BufferSize::new(bound.size);
            let resource =
                wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: bound.offset, size });
            entries.push(wgpu::BindGroupEntry { binding: 1 + i as u32, resource });
        }
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        });
        drop(entries);
        let pass = recording.pass.get_or_insert_with(|| {
            let descriptor = wgpu::ComputePassDescriptor::default();
            recording.encoder.begin_compute_pass(&descriptor).forget_lifetime()
        });
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[at as u32]);
        let [x, y, z] = call.groups;
        pass.dispatch_workgroups(x, y, z);
        recording.kernels += 1;
        recording.bytes += call.bindings.first().map_or(0, |bound| bound.size);
        if recording.kernels >= BATCH || recording.bytes >= BATCH_BYTES {
            inner.submit(self);
        }
        Ok(())
    }

    /// Records commands other than kernels with parameters: a copy, or a user kernel.
    pub(crate) fn record_with(
        &self,
        storages: &[&Arc<Storage>],
        commands: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> Result<()> {
        self.check()?;
        let mut inner = self.stream.lock();
        let batch = self.stream.batch();
        let recording = inner.recording(self);
        for storage in storages {
            storage.batch.store(batch, Ordering::Relaxed);
        }
        recording.pass = None;
        commands(&mut recording.encoder);
        Ok(())
    }

    /// Submits the recorded commands without waiting for them. Returns the last submission.
    pub(crate) fn flush(&self) -> Result<Option<wgpu::SubmissionIndex>> {
        self.check()?;
        let last = {
            let mut inner = self.stream.lock();
            inner.submit(self);
            inner.last.clone()
        };
        self.check()?;
        Ok(last)
    }

    /// Submits the recorded commands, and returns an error if the device refuses one of them.
    pub(crate) fn submitted(&self) -> Result<()> {
        let scope = crate::device::Scope::new(&self.device);
        let flushed = self.flush();
        let error = scope.end();
        flushed?;
        match error {
            Some(error) => Err(crate::device::refused("a kernel of a user", error)),
            None => Ok(()),
        }
    }

    /// Submits the recorded commands, and blocks until the device has finished them.
    pub(crate) fn synchronize(&self) -> Result<()> {
        if let Some(submission) = self.flush()? {
            self.wait(submission)?;
        }
        self.check()
    }

    /// Blocks until the device has finished a submission.
    pub(crate) fn wait(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        if cfg!(target_arch = "wasm32") {
            return Err(WgpuError::Blocks { op: "synchronize" });
        }
        self.stream.lock().stats.waits += 1;
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: None };
        let polled = self.device.poll(wait);
        self.check()?;
        polled.map_err(|source| WgpuError::Refused { what: "to wait", source: Box::new(source) })?;
        Ok(())
    }

    /// Begins to copy bytes to the host. `offset` and `bytes` must be multiples of 4.
    pub(crate) fn begin_read(&self, storage: &Arc<Storage>, offset: u64, bytes: u64) -> Result<Copied> {
        self.check()?;
        let size = bytes.next_power_of_two().max(256);
        let mut inner = self.stream.lock();
        let kept = inner.staging.iter().position(|buffer| buffer.size() == size);
        let staging = match kept {
            Some(at) => inner.staging.swap_remove(at),
            None => self.staging(size)?,
        };
        let batch = self.stream.batch();
        storage.batch.store(batch, Ordering::Relaxed);
        let recording = inner.recording(self);
        recording.pass = None;
        if let Some(buffer) = storage.buffer() {
            recording.encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, Some(bytes));
        }
        inner.submit(self);
        let Some(submission) = inner.last.clone() else {
            return Err(WgpuError::Lost { reason: "a submission has no number".to_owned() });
        };
        drop(inner);
        let mapped = Arc::new(Mapped::default());
        let to = mapped.clone();
        staging.slice(0..bytes).map_async(wgpu::MapMode::Read, move |result| to.set(result.is_ok()));
        Ok(Copied { staging, bytes, mapped, submission })
    }

    fn staging(&self, size: u64) -> Result<wgpu::Buffer> {
        let scope = crate::device::Scope::new(&self.device);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        match scope.end() {
            None => Ok(buffer),
            Some(_) if self.lost().is_some() => self.check().map(|()| buffer),
            Some(_) => Err(WgpuError::Memory {
                used: self.pool.stats().live_bytes,
                source: bb::services::OutOfMemory::new(size),
            }),
        }
    }

    /// Blocks until a copy has finished, and passes its bytes to `read`.
    pub(crate) fn finish_read<T>(&self, copied: Copied, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.wait(copied.submission.clone())?;
        let done = copied.mapped.get(&self.device);
        self.mapped(copied, done, read)
    }

    /// Does the same as [`finish_read`](Self::finish_read) asynchronously, for a browser. Other code must poll the device.
    pub(crate) async fn finish_read_async<T>(
        &self,
        copied: Copied,
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        if !cfg!(target_arch = "wasm32") {
            return self.finish_read(copied, read);
        }
        let done = copied.mapped.wait().await;
        self.mapped(copied, done, read)
    }

    fn mapped<T>(&self, copied: Copied, done: bool, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let failed = |source| WgpuError::Refused { what: "to map a buffer", source };
        if !done {
            self.check()?;
            return Err(failed("the buffer was not mapped".into()));
        }
        let result = {
            let view = copied.staging.slice(0..copied.bytes).get_mapped_range();
            let view = view.map_err(|source| failed(Box::new(source)))?;
            read(&view)
        };
        copied.staging.unmap();
        let mut inner = self.stream.lock();
        // Keep a small number of buffers for threads that read concurrently, and no large ones.
        if inner.staging.len() < 8 && copied.staging.size() <= 16 << 20 {
            inner.staging.push(copied.staging);
        }
        drop(inner);
        result
    }

    /// Writes bytes to a buffer that no command of the current batch uses.
    pub(crate) fn write(&self, storage: &Storage, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if let Some(buffer) = storage.buffer() {
            self.queue.write_buffer(buffer, 0, bytes);
        }
        self.check()
    }
}
