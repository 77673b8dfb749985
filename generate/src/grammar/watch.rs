//! The time that the library may take for the tokens of an answer.
//!
//! The library bounds the work of a token by the rules and states that it makes, but not by the comparisons that these take. So a
//! thread cancels a call that takes too long, and an answer whose tokens take too long together ends.

use super::refusal::Refusal;
use llguidance::CancellationHandle;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The longest time of a call.
const CALL: Duration = Duration::from_millis(200);
/// The time that each token adds to the allowance of an answer, and the greatest allowance.
const TOKEN: Duration = Duration::from_millis(20);
const BURST: Duration = Duration::from_millis(600);
/// How often the thread checks while there are calls, and how long it lives without a call.
const TICK: Duration = Duration::from_millis(25);
const IDLE: Duration = Duration::from_secs(1);

/// The remaining time of an answer.
#[derive(Debug)]
pub(super) struct Allowance {
    left: Duration,
    handle: CancellationHandle,
}

impl Allowance {
    /// Begins an answer, whose parser `handle` cancels.
    pub(super) fn new(handle: CancellationHandle) -> Allowance {
        Allowance { left: BURST, handle }
    }

    /// Adds the time of a token.
    pub(super) fn add(&mut self) {
        self.left = (self.left + TOKEN).min(BURST);
    }

    /// Calls the library, and subtracts the time from the allowance.
    pub(super) fn spend<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, Refusal> {
        let start = Instant::now();
        let result = {
            let _call = WatchedCall::begin(&self.handle, start + CALL.min(self.left));
            call()
        };
        // A call that was not cancelled may have been interrupted for long, as by a machine that slept.
        let took = start.elapsed().min(CALL);
        let left = self.left.checked_sub(took).filter(|_| !self.handle.is_cancelled());
        self.left = left.ok_or(Refusal::Token { most: TOKEN })?;
        Ok(result)
    }
}

/// The calls that run, by their number, with the time when they are cancelled.
#[derive(Default)]
struct Calls {
    running: BTreeMap<u64, (Instant, CancellationHandle)>,
    next: u64,
    /// Whether the thread exists, and whether it sleeps until a call begins.
    started: bool,
    sleeps: bool,
}

static CALLS: Mutex<Option<Calls>> = Mutex::new(None);
static BEGUN: Condvar = Condvar::new();

fn calls() -> MutexGuard<'static, Option<Calls>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that runs.
struct WatchedCall(u64);

impl WatchedCall {
    fn begin(handle: &CancellationHandle, end: Instant) -> WatchedCall {
        let mut calls = calls();
        let calls = calls.get_or_insert_default();
        let number = calls.next;
        calls.next += 1;
        calls.running.insert(number, (end, handle.clone()));
        if !calls.started {
            // Without the thread, calls end as the library bounds them.
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

/// Cancels calls that take too long, for as long as the process runs.
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
