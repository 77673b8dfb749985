//! From bytes to a checked model.

use super::build::Builder;
use super::types;
use crate::file::{self, Format};
use crate::graph::{Graph, ValueType};
use crate::limits::within;
use crate::opset::{domain_name, supported_opsets};
use crate::proto::{
    ExternalData, FunctionProto, GraphProto, ModelProto, OperatorSetIdProto, ValueInfoProto, decode,
};
use crate::{Error, Limits, infer};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;

/// What a check may use and must bound.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions<'a> {
    /// The bounds.
    pub limits: Limits,
    /// Where external data may lie; `None` refuses external data.
    pub external_data: Option<&'a ExternalData>,
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
/// [`Error::Limit`] if there are more bytes than `limits` allows, or they nest too deep; [`Error::Format`] if they are
/// something else that is known, and [`Error::Decode`] if they are something unknown; [`Error::Memory`] if there is no
/// memory for the decoded model.
pub fn parse_model(bytes: Bytes, limits: &Limits) -> Result<ModelProto, Error> {
    within("model_bytes", "bytes of a model", bytes.len(), limits.model_bytes)?;
    if let Some(format) = Format::of(&bytes) {
        return Err(Error::Format { format });
    }
    let no_model = || Format::of_no_model(&bytes).map(|format| Error::Format { format });
    match decode::<ModelProto>(bytes.clone()) {
        Ok(model) if model.graph.is_none() => no_model().map_or(Ok(model), Err),
        Err(error @ Error::Decode { .. }) => Err(no_model().unwrap_or(error)),
        decoded => decoded,
    }
}

/// Decodes the model in a file, which is mapped or read as `limits` say.
///
/// The model's raw tensor data are those of the mapped file; they are not read.
///
/// # Errors
///
/// As [`file::load`]; [`Error::InFile`] with what [`parse_model`] finds wrong.
pub fn load_model(path: &Path, limits: &Limits) -> Result<ModelProto, Error> {
    let bytes = file::load(path, limits)?;
    let inside = |source| Error::InFile { path: path.to_owned(), source: Box::new(source) };
    parse_model(bytes, limits).map_err(inside)
}

/// Checks a model and returns its graph.
///
/// # Errors
///
/// What is wrong. [`Error::Node`] and [`Error::Value`] say where, and their sources what; if several nodes are not
/// valid, [`Error::Several`] has them all.
///
/// # Examples
///
/// ```
/// use bb_ir::{Error, check::check, proto::ModelProto};
/// let model = ModelProto::default();
/// assert!(matches!(check(&model, &Default::default()), Err(Error::NoGraph)));
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

/// Returns what a graph declares of its inputs, by name; nothing else of it is looked at.
///
/// # Errors
///
/// [`Error::UnknownDataType`] or [`Error::Limit`], if a type is none.
pub fn declared_inputs(graph: &GraphProto) -> Result<Vec<(&str, ValueType)>, Error> {
    let nesting = Limits::default().nesting;
    let declared = |info: &'_ ValueInfoProto| match &info.r#type {
        Some(ty) => types::decode(ty, nesting),
        None => Ok(ValueType::Unknown),
    };
    graph.input.iter().map(|info| Ok((info.name(), declared(info)?))).collect()
}

/// Builds the graph and fills in the types of its values.
fn build(
    graph: &GraphProto,
    opsets: &BTreeMap<String, i64>,
    functions: &[FunctionProto],
    options: &CheckOptions<'_>,
) -> Result<Graph, Error> {
    let mut problems = Vec::new();
    let built = Builder::new(options, functions)?.root(graph, opsets, &mut problems);
    let inferred = built.and_then(|mut graph| {
        infer::graph(&mut graph, &options.limits, &mut problems)?;
        Ok(graph)
    });
    match inferred {
        Ok(graph) if problems.is_empty() => Ok(graph),
        other => {
            problems.extend(other.err());
            Err(Error::all(problems))
        }
    }
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
