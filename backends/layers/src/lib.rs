//! Layers for backends. They log, measure, limit, check, disturb, record and replay operations.
//!
//! Each layer is a struct that wraps any backend. Each layer also has a name, so that for example `metrics+limit(calls=1000)+cpu` can be
//! used wherever a backend name can. To link all layers, a program names this crate: `use bb_layers as _;`.
//!
//! | name | what it does | options |
//! |---|---|---|
//! | `log` | writes a line for each operation | `to`: a file; the default is standard error |
//! | `metrics` | counts calls, elements and bytes, and measures time, by operation | |
//! | `limit` | refuses operations beyond a limit | `calls`, `seconds`, `result`: bytes of one result; `memory`: bytes in use |
//! | `check` | compares the types and extents of results with the rules, and finds the first NaN, infinity or boolean other than 0 and 1 | `values` |
//! | `fault` | injects errors, delays, wrong extents, panics and the loss of the device | `kind`, `rate`, `at`, `seed`, `op`, `seconds` |
//! | `record` | writes every operation, its operands and its results to a file | `to` |
//!
//! `replay(from=FILE)` is a backend that answers from a recorded file, and reports the first call that differs. A [`Mock`] answers from a
//! script.
#![forbid(unsafe_code)]

extern crate bb_core as bb;

mod check;
mod constants;
mod fault;
mod host;
mod limit;
mod log;
mod metrics;
mod mock;
mod record;
mod recording;
mod replay;
#[cfg(feature = "tracing")]
mod spans;

pub use check::{Check, CheckError};
pub use fault::{Fault, FaultKind, FaultOptions, InjectedFault};
pub use host::HostTensor;
pub use limit::{Limit, LimitError, Limits};
pub use log::Log;
pub use metrics::{Metrics, MetricsTable, OperationMetrics, all_metrics};
pub use mock::{Expectation, Mock, MockError, Script};
pub use record::Record;
pub use recording::{RecordError, ReplayError};
pub use replay::Replay;
#[cfg(feature = "tracing")]
pub use spans::Spans;

use bb::{BoxError, Error, Tensor};
use std::path::Path;
use std::time::Duration;

/// Returns the duration in an option.
///
/// # Errors
///
/// [`Error::OptionValue`] if the number is negative or too large.
fn duration(option: &str, seconds: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(seconds).map_err(|_| Error::OptionValue {
        option: option.to_owned(),
        expected: "a number of seconds, at least 0",
        got: seconds.to_string(),
    })
}

/// Returns the error for an option whose file cannot be read or written.
fn refused_file(option: &str, path: &Path, source: impl Into<BoxError>) -> Error {
    Error::OptionRefused { option: option.to_owned(), got: path.display().to_string(), source: source.into() }
}

/// Returns the size in bytes of a tensor's elements on the host; 0 for strings, whose size is not known.
fn bytes_of(x: &impl Tensor) -> u64 {
    let elements = bb_ir::element_count(x.shape()).unwrap_or(usize::MAX);
    x.dtype().bytes_for(elements).map_or(0, |bytes| bytes as u64)
}
