//! Loom models of threads that poll for calls, sleep, and end.

use super::Team;
use crate::sync::{AtomicUsize, Ordering, thread};
use std::sync::Arc;

/// Runs calls on a team of `threads` threads and drops the team concurrently. Every call must run once, even if all
/// threads sleep.
fn calls_are_made(threads: usize, calls: usize) {
    let mut all = loom::model::Builder::new();
    all.preemption_bound = Some(2);
    all.check(move || {
        let made = Arc::new(AtomicUsize::new(0));
        let team = Team::new(threads).expect("threads");
        for _ in 0..calls {
            let made = made.clone();
            team.ask(move || {
                made.fetch_add(1, Ordering::Relaxed);
            });
        }
        drop(team);
        // The model fails if a thread does not end.
        while made.load(Ordering::Relaxed) < calls {
            thread::yield_now();
        }
    });
}

#[test]
fn one_thread_makes_all_calls() {
    calls_are_made(2, 2);
}

#[test]
fn two_threads_make_all_calls() {
    calls_are_made(3, 2);
}

#[test]
fn threads_end_without_a_call() {
    calls_are_made(3, 0);
}
