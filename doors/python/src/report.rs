//! Reports about models and backends as JSON. The names of the fields include the units.

use crate::failure::{Phase, raise};
use crate::load::Source;
use bb::coverage::{Coverage, How, Matrix, PassedOver, RefusedBy};
use bb::ir::proto::{GraphProto, ModelProto};
use bb::onnx::OnnxValue;
use bb::profile::{Profile, ProfileRow};
use bb::{BackendHandle, ErasedExecutable, Module, Value};
use bb_ir::Limits;
use bb_ir::graph::ValueId;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

/// Returns the name of a domain. ONNX's own domain has an empty name in models.
fn domain(name: &str) -> &str {
    if name.is_empty() { "ai.onnx" } else { name }
}

/// Returns a word that says how a node runs, and the number of operations that the node is lowered to.
fn how(how: How) -> (&'static str, Option<usize>) {
    match how {
        How::Native => ("native", Some(1)),
        How::Lowered(steps) => ("lowered", steps),
        How::Host => ("host", None),
        How::Unsupported => ("unsupported", None),
    }
}

/// Describes a module as JSON: its inputs, outputs, operators, parameters and warnings.
pub(crate) fn inspect(handle: &BackendHandle, module: &Module) -> String {
    let graph = module.graph();
    let ports = |values: &[ValueId]| -> Vec<Json> {
        let port = |value: &ValueId| {
            let ty = graph.values.get(value.index()).map(|value| value.ty.to_string());
            json!({ "name": graph.name_of(*value), "type": ty })
        };
        values.iter().map(port).collect()
    };
    let mut operators = std::collections::BTreeMap::<(String, &str, i64), usize>::new();
    for node in &graph.nodes {
        *operators.entry((domain(&node.domain).to_owned(), &node.op_type, node.opset)).or_default() += 1;
    }
    let operators: Vec<Json> = operators
        .into_iter()
        .map(|((domain, op, opset), nodes)| {
            json!({ "domain": domain, "operator": op, "opset": opset, "nodes": nodes })
        })
        .collect();
    let elements: usize = graph.constants.iter().map(|(_, data)| data.len()).sum();
    let bytes: usize = graph.constants.iter().map(|(_, data)| data.byte_len()).sum();
    let warnings: Vec<String> = module.warnings().iter().map(ToString::to_string).collect();
    json!({
        "name": graph.name, "backend": handle.name(), "inputs": ports(&graph.inputs), "outputs": ports(&graph.outputs),
        "nodes": graph.nodes.len(), "operators": operators,
        "parameters": { "elements": elements, "bytes": bytes }, "warnings": warnings,
    })
    .to_string()
}

/// Describes a model by the metadata of its file, as JSON. A compiled model has no metadata.
///
/// # Errors
///
/// The errors of reading the file again.
pub(crate) fn facts(source: &Source, limits: &Limits) -> Result<String, bb_ir::Error> {
    let bytes = match source {
        Source::File(path) => bb_ir::file::load(path, limits)?,
        Source::Bytes(bytes, _) => bytes.clone(),
    };
    let model = match bb_ir::compact::is_saved(&bytes) {
        true => ModelProto::default(),
        false => bb_ir::check::parse_model(bytes, limits)?,
    };
    let graph = model.graph.as_ref();
    let metadata = model.metadata_props.iter().map(|entry| (entry.key().to_owned(), entry.value().into()));
    let opsets = model.opset_import.iter().map(|o| (domain(o.domain()).to_owned(), o.version().into()));
    Ok(json!({
        "ir_version": model.ir_version(), "producer_name": model.producer_name(),
        "producer_version": model.producer_version(), "domain": model.domain(), "version": model.model_version(),
        "description": model.doc_string(), "graph_name": graph.map_or("", GraphProto::name),
        "graph_description": graph.map_or("", GraphProto::doc_string),
        "metadata": metadata.collect::<serde_json::Map<String, Json>>(),
        "opsets": opsets.collect::<serde_json::Map<String, Json>>(),
    })
    .to_string())
}

/// Reports as JSON how each node runs.
pub(crate) fn coverage(handle: &BackendHandle, module: &Module) -> String {
    let coverage = Coverage::of(module, handle.runtime());
    let nodes: Vec<Json> = coverage
        .nodes
        .iter()
        .map(|node| {
            let (runs, operations) = how(node.how);
            let passed_over = |passed: &PassedOver| {
                json!({ "backend": passed.backend, "why": passed.why.name(), "reason": passed.to_string() })
            };
            json!({
                "node": node.node, "operator": node.op, "domain": domain(&node.domain), "opset": node.opset,
                "backend": node.backend, "runs": runs, "operations": operations, "types_checked": node.checked,
                "missing": node.missing.iter().map(ToString::to_string).collect::<Vec<_>>(), "needs": node.needs(),
                "passed_over": node.passed_over.iter().map(passed_over).collect::<Vec<_>>(),
            })
        })
        .collect();
    let [native, lowered, host, unsupported] = coverage.counts();
    json!({
        "backend": handle.name(), "nodes": nodes, "needs": coverage.needs(),
        "counts": { "native": native, "lowered": lowered, "host": host, "unsupported": unsupported },
    })
    .to_string()
}

