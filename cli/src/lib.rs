//! The command line of `bb` as a library: runs, inspects, tests and measures ONNX models on any backend linked into the
//! program.
//!
//! The author of a backend gets all of it with a program of three lines:
//!
//! ```no_run
//! # mod my_backend {}
//! use my_backend as _; // A backend that nothing names is not linked.
//!
//! fn main() -> std::process::ExitCode {
//!     bb_cli::main()
//! }
//! ```
//!
//! Then `cargo run -- conformance DIR --backend mine` tests it, `cargo run -- coverage --backend mine` lists what it runs,
//! and `cargo run -- compare MODEL --backend reference --backend mine` finds the first value that differs.
//!
//! The backends `cpu`, `reference` and `whole-graph` come with features of these names, which are on unless
//! `default-features = false` leaves them out. Without `--backend` a command takes `cpu` if it is linked, else the only
//! backend beside `reference` and `whole-graph`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod backends;
mod bench;
mod compare;
mod conformance;
mod coverage;
mod error;
mod export;
mod graph;
mod inputs;
mod inspect;
mod number;
mod out;
mod outputs;
mod render;
mod run;
mod session;
mod warnings;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

// A backend that nothing names is not linked.
#[cfg(feature = "cpu")]
use bb_cpu as _;
#[cfg(feature = "reference")]
use bb_reference as _;
#[cfg(feature = "whole-graph")]
use bb_whole_graph as _;

/// Runs the command that the program's arguments say; what a program's `main` returns.
///
/// `conformance` starts the program again, as worker processes that run one case at a time. So this is all that `main`
/// does: what else it prints would be taken for answers.
pub fn main() -> ExitCode {
    let result = match Arguments::try_parse() {
        Ok(arguments) => run(&arguments.command),
        Err(error) => out::usage(&error),
    };
    let result = result.and_then(|code| out::flush().map(|()| code));
    result.unwrap_or_else(|error| {
        render::error(&error);
        ExitCode::FAILURE
    })
}

fn run(command: &Command) -> error::Result<ExitCode> {
    match command {
        Command::Run(options) => run::run(options),
        Command::Inspect(options) => inspect::inspect(options),
        Command::Coverage(options) => coverage::coverage(options),
        Command::Compare(options) => compare::compare(options),
        Command::Conformance(options) => conformance::conformance(options),
        Command::ConformanceWorker(options) => conformance::worker(options),
        Command::Bench(options) => bench::bench(options),
        Command::Export(options) => export::export(options),
        Command::Backends(options) => backends::backends(options),
        Command::Completions(options) => out::completions(options),
    }
}
