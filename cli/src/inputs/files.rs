//! Inputs from files.

use crate::args;
use crate::error::{Error, Result};
use bb::conformance::onnx;
use bb::onnx::Item;
use bb::{Port, TensorData};
use bb_ir::graph::ValueType;
use std::ffi::OsStr;
use std::path::Path;

/// Reads the inputs that options name, by position.
pub(super) fn read(ports: &[Port], options: &args::Inputs) -> Result<Vec<Option<Item<TensorData>>>> {
    let mut items = match &options.folder {
        Some(folder) => onnx::read_inputs(folder, ports)?,
        None => vec![None; ports.len()],
    };
    for text in &options.inputs {
        let (name, file) = split(text)?;
        let place = ports.iter().zip(&mut items).find(|(port, _)| port.name == name);
        let Some((port, place)) = place else {
            return Err(super::unknown(&name, ports.iter().map(|port| port.name.as_str())));
        };
        if place.is_some() {
            return Err(Error::Twice { option: "--input", name });
        }
        *place = Some(file_of(Path::new(file), &port.ty)?);
    }
    Ok(items)
}

/// Splits `NAME=FILE` at the first `=`; the file need not be UTF-8.
fn split(text: &OsStr) -> Result<(String, &OsStr)> {
    let form = || Error::Form { text: text.to_string_lossy().into_owned(), expected: "NAME=FILE" };
    let (name, file) = text.to_str().and_then(|text| text.split_once('=')).ok_or_else(form)?;
    Ok((name.to_owned(), OsStr::new(file)))
}

/// Reads a `.npy` file, or a serialized message of the kind that an input's type asks for.
fn file_of(path: &Path, ty: &ValueType) -> Result<Item<TensorData>> {
    if path.extension().is_none_or(|e| e != "npy") {
        return Ok(onnx::read_item(path, ty)?);
    }
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let tensor = TensorData::from_npy(bytes.into());
    tensor.map(Item::Tensor).map_err(|e| Error::Tensor { path: path.to_owned(), source: e.into() })
}
