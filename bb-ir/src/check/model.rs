//! Decodes and checks whole models.

use super::build::Builder;
use super::imports::Imports;
use super::types;
use crate::file::{self, Format};
use crate::graph::{Graph, ValueType};
use crate::infer::Operators;
use crate::limits::within;
use crate::opset::domain_name;
use crate::proto::{
    ExternalData, FunctionProto, GraphProto, ModelProto, OperatorSetIdProto, ValueInfoProto, decode,
};
use crate::{Error, Limits, infer};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;

/// The options of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions<'a> {
    /// The limits on the model.
    pub limits: Limits,
    /// The location of external data; if `None`, external data is refused.
    pub external_data: Option<&'a ExternalData>,
    /// The supported operators; by default only the primitives.
    pub operators: Operators,
}

/// A model that passed the check.
#[derive(Debug, Clone)]
pub struct CheckedModel {
    /// The graph, with its functions inlined.
    pub graph: Graph,
    /// The version of the operators that the model imports, for each domain; `""` is ONNX's own domain.
    pub opsets: BTreeMap<String, i64>,
    /// The version of ONNX's file format.
    pub ir_version: i64,
    /// The name and the version of the program that wrote the model; both may be empty.
    pub producer: (String, String),
    /// The model's own version.
    pub model_version: i64,
    /// The description of the model; may be empty.
    pub doc: String,
    /// The metadata of the model, in the model's order.
    pub metadata: Vec<(String, String)>,
    /// The functions that the model defines, as `domain::name` or `domain::name:overload`.
    pub functions: Vec<String>,
}

/// Decodes a serialized model.
///
/// Raw tensor data is shared with `bytes`, not copied.
///
/// # Errors
///
/// [`Error::Limit`] if the bytes or the nesting exceed `limits`; [`Error::Format`] if the bytes are in
/// another known format; [`Error::Decode`] if they are not an ONNX model; [`Error::Memory`] if the system
/// has no memory for the decoded model.
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

/// Decodes the model in a file. `limits` determines whether the file is mapped or read.
///
/// If the file is mapped, raw tensor data remains in the mapping, and is not read here.
///
/// # Errors
///
/// As [`file::load`]; [`Error::InFile`] with an error of [`parse_model`].
pub fn load_model(path: &Path, limits: &Limits) -> Result<ModelProto, Error> {
    let bytes = file::load(path, limits)?;
    let inside = |source| Error::InFile { path: path.to_owned(), source: Box::new(source) };
    parse_model(bytes, limits).map_err(inside)
}

/// Checks a model and returns its graph.
///
/// # Errors
///
/// [`Error::Node`] and [`Error::Value`] name the node or the value, and their sources describe the problem.
/// If several nodes are invalid, [`Error::Several`] contains all their errors.
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
    let mut imports = Imports::read(&model.opset_import, None)?;
    // Models of IR versions 1 and 2 import no opset, which means version 1.
    if imports.versions.is_empty() && matches!(model.ir_version(), 1 | 2) {
        imports.versions.insert(String::new(), 1);
    }
    let opsets = imports.versions.clone();
    let graph = build(graph, imports, &model.functions, options)?;
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
    opsets: &[OperatorSetIdProto],
    functions: &[FunctionProto],
    options: &CheckOptions<'_>,
) -> Result<Graph, Error> {
    build(graph, Imports::read(opsets, None)?, functions, options)
}

/// Returns the inputs that a graph declares, with their types. Other parts of the graph are not checked.
///
/// # Errors
///
/// [`Error::UnknownDataType`] or [`Error::Limit`] if a type is invalid.
pub fn declared_inputs(graph: &GraphProto) -> Result<Vec<(&str, ValueType)>, Error> {
    let nesting = Limits::default().nesting;
    let declared = |info: &'_ ValueInfoProto| match &info.r#type {
        Some(ty) => types::decode(ty, nesting),
        None => Ok(ValueType::Unknown),
    };
    graph.input.iter().map(|info| Ok((info.name(), declared(info)?))).collect()
}

/// Builds the graph, and infers the types of its values.
fn build(
    graph: &GraphProto,
    imports: Imports,
    functions: &[FunctionProto],
    options: &CheckOptions<'_>,
) -> Result<Graph, Error> {
    let mut problems = Vec::new();
    let built = Builder::new(options, functions)?.root(graph, imports, &mut problems);
    let inferred = built.and_then(|mut graph| {
        infer::graph(&mut graph, options.operators, &options.limits, &mut problems)?;
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

/// Returns a function's name with its domain and overload.
pub(super) fn function_name(f: &FunctionProto) -> String {
    let domain = domain_name(f.domain());
    match f.overload() {
        "" => format!("{domain}::{}", f.name()),
        overload => format!("{domain}::{}:{overload}", f.name()),
    }
}
