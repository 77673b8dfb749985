//! `bb compare`: finds the first value that differs between backends, or compares outputs with saved outputs.

mod errors;
mod saved;

use crate::error::{Error, Result};
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{args, out, render};
use bb::onnx::OnnxValue;
use bb::{BackendHandle, TensorData};
use bb_conformance::onnx::{BackendTolerance, Difference, Tolerance};
use bb_conformance::{NodeComparison, compare_nodes};
use bb_ir::text::shown;
use std::process::ExitCode;

pub(crate) fn compare(options: &args::Compare) -> Result<ExitCode> {
    match &options.outputs {
        Some(outputs) => saved::saved(options, outputs),
        None => backends(options),
    }
}

/// Returns the tolerance from the options. `usual` has the defaults.
fn tolerance(options: &args::Compare, usual: Tolerance) -> Tolerance {
    Tolerance {
        relative: options.rtol.unwrap_or(usual.relative),
        absolute: options.atol.unwrap_or(usual.absolute),
    }
}

fn backends(options: &args::Compare) -> Result<ExitCode> {
    let names = options.backends.as_slice();
    let [_, _, ..] = names else { return Err(Error::SeveralBackends { got: names.len() }) };
    session::threads(&options.threads)?;
    let module = session::load(&options.model)?;
    let handles = names.iter().map(|name| session::backend(Some(name))).collect::<Result<Vec<_>>>()?;
    let Some(first) = handles.first() else { return Err(Error::SeveralBackends { got: 0 }) };
    let session = Session::new(first, module, &options.model, &options.rewriting)?;
    let given = inputs::given(&session, &options.inputs, Otherwise::Random)?;
    let tolerance = BackendTolerance { relative: options.rtol, absolute: options.atol };
    let on: Vec<_> = handles.iter().map(BackendHandle::runtime).collect();
    let results = compare_nodes(&session.module, &given.items, &on, tolerance)?;
    let differs = results.iter().find(|r| r.differs());
    if options.json {
        let shown: Vec<_> = results.iter().filter(|r| options.per_node || r.differs()).collect();
        let shown = shown.iter().take(if options.per_node { usize::MAX } else { 1 });
        let nodes: Vec<serde_json::Value> = shown.map(|r| json(r, names)).collect();
        let record =
            serde_json::json!({ "compared": results.len(), "equal": differs.is_none(), "nodes": nodes });
        out::json(&record)?;
    } else {
        if options.per_node {
            let mut table = render::table(["NODE", "OPERATOR", "VALUE", "DIFFERENCE"]);
            for r in &results {
                let node = format!("{}{}", r.node, iterations(r));
                table.add_row([&node, &r.op, &r.value, &differences(r, names).join("\n")]);
            }
            out::line(format_args!("{table}\n"))?;
        }
        match differs {
            None => out::line(format_args!("{} values are alike on {}", results.len(), all(names)))?,
            Some(r) => print_first(r, names)?,
        }
    }
    Ok(if differs.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Joins names, as in `a and b` or `a, b and c`.
fn all(names: &[String]) -> String {
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.join(""),
    }
}

/// Describes the difference of each backend from the first one. Names the backends if there are more than two.
fn differences(result: &NodeComparison, backends: &[String]) -> Vec<String> {
    let said = |(at, difference): (usize, &Difference)| match backends.get(at) {
        Some(backend) if backends.len() > 2 => format!("{backend}: {}", render::chain(difference)),
        _ => render::chain(difference),
    };
    result.differing().map(said).collect()
}

fn print_first(result: &NodeComparison, backends: &[String]) -> Result<()> {
    out::line(format_args!(
        "`{}` of node `{}` ({}){} differs: {}",
        shown(&result.value),
        shown(&result.node),
        shown(&result.op),
        iterations(result),
        differences(result, backends).join("; ")
    ))?;
    let mut made = backends.iter().zip(&result.made);
    made.try_for_each(|(backend, made)| out::line(format_args!("  {backend}: {}", summary(made))))
}

/// Formats the iterations of the loops around a node, outermost first.
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
    let of_others = backends.iter().skip(1).zip(&result.differences);
    let differences: serde_json::Map<String, serde_json::Value> =
        of_others.map(|(name, d)| (name.clone(), d.as_ref().map(|d| render::chain(d)).into())).collect();
    serde_json::json!({
        "node": result.node, "iterations": result.iterations, "operator": result.op, "domain": result.domain, "value": result.value,
        "difference": result.differing().next().map(|(_, d)| render::chain(d)), "differences": differences, "made": made,
    })
}
