//! Cases that are compiled for a backend, to run once or many times.

use super::read::count;
use super::{Failure, read_inputs};
use bb_core::operator::OnnxValue;
use bb_core::{CompileOptions, ErasedExecutable, Error, Module, Runtime, TensorData, Value};
use bb_ir::proto::type_proto::Value as Kind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Inputs = Vec<Option<OnnxValue<Value>>>;

/// A case that is compiled for a backend, with the inputs of its first data set.
pub struct ReadyCase {
    compiled: CompiledCase,
    inputs: Inputs,
}

impl std::fmt::Debug for ReadyCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadyCase").field("path", &self.compiled.path).finish_non_exhaustive()
    }
}

impl ReadyCase {
    /// Compiles a case, and runs it once.
    ///
    /// # Errors
    ///
    /// A [`Failure`]. Outputs are not compared.
    pub fn open(case: &Path, on: &Arc<Runtime>) -> Result<ReadyCase, Failure> {
        let mut compiled = CompiledCase::new(case, on)?;
        let first = data_sets(case)?.next();
        let inputs = first.map(|folder| compiled.inputs(&folder)).transpose()?.unwrap_or_default();
        compiled.first_run(&inputs)?;
        Ok(ReadyCase { compiled, inputs })
    }

    /// Runs the case, and blocks until its results are computed.
    ///
    /// # Errors
    ///
    /// [`Failure::Run`].
    pub fn run(&self) -> Result<(), Failure> {
        let results = self.compiled.executable.run_items(&self.inputs)?;
        // Some backends return before the computation is finished. Reading a result waits for it.
        if let Some(OnnxValue::Tensor(first)) = results.first() {
            self.compiled.on.to_host(first)?;
        }
        Ok(())
    }
}

/// Returns the folders of the data sets of a case.
///
/// # Errors
///
/// [`Failure::NoData`] if there is none; [`Failure::Gap`] if one is missing before the last one.
pub fn data_sets(case: &Path) -> Result<impl Iterator<Item = PathBuf> + use<>, Failure> {
    match count(case, "test_data_set", "")? {
        0 => Err(Failure::NoData { path: case.to_owned() }),
        sets => {
            let case = case.to_owned();
            Ok((0..sets).map(move |set| case.join(format!("test_data_set_{set}"))))
        }
    }
}

/// A case that is compiled for a backend.
pub(super) struct CompiledCase {
    path: PathBuf,
    on: Arc<Runtime>,
    pub(super) executable: Arc<dyn ErasedExecutable>,
    /// The inputs whose declared shapes were removed, because the data have other shapes.
    open: Vec<String>,
}

impl CompiledCase {
    pub(super) fn new(case: &Path, on: &Arc<Runtime>) -> Result<CompiledCase, Failure> {
        let module = Module::load(case.join("model.onnx"))?;
        let executable = on.clone().compile(module, &CompileOptions::default())?;
        Ok(CompiledCase { path: case.to_owned(), on: on.clone(), executable, open: Vec::new() })
    }

    /// Reads the inputs of a data set and uploads them.
    pub(super) fn inputs(&self, folder: &Path) -> Result<Inputs, Failure> {
        let upload = |x: Option<OnnxValue<TensorData>>| {
            x.map(|x| x.try_map(&mut |x: &TensorData| self.on.constant(x))).transpose()
        };
        let inputs = read_inputs(folder, self.executable.inputs())?.into_iter().map(upload);
        Ok(inputs.collect::<Result<_, _>>()?)
    }

    /// Runs the case. If an input has another shape than the model declares, compiles the model again without this
    /// declaration.
    pub(super) fn first_run(&mut self, inputs: &Inputs) -> Result<Vec<OnnxValue<Value>>, Failure> {
        loop {
            match self.executable.run_items(inputs) {
                Err(Error::Input(wrong)) if wrong.is_shape() && !self.open.contains(&wrong.name) => {
                    self.open.push(wrong.name);
                    let module = opened(&self.path, &self.open)?;
                    self.executable = self.on.clone().compile(module, &CompileOptions::default())?;
                }
                other => return Ok(other?),
            }
        }
    }
}

/// Reads a case's model, and removes the declared shapes of these inputs.
fn opened(case: &Path, inputs: &[String]) -> Result<Module, Failure> {
    let path = case.join("model.onnx");
    let limits = bb_ir::Limits::default();
    let bytes = bb_ir::file::load(&path, &limits).map_err(Error::from)?;
    let mut model = bb_ir::check::parse_model(bytes, &limits).map_err(Error::from)?;
    for input in model.graph.iter_mut().flat_map(|graph| &mut graph.input) {
        if let Some(Kind::TensorType(tensor)) = input.r#type.as_mut().and_then(|ty| ty.value.as_mut())
            && input.name.as_ref().is_some_and(|name| inputs.contains(name))
        {
            tensor.shape = None;
        }
    }
    let bytes = prost::Message::encode_to_vec(&model);
    Ok(Module::from_bytes_in(bytes, case, &limits)?)
}