/// Runs a model `warmup` times, then `runs` times with measurements.
///
/// # Errors
///
/// The errors of a run.
pub(crate) fn profile(
    executable: &dyn ErasedExecutable,
    inputs: &[Option<OnnxValue<Value>>],
    runs: u32,
    warmup: u32,
) -> Result<String, bb::Error> {
    for _ in 0..warmup {
        executable.run_items(inputs)?;
    }
    let mut profile = Profile::new();
    for _ in 0..runs {
        executable.run_profiled(inputs, &mut profile)?;
    }
    let runs = profile.runs().max(1) as f64;
    let rows = profile.rows().iter().filter(|row| row.calls > 0).map(|row| json_of(row, runs));
    let wall = profile.wall_time().saturating_sub(profile.measuring_time());
    Ok(json!({
        "runs": profile.runs(), "seconds_per_run": wall.as_secs_f64() / runs,
        "outside_seconds_per_run": profile.outside_time().as_secs_f64() / runs,
        "measuring_seconds_per_run": profile.measuring_time().as_secs_f64() / runs,
        "rows": rows.collect::<Vec<_>>(),
    })
    .to_string())
}

fn json_of(row: &ProfileRow, runs: f64) -> Json {
    let per_run = |amount: Option<u64>| amount.map(|n| n as f64 / runs);
    let types = |types: &mut dyn Iterator<Item = Option<&(bb::DataType, bb::Shape)>>| -> Vec<Option<String>> {
        types.map(|ty| ty.map(|(dtype, shape)| format!("{dtype}{:?}", shape.as_slice()))).collect()
    };
    json!({
        "activity": row.activity.name(), "operation": row.operation,
        "node": row.node.as_ref().map(|node| &node.path), "last_node": row.last_node.as_ref().map(|node| &node.path),
        "operator": row.node.as_ref().map(|node| &node.op),
        "domain": row.node.as_ref().map(|node| domain(&node.domain)),
        "inputs": types(&mut row.inputs.iter().map(Option::as_ref)),
        "outputs": types(&mut row.outputs.iter().map(Some)),
        "calls_per_run": row.calls as f64 / runs, "seconds_per_run": row.time.as_secs_f64() / runs,
        "flops_per_run": per_run(row.cost.flops), "bytes_read_per_run": per_run(row.cost.bytes_read),
        "bytes_written_per_run": per_run(row.cost.bytes_written),
    })
}

/// Lists the names of the backends in this library, sorted.
#[pyfunction]
pub(crate) fn backends() -> Vec<&'static str> {
    bb::Registry::global().entries().map(|entry| entry.name).collect()
}

/// An option of a backend: the name, the Python type, the default if the backend declares one, and a description.
type BackendOption = (&'static str, &'static str, Option<String>, &'static str);

/// Lists the options of a backend, except `narrow_floats`; `None` if no backend has the name.
#[pyfunction]
pub(crate) fn backend_options(name: &str) -> Option<Vec<BackendOption>> {
    let entry = bb::Registry::global().entries().find(|entry| entry.name == name)?;
    let described = |option: &bb::OpenOption| match option {
        bb::OpenOption::Own(own) => {
            (own.name, python_type(own.default.type_name()), Some(own.default.to_string()), own.about)
        }
        bb::OpenOption::Device => ("device", "str", None, "the name of the device"),
        bb::OpenOption::Threads => ("threads", "int", None, "the number of threads that compute"),
        bb::OpenOption::Memory => {
            ("memory", "int", None, "the greatest number of bytes that the backend uses")
        }
        other => {
            (other.name(), "bool", None, "whether floats of types that the backend lacks may be rounded")
        }
    };
    Some(entry.options.iter().map(described).collect())
}

/// Returns the Python type of an option.
fn python_type(of_rust: &'static str) -> &'static str {
    match of_rust {
        "i64" | "u64" => "int",
        "f64" => "float",
        other => other,
    }
}

/// Lists the names of all operators of ONNX; an operator with several versions occurs several times.
#[pyfunction]
pub(crate) fn operator_names() -> Vec<&'static str> {
    bb_ir::opset::versions().map(|version| version.name).collect()
}

/// Lists the limits on untrusted models and inputs: name, unit, description, and default.
#[pyfunction]
pub(crate) fn limits() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let defaults = Limits::default();
    let row = |limit: &bb_ir::LimitInfo| {
        (limit.name, limit.unit, limit.doc(), defaults.get(limit.name).unwrap_or_default())
    };
    Limits::all().iter().map(row).collect()
}

/// Lists the switches of passes: the name, the effect of the switch, and whether it is on by default.
#[pyfunction]
pub(crate) fn pass_switches() -> Vec<(&'static str, &'static str, bool)> {
    bb::PassSwitches::ALL.iter().map(|switch| (switch.name, switch.help, switch.default)).collect()
}

/// Reports as JSON which operators, versions and element types a backend runs.
#[pyfunction]
pub(crate) fn operators(py: Python<'_>, backend: &str) -> PyResult<String> {
    let matrix = crate::interrupt::detached(py, None, || {
        bb::backend(backend).map(|handle| Matrix::of(handle.runtime()))
    })?;
    let matrix = matrix.map_err(|error| raise(py, Phase::Open, &error, None))?;
    let rows: Vec<Json> = matrix
        .rows
        .iter()
        .map(|row| {
            let (runs, operations) = how(row.how);
            let refused: Vec<Json> = row
                .refused
                .iter()
                .map(|refused| {
                    let by = match &refused.by {
                        RefusedBy::Backend { .. } => "backend",
                        RefusedBy::Operator => "operator",
                        _ => "probe",
                    };
                    json!({ "type": refused.dtype.name(), "by": by, "reason": refused.reason })
                })
                .collect();
            let types: Vec<&str> = row.served.iter().map(|dtype| dtype.name()).collect();
            json!({
                "domain": domain(row.domain), "operator": row.name, "since": row.since, "runs": runs,
                "operations": operations, "types": types, "refused": refused,
            })
        })
        .collect();
    Ok(json!({ "backend": matrix.backend, "operators": rows }).to_string())
}
