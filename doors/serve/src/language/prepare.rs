//! Prepares the requests of one language model on separate threads.
//!
//! Templates, tokenizers and grammars are untrusted programs, or process untrusted text. They run on separate threads for each model, so
//! that they delay neither other models nor the network. Grammars may take seconds, so they do not share threads with prompts. Long and
//! short prompts do not share threads, either.

use crate::cancel;
use crate::cancel::CancelOnDrop;
use crate::refusal::Refusal;
use bb::{CancelToken, RunOptions};
use bb_generate::{Constraint, Grammar};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::oneshot;

/// The minimum size of a long prompt, in bytes.
const LONG: usize = 16 << 10;

/// The number of threads that compile grammars.
const GRAMMARS: usize = 2;

/// The maximum number of compiled grammars that a model caches.
const KEPT: usize = 8;

/// The threads that prepare the requests of a model.
pub(crate) struct Preparing {
    short: Pool,
    long: Pool,
    grammars: Pool,
    /// The cache of compiled grammars, the most recently used first.
    kept: Mutex<VecDeque<(Constraint, Grammar)>>,
}

impl Preparing {
    /// Creates the queues of a model, with at most `limit` requests each. `stop` ends all work.
    pub(super) fn new(model: &str, limit: usize, stop: &CancelToken) -> Preparing {
        let pool = || Pool::new(model, limit, stop);
        Preparing { short: pool(), long: pool(), grammars: pool(), kept: Mutex::default() }
    }

    /// Starts the threads.
    pub(super) fn start(&self, model: &str) -> std::io::Result<Vec<JoinHandle<()>>> {
        let pools = [(&self.short, 1), (&self.long, 1), (&self.grammars, GRAMMARS)];
        let all = pools.into_iter().flat_map(|(pool, count)| std::iter::repeat_n(pool, count));
        all.map(|pool| {
            let queue = pool.0.clone();
            std::thread::Builder::new().name(format!("bb-{model}")).spawn(move || queue.work())
        })
        .collect()
    }

    /// Runs `work` on the thread for short or long prompts. `bytes` is the size of the prompts' texts.
    ///
    /// # Errors
    ///
    /// The errors of `work`; [`Refusal::Deadline`] at the deadline; [`Refusal::QueueFull`].
    pub(crate) async fn prompts<T: Send + 'static>(
        &self,
        bytes: usize,
        deadline: Instant,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let pool = if bytes < LONG { &self.short } else { &self.long };
        pool.run(deadline, work).await
    }

    /// Compiles a grammar, or returns it from the cache.
    ///
    /// # Errors
    ///
    /// As [`prompts`](Self::prompts).
    pub(crate) async fn grammar(
        &self,
        constraint: Constraint,
        deadline: Instant,
        compile: impl FnOnce(&Constraint) -> Result<Grammar, Refusal> + Send + 'static,
    ) -> Result<Grammar, Refusal> {
        if let Some(known) = self.known(&constraint) {
            return Ok(known);
        }
        let work = move || compile(&constraint).map(|grammar| (constraint, grammar));
        let (constraint, grammar) = self.grammars.run(deadline, work).await?;
        let mut kept = self.kept();
        if !kept.iter().any(|(known, _)| *known == constraint) {
            kept.truncate(KEPT - 1);
            kept.push_front((constraint, grammar.clone()));
        }
        Ok(grammar)
    }

    /// Finds a cached grammar, and moves it to the front of the cache.
    fn known(&self, constraint: &Constraint) -> Option<Grammar> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(known, _)| known == constraint)?;
        let newest = kept.remove(at)?;
        let grammar = newest.1.clone();
        kept.push_front(newest);
        Some(grammar)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Constraint, Grammar)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops accepting requests. The threads end once they have prepared the waiting requests.
    pub(super) fn close(&self) {
        [&self.short, &self.long, &self.grammars].into_iter().for_each(|pool| pool.0.close(false));
    }

    /// Drops the waiting requests.
    pub(super) fn abort(&self) {
        [&self.short, &self.long, &self.grammars].into_iter().for_each(|pool| pool.0.close(true));
    }
}

/// A queue, and the threads that run its tasks.
struct Pool(Arc<Queue>);

struct Queue {
    model: String,
    limit: usize,
    stop: CancelToken,
    state: Mutex<TaskQueue>,
    changed: Condvar,
}

struct TaskQueue {
    tasks: VecDeque<Task>,
    open: bool,
}

/// Work in a queue. Dropping it refuses the request and returns the request's bytes.
struct Task {
    deadline: Instant,
    cancel: CancelToken,
    run: Box<dyn FnOnce() + Send>,
}

impl Task {
    /// Returns whether the result is no longer needed.
    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.deadline
    }
}

