//! Deferred answers: a backend returns immediately and completes the answer later, from any thread.
//!
//! The caller and the backend share a cell, and each detects if the other end is dropped: the caller gets
//! [`Error::Abandoned`], and the backend can check whether the caller has given up.

use super::RunOptions;
use crate::Error;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The interval at which a thread that waits for an answer checks whether its run must end.
const LOOK: Duration = Duration::from_millis(5);

/// The return value of [`Backend::dispatch`](crate::Backend::dispatch).
#[derive(Debug)]
pub enum ContractResponse<T, E> {
    /// The result.
    Now(Result<T, E>),
    /// A promise of the result, which [`CompletionHandle::later`] creates.
    Later(Later<T, E>),
}

impl<T, E: From<Error>> ContractResponse<T, E> {
    /// Blocks until the result is available.
    ///
    /// # Errors
    ///
    /// The error that the backend completes with; [`Error::Abandoned`] if the backend dropped its
    /// [`Completer`].
    pub fn wait(self) -> Result<T, E> {
        match self {
            ContractResponse::Now(result) => result,
            ContractResponse::Later(later) => later.wait(),
        }
    }
}

impl<T, E: From<Error>> Future for ContractResponse<T, E>
where
    Self: Unpin,
{
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            ContractResponse::Later(later) => Pin::new(later).poll(cx),
            ContractResponse::Now(result) => {
                Poll::Ready(std::mem::replace(result, Err(Error::Abandoned.into())))
            }
        }
    }
}

/// A handle that lets a backend answer later. Each dispatch gets one handle; dropping it unused costs nothing.
#[derive(Debug)]
pub struct CompletionHandle<T, E>(std::marker::PhantomData<fn(T, E)>);

impl<T, E> CompletionHandle<T, E> {
    /// Creates a handle.
    #[expect(clippy::new_without_default, reason = "a handle belongs to one dispatch")]
    pub fn new() -> Self {
        CompletionHandle(std::marker::PhantomData)
    }

    /// Splits the handle into the answer to return now and the [`Completer`] for the result.
    pub fn later(self) -> (ContractResponse<T, E>, Completer<T, E>) {
        let shared = AnswerState { state: AnswerStage::Pending(None), kept: Vec::new(), ended: false };
        let cell = Arc::new(Cell { shared: Mutex::new(shared), done: Condvar::new() });
        (ContractResponse::Later(Later(AnswerSource::Cell(CellEnd(cell.clone())))), Completer(Some(cell)))
    }
}

enum AnswerStage<T, E> {
    Pending(Option<Waker>),
    Done(Result<T, E>),
    /// The completer was dropped without a result.
    Dropped,
    /// The caller has taken the result, or has given up.
    Closed,
}

struct Cell<T, E> {
    shared: Mutex<AnswerState<T, E>>,
    done: Condvar,
}

/// The state that both ends of an answer share.
struct AnswerState<T, E> {
    state: AnswerStage<T, E>,
    /// Values that are dropped when the completer ends. Only `bb` adds values here.
    kept: Vec<Box<dyn Send>>,
    /// Whether the completer was used or dropped.
    ended: bool,
}

impl<T, E> Cell<T, E> {
    fn lock(&self) -> MutexGuard<'_, AnswerState<T, E>> {
        // No foreign code runs while the lock is held, so the state of a poisoned lock is valid.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, end: AnswerStage<T, E>) {
        let mut shared = self.lock();
        shared.ended = true;
        // The kept values are dropped under the lock. So a thread that detects their drop finds the answer complete,
        // and a thread that has the answer finds them dropped.
        shared.kept.clear();
        match std::mem::replace(&mut shared.state, AnswerStage::Closed) {
            AnswerStage::Pending(waker) => {
                shared.state = end;
                drop(shared);
                self.done.notify_all();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            // The answer had already ended, so its state stays. The new result is dropped after the lock is released.
            other => {
                shared.state = other;
                drop(shared);
                drop(end);
            }
        }
    }
}

/// The backend's end of an answer. Any thread may complete it.
///
/// If it is dropped without a result, the waiting caller gets an error.
pub struct Completer<T, E>(Option<Arc<Cell<T, E>>>);

