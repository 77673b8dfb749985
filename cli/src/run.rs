//! `bb run`: runs a model, prints its outputs and writes them to files.

use crate::error::Result;
use crate::inputs::{self, Otherwise};
use crate::outputs::{self, Named};
use crate::session::{self, Session};
use crate::{args, out, render};
use bb::Module;
use bb_ir::graph::ValueType;
use std::process::ExitCode;

pub(crate) fn run(options: &args::Run) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let backend = session::backend(options.common.backend.as_deref())?;
    let module = session::load(&options.model)?;
    let declared = module.graph().outputs.len();
    let module = fetching(module, options)?;
    let session = Session::new(&backend, module, &options.model, &options.rewriting)?;
    let mut given = inputs::given(&session, &options.inputs, Otherwise::Refuse)?;
    let items = match given.outputs.take() {
        Some(items) => items,
        None => session.run(&given.items).map_err(|error| session.failed(error))?,
    };
    let ports = session.executable.outputs().iter().zip(items);
    let values: Vec<Named> = ports
        .map(|(port, item)| Named {
            name: port.name.clone(),
            optional: matches!(port.ty, ValueType::Optional(_)),
            item,
        })
        .collect();
    if let Some(folder) = &options.output {
        outputs::write(folder, &values)?;
    }
    let (made, fetched) = values.split_at(declared.min(values.len()));
    if options.common.json {
        let most = options.values.unwrap_or(usize::MAX);
        let list =
            |values: &[Named]| values.iter().map(|value| record(value, most)).collect::<Result<Vec<_>>>();
        out::json(&serde_json::json!({
            "extents": given.chosen_json(), "outputs": list(made)?, "fetched": list(fetched)?,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (header, values) in [("OUTPUT", made), ("FETCHED", fetched)] {
        let mut rows = Vec::new();
        for value in values {
            outputs::rows(&value.name, &value.item, options.values.unwrap_or(0), &mut rows)?;
        }
        if rows.is_empty() && header != "OUTPUT" {
            continue;
        }
        if options.values.is_some() {
            let mut table = render::table([header, "SUMMARY", "VALUES"]);
            table.add_rows(rows);
            out::line(table)?;
        } else {
            let mut table = render::table([header, "SUMMARY"]);
            table.add_rows(rows.into_iter().map(|[name, summary, _]| [name, summary]));
            out::line(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the module with the fetched values as additional outputs.
fn fetching(module: Module, options: &args::Run) -> Result<Module> {
    let graph = module.graph();
    let all = options.fetch_all.then(|| graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten()));
    let all = all.into_iter().flatten().map(|value| graph.name_of(*value));
    let mut names: Vec<&str> = graph.outputs.iter().map(|value| graph.name_of(*value)).collect();
    let outputs = names.len();
    for name in all.chain(options.fetch.iter().map(String::as_str)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() == outputs {
        return Ok(module);
    }
    Ok(module.with_outputs(&names)?)
}

fn record(value: &Named, most: usize) -> Result<serde_json::Value> {
    let mut record = outputs::json(&value.item, most)?;
    if let Some(record) = record.as_object_mut() {
        record.insert("name".to_owned(), value.name.clone().into());
    }
    Ok(record)
}
