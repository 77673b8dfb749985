//! Wrappers that report to ThreadSanitizer the synchronisation that compiled parts of `std` promise.
//!
//! The `std` of a toolchain is compiled without instrumentation. Code that is generic or inlined becomes part of the program and is seen,
//! e.g. taking a lock that is free. Other code, e.g. waiting for a lock that is taken, is invisible; so threads that wait in turn seem to
//! race. Each function below wraps a function of `std`: it calls that function, and reports the synchronisation that the function promises.
//! `tests/sanitize` puts in the names that the toolchain has, and links this with `--wrap`.
//!
//! Nothing of `bb` is named here, and no report is suppressed by it; `thread.supp` has what remains of `std` and of the test
//! harness.
//!
//! SAFETY of every block: each function has the arguments of the function that it wraps, passes them on unchanged, and calls it once; and
//! the runtime takes any address. An address identifies the synchronised object, and nothing is read or written there.
#![no_std]
#![crate_type = "lib"]

use core::time::Duration;

type Place = *const u8;

unsafe extern "C" {
    fn __tsan_acquire(place: Place);
    fn __tsan_release(place: Place);
}

/// Orders everything before a release of a place before everything after an acquisition of the same place.
fn acquire(place: Place) {
    unsafe { __tsan_acquire(place) }
}

fn release(place: Place) {
    unsafe { __tsan_release(place) }
}

unsafe extern "Rust" {
    #[link_name = "__real_@lock_contended@"]
    fn lock_contended(mutex: Place);
    #[link_name = "__real_@read_contended@"]
    fn read_contended(lock: Place);
    #[link_name = "__real_@write_contended@"]
    fn write_contended(lock: Place);
    #[link_name = "__real_@condvar_wait@"]
    fn condvar_wait(condvar: Place, mutex: Place);
    #[link_name = "__real_@condvar_wait_timeout@"]
    fn condvar_wait_timeout(condvar: Place, mutex: Place, time: Duration) -> bool;
    #[link_name = "__real_@once_call@"]
    fn once_call(once: Place, ignore_poison: bool, init: &mut dyn FnMut(Place), caller: Place);
    #[link_name = "__real_@barrier_wait@"]
    fn barrier_wait(barrier: Place) -> bool;
    #[link_name = "__real_@end_of_scoped_thread@"]
    fn end_of_scoped_thread(scope: Place, panicked: bool);
}

/// The first word of a mutex is what its owner writes to unlock it.
#[unsafe(export_name = "__wrap_@lock_contended@")]
unsafe fn lock(mutex: Place) {
    unsafe { lock_contended(mutex) };
    acquire(mutex);
}

/// The first word of a lock is what its owners write to unlock it.
#[unsafe(export_name = "__wrap_@read_contended@")]
unsafe fn read(lock: Place) {
    unsafe { read_contended(lock) };
    acquire(lock);
}

#[unsafe(export_name = "__wrap_@write_contended@")]
unsafe fn write(lock: Place) {
    unsafe { write_contended(lock) };
    acquire(lock);
}

/// Waiting unlocks the mutex and locks it again.
#[unsafe(export_name = "__wrap_@condvar_wait@")]
unsafe fn wait(condvar: Place, mutex: Place) {
    release(mutex);
    unsafe { condvar_wait(condvar, mutex) };
    acquire(mutex);
}

#[unsafe(export_name = "__wrap_@condvar_wait_timeout@")]
unsafe fn wait_timeout(condvar: Place, mutex: Place, time: Duration) -> bool {
    release(mutex);
    let notified = unsafe { condvar_wait_timeout(condvar, mutex, time) };
    acquire(mutex);
    notified
}

/// Orders the initialisation before the return of every call.
#[unsafe(export_name = "__wrap_@once_call@")]
unsafe fn call(once: Place, ignore_poison: bool, init: &mut dyn FnMut(Place), caller: Place) {
    let mut init = |state| {
        init(state);
        release(once);
    };
    unsafe { once_call(once, ignore_poison, &mut init, caller) };
    acquire(once);
}

/// Orders the work of each thread before a barrier before the work of all threads after it.
#[unsafe(export_name = "__wrap_@barrier_wait@")]
unsafe fn meet(barrier: Place) -> bool {
    release(barrier);
    let leads = unsafe { barrier_wait(barrier) };
    acquire(barrier);
    leads
}

/// Orders the work of a scoped thread before the end of its scope. The scope reads the number of its threads, which is in one of
/// these words.
#[unsafe(export_name = "__wrap_@end_of_scoped_thread@")]
unsafe fn end(scope: Place, panicked: bool) {
    for word in 0..3 {
        release(scope.wrapping_add(word * 8));
    }
    unsafe { end_of_scoped_thread(scope, panicked) };
}
