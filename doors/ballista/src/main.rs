//! The command `bb-ballista`: a scheduler, an executor, a client, or all in one process.

mod args;
mod command_error;
mod demo;
mod output;
mod points;
mod query;
mod serve;
mod tables;

use bb::ir::text::{printable, sentence};
use clap::Parser;
use std::process::ExitCode;

/// The stack of a thread that plans queries: plans are walked recursively, and builds without optimization need much of it.
const STACK: usize = 16 << 20;

fn main() -> ExitCode {
    let args = args::Args::parse();
    // A library may panic in data that it should refuse. A trace of that is for those who ask for it.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|panic| eprintln!("internal error: {}", sentence(panic))));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The main thread has the system's stack, so that what plans is a task.
    let done = runtime.block_on(async { tokio::spawn(args.run()).await });
    match done {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            if let Some(error) = error.downcast_ref() {
                eprintln!("error: {}", printable(&bb_ballista::reason(error)));
                return ExitCode::FAILURE;
            }
            let mut said = error.to_string();
            eprintln!("error: {}", printable(&said));
            let mut cause = error.source();
            while let Some(error) = cause {
                // Some errors have their causes in their text.
                let text = error.to_string();
                if !said.contains(&text) {
                    eprintln!("  because: {}", printable(&text));
                    said = text;
                }
                cause = error.source();
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
