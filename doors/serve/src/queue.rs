//! The bounded queue of a model.

use crate::batch::{BatchKey, Batching};
use crate::held_bytes::Lease;
use crate::refusal::Refusal;
use bb::{CancelToken, TensorData};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// The answer to a job: the requested outputs, in the order of the request.
pub(crate) type Answer = Result<Vec<TensorData>, Refusal>;

/// A request that waits for its model.
pub(crate) struct Job {
    pub(crate) inputs: Vec<Option<TensorData>>,
    pub(crate) wanted: Vec<usize>,
    /// The key that requests must share to be joined with this one. `None` if the request runs by itself.
    pub(crate) kind: Option<BatchKey>,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    pub(crate) client: Arc<Client>,
    pub(crate) answer: oneshot::Sender<Answer>,
    /// The bytes of the inputs. They count as used until the job is dropped.
    pub(crate) lease: Lease,
}

impl Job {
    pub(crate) fn rows(&self) -> usize {
        self.kind.as_ref().map_or(0, |kind| kind.rows)
    }
}

/// Jobs in the order of their arrival.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    limit: usize,
}

/// The reason why a queue rejects a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    Full,
    Closed,
}

struct QueueState {
    jobs: VecDeque<Job>,
    open: bool,
    /// Whether a worker is collecting jobs for a batch. Other workers then take no job, because otherwise each batch would be small.
    joining: bool,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Queue {
        let state = QueueState { jobs: VecDeque::new(), open: true, joining: false };
        Queue { state: Mutex::new(state), changed: Condvar::new(), limit }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Adds a job.
    pub(crate) fn push(&self, job: Job) -> Result<(), NotTaken> {
        let mut state = self.lock();
        if !state.open {
            return Err(NotTaken::Closed);
        }
        if state.jobs.len() >= self.limit {
            // Removes the jobs whose clients have left, to make room.
            state.jobs.retain(|waiting| !waiting.client.is_gone());
        }
        if state.jobs.len() >= self.limit {
            return Err(NotTaken::Full);
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Blocks until there are jobs to run together. Returns `None` once the queue is closed and empty.
    pub(crate) fn take(&self, batching: Option<&Batching>) -> Option<Vec<Job>> {
        let mut state = self.lock();
        let first = loop {
            if !state.joining
                && let Some(job) = state.jobs.pop_front()
            {
                break job;
            }
            if !state.open && state.jobs.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let Some((batching, kind)) = batching.filter(|b| b.is_on()).zip(first.kind.clone()) else {
            return Some(vec![first]);
        };
        let mut rows = kind.rows;
        let until = first.arrived + batching.delay;
        let mut jobs = vec![first];
        state.joining = true;
        loop {
            let mut at = 0;
            while let Some(job) = state.jobs.get(at) {
                let fits =
                    job.kind.as_ref().is_some_and(|k| k.joins(&kind)) && rows + job.rows() <= batching.rows;
                if !fits {
                    at += 1;
                } else if let Some(job) = state.jobs.remove(at) {
                    rows += job.rows();
                    jobs.push(job);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if rows >= batching.rows || left.is_zero() || !state.open {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.joining = false;
        drop(state);
        self.changed.notify_all();
        Some(jobs)
    }

    /// Stops accepting jobs.
    pub(crate) fn close(&self) {
        self.lock().open = false;
        self.changed.notify_all();
    }

    /// Stops accepting jobs, and returns the waiting ones.
    pub(crate) fn drain(&self) -> Vec<Job> {
        let mut state = self.lock();
        state.open = false;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.changed.notify_all();
        jobs.into()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A poisoned lock is used anyway: no code panics while it holds the lock, and the state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the client still waits for its answer, and the run that computes the answer.
#[derive(Debug, Default)]
pub(crate) struct Client {
    state: Mutex<ClientState>,
}

#[derive(Debug, Default)]
struct ClientState {
    gone: bool,
    run: Option<Arc<RunOf>>,
}

/// A run, and the number of clients that still wait for it.
#[derive(Debug)]
pub(crate) struct RunOf {
    waiting: AtomicUsize,
    pub(crate) token: CancelToken,
}

impl RunOf {
    /// Creates a run that counts one waiting holder: the worker, which [`release`](Self::release)s the run at its end.
    pub(crate) fn new() -> Arc<RunOf> {
        Arc::new(RunOf { waiting: AtomicUsize::new(1), token: CancelToken::new() })
    }

    /// Removes a waiting holder of the run. Cancels the run if no holder remains.
    pub(crate) fn release(&self) {
        if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.token.cancel();
        }
    }
}

impl Client {
    pub(crate) fn is_gone(&self) -> bool {
        self.lock().gone
    }

    /// Adds the client to the run that computes its answer. Returns false if the client has left.
    pub(crate) fn enter(&self, run: &Arc<RunOf>) -> bool {
        let mut state = self.lock();
        if !state.gone {
            run.waiting.fetch_add(1, Ordering::Relaxed);
            state.run = Some(run.clone());
        }
        !state.gone
    }

    fn leave(&self) {
        let mut state = self.lock();
        state.gone = true;
        if let Some(run) = state.run.take() {
            run.release();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the client as gone when it is dropped, and leaves its run.
#[derive(Debug)]
pub(crate) struct Waiting(pub(crate) Arc<Client>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.leave();
    }
}
