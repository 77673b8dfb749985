//! `bb compare`: where the values of a model part on two backends.

use crate::error::{Error, Result};
use crate::{args, render, tensors};
use bb::conformance::onnx::{Tolerance, read_inputs};
use bb::conformance::{NodeComparison, compare_nodes};
use bb::onnx::Item;
use bb::{CompileOptions, Module, Port, TensorData};
use std::process::ExitCode;

pub(crate) fn compare(options: &args::Compare) -> Result<ExitCode> {
    let [first, second] = options.backends.as_slice() else {
        return Err(Error::TwoBackends { got: options.backends.len() });
    };
    let module = Module::load(&options.model, &bb_ir::Limits::default())?;
    let runtimes = [bb::backend(first)?.runtime().clone(), bb::backend(second)?.runtime().clone()];
    let [left, right] = &runtimes;
    let executable = left.clone().compile(module.clone(), &CompileOptions::default())?;
    let inputs = match &options.inputs {
        Some(folder) => read_inputs(folder, executable.inputs())?,
        None => random(executable.inputs(), options.random)?,
    };
    let default = Tolerance::default();
    let tolerance = Tolerance {
        relative: options.rtol.unwrap_or(default.relative),
        absolute: options.atol.unwrap_or(default.absolute),
    };
    let results = compare_nodes(&module, &inputs, [left, right], tolerance)?;
    let differs = results.iter().find(|r| r.difference.is_some());
    if options.json {
        let shown: Vec<_> = results.iter().filter(|r| options.per_node || r.difference.is_some()).collect();
        let shown = shown.iter().take(if options.per_node { usize::MAX } else { 1 });
        let nodes: Vec<serde_json::Value> = shown.map(|r| json(r, &options.backends)).collect();
        let record =
            serde_json::json!({ "compared": results.len(), "equal": differs.is_none(), "nodes": nodes });
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        if options.per_node {
            let mut table = render::table(["NODE", "OPERATOR", "VALUE", "DIFFERENCE"]);
            for r in &results {
                let difference = r.difference.as_ref().map_or_else(String::new, |d| render::chain(d));
                table.add_row([&format!("{}{}", r.node, rounds(r)), &r.op, &r.value, &difference]);
            }
            println!("{table}\n");
        }
        match differs {
            None => println!("{} values are alike on {first} and {second}", results.len()),
            Some(r) => print_first(r, &options.backends),
        }
    }
    Ok(if differs.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_first(result: &NodeComparison, backends: &[String]) {
    let difference = result.difference.as_ref().map_or_else(String::new, |d| render::chain(d));
    let rounds = rounds(result);
    println!("`{}` of node `{}` ({}){rounds} differs: {difference}", result.value, result.node, result.op);
    for (backend, made) in backends.iter().zip(&result.made) {
        println!("  {backend}: {}", summary(made));
    }
}

/// Names the rounds of the loops around a node, outermost first.
fn rounds(result: &NodeComparison) -> String {
    let rounds: Vec<String> = result.rounds.iter().map(usize::to_string).collect();
    match rounds.as_slice() {
        [] => String::new(),
        [only] => format!(" in round {only}"),
        several => format!(" in rounds {}", several.join(", ")),
    }
}

/// Makes random inputs, each from a seed of its own.
fn random(ports: &[Port], seed: u64) -> Result<Vec<Option<Item<TensorData>>>> {
    let make = |(i, port): (usize, &Port)| {
        if port.optional {
            return Ok(None);
        }
        Ok(Some(Item::Tensor(tensors::random(&port.name, &port.ty, seed.wrapping_add(i as u64))?)))
    };
    ports.iter().enumerate().map(make).collect()
}

fn summary(item: &Item<TensorData>) -> String {
    match item {
        Item::Tensor(x) => x.summary().to_string(),
        Item::Sequence(items) => {
            format!("[{}]", items.iter().map(summary).collect::<Vec<_>>().join(", "))
        }
        Item::Absent => "nothing".to_owned(),
        Item::Map { keys, values } => format!("{} to {}", keys.summary(), values.summary()),
    }
}

fn json(result: &NodeComparison, backends: &[String]) -> serde_json::Value {
    let made: serde_json::Map<String, serde_json::Value> =
        backends.iter().zip(&result.made).map(|(name, made)| (name.clone(), summary(made).into())).collect();
    serde_json::json!({
        "node": result.node, "rounds": result.rounds, "operator": result.op, "domain": result.domain, "value": result.value,
        "difference": result.difference.as_ref().map(|d| render::chain(d)), "made": made,
    })
}
