//! The commands `scheduler` and `executor`.

use crate::command_error::CommandError;
use bb_ballista::RunSettings;
use bb_ballista::cluster::{self, ExecutorSettings, SchedulerSettings};
use clap::Args as ClapArgs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The number of attempts to start an executor, and the time after the start within which an end counts as a failed start.
const ATTEMPTS: usize = 3;
const EARLY: std::time::Duration = std::time::Duration::from_secs(2);

/// The time for an executor to finish its tasks after a request to terminate.
const GRACE: std::time::Duration = std::time::Duration::from_secs(30);

/// Runs a scheduler.
#[derive(Debug, ClapArgs)]
pub(crate) struct Scheduler {
    /// Where it listens; port 0 lets the system choose one.
    #[arg(long, default_value = "127.0.0.1:50050")]
    listen: SocketAddr,
    /// The host name or address that executors connect to; by default the address that it listens on.
    #[arg(long)]
    host: Option<String>,
    /// After how many seconds without a sign of life an executor is given up.
    #[arg(long, default_value_t = 10)]
    executor_timeout: u64,
}

impl Scheduler {
    pub(crate) async fn run(self, run: RunSettings) -> Result<(), CommandError> {
        let listener = tokio::net::TcpListener::bind(self.listen).await?;
        let mut settings = SchedulerSettings::default();
        settings.host = self.host.unwrap_or_else(|| self.listen.ip().to_string());
        settings.executor_timeout = self.executor_timeout;
        say(&format!("scheduler {}", listener.local_addr()?))?;
        tokio::select! {
            ended = cluster::schedule(listener, &settings, run) => Ok(ended?),
            () = told_to_end() => Ok(()),
        }
    }
}

/// Runs an executor.
#[derive(Debug, ClapArgs)]
pub(crate) struct Executor {
    /// The scheduler.
    #[arg(long, default_value = "127.0.0.1:50050")]
    scheduler: String,
    /// The address that it listens on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: String,
    /// The host name or address that others connect to; by default its own address in its connection to the scheduler.
    #[arg(long)]
    host: Option<String>,
    /// The port that serves results; the system chooses one by default.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The port that receives tasks; the system chooses one by default.
    #[arg(long, default_value_t = 0)]
    grpc_port: u16,
    /// How many partitions it works on at the same time; by default the number of the machine's cores.
    #[arg(long)]
    slots: Option<usize>,
    /// The bytes that sorts, joins and groups may take, before they use files or fail; by default most of the machine's.
    #[arg(long)]
    memory: Option<u64>,
    /// The folder of results and temporary files; by default one that is removed at the end.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The seconds between signs of life.
    #[arg(long, default_value_t = 2)]
    heartbeat: u64,
}

impl Executor {
    pub(crate) async fn run(self, run: RunSettings) -> Result<(), CommandError> {
        let (host, port) = self.scheduler.rsplit_once(':').ok_or("expected HOST:PORT for --scheduler")?;
        // A folder that is removed at the end is used, unless the user chose a folder.
        let own = match self.folder {
            None => Some(tempfile::Builder::new().prefix("bb-executor-").tempdir()?),
            Some(_) => None,
        };
        let folder = own.as_ref().map(|own| own.path().to_owned()).or_else(|| self.folder.clone());
        let folder = folder.ok_or("there is no folder for results")?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (host, port) = (host.to_owned(), port.parse().map_err(|_| "expected HOST:PORT for --scheduler")?);
        say(&format!("executor {}", std::process::id()))?;
        for attempt in 1.. {
            // Ballista announces the ports before it binds them, so free ports are chosen here. Another process may bind them first, hence
            // the attempts.
            let settings = ExecutorSettings {
                scheduler_host: host.clone(),
                scheduler_port: port,
                bind: self.bind.clone(),
                host: self.host.clone(),
                port: free_port(&self.bind, self.port)?,
                grpc_port: free_port(&self.bind, self.grpc_port)?,
                slots: self.slots.unwrap_or(cores),
                memory: self.memory,
                folder: folder.clone(),
                heartbeat: self.heartbeat,
            };
            let start = std::time::Instant::now();
            let ended = tokio::select! {
                ended = cluster::execute(settings, run.clone()) => ended,
                // Ballista ends by itself once its tasks are done, unless it waits for a scheduler that is gone. So the wait is limited.
                () = async { told_to_end().await; tokio::time::sleep(GRACE).await } => return Ok(()),
            };
            match ended {
                Err(_) if attempt < ATTEMPTS && start.elapsed() < EARLY => {}
                ended => {
                    ended?;
                    break;
                }
            }
        }
        drop(own);
        Ok(())
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn told_to_end() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    // If signals are not available, waits until the system ends the process.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns `port`, or a free port if it is 0.
fn free_port(bind: &str, port: u16) -> Result<u16, CommandError> {
    if port != 0 {
        return Ok(port);
    }
    Ok(std::net::TcpListener::bind((bind, 0))?.local_addr()?.port())
}

/// Prints a line for the parent process, which waits for it.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
