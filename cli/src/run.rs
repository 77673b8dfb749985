//! `bb run`, and running a model by inputs and outputs on the host.

use crate::args;
use crate::error::{Error, Result};
use crate::{render, tensors};
use bb::onnx::Item;
use bb::{BackendRuntime, ErasedExecutable, Value};
use bb::{CompileOptions, Module, TensorData};
use bb_ir::graph::ValueType;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// A model compiled for a backend.
pub(crate) struct Session {
    pub(crate) runtime: Arc<dyn BackendRuntime>,
    pub(crate) executable: Arc<dyn ErasedExecutable>,
}

impl Session {
    pub(crate) fn new(backend: &str, module: Module) -> Result<Session> {
        let runtime = bb::backend(backend)?.runtime().clone();
        let executable = runtime.clone().compile(module, &CompileOptions::default())?;
        Ok(Session { runtime, executable })
    }

    /// Puts values of the host on the backend.
    pub(crate) fn upload(&self, inputs: &[Option<Item<TensorData>>]) -> Result<Vec<Option<Item<Value>>>> {
        let upload = |x: &Option<Item<TensorData>>| {
            x.as_ref().map(|x| x.try_map(&mut |x| self.runtime.constant(x))).transpose()
        };
        Ok(inputs.iter().map(upload).collect::<std::result::Result<_, _>>()?)
    }

    /// Runs the model with inputs by position.
    pub(crate) fn run(&mut self, inputs: &[Option<Item<TensorData>>]) -> Result<Vec<Item<TensorData>>> {
        let outputs = self.executable.run_items(&self.upload(inputs)?)?;
        let fetch = |item: &Item<Value>| item.try_map(&mut |x| self.runtime.to_host(x));
        Ok(outputs.iter().map(fetch).collect::<std::result::Result<_, _>>()?)
    }
}

pub(crate) fn run(options: &args::Run) -> Result<ExitCode> {
    let module = Module::load(&options.model, &bb_ir::Limits::default())?;
    let mut session = Session::new(&options.common.backend, module)?;
    let inputs = inputs(&session, options)?;
    let outputs = session.run(&inputs)?;
    let mut leaves = Vec::new();
    for (port, item) in session.executable.outputs().iter().zip(outputs) {
        flatten(&port.name, item, &mut leaves);
    }
    let (names, outputs): (Vec<String>, Vec<TensorData>) = leaves.into_iter().unzip();
    if let Some(folder) = &options.output {
        write(folder, &names, &outputs)?;
    }
    if options.common.json {
        let records: Vec<serde_json::Value> = names
            .iter()
            .zip(&outputs)
            .map(|(name, x)| {
                serde_json::json!({
                    "name": name, "type": x.dtype().name(), "shape": x.shape(), "summary": x.summary().to_string(),
                })
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "outputs": records }))?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = render::table(["OUTPUT", "SUMMARY"]);
    for (name, x) in names.iter().zip(&outputs) {
        table.add_row([name.clone(), x.summary().to_string()]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

/// Names the tensors that an output is made of: `y` itself, `y[0]` of a sequence, `y.keys` of a map.
fn flatten(name: &str, item: Item<TensorData>, leaves: &mut Vec<(String, TensorData)>) {
    match item {
        Item::Tensor(x) => leaves.push((name.to_owned(), x)),
        Item::Sequence(items) => {
            for (i, item) in items.into_iter().enumerate() {
                flatten(&format!("{name}[{i}]"), item, leaves);
            }
        }
        Item::Absent => {}
        Item::Map { keys, values } => {
            leaves.push((format!("{name}.keys"), keys));
            leaves.push((format!("{name}.values"), values));
        }
    }
}

/// Reads, or makes, each input of the model.
fn inputs(session: &Session, options: &args::Run) -> Result<Vec<Option<Item<TensorData>>>> {
    let ports = session.executable.inputs();
    let mut inputs: Vec<Option<Item<TensorData>>> = vec![None; ports.len()];
    for text in &options.inputs {
        let form = || Error::Form { text: text.clone(), expected: "NAME=FILE" };
        let (name, file) = text.split_once('=').ok_or_else(form)?;
        let place = ports.iter().zip(&mut inputs).find(|(port, _)| port.name == name);
        let Some((port, place)) = place else {
            let names: Vec<String> = ports.iter().map(|port| format!("`{}`", port.name)).collect();
            return Err(Error::UnknownInput { name: name.to_owned(), expected: names.join(", ") });
        };
        *place = Some(tensors::read(Path::new(file), &port.ty)?);
    }
    let mut needed = Vec::new();
    for (i, (port, place)) in ports.iter().zip(&mut inputs).enumerate() {
        match (options.random, &place) {
            (_, Some(_)) => {}
            (Some(seed), None) if !port.optional => {
                let made = tensors::random(&port.name, &port.ty, seed.wrapping_add(i as u64))?;
                *place = Some(Item::Tensor(made));
            }
            (None, None) if !port.optional => needed.push(describe(&port.name, &port.ty)),
            (_, None) => {}
        }
    }
    if needed.is_empty() { Ok(inputs) } else { Err(Error::InputsNeeded { needed: needed.join(", ") }) }
}

fn describe(name: &str, ty: &ValueType) -> String {
    format!("`{name}`: {}", render::ty(ty))
}

/// Writes the outputs; what is no good in a file's name becomes `_`.
fn write(folder: &Path, names: &[String], outputs: &[TensorData]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    for (i, (name, x)) in names.iter().zip(outputs).enumerate() {
        let safe: String = name
            .chars()
            .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
            .collect();
        let safe = safe.trim_start_matches('.');
        let clash = safe.is_empty() || names.iter().filter(|n| n.eq_ignore_ascii_case(name)).count() > 1;
        let file = if clash { format!("output_{i}.npy") } else { format!("{safe}.npy") };
        tensors::write(&folder.join(file), x)?;
    }
    Ok(())
}
