//! Sessions: models that are ready to run.

pub(crate) mod load;
pub(crate) mod open;
pub(crate) mod ports;
pub(crate) mod run;

use crate::error::CallError;
use crate::metadata::Facts;
use crate::status::Result;
use crate::threads::ProgramThreads;
use crate::value::result::failed;
use bb::ir::graph::{Dim, ValueType};
use bb::{BackendHandle, CompileOptions, ErasedExecutable, Module, Port};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of compiled models in the cache of a session. Each computes a different list of outputs.
const KEPT: usize = 16;

/// `OrtSession`. Threads may share it.
pub(crate) struct OrtSession {
    pub(crate) shared: Arc<SessionModel>,
}

/// A model on a backend. Only its cache of compiled models changes.
pub(crate) struct SessionModel {
    pub(crate) on: BackendHandle,
    pub(crate) facts: Arc<Facts>,
    module: Module,
    options: CompileOptions,
    all: Arc<CompiledModel>,
    /// The models compiled for other lists of outputs, with the most recently used last.
    others: Mutex<Vec<(Vec<String>, Arc<CompiledModel>)>>,
    /// The inputs that a run requires.
    inputs: Vec<Port>,
    /// The inputs that have a default value in the model.
    initializers: Vec<Port>,
    /// The threads that the program created. They end with the session.
    _threads: Option<ProgramThreads>,
}

/// A model that is compiled for a list of outputs.
pub(crate) struct CompiledModel {
    pub(crate) executable: Arc<dyn ErasedExecutable>,
    /// Whether all inputs and outputs are tensors.
    pub(crate) tensors: bool,
}

impl CompiledModel {
    /// Compiles a module.
    ///
    /// # Errors
    ///
    /// The backend's errors.
    fn new(
        on: &BackendHandle,
        module: Module,
        options: &CompileOptions,
    ) -> std::result::Result<CompiledModel, bb::Error> {
        let executable = on.compile(module, options)?;
        let tensor = |port: &Port| matches!(port.ty, ValueType::Tensor { .. });
        let tensors = executable.inputs().iter().all(tensor) && executable.outputs().iter().all(tensor);
        Ok(CompiledModel { executable, tensors })
    }
}

/// The extent that the first plan of a session assumes for a dimension without a declared extent. The outermost dimension is an exception:
/// it is usually the batch, so 1 is assumed.
const LIKELY_EXTENT: usize = 16;

/// Plans the first run while the session opens, with likely extents where the model declares none. This also packs the weights, which helps
/// even if the first run has other extents.
fn plan_likely(executable: &dyn ErasedExecutable) {
    let likely = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Known(extent) => *extent,
        _ if axis == 0 => 1,
        _ => LIKELY_EXTENT,
    };
    let types = executable.inputs().iter().map(|port| match &port.ty {
        ValueType::Tensor { dtype, shape: Some(dims) } => {
            Some((*dtype, dims.iter().enumerate().map(likely).collect::<Vec<usize>>()))
        }
        _ => None,
    });
    let types: Vec<_> = types.collect();
    let inputs: Vec<_> =
        types.iter().map(|ty| ty.as_ref().map(|(dtype, shape)| (*dtype, &**shape))).collect();
    // The likely extents may not fit the model. The error is ignored, because the first run reports its own errors.
    let _planned_by_the_first_run = executable.plan_ahead(&inputs);
}

impl SessionModel {
    /// Compiles a module for all of its outputs.
    ///
    /// # Errors
    ///
    /// The backend's errors, as [`CallError::Load`].
    pub(crate) fn new(
        (on, threads): (BackendHandle, Option<ProgramThreads>),
        module: Module,
        options: CompileOptions,
        facts: Facts,
    ) -> Result<SessionModel> {
        let all = Arc::new(CompiledModel::new(&on, module.clone(), &options).map_err(CallError::Load)?);
        plan_likely(&*all.executable);
        let (initializers, inputs) = all.executable.inputs().iter().cloned().partition(|port| port.optional);
        let (facts, others) = (Arc::new(facts), Mutex::default());
        let _threads = threads;
        Ok(SessionModel { on, facts, module, options, all, others, inputs, initializers, _threads })
    }

    /// Returns the inputs that a run requires.
    pub(crate) fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Returns the inputs that have a default value in the model.
    pub(crate) fn initializers(&self) -> &[Port] {
        &self.initializers
    }

    /// Returns the outputs.
    pub(crate) fn outputs(&self) -> &[Port] {
        self.all.executable.outputs()
    }

    /// Returns the model compiled for these outputs. If all outputs are requested, in any order, this is the session's own compiled model.
    ///
    /// # Errors
    ///
    /// [`CallError::UnknownOutput`]; the backend's errors.
    pub(crate) fn compiled(&self, names: &[&str]) -> Result<Arc<CompiledModel>> {
        let known = self.outputs();
        if let Some(name) = names.iter().find(|name| !known.iter().any(|port| port.name == **name)) {
            let known = known.iter().map(|port| port.name.clone()).collect();
            return Err(CallError::UnknownOutput { name: (*name).to_owned(), known });
        }
        if known.iter().all(|port| names.contains(&port.name.as_str())) {
            return Ok(self.all.clone());
        }
        let mut wanted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = others.iter().position(|(known, _)| *known == wanted) {
                let found = others.remove(at);
                let compiled = found.1.clone();
                others.push(found);
                return Ok(compiled);
            }
        }
        let texts: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let module = self.module.with_outputs(&texts).map_err(failed(&self.on))?;
        let compiled = CompiledModel::new(&self.on, module, &self.options).map_err(failed(&self.on))?;
        let compiled = Arc::new(compiled);
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= KEPT {
            others.remove(0);
        }
        others.push((wanted, compiled.clone()));
        Ok(compiled)
    }
}
