//! The command `demo`: runs a query on clusters of local processes, and compares the results with the backend's.

use crate::command_error::CommandError;
use crate::points::{self, Comparison, Expected, PointModel};
use bb_ballista::{RunSettings, cluster, session};
use clap::Args as ClapArgs;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The maximum time for a process to start, and for a query to end.
const START: Duration = Duration::from_secs(60);
const QUERY: Duration = Duration::from_secs(600);

/// Starts clusters of one and of several executors, and asks each for the same query.
#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// A model with one input `[rows, NUMBER]` of `f32`.
    #[arg(long, default_value = "tests/data/models/skl_random_forest/model.onnx")]
    model: PathBuf,
    /// The backend that runs it.
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// How many executors the larger cluster has.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    executors: u16,
    /// The rows of the table.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// The partitions of the table.
    #[arg(long, default_value_t = 16)]
    partitions: usize,
    /// The number of times that each query runs; the fastest time counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Ends one executor in the middle of a further query.
    #[arg(long)]
    kill: bool,
}

impl Demo {
    pub(crate) async fn run(self, run: &RunSettings) -> Result<(), CommandError> {
        let folder = tempfile::Builder::new().prefix("bb-ballista-").tempdir()?;
        let table = folder.path().join("points.parquet");
        let model = PointModel::load(&self.model, &self.backend)?;
        let memory = points::write(&table, self.rows, model.width)?;
        println!(
            "table: {} rows of {} numbers, {} MB of Parquet, {} MB as columns in memory",
            self.rows,
            model.width,
            std::fs::metadata(&table)?.len() / 1_000_000,
            memory / 1_000_000
        );
        let (expected, took) = model.expect(self.rows)?;
        println!("backend `{}` alone, all threads: {}", self.backend, rate(self.rows, took.as_secs_f64()));
        let path = std::path::absolute(&self.model)?;
        let path = path.to_str().ok_or("the path of the model is not Unicode")?;
        let sql = format!(
            "SELECT id, bb_run('{}#backend={}', x) AS y, bb_process() AS process FROM points",
            path.replace('\'', "''"),
            self.backend
        );
        let query = Query { sql: &sql, table: &table, expected: &expected, partitions: self.partitions };
        let mut counts = vec![1, self.executors];
        counts.dedup();
        let mut whole = Duration::ZERO;
        for executors in counts {
            let cluster = LocalCluster::start(executors, folder.path())?;
            let context = cluster.ready(&query, run).await?;
            let (mut took, mut by_process) = query.ask(&context).await?;
            let mut processes: BTreeSet<i64> = by_process.keys().copied().collect();
            for _ in 1..self.rounds {
                let again = query.ask(&context).await?;
                processes.extend(again.1.keys());
                if again.0 < took {
                    (took, by_process) = again;
                }
            }
            println!(
                "{executors} executors: {}; {}",
                rate(self.rows, took.as_secs_f64()),
                shares(&by_process)
            );
            if processes.len() != usize::from(executors) {
                return Err(format!("expected {executors} processes to have computed rows").into());
            }
            for executor in &cluster.executors {
                println!(
                    "  process {}: at most {} MB in memory",
                    executor.0.id(),
                    peak(executor.0.id())? / 1_000_000
                );
            }
            whole = took;
        }
        if self.kill {
            let mut cluster = LocalCluster::start(self.executors, folder.path())?;
            let context = cluster.ready(&query, run).await?;
            let victim = cluster.executors.remove(0);
            let id = victim.0.id();
            let killer = tokio::spawn(async move {
                tokio::time::sleep(whole / 2).await;
                // On Unix, this sends SIGKILL, so the process cannot shut down properly.
                drop(victim);
                Instant::now()
            });
            let start = Instant::now();
            let (took, by_process) = query.ask(&context).await?;
            let killed = killer.await?.duration_since(start);
            if killed >= took {
                return Err("the query ended before the executor did".into());
            }
            println!(
                "{} executors, process {id} killed after {:.1} s: {}; {}",
                self.executors,
                killed.as_secs_f64(),
                rate(self.rows, took.as_secs_f64()),
                shares(&by_process)
            );
        }
        println!("all rows are there once and equal those of the backend bit for bit");
        Ok(())
    }
}

