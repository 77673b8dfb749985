//! Loom models of work that threads share.

use super::{GateEntry, share};
use crate::sync::{AtomicUsize, Ordering, thread};
use loom::cell::UnsafeCell;
use loom::thread::JoinHandle;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The number of parts of the shared work.
const PARTS: usize = 2;

/// Work in parts. The thread that takes a part writes it without a lock.
struct Parts {
    next: AtomicUsize,
    written: [UnsafeCell<u32>; PARTS],
    /// Whether the work still exists.
    exists: UnsafeCell<bool>,
}

// SAFETY: `loom` reports an access to a cell that another thread may access at the same time.
unsafe impl Send for Parts {}
// SAFETY: as above.
unsafe impl Sync for Parts {}

impl Parts {
    fn new() -> Arc<Parts> {
        let written = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Parts { next: AtomicUsize::new(0), written, exists: UnsafeCell::new(true) })
    }

    /// Takes parts until none is left.
    fn work(&self) {
        loop {
            // SAFETY: `loom` reports it if the owner marks the work as gone at the same time.
            self.exists.with(|exists| assert!(unsafe { *exists }, "the work is gone"));
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.written.get(part) else { return };
            // SAFETY: `loom` reports it if another thread has the part, too.
            part.with_mut(|part| unsafe { *part += 1 });
        }
    }

    /// Marks the work as gone, as happens when its owner returns.
    fn end(&self) {
        // SAFETY: `loom` reports it if a thread still works.
        self.exists.with_mut(|exists| unsafe { *exists = false });
    }

    fn check(&self) {
        for part in &self.written {
            // SAFETY: `loom` reports it if the write of the part was not made visible here.
            part.with(|part| assert_eq!(unsafe { *part }, 1));
        }
    }
}

/// The threads that were started to join the work.
#[derive(Default)]
struct Started(RefCell<Vec<JoinHandle<()>>>);

impl Started {
    fn start(&self, entry: GateEntry) {
        self.0.borrow_mut().push(thread::spawn(move || entry.enter()));
    }

    /// Joins the threads. Some of them may enter after the work is gone.
    fn join(self) {
        self.0.into_inner().into_iter().for_each(|started| started.join().expect("no panic"));
    }
}

/// Runs a model in every order with at most `interruptions` preemptions; in every order if that is `None`.
fn check(interruptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut all = loom::model::Builder::new();
    all.preemption_bound = interruptions;
    all.check(model);
}

/// Shares work with up to `calls` other threads.
fn share_parts(calls: usize) {
    let (parts, started, waiting) = (Parts::new(), Started::default(), Arc::new(AtomicUsize::new(0)));
    share(calls, &waiting, &|| parts.work(), |entry| started.start(entry));
    parts.check();
    parts.end();
    started.join();
    assert_eq!(waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn what_another_thread_wrote_is_seen() {
    check(None, || share_parts(1));
}

#[test]
fn what_two_other_threads_wrote_is_seen() {
    check(Some(2), || share_parts(2));
}

#[test]
fn two_threads_share_work_at_once() {
    check(Some(2), || {
        let other = thread::spawn(|| share_parts(1));
        share_parts(1);
        other.join().expect("no panic");
    });
}

#[test]
fn shared_work_shares_its_own() {
    check(Some(2), || {
        let (parts, started, waiting) = (Parts::new(), Started::default(), Arc::new(AtomicUsize::new(0)));
        let work = || {
            // SAFETY: `loom` reports it if the owner marks the work as gone at the same time.
            parts.exists.with(|exists| assert!(unsafe { *exists }, "the work is gone"));
            share_parts(1);
            parts.work();
        };
        share(1, &waiting, &work, |entry| started.start(entry));
        parts.check();
        parts.end();
        started.join();
    });
}

#[test]
fn a_panic_of_another_thread_comes_here_after_it_left() {
    check(None, || {
        let (parts, started, waiting) = (Parts::new(), Started::default(), Arc::new(AtomicUsize::new(0)));
        let (here, entered) = (thread::current().id(), AtomicUsize::new(0));
        let work = || {
            parts.work();
            if thread::current().id() != here {
                entered.fetch_add(1, Ordering::Relaxed);
                resume_unwind(Box::new("elsewhere"));
            }
        };
        let shared = catch_unwind(AssertUnwindSafe(|| {
            share(1, &waiting, &work, |entry| started.start(entry));
        }));
        parts.check();
        parts.end();
        assert_eq!(shared.is_err(), entered.load(Ordering::Relaxed) > 0);
        started.join();
    });
}

#[test]
fn a_panic_here_waits_for_the_threads_inside() {
    check(None, || {
        let (parts, started, waiting) = (Parts::new(), Started::default(), Arc::new(AtomicUsize::new(0)));
        let here = thread::current().id();
        let work = || {
            if thread::current().id() == here {
                resume_unwind(Box::new("here"));
            }
            parts.work();
        };
        let shared = catch_unwind(AssertUnwindSafe(|| {
            share(1, &waiting, &work, |entry| started.start(entry));
        }));
        parts.end();
        assert!(shared.is_err());
        started.join();
    });
}
