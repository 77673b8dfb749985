//! Arguments of the command.

use crate::command_error::CommandError;
use crate::{demo, query, serve};
use bb_ballista::{RunSettings, Stores};
use clap::{Parser, Subcommand};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Runs models over tables in SQL, in one process or on a cluster.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    /// The threads that a backend uses; by default it decides by itself.
    #[arg(long, global = true)]
    threads: Option<NonZeroUsize>,
    /// Ends the process when its standard input ends, as it does when the process that started it dies.
    #[arg(long, global = true, hide = true)]
    until_input_ends: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a scheduler, which plans queries and divides them among executors.
    Scheduler(serve::Scheduler),
    /// Runs an executor, which reads tables and runs models.
    Executor(serve::Executor),
    /// Runs a query on a cluster.
    Query(query::Remote),
    /// Runs a query in this process.
    Local(query::Local),
    /// Starts a cluster on this machine, runs a model over a table, and compares the results with the backend's.
    Demo(demo::Demo),
}

impl Args {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), CommandError> {
        if self.until_input_ends {
            std::thread::spawn(|| {
                // Blocks until the input ends or fails, then ends the process.
                let _ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                std::process::exit(0);
            });
        }
        let run = RunSettings::new(Arc::new(Stores::default())).with_threads(self.threads);
        match self.command {
            Command::Scheduler(command) => command.run(run).await,
            Command::Executor(command) => command.run(run).await,
            Command::Query(command) => command.run(&run).await,
            Command::Local(command) => command.run(&run).await,
            Command::Demo(command) => command.run(&run).await,
        }
    }
}
