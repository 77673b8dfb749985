//! `bb run`: inputs in, outputs printed and written.

use crate::error::{Error, Result};
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{args, out, render};
use bb::TensorData;
use bb::onnx::Item;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(options: &args::Run) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let backend = session::backend(options.common.backend.as_deref())?;
    let session = Session::new(&backend, session::load(&options.model)?, &options.model)?;
    let mut given = inputs::given(&session, &options.inputs, Otherwise::Refuse)?;
    let outputs = match given.outputs.take() {
        Some(outputs) => outputs,
        None => session.run(&given.items)?,
    };
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
        out::json(&serde_json::json!({ "extents": given.chosen_json(), "outputs": records }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = render::table(["OUTPUT", "SUMMARY"]);
    for (name, x) in names.iter().zip(&outputs) {
        table.add_row([name.clone(), x.summary().to_string()]);
    }
    out::line(table)?;
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
        let path = folder.join(file);
        std::fs::write(&path, x.to_npy()?).map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}
