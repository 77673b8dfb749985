//! `bb inspect`: prints a model's inputs, outputs and contents, and how each node runs.

mod cost;
mod model;

use crate::error::Result;
use crate::{args, graph, inputs, out, render, session, warnings};
use bb::coverage::{Coverage, How, PassedOver};
use bb::deployment::{Placement, Side};
use bb::ext::OpSet;
use bb::{BackendHandle, FirstOf, Module};
use bb_ir::graph::ValueId;
use bb_ir::op::Family;
use cost::RunCost;
use model::Facts;
use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

pub(crate) fn inspect(options: &args::Inspect) -> Result<ExitCode> {
    let module = session::load(&options.model)?;
    let handle = session::backend(options.common.backend.as_deref())?;
    let coverage = Coverage::of(&module, handle.runtime());
    let facts = Facts::read(&options.model.model, &session::limits(&options.model)?, &module)?;
    let cost = RunCost::of(&module, &handle, &options.extents)?;
    if let Some(path) = &options.graph {
        let times = options.times.as_deref().map(graph::Times::read).transpose()?;
        graph::draw(path, &module, &coverage, &graph::Options { times, whole: options.whole })?;
    }
    let shapes = inputs::shapes(&module, &options.extents).unwrap_or_default();
    let rows = rows(&module, &shapes);
    if options.common.json {
        let mut record = json(&module, &coverage);
        if let Some(fields) = record.as_object_mut() {
            fields.insert("rows".to_owned(), rows.clone().into());
            fields.insert("model".to_owned(), facts.json());
            fields.insert("cost".to_owned(), cost.json());
            if let Some(several) = FirstOf::of(&handle) {
                fields.insert("placement".to_owned(), placement_json(&several.placement(&module)));
            }
        }
        out::json(&record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let graph = module.graph();
    let mut about = render::table(["MODEL", &render::plain(&graph.name)]);
    about.add_rows(facts.rows());
    about.add_row(["operations of a run", &cost.text()]);
    let families = handle.runtime().capabilities().families.clone();
    let plans = module.plan_conditions(&shapes, &families);
    let plans = plans.map_or_else(
        |error| format!("not known: {}", render::chain(&error)),
        |p| p.to_string().replace('\n', "; "),
    );
    about.add_row(["plans", &plans]);
    if let Some(rows) = &rows {
        about.add_row(["rows", rows]);
    }
    out::line(format_args!("{about}\n"))?;
    let mut ports = render::table(["", "NAME", "TYPE"]);
    for (kind, values) in [("input", &graph.inputs), ("output", &graph.outputs)] {
        for value in values {
            ports.add_row([kind.to_owned(), graph.name_of(*value).to_owned(), type_of(&module, *value)]);
        }
    }
    out::line(format_args!(
        "{ports}
"
    ))?;
    warnings::print(&module)?;
    out::line(format_args!("{}\n", operators(&coverage, &handle)))?;
    if let Some(several) = FirstOf::of(&handle) {
        out::line(format_args!("{}\n", parts(&several.placement(&module))))?;
    }
    out::line(&coverage)?;
    for nodes in coverage.passed_over() {
        out::line(nodes)?;
    }
    let missing = coverage.missing();
    if !missing.0.is_empty() {
        out::line(format_args!("\ncannot run on `{}`: {missing}", handle.name()))?;
    }
    if let Some(advice) = coverage.advice(handle.name()) {
        out::line(advice)?;
    }
    if let Some(stage) = options.stage {
        out::line(format_args!("\n{}", stage_text(&module, options, stage)?))?;
    }
    if let Some(pass) = &options.after {
        let (shapes, families) = lowering(&module, options)?;
        out::line(format_args!("\n{}", module.print_mir_after(&shapes, &families, pass)?))?;
    }
    let unsupported = coverage.nodes.iter().any(|node| node.how == How::Unsupported);
    Ok(if unsupported { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Counts the nodes of each operator by the way they run. If the backend combines several backends, also counts by backend.
fn operators(coverage: &Coverage, handle: &BackendHandle) -> render::Table {
    let mut operators: BTreeMap<(&str, &str, i64, &str, String), usize> = BTreeMap::new();
    for node in &coverage.nodes {
        let domain = if node.domain.is_empty() { "ai.onnx" } else { &node.domain };
        let key = (domain, node.op.as_str(), node.opset, node.backend, node.how.to_string());
        *operators.entry(key).or_default() += 1;
    }
    if FirstOf::of(handle).is_none() {
        let mut table = render::table(["OPERATOR", "DOMAIN", "OPSET", "NODES", handle.name()]);
        for ((domain, op, opset, _, how), count) in operators {
            table.add_row([op, domain, &opset.to_string(), &count.to_string(), &how]);
        }
        return table;
    }
    let mut table = render::table(["OPERATOR", "DOMAIN", "OPSET", "NODES", "BACKEND", "RUNS"]);
    for ((domain, op, opset, backend, how), count) in operators {
        table.add_row([op, domain, &opset.to_string(), &count.to_string(), backend, &how]);
    }
    table
}

/// Lists the parts of a model that run on different backends, and the values that each part reads from other parts.
fn parts(placement: &Placement) -> render::Table {
    let mut table = render::table(["PART", "BACKEND", "NODES", "FROM", "TO", "READS FROM OTHERS"]);
    for (at, part) in placement.parts.iter().enumerate() {
        let backend = match &part.side {
            Side::Backend(name) => name.clone(),
            other => other.to_string(),
        };
        let moved =
            |value: &&String| placement.transfers.iter().any(|t| t.value == **value && t.to == part.side);
        let reads: Vec<&str> = part.inputs.iter().filter(moved).map(String::as_str).collect();
        let end = |node: Option<&String>| node.map_or_else(String::new, |node| render::plain(node));
        table.add_row([
            (at + 1).to_string(),
            backend,
            part.nodes.len().to_string(),
            end(part.nodes.first()),
            end(part.nodes.last()),
            render::plain(&reads.join(", ")),
        ]);
    }
    table
}

/// The maximum number of rows in a run that the proof of independent rows covers.
const ROWS: usize = 64;

/// Describes whether rows are independent. Returns `None` if the inputs do not share an open first dimension.
fn rows(module: &Module, shapes: &HashMap<String, Vec<usize>>) -> Option<String> {
    let inputs = module.row_inputs(shapes)?;
    let proof = module.prove_rows(&inputs, ROWS);
    Some(
        proof.map_or_else(
            |error| format!("not known: {}", render::chain(&error)),
            |proof| render::rows(&proof),
        ),
    )
}

/// Prints the module at a stage.
fn stage_text(module: &Module, options: &args::Inspect, stage: args::Stage) -> Result<String> {
    let (shapes, families) = lowering(module, options)?;
    Ok(match stage {
        args::Stage::Hir => module.print_hir(),
        args::Stage::Mir => module.print_mir(&shapes, &families)?,
        args::Stage::Lir => module.print_lir(&shapes, &families)?,
    })
}

/// The shapes of the inputs by name, and the native operations of the backend.
type Lowering = (HashMap<String, Vec<usize>>, Vec<(Family, OpSet)>);

/// Returns the shapes and the native operations, which determine how the module is lowered.
fn lowering(module: &Module, options: &args::Inspect) -> Result<Lowering> {
    let handle = session::backend(options.common.backend.as_deref())?;
    Ok((inputs::shapes(module, &options.extents)?, handle.runtime().capabilities().families.clone()))
}

fn type_of(module: &Module, value: ValueId) -> String {
    module.graph().values.get(value.index()).map_or_else(|| "?".to_owned(), |v| render::ty(&v.named()))
}

fn placement_json(placement: &Placement) -> serde_json::Value {
    let side = |side: &Side| match side {
        Side::Backend(name) => name.clone(),
        other => other.to_string(),
    };
    let parts = placement.parts.iter().map(|part| {
        serde_json::json!({
            "backend": side(&part.side), "nodes": part.nodes, "inputs": part.inputs, "outputs": part.outputs,
        })
    });
    let transfers = placement.transfers.iter().map(|transfer| {
        serde_json::json!({ "value": transfer.value, "from": side(&transfer.from), "to": side(&transfer.to) })
    });
    serde_json::json!({
        "parts": parts.collect::<Vec<_>>(), "transfers": transfers.collect::<Vec<_>>(),
    })
}

fn passed_over(passed: &PassedOver) -> serde_json::Value {
    serde_json::json!({ "backend": passed.backend, "why": passed.why.name(), "reason": passed.to_string() })
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
                "node": n.node, "operator": n.op, "domain": n.domain, "opset": n.opset, "backend": n.backend,
                "runs": n.how.to_string(),
                "types_checked": n.checked,
                "passed_over": n.passed_over.iter().map(passed_over).collect::<Vec<_>>(),
                "missing": n.missing.iter().map(ToString::to_string).collect::<Vec<_>>(), "needs": n.needs(),
            })
        })
        .collect();
    serde_json::json!({
        "inputs": ports(&graph.inputs), "outputs": ports(&graph.outputs), "nodes": nodes,
        "warnings": warnings::json(module),
    })
}
