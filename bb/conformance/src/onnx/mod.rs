//! Runs test cases in ONNX's layout. A case is a folder with `model.onnx`, `test_data_set_N/input_J.pb` and
//! `test_data_set_N/output_J.pb`. `J` counts the graph's inputs and outputs.
//!
//! [`run`] runs one case, and [`examine`] reports its outcome. With the feature `conformance`, a `Suite` runs ONNX's own cases
//! from the crate `bb-onnx-cases`.

mod between;
mod compare;
mod contents;
mod outcome;
mod read;
mod ready;
mod report;
mod settings;
#[cfg(feature = "suite")]
mod suite;

pub use between::BackendTolerance;
pub use compare::{Difference, Tolerance, compare, compare_items};
pub use contents::{CaseOperator, Contents};
pub use outcome::{NotRun, examine, run_showing};
pub use read::{decode_item, read_inputs, read_item, read_items, read_tensor, read_tensors};
pub use ready::{ReadyCase, data_sets};
pub use report::{Case, Outcome, Report, operator_names};
pub use settings::tolerance;
#[cfg(feature = "suite")]
pub use suite::Suite;
#[cfg(feature = "suite")]
#[doc(hidden)]
pub use suite::{Chosen, Made, NotBackend, Start};

use bb_core::{Error, Port, Runtime, Value};
use bb_ir::text::sentence;
use ready::CompiledCase;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a case failed.
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

    /// A file of the case has the wrong content.
    #[error("`{}` is no {expected}", sentence(.path.display()))]
    Content {
        /// The file.
        path: PathBuf,
        /// The expected content.
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

    /// A numbered file or folder is missing, although one with a higher number exists.
    #[error("`{}` has `{}`, but no `{missing}`", sentence(.path.display()), sentence(.present))]
    Gap {
        /// The folder of both.
        path: PathBuf,
        /// The file or folder with the higher number.
        present: String,
        /// The missing file or folder.
        missing: String,
    },

    /// The case has no expected value for an output of the model.
    #[error("output `{}` ({output} of {outputs}) has no expected file `output_{output}.pb`", sentence(.name))]
    NoExpected {
        /// The name of the output.
        name: String,
        /// The index of the output.
        output: usize,
        /// The number of outputs of the model.
        outputs: usize,
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
    #[error("output `{}` ({output} of {outputs})", sentence(.name))]
    Output {
        /// The name of the output.
        name: String,
        /// The index of the output.
        output: usize,
        /// The number of outputs of the model.
        outputs: usize,
        /// The difference.
        #[source]
        source: Box<Difference>,
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

/// Runs every data set of a case on a backend and compares the outputs.
///
/// In some of ONNX's older cases, an input has another shape than the model declares. An example is the operand `like` of
/// `CastLike`, because only its element type is read. ONNX Runtime refuses these cases. ONNX's reference evaluator, which
/// generated the expected outputs, ignores the declarations. So these cases run here without the declarations.
///
/// # Errors
///
/// A [`Failure`], for instance the first difference from the expected outputs.
pub fn run(case: &Path, on: &Arc<Runtime>) -> Result<(), Failure> {
    run_noting(case, on, &mut None)
}

/// The data set that is running: its folder, and the inputs of the model.
type DataSet = (PathBuf, Vec<Port>);

/// Runs a case. Stores the data set that is running in `running`, for the report of a failure.
fn run_noting(case: &Path, on: &Arc<Runtime>, running: &mut Option<DataSet>) -> Result<(), Failure> {
    let tolerance = tolerance(case)?;
    let mut compiled = CompiledCase::new(case, on)?;
    for folder in data_sets(case)? {
        *running = Some((folder.clone(), compiled.executable.inputs().to_vec()));
        let inputs = compiled.inputs(&folder)?;
        let expected = read_items(&folder, "output", compiled.executable.outputs())?;
        let got = compiled.first_run(&inputs)?;
        if expected.len() > got.len() {
            return Err(Failure::Outputs { expected: expected.len(), got: got.len() });
        }
        let outputs = compiled.executable.outputs();
        for (output, (got, port)) in got.iter().zip(outputs).enumerate() {
            let (name, outputs) = (port.name.clone(), outputs.len());
            let Some(expected) = expected.get(output) else {
                return Err(Failure::NoExpected { name, output, outputs });
            };
            let got = got.try_map(&mut |x: &Value| on.to_host(x))?;
            compare_items(expected, &got, tolerance).map_err(|source| Failure::Output {
                name,
                output,
                outputs,
                source: Box::new(source),
            })?;
        }
    }
    Ok(())
}
