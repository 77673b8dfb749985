//! Running backends: values, runs and their ends, services, deployments, and the list of linked backends.
//!
//! Tests here expect only the backends of `bb_tests`, so declare others in `authors`.

mod added;
mod buffers;
mod deployment;
mod generic;
mod handles;
mod lifecycle;
mod panics;
mod profile;
mod run_into;
mod runtime;
mod services;
mod values;
