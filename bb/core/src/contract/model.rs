//! Model checks (`shuttle` tests) of answers that arrive later.

use super::completion::{CompletionHandle, ContractResponse};
use crate::Error;
use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{check, thread};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A result that counts how often it was dropped.
struct DropCounter(Arc<AtomicUsize>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

type Handle = CompletionHandle<DropCounter, Error>;

/// Wakes a thread that is parked.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls an answer until it is ready, as an executor does.
fn block_on(mut answer: ContractResponse<DropCounter, Error>) -> Result<DropCounter, Error> {
    loop {
        // Each poll uses a new waker, as if another task waited.
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        match Pin::new(&mut answer).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// The two ways to wait for an answer: block, or poll it as a future.
const WAYS: [fn(ContractResponse<DropCounter, Error>) -> Result<DropCounter, Error>; 2] =
    [ContractResponse::wait, block_on];

#[test]
fn an_answer_arrives_before_during_and_after_the_wait() {
    for wait in WAYS {
        check(move || {
            let dropped = Arc::new(AtomicUsize::new(0));
            let (answer, completer) = Handle::new().later();
            let result = DropCounter(dropped.clone());
            let device = thread::spawn(move || completer.complete(Ok(result)));
            let result = wait(answer);
            assert!(result.is_ok());
            assert_eq!(dropped.load(SeqCst), 0);
            drop(result);
            device.join().expect("no panic");
            assert_eq!(dropped.load(SeqCst), 1);
        });
    }
}

#[test]
fn a_completer_that_is_dropped_ends_the_wait() {
    for wait in WAYS {
        check(move || {
            let (answer, completer) = Handle::new().later();
            let device = thread::spawn(move || drop(completer));
            assert!(matches!(wait(answer), Err(Error::Abandoned)));
            device.join().expect("no panic");
        });
    }
}

#[test]
fn a_result_that_nobody_takes_is_dropped_once() {
    check(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (answer, completer) = Handle::new().later();
        let result = DropCounter(dropped.clone());
        let device = thread::spawn(move || {
            let abandoned = completer.is_abandoned();
            completer.complete(Ok(result));
            abandoned
        });
        let caller = thread::spawn(move || drop(answer));
        caller.join().expect("no panic");
        device.join().expect("no panic");
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

#[test]
fn a_completer_notices_that_its_caller_has_gone() {
    check(|| {
        let (answer, completer) = Handle::new().later();
        let caller = thread::spawn(move || drop(answer));
        // This loop simulates a device that works until its answer is abandoned.
        while !completer.is_abandoned() {
            thread::yield_now();
        }
        caller.join().expect("no panic");
    });
}

#[test]
fn what_is_kept_until_the_end_is_gone_when_the_answer_is_there() {
    for wait in WAYS {
        check(move || {
            let kept = Arc::new(AtomicUsize::new(0));
            let (answer, completer) = Handle::new().later();
            let device = thread::spawn(move || completer.complete(Ok(DropCounter(Arc::default()))));
            let ContractResponse::Later(later) = &answer else { return };
            // The answer may have arrived already.
            later.keep_until_end(Box::new(DropCounter(kept.clone())));
            assert!(wait(answer).is_ok());
            assert_eq!(kept.load(SeqCst), 1);
            device.join().expect("no panic");
        });
    }
}
