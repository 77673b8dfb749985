//! Asynchronous completion of graphs: a thread waits for the device and completes them.

use crate::device::Gpu;
use crate::{Result, Tensor, WgpuError};
use bb::Completer;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

type Outputs = HashMap<String, Tensor>;

/// A submitted graph.
struct SubmittedGraph {
    gpu: Arc<Gpu>,
    submission: wgpu::SubmissionIndex,
    outputs: Outputs,
    completer: Completer<Outputs, WgpuError>,
}

/// The thread that waits for the device. It starts with the first submitted graph, and ends when the backend is
/// dropped.
#[derive(Default)]
pub(crate) struct Waiter {
    jobs: Mutex<Option<Sender<SubmittedGraph>>>,
}

impl Waiter {
    /// Completes a graph when the device has finished its submission. If the thread cannot be started, this
    /// function blocks and completes it.
    pub(crate) fn complete(
        &self,
        gpu: &Arc<Gpu>,
        submission: wgpu::SubmissionIndex,
        outputs: Outputs,
        completer: Completer<Outputs, WgpuError>,
    ) {
        let job = SubmittedGraph { gpu: gpu.clone(), submission, outputs, completer };
        let unsent = match self.sender() {
            Some(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
            None => Some(job),
        };
        if let Some(job) = unsent {
            job.run();
        }
    }

    fn sender(&self) -> Option<Sender<SubmittedGraph>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            let (sender, receiver) = channel::<SubmittedGraph>();
            let waiting = move || receiver.into_iter().for_each(SubmittedGraph::run);
            std::thread::Builder::new().name("bb-wgpu".to_owned()).spawn(waiting).ok()?;
            *jobs = Some(sender);
        }
        jobs.clone()
    }
}

impl SubmittedGraph {
    fn run(self) {
        let SubmittedGraph { gpu, submission, outputs, completer } = self;
        let waited: Result<()> = gpu.wait(submission);
        // Drop the handle to the device before completing: if this thread dropped the last handle, the drop would
        // wait for this thread.
        drop(gpu);
        completer.complete(waited.map(|()| outputs));
    }
}
