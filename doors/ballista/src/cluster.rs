//! Schedulers, executors, and clients of a cluster.

use crate::function::RunSettings;
use crate::session;
use ballista::prelude::SessionContextExt as _;
use ballista_core::error::BallistaError;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry as _;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The settings of a scheduler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchedulerSettings {
    /// The host name that executors and clients use to reach the scheduler.
    pub host: String,
    /// The number of seconds without a heartbeat after which an executor counts as lost, and its tasks run elsewhere.
    pub executor_timeout: u64,
    /// The number of times that a task may fail before its query fails.
    pub task_failures: usize,
    /// The number of times that a stage may fail before its query fails. A stage fails, for example, if an executor and its results are
    /// lost.
    pub stage_failures: usize,
}

impl Default for SchedulerSettings {
    fn default() -> SchedulerSettings {
        SchedulerSettings {
            host: "127.0.0.1".to_owned(),
            executor_timeout: 10,
            task_failures: 4,
            stage_failures: 16,
        }
    }
}

/// Runs a scheduler on a listener until the process ends or the listener fails.
///
/// # Errors
///
/// The errors of Ballista.
pub async fn schedule(
    listener: TcpListener,
    settings: &SchedulerSettings,
    run: RunSettings,
) -> std::result::Result<(), BallistaError> {
    let environment = session::environment(&run, None, None)?;
    let builder = move |config: SessionConfig| Ok(session::state(config, environment.clone(), &run));
    let mut config = SchedulerConfig::default()
        .with_override_session_builder(Arc::new(builder))
        .with_override_config_producer(Arc::new(session::cluster_config))
        .with_task_distribution(TaskDistributionPolicy::RoundRobin)
        .with_hostname(settings.host.clone())
        .with_port(listener.local_addr()?.port());
    config.executor_timeout_seconds = settings.executor_timeout;
    config.no_executors_grace_period_seconds = settings.executor_timeout.max(30);
    config.expire_dead_executor_interval_seconds = 1;
    config.task_max_failures = settings.task_failures;
    config.stage_max_failures = settings.stage_failures;
    config.validate()?;
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    start_grpc_service_with_listener(listener, scheduler).await
}

/// The settings of an executor.
#[derive(Debug, Clone)]
pub struct ExecutorSettings {
    /// The host of the scheduler.
    pub scheduler_host: String,
    /// The port of the scheduler.
    pub scheduler_port: u16,
    /// The address where the executor listens.
    pub bind: String,
    /// The host name that other processes use to reach the executor, if it differs from the source address of its connection to the
    /// scheduler.
    pub host: Option<String>,
    /// The port that serves results.
    pub port: u16,
    /// The port that receives tasks.
    pub grpc_port: u16,
    /// The number of partitions that the executor processes concurrently.
    pub slots: usize,
    /// The number of bytes that sorts, joins and aggregations may use together, before they write to files or fail.
    pub memory: Option<u64>,
    /// The folder for results that other processes fetch, and for temporary files.
    pub folder: PathBuf,
    /// The number of seconds between heartbeats.
    pub heartbeat: u64,
}

/// Runs an executor until the process receives a request to terminate.
///
/// # Errors
///
/// The errors of Ballista.
pub async fn execute(settings: ExecutorSettings, run: RunSettings) -> std::result::Result<(), BallistaError> {
    let folder = settings.folder.clone();
    let registry = session::registry(&run);
    let environment = move |_: &SessionConfig| session::environment(&run, None, Some(folder.clone()));
    start_executor_process(Arc::new(ExecutorProcessConfig {
        scheduler_host: settings.scheduler_host,
        scheduler_port: settings.scheduler_port,
        scheduler_connect_timeout_seconds: 20,
        bind_host: settings.bind,
        external_host: settings.host,
        port: settings.port,
        grpc_port: settings.grpc_port,
        vcores: settings.slots,
        memory_pool_size: settings.memory,
        work_dir: Some(settings.folder.to_string_lossy().into_owned()),
        executor_heartbeat_interval_seconds: settings.heartbeat,
        override_function_registry: Some(Arc::new(registry)),
        override_runtime_producer: Some(Arc::new(environment)),
        override_config_producer: Some(Arc::new(session::cluster_config)),
        ..ExecutorProcessConfig::default()
    }))
    .await
}

/// Returns a context whose queries run on a cluster. The URL of the scheduler is `df://HOST:PORT`.
///
/// # Errors
///
/// The errors of Ballista.
pub async fn client(scheduler: &str, config: SessionConfig, run: &RunSettings) -> Result<SessionContext> {
    let state = session::state(config, session::environment(run, None, None)?, run);
    let context = SessionContext::remote_with_state(scheduler, state).await?;
    // Registers the functions again, because Ballista replaces the session's functions by its own.
    let mut state = context.state();
    for function in session::functions(run) {
        state.register_udf(function)?;
    }
    Ok(SessionContext::new_with_state(state))
}
