//! Limits the time that the library may take for the tokens of an answer.
//!
//! The library limits the work of a token by the number of rules and states that it creates, but not by the comparisons that
//! these need. So a thread cancels a call that takes too long. An answer ends if its tokens together take too long.

use super::refusal::Refusal;
use llguidance::CancellationHandle;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The maximum time of a call.
const CALL: Duration = Duration::from_millis(200);
/// The time that each token adds to the allowance of an answer, and the maximum allowance.
const TOKEN: Duration = Duration::from_millis(20);
const BURST: Duration = Duration::from_millis(600);
/// The interval at which the thread checks running calls, and the idle time before the thread sleeps until the next call.
const TICK: Duration = Duration::from_millis(25);
const IDLE: Duration = Duration::from_secs(1);

/// The remaining time of an answer.
#[derive(Debug)]
pub(super) struct Allowance {
    left: Duration,
    handle: CancellationHandle,
}

impl Allowance {
    /// Begins an answer. `handle` cancels its parser.
    pub(super) fn new(handle: CancellationHandle) -> Allowance {
        Allowance { left: BURST, handle }
    }

    /// Adds the time for one token to the allowance.
    pub(super) fn add(&mut self) {
        self.left = (self.left + TOKEN).min(BURST);
    }

    /// Calls the library, and subtracts the elapsed time from the allowance.
    pub(super) fn spend<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, Refusal> {
        let start = Instant::now();
        let result = {
            let _call = WatchedCall::begin(&self.handle, start + CALL.min(self.left));
            call()
        };
        // Limit the elapsed time, because a call that was not cancelled may have been interrupted for long, for example by a
        // machine that slept.
        let took = start.elapsed().min(CALL);
        let left = self.left.checked_sub(took).filter(|_| !self.handle.is_cancelled());
        self.left = left.ok_or(Refusal::Token { most: TOKEN })?;
        Ok(result)
    }
}

/// The running calls by their id, each with the time at which it is cancelled.
#[derive(Default)]
struct Calls {
    running: BTreeMap<u64, (Instant, CancellationHandle)>,
    next: u64,
    /// Whether the thread exists, and whether it waits for a call to begin.
    started: bool,
    sleeps: bool,
}

static CALLS: Mutex<Option<Calls>> = Mutex::new(None);
static BEGUN: Condvar = Condvar::new();

fn calls() -> MutexGuard<'static, Option<Calls>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running call.
struct WatchedCall(u64);

impl WatchedCall {
    fn begin(handle: &CancellationHandle, end: Instant) -> WatchedCall {
        let mut calls = calls();
        let calls = calls.get_or_insert_default();
        let number = calls.next;
        calls.next += 1;
        calls.running.insert(number, (end, handle.clone()));
        if !calls.started {
            // If the thread cannot be started, calls end by the library's own limits only.
            calls.started = Builder::new().name("bb-grammar-watch".to_owned()).spawn(watch).is_ok();
        }
        if calls.sleeps {
            BEGUN.notify_one();
        }
        WatchedCall(number)
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        if let Some(calls) = &mut *calls() {
            calls.running.remove(&self.0);
        }
    }
}

/// Cancels calls that take too long. Never returns: the thread sleeps while there are no calls.
fn watch() {
    let mut last = Instant::now();
    let mut guard = calls();
    loop {
        let calls = guard.get_or_insert_default();
        let now = Instant::now();
        if !calls.running.is_empty() {
            last = now;
        }
        for (end, handle) in calls.running.values() {
            if *end <= now {
                handle.cancel();
            }
        }
        calls.sleeps = now.duration_since(last) > IDLE;
        guard = match calls.sleeps {
            true => BEGUN.wait(guard).unwrap_or_else(PoisonError::into_inner),
            false => BEGUN.wait_timeout(guard, TICK).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}
