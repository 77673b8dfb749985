//! Atomic numbers, locks and threads for the parts of the backend in which several threads meet.
//!
//! They are those of `std`. In tests that are compiled with `--cfg bb_model`, they are those of `loom`, which runs a test
//! under every order of its threads, and lets each read see every value that the memory orderings allow. `loom` was chosen
//! over `shuttle` here, because these parts are small and stand or fall with their memory orderings.
//!
//! Only tests with `model::` in their names can run in such a build; `CONTRIBUTING.md` has the command.

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