impl<T, E> Completer<T, E> {
    /// Completes the answer with a result.
    pub fn complete(mut self, result: Result<T, E>) {
        if let Some(cell) = self.0.take() {
            cell.finish(AnswerStage::Done(result));
        }
    }

    /// Returns whether the caller no longer waits, so that the backend may stop its work.
    pub fn is_abandoned(&self) -> bool {
        self.0.as_ref().is_none_or(|cell| matches!(cell.lock().state, AnswerStage::Closed))
    }
}

impl<T, E> Drop for Completer<T, E> {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            cell.finish(AnswerStage::Dropped);
        }
    }
}

impl<T, E> std::fmt::Debug for Completer<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completer").field("abandoned", &self.is_abandoned()).finish()
    }
}

/// The caller's end of an answer. The caller can block on it, or poll it as a future on any executor.
pub struct Later<T, E>(AnswerSource<T, E>);

/// The source of an answer.
enum AnswerSource<T, E> {
    /// A completer in another thread.
    Cell(CellEnd<T, E>),
    /// Another answer, which is converted when it arrives.
    Mapped(Box<dyn Awaited<T, E>>),
}

/// The caller's end of a cell; dropping it closes the cell.
struct CellEnd<T, E>(Arc<Cell<T, E>>);

/// An answer that another answer is converted from, with its type erased.
trait Awaited<T, E>: Send {
    fn wait(self: Box<Self>) -> Result<T, E>;
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, E>>;
    fn keep_until_end(&self, kept: Box<dyn Send>);
}

/// An answer and the function that converts it.
struct Mapped<T, E, F> {
    later: Later<T, E>,
    convert: Option<F>,
}