fn rate(rows: usize, seconds: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a rate is printed with few digits")]
    let rate = rows as f64 / seconds;
    format!("{seconds:.2} s, {rate:.0} rows/s")
}

fn shares(by_process: &BTreeMap<i64, usize>) -> String {
    let shares = by_process.iter().map(|(process, rows)| format!("process {process} did {rows} rows"));
    shares.collect::<Vec<_>>().join(", ")
}

/// Returns the peak resident memory of a process, in bytes.
fn peak(process: u32) -> Result<usize, CommandError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("the system tells no sizes")?;
    Ok(kilobytes.trim().parse::<usize>()? * 1024)
}

/// The query of the demonstration.
struct Query<'a> {
    sql: &'a str,
    table: &'a Path,
    expected: &'a Expected,
    partitions: usize,
}

impl Query<'_> {
    /// Runs the query on a cluster, and compares all rows with the expected ones. Returns the time until the client has all rows.
    async fn ask(&self, context: &SessionContext) -> Result<(Duration, BTreeMap<i64, usize>), CommandError> {
        let start = Instant::now();
        let collect = async { context.sql(self.sql).await?.collect().await };
        let batches =
            tokio::time::timeout(QUERY, collect).await.map_err(|_| "the query takes too long")??;
        let took = start.elapsed();
        let mut comparison = Comparison::with(self.expected);
        batches.iter().try_for_each(|batch| comparison.add(batch))?;
        comparison.finish()?;
        Ok((took, comparison.by_process))
    }
}

/// A child process that is killed when this is dropped.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Killing fails if the process has already ended, which is not an error.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A scheduler and executors on this machine.
struct LocalCluster {
    scheduler: String,
    executors: Vec<Owned>,
    _scheduler: Owned,
}

impl LocalCluster {
    /// Starts the processes. Each executor has one thread, so that the speed-up of several executors is visible.
    fn start(executors: u16, folder: &Path) -> Result<LocalCluster, CommandError> {
        let (process, said) = spawn(["scheduler", "--listen", "127.0.0.1:0", "--executor-timeout", "5"])?;
        let scheduler =
            said.strip_prefix("scheduler ").ok_or("the scheduler does not say where it listens")?;
        let start = |_| {
            // The folder is created inside one that is removed, because a killed executor leaves its folder behind.
            let own = tempfile::Builder::new().prefix("executor-").tempdir_in(folder)?.keep();
            let own = own.to_str().ok_or("the folder for temporary files is not Unicode")?;
            let one_thread = ["--slots", "1", "--threads", "1", "--heartbeat", "1"];
            let args = ["executor", "--scheduler", scheduler, "--folder", own].into_iter().chain(one_thread);
            Ok::<_, CommandError>(spawn(args)?.0)
        };
        let executors = (0..executors).map(start).collect::<Result<_, _>>()?;
        Ok(LocalCluster { scheduler: scheduler.to_owned(), executors, _scheduler: process })
    }

    /// Waits until all executors have run a part of the query, which loads the model in each of them. Returns a client.
    async fn ready(&self, query: &Query<'_>, run: &RunSettings) -> Result<SessionContext, CommandError> {
        let config = session::cluster_config().with_target_partitions(query.partitions);
        let context = cluster::client(&format!("df://{}", self.scheduler), config, run).await?;
        let path = query.table.to_str().ok_or("the path of the table is not Unicode")?;
        context.register_parquet("points", path, ParquetReadOptions::default()).await?;
        let start = Instant::now();
        while start.elapsed() < START {
            let (_, by_process) = query.ask(&context).await?;
            if by_process.len() == self.executors.len() {
                return Ok(context);
            }
        }
        Err(format!("not all of {} executors came to work in time", self.executors.len()).into())
    }
}

/// Starts this program as a child process, and returns its first line of output.
fn spawn<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<(Owned, String), CommandError> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(args).arg("--until-input-ends");
    let mut process = Owned(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let out = process.0.stdout.take().ok_or("a process has no output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    match line.trim() {
        "" => Err("a process ended before it was ready".into()),
        line => Ok((process, line.to_owned())),
    }
}
