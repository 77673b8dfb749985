//! The command line of `bb` as a library: runs, inspects, tests and measures ONNX models on any linked backend.
//!
//! The author of a backend gets all commands with a program of three lines:
//!
//! ```no_run
//! # mod my_backend {}
//! use my_backend as _; // Links the backend, although nothing names it.
//!
//! fn main() -> std::process::ExitCode {
//!     bb_cli::main()
//! }
//! ```
//!
//! Then `cargo run -- conformance DIR --backend mine` tests the backend,
//! `cargo run -- coverage --backend mine` lists the operators that it runs, and
//! `cargo run -- compare MODEL --backend reference --backend mine` finds the first value that differs.
//!
//! The feature `cpu` links the backend of that name and is enabled by default. The other backends have features of their own names, which
//! are disabled by default: `reference`, the smallest backend; `whole-graph`; `wgpu`, the GPU backend; and `ort` and `rten`, which wrap
//! third-party engines. The feature `serve` adds the command `serve`, which answers requests over HTTP and gRPC; `serve-tls` encrypts its
//! connections. The feature `generate` adds the command `generate`, which generates text with language models. With the feature `loaded`,
//! the variable `BB_BACKEND_PATH` names libraries with additional backends. Without `--backend`, a command uses `cpu` if it is linked, else
//! the only backend besides `reference` and `whole-graph`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod backends;
mod bench;
mod compare;
mod compile;
mod conformance;
mod coverage;
mod error;
mod export;
#[cfg(feature = "generate")]
mod generate;
mod graph;
mod inputs;
mod inspect;
mod layers;
mod loaded;
mod minimal;
mod new;
mod npz;
mod number;
mod out;
mod outputs;
mod render;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod warnings;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

// These crates are imported only so that the linker includes the backends, the layers and the operators.
#[cfg(feature = "cpu")]
use bb_cpu as _;
use bb_layers as _;
use bb_operators as _;
#[cfg(feature = "ort")]
use bb_ort as _;
#[cfg(feature = "reference")]
use bb_reference as _;
#[cfg(feature = "rten")]
use bb_rten as _;
#[cfg(feature = "wgpu")]
use bb_wgpu as _;
#[cfg(feature = "whole-graph")]
use bb_whole_graph as _;

/// Runs the command in the program's arguments. A program's `main` returns the result.
///
/// `conformance` starts the program again as worker processes, which run one case at a time. So `main` must do nothing else: anything that
/// it prints would be mistaken for an answer of a worker.
pub fn main() -> ExitCode {
    let result = match Arguments::try_parse() {
        Ok(arguments) => {
            loaded::obey_path().and_then(|()| run(&arguments.command)).inspect(|_| layers::report())
        }
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
        Command::Compile(options) => compile::compile(options),
        #[cfg(feature = "generate")]
        Command::Generate(options) => generate::generate(options),
        #[cfg(feature = "serve")]
        Command::Serve(options) => serve::serve(options),
        Command::Minimal(options) => minimal::minimal(options),
        Command::New(options) => new::new(options),
        Command::Backends(options) => backends::backends(options),
        Command::Completions(options) => out::completions(options),
    }
}
