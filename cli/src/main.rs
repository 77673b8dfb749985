//! `bb`: runs, inspects, tests and measures ONNX models on any backend linked into it.

mod args;
mod backends;
mod bench;
mod compare;
mod conformance;
mod coverage;
mod error;
mod inspect;
mod render;
mod run;
mod tensors;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

// A backend that nothing names is not linked.
use bb_cpu as _;
use bb_reference as _;
use bb_whole_graph as _;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Inspect(options) => inspect::inspect(&options),
        Command::Coverage(options) => coverage::coverage(&options),
        Command::Compare(options) => compare::compare(&options),
        Command::Conformance(options) => conformance::conformance(&options),
        Command::ConformanceWorker(options) => conformance::worker(&options),
        Command::Bench(options) => bench::bench(&options),
        Command::Backends(options) => backends::backends(&options),
    };
    result.unwrap_or_else(|error| {
        render::error(&error);
        ExitCode::FAILURE
    })
}
