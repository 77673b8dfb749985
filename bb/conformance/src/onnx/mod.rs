//! Runs test cases in ONNX's layout: a folder with `model.onnx`, `test_data_set_N/input_J.pb` and
//! `test_data_set_N/output_J.pb`, in the order of the graph's inputs and outputs.
//!
//! [`run`] runs one case, and [`examine`] says what becomes of it. With the feature `conformance`, a `Suite` runs ONNX's own cases,
//! which are in the crate `bb-onnx-cases`.

mod between;
mod compare;
mod contents;
#[cfg(feature = "suite")]
mod guard;
mod outcome;
mod read;
mod report;
#[cfg(feature = "suite")]
mod suite;

pub use between::BackendTolerance;
pub use compare::{Difference, Tolerance, compare, compare_items};
pub use contents::{CaseOperator, Contents};
pub use outcome::examine;
pub use read::{decode_item, read_inputs, read_item, read_items, read_tensor, read_tensors};
pub use report::{Case, Outcome, Report};
#[cfg(feature = "suite")]
pub use suite::Suite;
#[cfg(feature = "suite")]
#[doc(hidden)]
pub use suite::{Chosen, Made, Start};

use bb_core::operator::OnnxValue;
use bb_core::{BackendRuntime, CompileOptions, Error, Module, TensorData, Value};
use bb_ir::proto::type_proto::Value as Kind;
use bb_ir::text::sentence;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a case failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A file of the case could not be read.
    #[error("cannot read `{}`", sentence(.path.display()))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },

    /// A file of the case does not contain what it should.
    #[error("`{}` is no {expected}", sentence(.path.display()))]
    Content {
        /// The file.
        path: PathBuf,
        /// What the file should contain.
        expected: &'static str,
        /// The reason.
        #[source]
        source: bb_core::BoxError,
    },

    /// The case has no data.
    #[error("`{}` has no folder test_data_set_0", sentence(.path.display()))]
    NoData {
        /// The case.
        path: PathBuf,
    },

    /// The model could not be compiled or run.
    #[error(transparent)]
    Run(#[from] Error),

    /// The model has fewer outputs than the case.
    #[error("expected {expected} outputs, got {got}")]
    Outputs {
        /// The number of outputs of the case.
        expected: usize,
        /// The number of outputs of the model.
        got: usize,
    },

    /// An output differs from the expected one.
    #[error("output {output}")]
    Output {
        /// The position of the output.
        output: usize,
        /// The difference.
        #[source]
        source: Difference,
    },
}

/// Finds the folders with a `model.onnx` at any depth, sorted.
///
/// # Errors
///
/// [`Failure::Read`] if a folder cannot be read.
pub fn find(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join("model.onnx").is_file() {
            found.push(folder);
            continue;
        }
        let read = |source| Failure::Read { path: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            // Links are not followed, because they could form a loop.
            if entry.file_type().map_err(read)?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the tolerance from a case's `data.json`. Returns ONNX's tolerance if the case has none.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Content`].
pub fn tolerance(case: &Path) -> Result<Tolerance, Failure> {
    let path = case.join("data.json");
    let mut tolerance = Tolerance::default();
    if path.is_file() {
        let text = std::fs::read(&path).map_err(|source| Failure::Read { path: path.clone(), source })?;
        let json: serde_json::Value = serde_json::from_slice(&text).map_err(|e| Failure::Content {
            path,
            expected: "JSON",
            source: e.into(),
        })?;
        let number = |key: &str| json.get(key).and_then(serde_json::Value::as_f64);
        tolerance.relative = number("rtol").unwrap_or(tolerance.relative);
        tolerance.absolute = number("atol").unwrap_or(tolerance.absolute);
    }
    Ok(tolerance)
}

/// Reads a case's model and removes the declared shapes of these inputs.
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

/// Runs every data set of a case on a backend and compares the outputs.
///
/// In some of ONNX's older cases, an input has another shape than the model declares. An example is `like` of
/// `CastLike`, of which only the element type is read. ONNX Runtime refuses these cases. ONNX's reference evaluator,
/// which made the expected outputs, ignores the declarations, so these cases run here without them.
///
/// # Errors
///
/// The first difference from what the case expects.
pub fn run(case: &Path, on: &Arc<dyn BackendRuntime>) -> Result<(), Failure> {
    let tolerance = tolerance(case)?;
    let module = Module::load(case.join("model.onnx"))?;
    let mut executable = on.clone().compile(module, &CompileOptions::default())?;
    let mut open = Vec::new();
    for set in 0.. {
        let folder = case.join(format!("test_data_set_{set}"));
        if !folder.is_dir() {
            return if set == 0 { Err(Failure::NoData { path: case.to_owned() }) } else { Ok(()) };
        }
        let upload = |x: Option<OnnxValue<TensorData>>| {
            x.map(|x| x.try_map(&mut |x: &TensorData| on.constant(x))).transpose()
        };
        let inputs = read_inputs(&folder, executable.inputs())?.into_iter().map(upload);
        let inputs: Vec<Option<OnnxValue<Value>>> = inputs.collect::<Result<_, _>>()?;
        let expected = read_items(&folder, "output", executable.outputs())?;
        let got = loop {
            match executable.run_items(&inputs) {
                Err(Error::Input(wrong)) if wrong.is_shape() && !open.contains(&wrong.name) => {
                    open.push(wrong.name);
                    executable = on.clone().compile(opened(case, &open)?, &CompileOptions::default())?;
                }
                other => break other?,
            }
        };
        if expected.len() > got.len() {
            return Err(Failure::Outputs { expected: expected.len(), got: got.len() });
        }
        for (output, (expected, got)) in expected.iter().zip(&got).enumerate() {
            let got = got.try_map(&mut |x: &Value| on.to_host(x))?;
            compare_items(expected, &got, tolerance).map_err(|source| Failure::Output { output, source })?;
        }
    }
    Ok(())
}
