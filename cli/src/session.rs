//! A model that is compiled for a backend, and the options for loading and compiling it.

use crate::error::{Error, Result};
use crate::{args, out};
use bb::coverage::Coverage;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, ErasedExecutable, ErrorKind, Module, Runtime, TensorData, Value};
use bb_ir::Limits;
use std::sync::Arc;

/// A model compiled for a backend.
pub(crate) struct Session {
    pub(crate) module: Module,
    backend: BackendHandle,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) executable: Arc<dyn ErasedExecutable>,
    /// The maximum size of an input, in bytes.
    pub(crate) value_bytes: usize,
    /// Whether false declarations of the model are errors.
    pub(crate) strict: bool,
}

impl Session {
    /// Compiles a model. The options set the limits and the rewriting.
    pub(crate) fn new(
        backend: &BackendHandle,
        module: Module,
        options: &args::ModelArgs,
        rewriting: &args::Rewriting,
    ) -> Result<Session> {
        let runtime = backend.runtime().clone();
        let executable = runtime
            .clone()
            .compile(module.clone(), &compile_options(options, rewriting)?)
            .map_err(|error| with_missing(error.into(), backend, &module))?;
        let value_bytes = limits(options)?.value_bytes;
        let backend = backend.clone();
        Ok(Session { module, backend, runtime, executable, value_bytes, strict: options.strict })
    }

    /// Copies host values to the backend.
    pub(crate) fn upload(
        &self,
        inputs: &[Option<OnnxValue<TensorData>>],
    ) -> Result<Vec<Option<OnnxValue<Value>>>> {
        let ports = self.executable.inputs().iter().map(Some).chain(std::iter::repeat(None));
        let upload = |(x, port): (&Option<OnnxValue<TensorData>>, Option<&bb::Port>)| {
            let put = |x: &TensorData| {
                self.runtime.constant(x).map_err(|source| Error::Upload {
                    name: port.map(|port| port.name.clone()).unwrap_or_default(),
                    dtype: x.dtype(),
                    backend: self.runtime.name(),
                    source: Box::new(source),
                })
            };
            x.as_ref().map(|x| x.try_map(&mut |x| put(x))).transpose()
        };
        inputs.iter().zip(ports).map(upload).collect()
    }

    /// Returns the error of a run. If the backend does not support a part of the model, the error lists all of these parts.
    pub(crate) fn failed(&self, error: Error) -> Error {
        with_missing(error, &self.backend, &self.module)
    }

    /// Runs the model. The inputs are in the order of the ports. The error is passed to [`failed`](Self::failed), unless the
    /// model is run again with other inputs.
    pub(crate) fn run(&self, inputs: &[Option<OnnxValue<TensorData>>]) -> Result<Vec<OnnxValue<TensorData>>> {
        let outputs = self.executable.run_items(&self.upload(inputs)?)?;
        let fetch = |item: &OnnxValue<Value>| item.try_map(&mut |x| self.runtime.to_host(x));
        Ok(outputs.iter().map(fetch).collect::<std::result::Result<_, _>>()?)
    }
}

/// Lists all nodes that cannot run and advice, as `bb inspect` does, if the cause of an error is that the backend does not support a part
/// of the model. Returns all other errors unchanged.
fn with_missing(error: Error, backend: &BackendHandle, module: &Module) -> Error {
    let is_unsupported =
        error.of_bb().is_some_and(|error| backend.error_kind(error) == ErrorKind::Unsupported);
    if !is_unsupported {
        return error;
    }
    let coverage = Coverage::of(module, backend.runtime());
    let missing = coverage.missing();
    if missing.0.is_empty() {
        return error;
    }
    // An error that only lists nodes adds nothing to the list.
    let source = match error {
        Error::Bb(bb::Error::Unsupported { .. }) => None,
        other => Some(Box::new(other)),
    };
    let name = backend.name();
    Error::Missing { backend: name, missing, advice: coverage.advice(name), source }
}

