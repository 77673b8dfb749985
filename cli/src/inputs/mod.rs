//! What a model is given to run on: from files, or random.

mod extents;
mod random;

use crate::args;
use crate::error::{Error, Result};
use crate::render;
use crate::session::Session;
use bb::conformance::onnx;
use bb::onnx::Item;
use bb::{Module, TensorData};
use bb_ir::graph::ValueType;
use extents::{Declared, Extents};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

/// What becomes of inputs that nothing gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// They are an error, unless `--random` is given.
    Refuse,
    /// They are random.
    Random,
}

/// The inputs of a model.
pub(crate) struct Given {
    /// By position; `None` leaves out an input that has a default.
    pub(crate) items: Vec<Option<Item<TensorData>>>,
    /// What was chosen for extents that nothing said: `NAME`, or `INPUT[AXIS]`.
    pub(crate) chosen: Vec<(String, usize)>,
}

impl Given {
    /// Writes what was chosen as JSON.
    pub(crate) fn chosen_json(&self) -> serde_json::Value {
        self.chosen
            .iter()
            .map(|(name, extent)| (name.clone(), (*extent).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Reads and makes the inputs of a session's model.
pub(crate) fn given(session: &Session, options: &args::Inputs, otherwise: Otherwise) -> Result<Given> {
    let ports = session.executable.inputs();
    let declared = ports.iter().map(|port| Declared { name: &port.name, ty: &port.ty }).collect();
    let mut extents = Extents::new(declared, &options.extents)?;
    let mut items: Vec<Option<Item<TensorData>>> = match &options.folder {
        Some(folder) => onnx::read_inputs(folder, ports)?,
        None => vec![None; ports.len()],
    };
    for text in &options.inputs {
        let (name, file) = split(text)?;
        let place = ports.iter().zip(&mut items).find(|(port, _)| port.name == name);
        let Some((port, place)) = place else {
            return Err(unknown(&name, ports.iter().map(|port| port.name.as_str())));
        };
        if place.is_some() {
            return Err(Error::Twice { option: "--input", name });
        }
        *place = Some(read(Path::new(file), &port.ty)?);
    }
    for (port, item) in ports.iter().zip(&items) {
        if let Some(Item::Tensor(x)) = item {
            extents.bind(&port.name, x.shape(), "its file")?;
        }
    }
    let missing = ports.iter().zip(&items).filter(|(port, item)| item.is_none() && !port.optional);
    let missing: Vec<&bb::Port> = missing.map(|(port, _)| port).collect();
    if missing.is_empty() {
        return Ok(Given { items, chosen: Vec::new() });
    }
    if otherwise == Otherwise::Refuse && options.random.is_none() {
        let needed: Vec<String> = missing.iter().map(|port| describe(&port.name, &port.ty)).collect();
        return Err(Error::InputsNeeded { needed: needed.join(", ") });
    }
    let seed = options.random.unwrap_or(1);
    let ranges = random::Ranges::new(&options.ranges, ports)?;
    for (i, (port, place)) in ports.iter().zip(&mut items).enumerate() {
        if place.is_none() && !port.optional {
            let shape = extents.shape(&port.name, &|_| 1);
            let made = random::tensor(&port.name, &port.ty, &shape, seed.wrapping_add(i as u64), &ranges)?;
            *place = Some(Item::Tensor(made));
        }
    }
    let chosen = extents.open().iter().map(|open| (open.to_string(), 1)).collect();
    Ok(Given { items, chosen })
}

/// Returns the extents of a model's inputs, by name, as far as options say or leave no choice; for what is traced, not run.
pub(crate) fn shapes(module: &Module, options: &args::Extents) -> Result<HashMap<String, Vec<usize>>> {
    let graph = module.graph();
    let unknown = ValueType::Unknown;
    let declared = graph.inputs.iter().map(|value| Declared {
        name: graph.name_of(*value),
        ty: graph.values.get(value.index()).map_or(&unknown, |v| &v.ty),
    });
    let declared: Vec<Declared<'_>> = declared.collect();
    let extents = Extents::new(declared.clone(), options)?;
    Ok(declared.iter().map(|d| (d.name.to_owned(), extents.shape(d.name, &|_| 1))).collect())
}

/// The error for a name that no input has.
fn unknown<'a>(name: &str, inputs: impl Iterator<Item = &'a str> + Clone) -> Error {
    let nearest = bb_ir::nearest(name, inputs.clone()).map(str::to_owned);
    Error::UnknownInput { name: name.to_owned(), nearest, expected: inputs.map(str::to_owned).collect() }
}

fn describe(name: &str, ty: &ValueType) -> String {
    format!("`{name}`: {}", render::ty(ty))
}

/// Splits `NAME=FILE` at the first `=`; the file need not be UTF-8.
fn split(text: &OsStr) -> Result<(String, &OsStr)> {
    let form = || Error::Form { text: text.to_string_lossy().into_owned(), expected: "NAME=FILE" };
    let (name, file) = text.to_str().and_then(|text| text.split_once('=')).ok_or_else(form)?;
    Ok((name.to_owned(), OsStr::new(file)))
}

/// Reads a `.npy` file, or a serialized message of the kind that an input's type asks for.
fn read(path: &Path, ty: &ValueType) -> Result<Item<TensorData>> {
    if path.extension().is_none_or(|e| e != "npy") {
        return Ok(onnx::read_item(path, ty)?);
    }
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let tensor = TensorData::from_npy(bytes.into());
    tensor.map(Item::Tensor).map_err(|e| Error::Tensor { path: path.to_owned(), source: e.into() })
}
