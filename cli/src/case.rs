//! A test case as ONNX lays it out: a model, and folders of inputs and expected outputs.

use crate::compare::{Tolerance, compare};
use crate::error::{Error, Result};
use crate::{render, tensors};
use bb::{Module, TensorData};
use std::path::{Path, PathBuf};

/// Finds the folders with a `model.onnx`, at any depth, sorted.
pub(crate) fn find(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join("model.onnx").is_file() {
            found.push(folder);
            continue;
        }
        let read = |source| Error::Read { path: folder.clone(), source };
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

/// Reads `PREFIX_0.pb`, `PREFIX_1.pb`, … of a folder.
pub(crate) fn read_all(folder: &Path, prefix: &str) -> Result<Vec<TensorData>> {
    (0..)
        .map(|i| folder.join(format!("{prefix}_{i}.pb")))
        .take_while(|path| path.is_file())
        .map(|path| tensors::read(&path))
        .collect()
}

/// Reads the tolerance that a case sets for itself.
fn tolerance(case: &Path) -> Result<Tolerance> {
    let path = case.join("data.json");
    let mut tolerance = Tolerance::default();
    if path.is_file() {
        let text = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
        let json: serde_json::Value = serde_json::from_slice(&text)?;
        let number = |key: &str| json.get(key).and_then(serde_json::Value::as_f64);
        tolerance.relative = number("rtol").unwrap_or(tolerance.relative);
        tolerance.absolute = number("atol").unwrap_or(tolerance.absolute);
    }
    Ok(tolerance)
}

/// Runs every data set of a case; `Err` says what went wrong.
pub(crate) fn run(case: &Path, backend: &str) -> std::result::Result<(), String> {
    let text = |e: Error| render::chain(&e);
    let tolerance = tolerance(case).map_err(text)?;
    let module = Module::load(&case.join("model.onnx"), &bb_ir::Limits::default())
        .map_err(|e| text(e.into()))?;
    let mut session = crate::run::Session::new(backend, module).map_err(text)?;
    for set in 0.. {
        let folder = case.join(format!("test_data_set_{set}"));
        if !folder.is_dir() {
            return if set == 0 { Err("the case has no test_data_set_0".to_owned()) } else { Ok(()) };
        }
        let inputs = read_all(&folder, "input").map_err(text)?;
        let expected = read_all(&folder, "output").map_err(text)?;
        let got = session.run(&inputs.into_iter().map(Some).collect::<Vec<_>>()).map_err(text)?;
        if expected.len() > got.len() {
            return Err(format!("expected {} outputs, got {}", expected.len(), got.len()));
        }
        for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
            compare(expected, got, tolerance).map_err(|why| format!("output {i}: {why}"))?;
        }
    }
    Ok(())
}