/// Loads a model within the limits of the options.
pub(crate) fn load(options: &args::ModelArgs) -> Result<Module> {
    let module = Module::load_with(&options.model, &limits(options)?)?;
    if !options.strict {
        module.graph().imports.iter().for_each(|warning| out::note(format_args!("warning: {warning}")));
    }
    let warnings = if options.strict { module.warnings() } else { Vec::new() };
    if warnings.is_empty() {
        return Ok(module);
    }
    Err(Error::Claims { warnings: warnings.iter().map(ToString::to_string).collect() })
}

/// Returns the limits of the options.
pub(crate) fn limits(options: &args::ModelArgs) -> Result<Limits> {
    limits_of(&options.limits)
}

/// Returns the default limits with changes.
pub(crate) fn limits_of(changes: &[args::Limit]) -> Result<Limits> {
    let mut limits = Limits::default();
    changes.iter().try_for_each(|limit| limits.set(&limit.name, &limit.value))?;
    Ok(limits)
}

/// Returns the compile options with the limits of a run and the rewriting.
fn compile_options(options: &args::ModelArgs, rewriting: &args::Rewriting) -> Result<CompileOptions> {
    Ok(rewritten(rewriting).within(&limits(options)?).with_strict(options.strict))
}

/// Returns the compile options for rewriting models.
pub(crate) fn rewritten(rewriting: &args::Rewriting) -> CompileOptions {
    let mut compile = CompileOptions::default();
    compile.passes = rewriting.0;
    compile
}

/// Opens the backend `name`, or the default backend without a name.
pub(crate) fn backend(name: Option<&str>) -> Result<BackendHandle> {
    bb::backend(backend_name(name)?).map_err(|error| match &error {
        bb::Error::UnknownBackend { name, .. } => match left_out(name) {
            Some(feature) => Error::NoFeature { name: name.clone(), feature },
            None => error.into(),
        },
        _ => error.into(),
    })
}

/// Returns the feature of this crate that links a backend, if this build does not have it.
fn left_out(backend: &str) -> Option<&'static str> {
    match backend {
        "reference" if !cfg!(feature = "reference") => Some("reference"),
        "whole-graph" if !cfg!(feature = "whole-graph") => Some("whole-graph"),
        "wgpu" if !cfg!(feature = "wgpu") => Some("wgpu"),
        "ort" | "ort-strict" | "ort-provider" if !cfg!(feature = "ort") => Some("ort"),
        "rten" | "rten-strict" | "rten-primitives" if !cfg!(feature = "rten") => Some("rten"),
        _ => None,
    }
}

/// Returns `name`, or the name of the default backend if there is none.
pub(crate) fn backend_name(name: Option<&str>) -> Result<&str> {
    match name {
        Some(name) => Ok(name),
        None => usual(bb::Registry::global().entries().map(|entry| entry.name)),
    }
}

/// Returns the default backend: `cpu`; else the only backend that serves for more than comparison; else the only backend.
fn usual(linked: impl Iterator<Item = &'static str>) -> Result<&'static str> {
    let linked: Vec<&str> = linked.collect();
    if linked.contains(&"cpu") {
        return Ok("cpu");
    }
    let others = linked.iter().filter(|name| !matches!(**name, "reference" | "whole-graph"));
    match (others.copied().collect::<Vec<_>>().as_slice(), linked.as_slice()) {
        ([only], _) | ([], [only]) => Ok(only),
        // Opening `cpu` reports that no backend is linked, and how to link one.
        (_, []) => Ok("cpu"),
        _ => Err(Error::WhichBackend { linked: crate::render::names(&linked) }),
    }
}

/// Sets the number of threads. This works only once in a process, before any computation.
pub(crate) fn threads(options: &args::Threads) -> Result<()> {
    let Some(threads) = options.threads else { return Ok(()) };
    let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    built.map_err(|source| Error::Threads { threads, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_backend_is_cpu_or_the_only_one_that_computes() {
        let usual = |linked: &[&'static str]| usual(linked.iter().copied()).ok();
        assert_eq!(usual(&["cpu", "mine", "reference"]), Some("cpu"));
        assert_eq!(usual(&["mine", "reference", "whole-graph"]), Some("mine"));
        assert_eq!(usual(&["reference"]), Some("reference"));
        assert_eq!(usual(&["mine", "yours"]), None);
        assert_eq!(usual(&["reference", "whole-graph"]), None);
    }
}
