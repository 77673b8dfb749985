//! Tests of the command line with the real binary, its output and its exit status.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod bench;
mod bounds;
mod compare;
mod compile;
mod conformance;
mod coverage;
mod damaged;
mod export;
mod files;
mod hostile;
mod inspect;
mod large;
mod loaded;
mod memory;
mod minimal;
mod new;
mod process;
mod random;
mod run;
mod strangers;
mod streams;
mod tell;
mod values;
