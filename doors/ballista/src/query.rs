//! The commands `query` and `local`.

use crate::command_error::CommandError;
use crate::{output, tables};
use bb_ballista::{RunSettings, cluster, session};
use clap::Args as ClapArgs;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use std::path::PathBuf;

/// Runs a query on a cluster.
#[derive(Debug, ClapArgs)]
pub(crate) struct Remote {
    /// The scheduler.
    #[arg(long, default_value = "127.0.0.1:50050")]
    scheduler: String,
    #[command(flatten)]
    query: QueryArgs,
}

impl Remote {
    pub(crate) async fn run(self, run: &RunSettings) -> Result<(), CommandError> {
        let config = configured(session::cluster_config(), &self.query)?;
        let context = cluster::client(&format!("df://{}", self.scheduler), config, run).await?;
        answer(&context, &self.query).await
    }
}

/// Runs a query in this process.
#[derive(Debug, ClapArgs)]
pub(crate) struct Local {
    /// The bytes that sorts, joins and groups may take, before they use files or fail.
    #[arg(long)]
    memory: Option<usize>,
    #[command(flatten)]
    query: QueryArgs,
}

impl Local {
    pub(crate) async fn run(self, run: &RunSettings) -> Result<(), CommandError> {
        let config = configured(session::config(), &self.query)?;
        answer(&session::local(run, config, self.memory)?, &self.query).await
    }
}

fn configured(mut config: SessionConfig, query: &QueryArgs) -> Result<SessionConfig, CommandError> {
    for (name, value) in &query.settings {
        config.options_mut().set(name, value)?;
    }
    Ok(config)
}

async fn answer(context: &SessionContext, query: &QueryArgs) -> Result<(), CommandError> {
    for (name, path) in &query.tables {
        // Makes the path absolute, because executors have other working directories.
        let path = if path.contains("://") {
            path.clone()
        } else {
            let path = std::path::absolute(path)?;
            tables::check(&path)?;
            path.to_string_lossy().into_owned()
        };
        context.register_parquet(name, path, ParquetReadOptions::default()).await?;
    }
    let frame = context.sql(&query.sql).await?;
    let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
    let stream = frame.execute_stream().await?;
    match &query.output {
        Some(path) => output::write(stream, schema, path).await,
        None => output::print(stream, query.most_rows).await,
    }
}

/// Tables and the output of a query.
#[derive(Debug, ClapArgs)]
struct QueryArgs {
    /// The query.
    sql: String,
    /// A Parquet file or a folder of them, and the name that it has in the query: `NAME=PATH`. May be given several times.
    #[arg(long = "table", value_parser = table)]
    tables: Vec<(String, String)>,
    /// A setting of the session, as in `datafusion.execution.batch_size=1024`. May be given several times.
    #[arg(long = "set", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Writes the result to this file, as Parquet or CSV by its ending, instead of printing it.
    #[arg(long)]
    output: Option<PathBuf>,
    /// How many rows are printed at most.
    #[arg(long, default_value_t = 100)]
    most_rows: usize,
}

fn table(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
    pair.map(|(name, path)| (name.to_owned(), path.to_owned())).ok_or("expected NAME=PATH")
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or("expected NAME=VALUE")
}
