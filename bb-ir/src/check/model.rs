//! From bytes to a checked model.

use super::build::Builder;
use crate::graph::Graph;
use crate::limits::within;
use crate::opset::{domain_name, supported_opsets};
use crate::proto::{FunctionProto, GraphProto, ModelProto, OperatorSetIdProto};
use crate::{Error, Limits, infer};
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;

/// What a check may use and must bound.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions<'a> {
    /// The bounds.
    pub limits: Limits,
    /// The folder in which external data lies, usually the model's; `None` refuses external data.
    pub external_data: Option<&'a Path>,
}

/// A model that passed the check.
#[derive(Debug, Clone)]
pub struct CheckedModel {
    /// The graph, functions inlined.
    pub graph: Graph,
    /// The version of each domain's operators that the model imports; `""` is ONNX's own.
    pub opsets: BTreeMap<String, i64>,
    /// The version of the file format.
    pub ir_version: i64,
    /// The program that wrote the model, and its version; possibly empty.
    pub producer: (String, String),
    /// The model's own version.
    pub model_version: i64,
    /// The model's description, possibly empty.
    pub doc: String,
    /// The model's metadata, in its order.
    pub metadata: Vec<(String, String)>,
    /// The functions that the model defines, as `domain::name` or `domain::name:overload`.
    pub functions: Vec<String>,
}

/// Decodes a serialized model.
///
/// `bytes` is shared with the model's raw tensor data, not copied.
///
/// # Errors
///
/// [`Error::Limit`] if there are more bytes than `limits` allows; [`Error::Decode`] if they are no
/// model or nest too deep.
pub fn parse_model(bytes: Bytes, limits: &Limits) -> Result<ModelProto, Error> {
    within("bytes of a model", bytes.len(), limits.model_bytes)?;
    ModelProto::decode(bytes).map_err(|source| Error::Decode { what: "an ONNX model", source })
}

/// Checks a model and returns its graph.
///
/// # Errors
///
/// The first thing that is wrong. [`Error::Node`] and [`Error::Value`] say where, and their sources
/// what.
///
/// # Examples
///
/// ```
/// use bb_ir::{Error, check::{check, parse_model}};
/// let model = parse_model(bytes::Bytes::new(), &Default::default())?;
/// assert!(matches!(check(&model, &Default::default()), Err(Error::NoGraph)));
/// # Ok::<(), Error>(())
/// ```
pub fn check(model: &ModelProto, options: &CheckOptions<'_>) -> Result<CheckedModel, Error> {
    let graph = model.graph.as_ref().ok_or(Error::NoGraph)?;
    let opsets = opsets(&model.opset_import)?;
    let graph = build(graph, &opsets, &model.functions, options)?;
    let text = |s: &Option<String>| s.clone().unwrap_or_default();
    Ok(CheckedModel {
        graph,
        opsets,
        ir_version: model.ir_version(),
        producer: (text(&model.producer_name), text(&model.producer_version)),
        model_version: model.model_version(),
        doc: text(&model.doc_string),
        metadata: model.metadata_props.iter().map(|e| (text(&e.key), text(&e.value))).collect(),
        functions: model.functions.iter().map(function_name).collect(),
    })
}

/// Checks a graph that is not part of a model.
///
/// # Errors
///
/// As [`check`].
pub fn check_graph(
    graph: &GraphProto,
    opsets: &BTreeMap<String, i64>,
    functions: &[FunctionProto],
    options: &CheckOptions<'_>,
) -> Result<Graph, Error> {
    let mut known = BTreeMap::new();
    for (domain, &version) in opsets {
        import(&mut known, domain, version)?;
    }
    build(graph, &known, functions, options)
}

/// Builds the graph and fills in the types of its values.
fn build(
    graph: &GraphProto,
    opsets: &BTreeMap<String, i64>,
    functions: &[FunctionProto],
    options: &CheckOptions<'_>,
) -> Result<Graph, Error> {
    let mut graph = Builder::new(options, functions)?.root(graph, opsets)?;
    infer::graph(&mut graph, &options.limits)?;
    Ok(graph)
}

/// Reads the operator sets that a model or a function imports.
pub(super) fn opsets(imports: &[OperatorSetIdProto]) -> Result<BTreeMap<String, i64>, Error> {
    let mut known = BTreeMap::new();
    for entry in imports {
        import(&mut known, entry.domain(), entry.version())?;
    }
    Ok(known)
}

/// Adds one operator set, unless its version is not supported or another one is imported.
fn import(known: &mut BTreeMap<String, i64>, domain: &str, version: i64) -> Result<(), Error> {
    let domain = domain_name(domain);
    let (oldest, newest) = supported_opsets(domain);
    if !(oldest..=newest).contains(&version) {
        return Err(Error::Opset { domain: domain.to_owned(), version, oldest, newest });
    }
    match known.insert(domain.to_owned(), version) {
        Some(first) if first != version => {
            Err(Error::OpsetTwice { domain: domain.to_owned(), first, second: version })
        }
        _ => Ok(()),
    }
}

/// Writes a function's name with its domain and overload.
pub(super) fn function_name(f: &FunctionProto) -> String {
    let domain = domain_name(f.domain());
    match f.overload() {
        "" => format!("{domain}::{}", f.name()),
        overload => format!("{domain}::{}:{overload}", f.name()),
    }
}
