//! DataFusion sessions with the SQL functions.

use crate::function::{RunSettings, bb_run, bb_run_volatile};
use crate::process::bb_process;
use ballista::prelude::SessionConfigExt as _;
use ballista_core::extension::{
    ballista_aggregate_functions, ballista_scalar_functions, ballista_window_functions,
};
use ballista_core::registry::BallistaFunctionRegistry;
use datafusion::error::Result;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the functions of this crate: `bb_run`, `bb_run_volatile` and `bb_process`.
pub fn functions(settings: &RunSettings) -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(bb_run(settings.clone())),
        Arc::new(bb_run_volatile(settings.clone())),
        Arc::new(bb_process()),
    ]
}

/// Returns the configuration of a session in one process: DataFusion's defaults, except that the metadata of Parquet columns are kept,
/// because they contain the shapes of tensors.
pub fn config() -> SessionConfig {
    SessionConfig::new()
        .with_information_schema(true)
        .set_bool("datafusion.execution.parquet.skip_metadata", false)
}

/// Returns the configuration of a session on a cluster.
pub fn cluster_config() -> SessionConfig {
    SessionConfig::new_with_ballista().set_bool("datafusion.execution.parquet.skip_metadata", false)
}

/// Returns an environment that reads tables from the same stores as models. Operators may use `memory` bytes. If they need more, they write
/// to a temporary folder if they can, or fail.
///
/// # Errors
///
/// If the folder for temporary files cannot be created.
pub fn environment(
    settings: &RunSettings,
    memory: Option<usize>,
    folder: Option<PathBuf>,
) -> Result<Arc<RuntimeEnv>> {
    let mut builder = RuntimeEnvBuilder::new().with_object_store_registry(settings.stores.clone());
    if let Some(bytes) = memory {
        builder = builder.with_memory_limit(bytes, 1.0);
    }
    if let Some(folder) = folder {
        builder = builder.with_temp_file_path(folder);
    }
    builder.build_arc()
}

/// Returns a session state with a configuration, an environment and the SQL functions.
pub fn state(config: SessionConfig, environment: Arc<RuntimeEnv>, settings: &RunSettings) -> SessionState {
    SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(environment)
        .with_scalar_functions(scalar_functions(settings))
        .with_aggregate_functions(ballista_aggregate_functions())
        .with_window_functions(ballista_window_functions())
        .build()
}

/// Returns a DataFusion context that runs queries in this process.
///
/// # Errors
///
/// The errors of [`environment`].
pub fn local(settings: &RunSettings, config: SessionConfig, memory: Option<usize>) -> Result<SessionContext> {
    Ok(SessionContext::new_with_state(state(config, environment(settings, memory, None)?, settings)))
}

/// Returns the functions that executors need to decode plans.
pub fn registry(settings: &RunSettings) -> BallistaFunctionRegistry {
    let mut registry = BallistaFunctionRegistry::default();
    // Registers the nested functions, too. The default lacks them, so plans with lists could not be decoded.
    for function in scalar_functions(settings) {
        for alias in function.aliases() {
            registry.scalar_functions.insert(alias.clone(), function.clone());
        }
        registry.scalar_functions.insert(function.name().to_owned(), function);
    }
    registry
}

fn scalar_functions(settings: &RunSettings) -> Vec<Arc<ScalarUDF>> {
    let mut all = ballista_scalar_functions();
    all.extend(functions(settings));
    all
}
