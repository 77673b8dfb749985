//! Test cases as ONNX lays them out: a folder with `model.onnx`, and `test_data_set_N/input_J.pb` and
//! `output_J.pb` in the order of the graph's inputs and outputs.

mod compare;

pub use compare::{Difference, Tolerance, compare};

use crate::{BackendRuntime, CompileOptions, DataType, Error, Module, Port, TensorData, Value};
use bb_ir::graph::ValueType;
use prost::Message;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a case failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A file of the case could not be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },

    /// A file of the case does not hold what it should.
    #[error("`{}` is no {expected}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// Why it does not.
        #[source]
        source: crate::BoxError,
    },

    /// The case has no data.
    #[error("`{}` has no folder test_data_set_0", .path.display())]
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
        /// How many the case has.
        expected: usize,
        /// How many came.
        got: usize,
    },

    /// An output is not the one expected.
    #[error("output {output}")]
    Output {
        /// Which output.
        output: usize,
        /// How it differs.
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
            // Links are not followed, so that a loop of them ends.
            if entry.file_type().map_err(read)?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a serialized `TensorProto`.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Content`].
pub fn read_tensor(path: &Path) -> Result<TensorData, Failure> {
    let bytes = std::fs::read(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    let content = |source| Failure::Content { path: path.to_owned(), expected: "tensor", source };
    let proto =
        bb_ir::proto::TensorProto::decode(bytes::Bytes::from(bytes)).map_err(|e| content(e.into()))?;
    TensorData::from_proto(&proto).map_err(|e| content(e.into()))
}

/// Reads `PREFIX_0.pb`, `PREFIX_1.pb`, … of a folder.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Content`].
pub fn read_tensors(folder: &Path, prefix: &str) -> Result<Vec<TensorData>, Failure> {
    (0..)
        .map(|i| folder.join(format!("{prefix}_{i}.pb")))
        .take_while(|path| path.is_file())
        .map(|path| read_tensor(&path))
        .collect()
}

/// Reads the tolerance that a case sets for itself in `data.json`; ONNX's where it sets none.
fn tolerance(case: &Path) -> Result<Tolerance, Failure> {
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

/// Reads the inputs of a data set for a graph that takes these.
///
/// Shapes: the result has an entry per port. A set with fewer tensors than ports leaves out those that have a default.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Content`].
pub fn read_inputs(folder: &Path, ports: &[Port]) -> Result<Vec<Option<TensorData>>, Failure> {
    let given = read_tensors(folder, "input")?;
    let required = ports.iter().filter(|port| !port.optional).count();
    let only_required = given.len() <= required;
    let mut given = given.into_iter();
    let take = |port: &Port| {
        let tensor = if only_required && port.optional { None } else { given.next() };
        tensor.map(|x| as_declared(x, Some(port)))
    };
    Ok(ports.iter().map(take).collect())
}

/// Reads bits that releases of ONNX up to 1.14 wrote for bfloat16, as u16, as the type that the graph declares.
fn as_declared(x: TensorData, port: Option<&Port>) -> TensorData {
    let brain = matches!(port.map(|p| &p.ty), Some(ValueType::Tensor { dtype: DataType::BF16, .. }));
    if !brain || x.dtype() != DataType::U16 {
        return x;
    }
    TensorData::adopt(DataType::BF16, x.shape(), x.bytes().clone()).unwrap_or(x)
}

/// Runs every data set of a case on a backend and compares the outputs.
///
/// # Errors
///
/// The first thing that is not as the case expects.
pub fn run(case: &Path, on: &Arc<dyn BackendRuntime>) -> Result<(), Failure> {
    let tolerance = tolerance(case)?;
    let module = Module::load(&case.join("model.onnx"), &bb_ir::Limits::default())?;
    let executable = on.clone().compile(module, &CompileOptions::default())?;
    for set in 0.. {
        let folder = case.join(format!("test_data_set_{set}"));
        if !folder.is_dir() {
            return if set == 0 { Err(Failure::NoData { path: case.to_owned() }) } else { Ok(()) };
        }
        let upload = |x: Option<TensorData>| x.map(|x| on.constant(&x)).transpose();
        let inputs = read_inputs(&folder, executable.inputs())?.into_iter().map(upload);
        let inputs: Vec<Option<Value>> = inputs.collect::<Result<_, _>>()?;
        let refs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
        let mut ports = executable.outputs().iter();
        let expected = read_tensors(&folder, "output")?.into_iter().map(|x| as_declared(x, ports.next()));
        let expected: Vec<TensorData> = expected.collect();
        let got = executable.run(&refs)?;
        if expected.len() > got.len() {
            return Err(Failure::Outputs { expected: expected.len(), got: got.len() });
        }
        for (output, (expected, got)) in expected.iter().zip(&got).enumerate() {
            compare(expected, &on.to_host(got)?, tolerance)
                .map_err(|source| Failure::Output { output, source })?;
        }
    }
    Ok(())
}
