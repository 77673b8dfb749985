//! Loads a model from a file or bytes, and prepares it on a backend with the options of a session.

use super::SessionModel;
use crate::environment::OrtEnv;
use crate::error::CallError;
use crate::log::{VERBOSE, WARNING};
use crate::metadata::Facts;
use crate::options::{OrtSessionOptions, Settings};
use crate::status::Result;
use crate::threads::ProgramThreads;
use bb::ir::graph::Graph;
use bb::ir::proto::{ModelProto, TypeProto, tensor_shape_proto, type_proto};
use bb::{BackendHandle, CompileOptions, ErrorKind, Limits, Module, OpenOption, OpenOptions, RunOptions};
use bb_ir::check::{self, CheckOptions};
use bb_ir::proto::ExternalData;
use bytes::Bytes;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The environment variable with the name of the backend.
const BACKEND: &str = "BB_BACKEND";

/// The source of a model.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// A serialized model.
    Bytes(Bytes),
}

/// Loads a model and compiles it for its backend.
///
/// # Errors
///
/// Any [`CallError`] about the model, the backend or the settings; [`CallError::LoadStopped`] if the options stop loading.
pub(crate) fn load(
    env: &OrtEnv,
    options: Option<&OrtSessionOptions>,
    source: &Source<'_>,
) -> Result<SessionModel> {
    let settings = options.map(OrtSessionOptions::snapshot).unwrap_or_default();
    let stop = options.map(OrtSessionOptions::stop).unwrap_or_default();
    let within = RunOptions::default().with_cancel(&stop);
    let loaded = within.within(|| {
        RunOptions::check_current().map_err(CallError::Load)?;
        let limits = limits(&settings)?;
        let (on, threads) = open(&settings, env)?;
        let (module, facts) = module(&settings, source, &limits)?;
        let options = CompileOptions::default().within(&limits);
        let shared = SessionModel::new((on, threads), module, options, facts)?;
        tell(env, &settings, &shared);
        Ok(shared)
    });
    match loaded {
        Err(CallError::Load(error)) if error.kind() == ErrorKind::Cancelled && stop.is_cancelled() => {
            Err(CallError::LoadStopped)
        }
        loaded => loaded,
    }
}

/// Logs the placement of a model's nodes, and declarations of the model that are false.
fn tell(env: &OrtEnv, settings: &Settings, shared: &SessionModel) {
    let Some(logger) = settings.logger.or(env.logger) else { return };
    let least = settings.severity.unwrap_or_else(|| env.severity.load(Ordering::Relaxed));
    let name = settings.name.as_ref().unwrap_or(&env.name);
    if least <= VERBOSE {
        let provider = if shared.on.name() == "cpu" { "CPUExecutionProvider" } else { shared.on.name() };
        let nodes = shared.module.graph().nodes.len();
        logger.write(
            VERBOSE,
            name,
            &format!("the nodes of the model, {nodes} of them, are placed on [{provider}]"),
        );
    }
    if least <= WARNING {
        for warning in shared.module.warnings() {
            logger.write(WARNING, name, &warning.to_string());
        }
    }
}

fn limits(settings: &Settings) -> Result<Limits> {
    let mut limits = Limits::default();
    for (name, value) in settings.entries("bb.limits.") {
        limits.set(name, value)?;
    }
    Ok(limits)
}

/// Loads the libraries of `BB_BACKEND_PATH` at the first call. If one cannot be loaded, no session can be opened.
fn obey_the_environment() -> Result<()> {
    static OBEYED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let obey = || match std::env::var_os(bb_c::PATH_VARIABLE) {
        Some(list) => {
            let failed = |error: bb_c::LoadError| {
                format!("the variable `BB_BACKEND_PATH`: {}", bb_core::error::causes(&error))
            };
            bb_c::load_path(&list).map(drop).map_err(failed)
        }
        None => Ok(()),
    };
    OBEYED.get_or_init(obey).clone().map_err(|message| CallError::Libraries { message })
}