impl Pool {
    fn new(model: &str, limit: usize, stop: &CancelToken) -> Pool {
        let state = Mutex::new(TaskQueue { tasks: VecDeque::new(), open: true });
        let (model, stop) = (model.to_owned(), stop.clone());
        Pool(Arc::new(Queue { model, limit, stop, state, changed: Condvar::new() }))
    }

    /// Runs work on a thread of the pool. The work ends at the deadline, or when the returned future is dropped. If it has not begun then,
    /// it is dropped; otherwise it ends at its next check of [`RunOptions`].
    async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let cancel = CancelToken::new();
        let _cancel = CancelOnDrop(cancel.clone());
        let (answer, answered) = oneshot::channel();
        let (token, stop) = (cancel.clone(), self.0.stop.clone());
        let run = Box::new(move || {
            let options =
                RunOptions::default().with_deadline(deadline).with_cancel(&token).with_cancel(&stop);
            // Ended work may return any error, so the reason for its end replaces the error.
            let work = || {
                cancel::check().and_then(|()| work()).map_err(|error| cancel::check().err().unwrap_or(error))
            };
            let done = catch_unwind(AssertUnwindSafe(|| options.within(work)));
            let done = done.unwrap_or(Err(Refusal::Internal { what: "preparing a request panicked" }));
            let done = if stop.is_cancelled() { done.map_err(|_| Refusal::ShuttingDown) } else { done };
            // The send fails if the client has left, which is not an error.
            let _gone = answer.send(done);
        });
        self.0.push(Task { deadline, cancel, run })?;
        match tokio::time::timeout_at(deadline.into(), answered).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => {
                Err(if Instant::now() >= deadline { Refusal::Deadline } else { Refusal::ShuttingDown })
            }
            Err(_) => Err(Refusal::Deadline),
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, TaskQueue> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: Task) -> Result<(), Refusal> {
        let mut state = self.lock();
        if !state.open {
            return Err(Refusal::ShuttingDown);
        }
        if state.tasks.len() >= self.limit {
            state.tasks.retain(|task| !task.is_over());
        }
        if state.tasks.len() >= self.limit {
            return Err(Refusal::QueueFull { model: self.model.clone(), limit: self.limit });
        }
        state.tasks.push_back(task);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Runs tasks until the queue is closed and empty.
    fn work(&self) {
        while let Some(task) = self.take() {
            if !task.is_over() {
                (task.run)();
            }
        }
    }

    fn take(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if !state.open {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self, drop_tasks: bool) {
        let mut state = self.lock();
        state.open = false;
        let dropped = if drop_tasks { std::mem::take(&mut state.tasks) } else { VecDeque::new() };
        drop(state);
        drop(dropped);
        self.changed.notify_all();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn block<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn work_ends_at_its_deadline_and_when_its_client_leaves() {
        let preparing = Preparing::new("x", 1, &CancelToken::new());
        let threads = preparing.start("x").unwrap();
        assert_eq!(block(preparing.prompts(0, soon(), || Ok(3))).unwrap(), 3);
        let (ended, end) = channel();
        let endless = move || {
            while cancel::check().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended.send(()).unwrap();
            // After cancellation, the work may return any error, which must not reach the client.
            Err::<(), _>(Refusal::NoToken)
        };
        let start = Instant::now();
        let late = block(preparing.prompts(0, start + Duration::from_millis(50), endless.clone()));
        assert!(matches!(late, Err(Refusal::Deadline)));
        end.recv_timeout(Duration::from_secs(10)).unwrap();
        // Dropping the future simulates a client that leaves.
        let left = block(async {
            tokio::time::timeout(Duration::from_millis(50), preparing.prompts(0, soon(), endless)).await
        });
        assert!(left.is_err());
        end.recv_timeout(Duration::from_secs(10)).unwrap();
        preparing.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(matches!(block(preparing.prompts(0, soon(), || Ok(3))), Err(Refusal::ShuttingDown)));
    }

    #[test]
    fn a_full_queue_refuses_and_drops_work_that_is_over_before_it_begins() {
        // No threads are started, so no work begins.
        let preparing = Preparing::new("x", 1, &CancelToken::new());
        let held = Arc::new(());
        let run = |deadline| {
            let held = held.clone();
            preparing.prompts(0, deadline, move || {
                drop(held);
                Ok(())
            })
        };
        let late = block(run(Instant::now() + Duration::from_millis(20)));
        assert!(matches!(late, Err(Refusal::Deadline)));
        block(async {
            let mut waiting = Box::pin(run(soon()));
            assert!(tokio::time::timeout(Duration::from_millis(20), &mut waiting).await.is_err());
            assert_eq!(Arc::strong_count(&held), 2, "the first one is dropped");
            assert!(matches!(run(soon()).await, Err(Refusal::QueueFull { limit: 1, .. })));
        });
        preparing.abort();
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
