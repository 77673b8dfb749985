//! `bb compare`: finds the first value that differs between two backends, or compares outputs with saved
//! ones.

mod errors;
mod saved;

use crate::error::{Error, Result};
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{args, out, render};
use bb::TensorData;
use bb::conformance::onnx::{BackendTolerance, Tolerance};
use bb::conformance::{NodeComparison, compare_nodes};
use bb::onnx::OnnxValue;
use bb_ir::text::shown;
use std::process::ExitCode;

pub(crate) fn compare(options: &args::Compare) -> Result<ExitCode> {
    match &options.outputs {
        Some(outputs) => saved::saved(options, outputs),
        None => backends(options),
    }
}

/// Returns the tolerance from the options; without them, the default `usual`.
fn tolerance(options: &args::Compare, usual: Tolerance) -> Tolerance {
    Tolerance {
        relative: options.rtol.unwrap_or(usual.relative),
        absolute: options.atol.unwrap_or(usual.absolute),
    }
}

fn backends(options: &args::Compare) -> Result<ExitCode> {
    let [first, second] = options.backends.as_slice() else {
        return Err(Error::TwoBackends { got: options.backends.len() });
    };
    session::threads(&options.threads)?;
    let module = session::load(&options.model)?;
    let handles = [session::backend(Some(first))?, session::backend(Some(second))?];
    let [left, right] = &handles;
    let session = Session::new(left, module, &options.model, &options.rewriting)?;
    let given = inputs::given(&session, &options.inputs, Otherwise::Random)?;
    let tolerance = BackendTolerance { relative: options.rtol, absolute: options.atol };
    let results = compare_nodes(&session.module, &given.items, [left.runtime(), right.runtime()], tolerance)?;
    let differs = results.iter().find(|r| r.difference.is_some());
    if options.json {
        let shown: Vec<_> = results.iter().filter(|r| options.per_node || r.difference.is_some()).collect();
        let shown = shown.iter().take(if options.per_node { usize::MAX } else { 1 });
        let nodes: Vec<serde_json::Value> = shown.map(|r| json(r, &options.backends)).collect();
        let record =
            serde_json::json!({ "compared": results.len(), "equal": differs.is_none(), "nodes": nodes });
        out::json(&record)?;
    } else {
        if options.per_node {
            let mut table = render::table(["NODE", "OPERATOR", "VALUE", "DIFFERENCE"]);
            for r in &results {
                let difference = r.difference.as_ref().map_or_else(String::new, |d| render::chain(d));
                table.add_row([&format!("{}{}", r.node, iterations(r)), &r.op, &r.value, &difference]);
            }
            out::line(format_args!("{table}\n"))?;
        }
        match differs {
            None => out::line(format_args!("{} values are alike on {first} and {second}", results.len()))?,
            Some(r) => print_first(r, &options.backends)?,
        }
    }
    Ok(if differs.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_first(result: &NodeComparison, backends: &[String]) -> Result<()> {
    let difference = result.difference.as_ref().map_or_else(String::new, |d| render::chain(d));
    let iterations = iterations(result);
    out::line(format_args!(
        "`{}` of node `{}` ({}){iterations} differs: {difference}",
        shown(&result.value),
        shown(&result.node),
        shown(&result.op)
    ))?;
    let mut made = backends.iter().zip(&result.made);
    made.try_for_each(|(backend, made)| out::line(format_args!("  {backend}: {}", summary(made))))
}

/// Writes the iterations of the loops around a node, outermost first.
fn iterations(result: &NodeComparison) -> String {
    let iterations: Vec<String> = result.iterations.iter().map(usize::to_string).collect();
    match iterations.as_slice() {
        [] => String::new(),
        [only] => format!(" in iteration {only}"),
        several => format!(" in iterations {}", several.join(", ")),
    }
}

fn summary(item: &OnnxValue<TensorData>) -> String {
    match item {
        OnnxValue::Tensor(x) => x.summary().to_string(),
        OnnxValue::Sequence(items) => {
            format!("[{}]", items.iter().map(summary).collect::<Vec<_>>().join(", "))
        }
        OnnxValue::Absent => "nothing".to_owned(),
        OnnxValue::Map { keys, values } => format!("{} to {}", keys.summary(), values.summary()),
    }
}

fn json(result: &NodeComparison, backends: &[String]) -> serde_json::Value {
    let made: serde_json::Map<String, serde_json::Value> =
        backends.iter().zip(&result.made).map(|(name, made)| (name.clone(), summary(made).into())).collect();
    serde_json::json!({
        "node": result.node, "iterations": result.iterations, "operator": result.op, "domain": result.domain, "value": result.value,
        "difference": result.difference.as_ref().map(|d| render::chain(d)), "made": made,
    })
}
