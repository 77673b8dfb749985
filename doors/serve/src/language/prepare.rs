//! Prepares the requests of one language model on separate threads.
//!
//! Templates, tokenizers and grammars are untrusted programs, or work on untrusted texts. They run on separate threads for each model, so
//! that they delay neither other models nor the network. Grammars, which may take seconds, have other threads than prompts, and long
//! prompts other threads than short ones.

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

/// The least size of a long prompt, in bytes.
const LONG: usize = 16 << 10;

/// The number of threads that compile grammars.
const GRAMMARS: usize = 2;

/// The most grammars of a model that are kept for further requests.
const KEPT: usize = 8;

/// The threads that prepare the requests of a model.
pub(crate) struct Preparing {
    short: Pool,
    long: Pool,
    grammars: Pool,
    /// The last grammars that were compiled, the newest first.
    kept: Mutex<VecDeque<(Constraint, Grammar)>>,
}

impl Preparing {
    /// Makes the queues of a model, with at most `limit` requests each. `stop` ends all work.
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

    /// Prepares prompts whose texts have this many bytes.
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

    /// Compiles a grammar, unless it was compiled before.
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

    /// Finds a grammar that was compiled before, and makes it the newest.
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

    /// Accepts no more requests. The threads end when they have prepared those that wait.
    pub(super) fn close(&self) {
        [&self.short, &self.long, &self.grammars].into_iter().for_each(|pool| pool.0.close(false));
    }

    /// Drops the requests that wait.
    pub(super) fn abort(&self) {
        [&self.short, &self.long, &self.grammars].into_iter().for_each(|pool| pool.0.close(true));
    }
}

/// A queue, and the threads that take from it.
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

/// Work in a queue. Dropping it gives back the bytes of its request, which is refused.
struct Task {
    deadline: Instant,
    cancel: CancelToken,
    run: Box<dyn FnOnce() + Send>,
}

impl Task {
    /// Returns true if the result is not needed any more.
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

    /// Runs work on a thread of the pool. It ends at the deadline, or when the returned future is dropped: before it begins it is dropped,
    /// and later it ends with its next check of [`RunOptions`].
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
            // Work that was ended may return any error.
            let work = || {
                cancel::check().and_then(|()| work()).map_err(|error| cancel::check().err().unwrap_or(error))
            };
            let done = catch_unwind(AssertUnwindSafe(|| options.within(work)));
            let done = done.unwrap_or(Err(Refusal::Internal { what: "preparing a request panicked" }));
            let done = if stop.is_cancelled() { done.map_err(|_| Refusal::ShuttingDown) } else { done };
            // The client may have left.
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
        // Nothing panics while it is locked.
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
            // It may say anything then.
            Err::<(), _>(Refusal::NoToken)
        };
        let start = Instant::now();
        let late = block(preparing.prompts(0, start + Duration::from_millis(50), endless.clone()));
        assert!(matches!(late, Err(Refusal::Deadline)));
        end.recv_timeout(Duration::from_secs(10)).unwrap();
        // A client that leaves drops its future.
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
        // Without threads, nothing begins.
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
