//! `bb inspect`: what a model takes, gives and is made of, and what runs each node.

use crate::args;
use crate::error::{Error, Result};
use crate::render;
use bb::Module;
use bb::coverage::{Coverage, How};
use bb_ir::graph::ValueId;
use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

pub(crate) fn inspect(options: &args::Inspect) -> Result<ExitCode> {
    let module = Module::load(&options.model, &bb_ir::Limits::default())?;
    let handle = bb::backend(&options.common.backend)?;
    let coverage = Coverage::of(&module, &handle.runtime().capabilities().families);
    if options.common.json {
        println!("{}", serde_json::to_string_pretty(&json(&module, &coverage))?);
        return Ok(ExitCode::SUCCESS);
    }
    let graph = module.graph();
    let mut ports = render::table(["", "NAME", "TYPE"]);
    for (kind, values) in [("input", &graph.inputs), ("output", &graph.outputs)] {
        for value in values {
            ports.add_row([kind.to_owned(), graph.name_of(*value).to_owned(), type_of(&module, *value)]);
        }
    }
    println!("{ports}\n");
    let mut operators: BTreeMap<(String, String, i64, String), usize> = BTreeMap::new();
    for node in &coverage.nodes {
        let key = (node.domain.clone(), node.op.clone(), node.opset, node.how.to_string());
        *operators.entry(key).or_default() += 1;
    }
    let mut table = render::table(["OPERATOR", "DOMAIN", "OPSET", "NODES", options.common.backend.as_str()]);
    for ((domain, op, opset, how), count) in operators {
        let domain = if domain.is_empty() { "ai.onnx".to_owned() } else { domain };
        table.add_row([op, domain, opset.to_string(), count.to_string(), how]);
    }
    println!("{table}\n");
    println!("{coverage}");
    if let Some(stage) = options.stage {
        println!("\n{}", stage_text(&module, options, stage)?);
    }
    let unsupported = coverage.nodes.iter().any(|node| node.how == How::Unsupported);
    Ok(if unsupported { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the module at a stage.
fn stage_text(module: &Module, options: &args::Inspect, stage: args::Stage) -> Result<String> {
    let mut shapes = HashMap::new();
    for text in &options.shapes {
        let form = || Error::Form { text: text.clone(), expected: "NAME=EXTENT,EXTENT,…" };
        let (name, extents) = text.split_once('=').ok_or_else(form)?;
        let extents =
            extents.split(',').filter(|e| !e.is_empty()).map(|e| e.trim().parse().map_err(|_| form()));
        shapes.insert(name.to_owned(), extents.collect::<Result<Vec<usize>>>()?);
    }
    let handle = bb::backend(&options.common.backend)?;
    let families = handle.runtime().capabilities().families.clone();
    Ok(match stage {
        args::Stage::Hir => module.print_hir(),
        args::Stage::Mir => module.print_mir(&shapes, &families)?,
        args::Stage::Lir => module.print_lir(&shapes, &families)?,
    })
}

fn type_of(module: &Module, value: ValueId) -> String {
    module.graph().values.get(value.index()).map_or_else(|| "?".to_owned(), |v| render::ty(&v.ty))
}

fn json(module: &Module, coverage: &Coverage) -> serde_json::Value {
    let graph = module.graph();
    let ports = |values: &[ValueId]| -> Vec<serde_json::Value> {
        values
            .iter()
            .map(|v| serde_json::json!({ "name": graph.name_of(*v), "type": type_of(module, *v) }))
            .collect()
    };
    let nodes: Vec<serde_json::Value> = coverage
        .nodes
        .iter()
        .map(|n| {
            serde_json::json!({
                "node": n.node, "operator": n.op, "domain": n.domain, "opset": n.opset, "runs": n.how.to_string(),
            })
        })
        .collect();
    serde_json::json!({ "inputs": ports(&graph.inputs), "outputs": ports(&graph.outputs), "nodes": nodes })
}
