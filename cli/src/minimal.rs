//! `bb minimal`: prints the features of `bb` that models need, and the operators that need them.

use crate::args;
use crate::error::Result;
use crate::{out, render, session};
use bb::Module;
use bb::onnx::{features_of, operators};
use bb_ir::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// For each feature, the operators that need it.
type Needs = BTreeMap<&'static str, BTreeSet<String>>;

pub(crate) fn minimal(options: &args::Minimal) -> Result<ExitCode> {
    let limits = session::limits_of(&options.limits)?;
    let mut models = Vec::new();
    for path in &options.models {
        let module = Module::load_with(path, &limits)?;
        let (mut needs, mut unknown) = (Needs::new(), BTreeSet::new());
        of_graph(module.graph(), &mut needs, &mut unknown);
        models.push((path.display().to_string(), needs, unknown));
    }
    let features: BTreeSet<&str> = models.iter().flat_map(|(_, needs, _)| needs.keys().copied()).collect();
    let dependencies = dependencies(&features, options.common.backend.as_deref())?;
    if options.common.json {
        let models: Vec<_> = models
            .iter()
            .map(|(model, needs, unknown)| {
                serde_json::json!({ "model": model, "features": needs, "unknown": unknown })
            })
            .collect();
        out::json(&serde_json::json!({
            "models": models, "features": features, "dependencies": dependencies,
        }))?;
    } else {
        let mut table = render::table(["MODEL", "FEATURE", "OPERATORS"]);
        for (model, needs, _) in &models {
            if needs.is_empty() {
                table.add_row([model, "", ""]);
            }
            for (feature, operators) in needs {
                let operators: Vec<&str> = operators.iter().map(String::as_str).collect();
                table.add_row([model.as_str(), feature, &operators.join(", ")]);
            }
        }
        out::line(table)?;
        out::print(&format!("\n[dependencies]\n{}\n", dependencies.join("\n")))?;
    }
    let mut served = true;
    for (model, _, unknown) in &models {
        for operator in unknown {
            served = false;
            out::note(format_args!("`{model}` has `{operator}`, which no crate of operators has"));
        }
    }
    Ok(if served { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Collects the features that the nodes of a graph and its subgraphs need, and the operators that no crate implements.
fn of_graph(graph: &Graph, needs: &mut Needs, unknown: &mut BTreeSet<String>) {
    for node in &graph.nodes {
        let (domain, name) = (node.domain.as_str(), node.op_type.as_str());
        let title = if domain.is_empty() { name.to_owned() } else { format!("{domain}.{name}") };
        if !operators().any(|operator| operator.domain == domain && operator.name == name) {
            unknown.insert(title.clone());
        }
        for feature in features_of(domain, name) {
            needs.entry(feature).or_default().insert(title.clone());
        }
        node.subgraphs().for_each(|graph| of_graph(graph, needs, unknown));
    }
}

/// Returns the lines for a manifest: `bb` with only these features, and the crate of the backend.
fn dependencies(features: &BTreeSet<&str>, backend: Option<&str>) -> Result<Vec<String>> {
    let features: Vec<&str> = features.iter().copied().collect();
    let features = if features.is_empty() { String::new() } else { format!(", features = {features:?}") };
    // The line has a path, because `bb` is not released, and the crate `bb` in the registry is another project.
    let mut lines = vec![format!("bb = {{ path = \"…\", default-features = false{features} }}")];
    let backend = session::backend(backend)?;
    let linked = bb::Registry::global().entries().find(|entry| entry.name == backend.name());
    lines.extend(linked.and_then(|entry| {
        let (package, _) = entry.path.split_once("::")?;
        Some(format!("{} = {{ path = \"…\" }}", package.replace('_', "-")))
    }));
    Ok(lines)
}
