//! Re-exports the atomics, locks and threads for the concurrent parts of the backend.
//!
//! They are the types of `std`. In tests compiled with `--cfg bb_model`, they are the types of `loom`, which runs a test in every order
//! of its threads and lets each read return every value that the memory orderings allow. The alternative `shuttle` does not model
//! memory orderings, and the correctness of these parts depends on them.
//!
//! A build with this flag can run only the tests with `model::` in their names; `CONTRIBUTING.md` has the command.

#[cfg(all(test, bb_model))]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering, fence},
    },
    thread::{self, Thread},
};
#[cfg(not(all(test, bb_model)))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering, fence},
    },
    thread::{self, Thread},
};