/// Opens the backend that the settings name, or else the environment variable. Also returns the threads that the program created for it.
fn open(settings: &Settings, env: &OrtEnv) -> Result<(BackendHandle, Option<ProgramThreads>)> {
    obey_the_environment()?;
    let variable = std::env::var(BACKEND).ok().filter(|name| !name.is_empty());
    let name = settings.entry(c"bb.backend")?.or(variable.as_deref()).unwrap_or("cpu");
    let (threads, functions) = match settings.shares_threads {
        true => (env.threads, env.functions),
        false => (settings.threads, settings.functions),
    };
    if name == "cpu"
        && let Some((on, made)) = functions.cpu(threads.map(at_most))?
    {
        return Ok((on, Some(made)));
    }
    let Some(threads) = threads else {
        return bb::backend(name).map(|on| (on, None)).map_err(CallError::Load);
    };
    match bb::backend_with(name, &OpenOptions::default().with_threads(at_most(threads))) {
        // Programs for ONNX Runtime set a number of threads without knowing the backend, so a backend without this option ignores it.
        Err(bb::Error::OpenOption { option: OpenOption::Threads, .. }) => bb::backend(name),
        opened => opened,
    }
    .map(|on| (on, None))
    .map_err(CallError::Load)
}

/// Limits a number of threads to the maximum.
fn at_most(threads: NonZeroUsize) -> NonZeroUsize {
    // ONNX Runtime accepts numbers above the limit, so this is not an error.
    threads.min(NonZeroUsize::new(bb::most_threads()).unwrap_or(threads))
}

fn module(settings: &Settings, source: &Source<'_>, limits: &Limits) -> Result<(Module, Facts)> {
    let bytes = match source {
        Source::File(path) => {
            bb_ir::file::load(path, limits).map_err(|error| CallError::Load(error.into()))?
        }
        Source::Bytes(bytes) => bytes.clone(),
    };
    let inside = |error: bb_ir::Error| {
        let error = match source {
            Source::File(path) => bb_ir::Error::InFile { path: (*path).to_owned(), source: Box::new(error) },
            Source::Bytes(_) => error,
        };
        CallError::Load(error.into())
    };
    if bb_ir::compact::is_saved(&bytes) {
        let module = match source {
            Source::File(path) => Module::load_with(path, limits),
            Source::Bytes(_) => Module::from_bytes_with(bytes, limits),
        };
        return Ok((module.map_err(CallError::Load)?, Facts::default()));
    }
    let mut model = check::parse_model(bytes, limits).map_err(inside)?;
    let facts = Facts::of(&model);
    fix(&mut model, settings)?;
    let external_data = match source {
        _ if !settings.files.is_empty() => Some(ExternalData::in_memory(settings.files.iter().cloned())),
        Source::File(path) => Some(ExternalData::of_model(path, limits)),
        Source::Bytes(_) => None,
    };
    let options = CheckOptions {
        limits: limits.clone(),
        external_data: external_data.as_ref(),
        operators: bb::onnx::OPERATORS,
    };
    let graph: Graph = check::check(&model, &options).map_err(inside)?.graph;
    Ok((Module::new(graph), facts))
}

/// Applies the settings to a model.
fn fix(model: &mut ModelProto, settings: &Settings) -> Result<()> {
    for dim in &settings.dims {
        // As in ONNX Runtime, a name that the model does not have has no effect.
        let _unknown = check::fix_dims(model, std::slice::from_ref(dim));
    }
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    for input in &mut graph.input {
        if let Some(ty) = input.r#type.as_mut() {
            fix_denotations(ty, &settings.denotations);
        }
    }
    // Here, too, a name that the model does not have has no effect.
    let _unknown = check::replace_constants(model, &settings.initializers)?;
    Ok(())
}

fn fix_denotations(ty: &mut TypeProto, extents: &[(String, usize)]) {
    let Some(type_proto::Value::TensorType(tensor)) = ty.value.as_mut() else { return };
    for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some((_, extent)) = extents.iter().find(|(name, _)| *name == dim.denotation()) {
            let extent = i64::try_from(*extent).unwrap_or(i64::MAX);
            dim.value = Some(tensor_shape_proto::dimension::Value::DimValue(extent));
        }
    }
}
