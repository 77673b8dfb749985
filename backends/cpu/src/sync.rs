//! Atomic numbers, locks and threads for the parts of the backend that several threads use concurrently.
//!
//! They are the types of `std`. In tests that are compiled with `--cfg bb_model`, they are the types of `loom`, which runs a test under
//! every order of its threads, and lets each read see every value that the memory orderings allow. `loom` was chosen over `shuttle`,
//! because the correctness of these small parts depends on their memory orderings.
//!
//! Only tests with `model::` in their names can run in a build with this flag; `CONTRIBUTING.md` has the command.

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
