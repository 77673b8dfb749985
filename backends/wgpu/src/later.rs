//! Answers that come later: a thread waits for the device and completes them.

use crate::device::Gpu;
use crate::{Result, Tensor, WgpuError};
use bb::Completer;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

type Outputs = HashMap<String, Tensor>;

/// A graph that was submitted.
struct Job {
    gpu: Arc<Gpu>,
    submission: wgpu::SubmissionIndex,
    outputs: Outputs,
    completer: Completer<Outputs, WgpuError>,
}

/// The thread that waits. It starts with the first answer, and ends when the backend is dropped.
#[derive(Default)]
pub(crate) struct Waiter {
    jobs: Mutex<Option<Sender<Job>>>,
}

impl Waiter {
    /// Completes an answer when the device has finished a submission. If there is no thread, the caller waits here.
    pub(crate) fn complete(
        &self,
        gpu: &Arc<Gpu>,
        submission: wgpu::SubmissionIndex,
        outputs: Outputs,
        completer: Completer<Outputs, WgpuError>,
    ) {
        let job = Job { gpu: gpu.clone(), submission, outputs, completer };
        let unsent = match self.sender() {
            Some(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
            None => Some(job),
        };
        if let Some(job) = unsent {
            job.run();
        }
    }

    fn sender(&self) -> Option<Sender<Job>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            let (sender, receiver) = channel::<Job>();
            let waiting = move || receiver.into_iter().for_each(Job::run);
            std::thread::Builder::new().name("bb-wgpu".to_owned()).spawn(waiting).ok()?;
            *jobs = Some(sender);
        }
        jobs.clone()
    }
}

impl Job {
    fn run(self) {
        let Job { gpu, submission, outputs, completer } = self;
        let waited: Result<()> = gpu.wait(submission);
        // The waiter must not be the one that drops the device: that would wait for this thread.
        drop(gpu);
        completer.complete(waited.map(|()| outputs));
    }
}