impl<T: Send, E: From<Error> + Send, U, G: From<Error>, F> Awaited<U, G> for Mapped<T, E, F>
where
    F: FnOnce(Result<T, E>) -> Result<U, G> + Send,
{
    fn wait(self: Box<Self>) -> Result<U, G> {
        match self.convert {
            Some(convert) => convert(self.later.wait()),
            None => Err(Error::Abandoned.into()),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<U, G>> {
        Pin::new(&mut self.later).poll(cx).map(|result| match self.convert.take() {
            Some(convert) => convert(result),
            None => Err(Error::Abandoned.into()),
        })
    }

    fn keep_until_end(&self, kept: Box<dyn Send>) {
        self.later.keep_until_end(kept);
    }
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> Later<T, E> {
    /// Converts the answer when the caller takes it. Dropping the returned answer drops this one.
    pub(crate) fn map<U: 'static, G: From<Error> + 'static>(
        self,
        convert: impl FnOnce(Result<T, E>) -> Result<U, G> + Send + 'static,
    ) -> Later<U, G> {
        Later(AnswerSource::Mapped(Box::new(Mapped { later: self, convert: Some(convert) })))
    }
}

impl<T, E> Later<T, E> {
    /// Keeps a value until the backend uses or drops its [`Completer`], whether or not the caller takes the answer.
    pub(crate) fn keep_until_end(&self, kept: Box<dyn Send>) {
        match &self.0 {
            AnswerSource::Cell(CellEnd(cell)) => {
                let mut shared = cell.lock();
                if !shared.ended {
                    shared.kept.push(kept);
                }
            }
            AnswerSource::Mapped(mapped) => mapped.keep_until_end(kept),
        }
    }
}

impl<T, E: From<Error>> Later<T, E> {
    /// Blocks until the result is available.
    ///
    /// # Errors
    ///
    /// The error that the backend completes with; [`Error::Abandoned`] if the backend dropped its
    /// [`Completer`].
    pub fn wait(self) -> Result<T, E> {
        match self.0 {
            AnswerSource::Cell(end) => end.wait(),
            AnswerSource::Mapped(mapped) => mapped.wait(),
        }
    }
}

impl<T, E: From<Error>> CellEnd<T, E> {
    fn wait(self) -> Result<T, E> {
        let options = RunOptions::current();
        let mut shared = self.0.lock();
        loop {
            match std::mem::replace(&mut shared.state, AnswerStage::Closed) {
                AnswerStage::Done(result) => return result,
                AnswerStage::Dropped | AnswerStage::Closed => return Err(Error::Abandoned.into()),
                AnswerStage::Pending(waker) => {
                    shared.state = AnswerStage::Pending(waker);
                    shared = match options.bounds() {
                        false => self.0.done.wait(shared).unwrap_or_else(PoisonError::into_inner),
                        true => {
                            options.check()?;
                            let waited = self.0.done.wait_timeout(shared, LOOK);
                            waited.unwrap_or_else(PoisonError::into_inner).0
                        }
                    };
                }
            }
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        // Wakers are cloned and dropped while the lock is not held, because they run code of the executor. For example,
        // dropping the last waker may drop a task that owns the other end, which would lock again.
        let waker = cx.waker().clone();
        let mut shared = self.0.lock();
        match std::mem::replace(&mut shared.state, AnswerStage::Closed) {
            AnswerStage::Done(result) => Poll::Ready(result),
            AnswerStage::Dropped | AnswerStage::Closed => Poll::Ready(Err(Error::Abandoned.into())),
            AnswerStage::Pending(before) => {
                let ended = RunOptions::check_current().err();
                shared.state = AnswerStage::Pending(Some(waker));
                drop(shared);
                drop(before);
                ended.map_or(Poll::Pending, |error| Poll::Ready(Err(error.into())))
            }
        }
    }
}

impl<T, E: From<Error>> Future for Later<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            AnswerSource::Cell(end) => end.poll(cx),
            AnswerSource::Mapped(mapped) => mapped.poll(cx),
        }
    }
}

impl<T, E> Drop for CellEnd<T, E> {
    fn drop(&mut self) {
        // A result that was never taken is dropped only after the lock is released.
        let _result = std::mem::replace(&mut self.0.lock().state, AnswerStage::Closed);
    }
}

impl<T, E> std::fmt::Debug for Later<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Handle = CompletionHandle<u32, Error>;

    #[test]
    fn completes_from_another_thread() {
        let (response, completer) = Handle::new().later();
        let worker = std::thread::spawn(move || completer.complete(Ok(7)));
        assert!(matches!(response.wait(), Ok(7)));
        assert!(worker.join().is_ok());
    }

    #[test]
    fn a_dropped_completer_is_an_error_to_the_caller() {
        let (response, completer) = Handle::new().later();
        drop(completer);
        assert!(matches!(response.wait(), Err(Error::Abandoned)));
    }

    #[test]
    fn a_thread_that_dies_is_an_error_to_the_caller() {
        let (response, completer) = Handle::new().later();
        let worker = std::thread::spawn(move || {
            let _completer = completer;
            std::panic::resume_unwind(Box::new("device lost"));
        });
        assert!(worker.join().is_err());
        assert!(matches!(response.wait(), Err(Error::Abandoned)));
    }

    #[test]
    fn a_waker_that_owns_the_completer_may_be_replaced() {
        /// A task that is dropped with its last waker.
        struct Task(#[expect(dead_code, reason = "dropped with the task")] Completer<u32, Error>);
        impl std::task::Wake for Task {
            fn wake(self: Arc<Self>) {}
        }
        let (mut response, completer) = Handle::new().later();
        let first = Waker::from(Arc::new(Task(completer)));
        assert!(Pin::new(&mut response).poll(&mut Context::from_waker(&first)).is_pending());
        drop(first);
        // The second waker replaces the first one. This drops the first task, which drops the completer.
        let mut second = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut response).poll(&mut second).is_pending());
        let ended = Pin::new(&mut response).poll(&mut second);
        assert!(matches!(ended, Poll::Ready(Err(Error::Abandoned))));
    }

    #[test]
    fn a_completer_knows_that_its_caller_gave_up() {
        let (response, completer) = Handle::new().later();
        assert!(!completer.is_abandoned());
        drop(response);
        assert!(completer.is_abandoned());
        completer.complete(Ok(1));
    }
}
