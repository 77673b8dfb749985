//! Arguments of the command.

use crate::{demo, query, serve};
use bb_ballista::{RunSettings, Stores};
use clap::{Args as ClapArgs, Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// An error of a command.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;

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

/// Tables and the output of a query.
#[derive(Debug, ClapArgs)]
pub(crate) struct QueryArgs {
    /// The query.
    pub(crate) sql: String,
    /// A Parquet file or a folder of them, and the name that it has in the query: `NAME=PATH`. May be given several times.
    #[arg(long = "table", value_parser = table)]
    pub(crate) tables: Vec<(String, String)>,
    /// A setting of the session, as in `datafusion.execution.batch_size=1024`. May be given several times.
    #[arg(long = "set", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Writes the result to this file, as Parquet or CSV by its ending, in place of printing it.
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    /// How many rows are printed at most.
    #[arg(long, default_value_t = 100)]
    pub(crate) most_rows: usize,
}

fn table(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
    pair.map(|(name, path)| (name.to_owned(), path.to_owned())).ok_or("expected NAME=PATH")
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or("expected NAME=VALUE")
}

impl Args {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), CommandError> {
        if self.until_input_ends {
            std::thread::spawn(|| {
                // Whatever ends the input ends the process.
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
