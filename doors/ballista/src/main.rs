//! The command `bb-ballista`: runs a scheduler, an executor, a client, or all of them in one process.

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

/// The stack size of threads that plan queries. Plans are traversed recursively, which needs a large stack in builds without optimization.
const STACK: usize = 16 << 20;

fn main() -> ExitCode {
    let args = args::Args::parse();
    // A library may panic on data that it should refuse. A backtrace is printed only on request.
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
    // Runs the command as a task, because the main thread has the system's smaller stack.
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
                // Some errors contain the messages of their causes, which are not repeated.
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
