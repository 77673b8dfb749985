//! `bb export`: writes a model for other programs, lowered or with its functions inlined.

use crate::error::{Error, Result};
use crate::{args, inputs, out, render, session};
use bb::export::{ExportOptions, Keep, ModelTrace, inlined, save};
use bb_ir::proto::{AttributeProto, GraphProto, ModelProto, TensorProto};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn export(options: &args::Export) -> Result<ExitCode> {
    let input = &options.model.model;
    let module = session::load(&options.model)?;
    let source = header(options)?;
    spare_the_input(&source, input, &options.output)?;
    let mut model = if options.lowered || !options.keep.is_empty() {
        lowered(&module, options)?
    } else {
        authored(&module, &source, options)?
    };
    model.domain = source.domain;
    model.model_version = source.model_version;
    model.doc_string = source.doc_string;
    model.metadata_props = source.metadata_props;
    let files = save(model, &options.output, options.external_above)?;
    if options.json {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        out::json(&serde_json::json!({ "files": files }))?;
    } else {
        files.iter().try_for_each(|file| out::line(file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the header of the model file, without external data. A compiled model has none.
fn header(options: &args::Export) -> Result<ModelProto> {
    let path = &options.model.model;
    let limits = session::limits(&options.model)?;
    let bytes = bb_ir::file::load(path, &limits)?;
    if bb_ir::compact::is_saved(&bytes) {
        return Ok(ModelProto::default());
    }
    Ok(bb_ir::check::parse_model(bytes, &limits)?)
}

/// Returns the model as authored, with its functions inlined.
fn authored(module: &bb::Module, source: &ModelProto, options: &args::Export) -> Result<ModelProto> {
    let open = options.extents.dims.iter().map(|d| &d.name);
    if let Some(name) = open.chain(options.extents.shapes.iter().map(|s| &s.input)).next() {
        return Err(Error::NeedsLowering { what: format!("the extent given for `{name}`") });
    }
    let own = source.opset_import.iter().find(|o| bb_ir::opset::domain_name(o.domain()).is_empty());
    if let Some(asked) = options.opset
        && own.is_none_or(|own| own.version() != asked)
    {
        return Err(Error::NeedsLowering { what: format!("opset {asked}, which is not the model's,") });
    }
    let mut model = inlined(module).map_err(|source| match source {
        bb::Error::Ir(bb_ir::Error::OpsetTwice { .. }) => Error::Inlining(Box::new(source)),
        other => other.into(),
    })?;
    // A graph without nodes uses no opset, but the model must import one.
    if let Some(own) = own.filter(|_| model.opset_import.is_empty()) {
        model.opset_import.push(own.clone());
    }
    let least = model.ir_version();
    match options.ir_version {
        Some(version) => model.ir_version = Some(bb::export::check_ir_version(version, least)?),
        None => model.ir_version = Some(source.ir_version().max(least)),
    }
    Ok(model)
}

fn lowered(module: &bb::Module, options: &args::Export) -> Result<ModelProto> {
    let (shapes, open) = inputs::dims(module, &options.extents)?;
    let explain = |source: bb::Error| match (&source, open.is_empty()) {
        (_, true) | (bb::Error::NotOneGraph { .. } | bb::Error::Unsupported { .. }, _) => source.into(),
        _ => Error::OpenExtents { open: render::names(&open), source: Box::new(source) },
    };
    let trace = ModelTrace::of_module(module, &shapes).map_err(explain)?;
    let keep = if options.keep.iter().any(|name| name == "all") {
        Keep::All
    } else {
        Keep::operators(&options.keep)
    };
    let mut how = ExportOptions::default().keep(keep);
    if !module.graph().name.is_empty() {
        how = how.graph_name(&module.graph().name);
    }
    if let Some(opset) = options.opset {
        how = how.opset(opset);
    }
    if let Some(version) = options.ir_version {
        how = how.ir_version(version);
    }
    trace.model(&how).map_err(|source| match source {
        bb::Error::FixedExtent { .. } => explain(source),
        other => other.into(),
    })
}

/// Returns an error if the output would overwrite the input model or its external data.
fn spare_the_input(model: &ModelProto, input: &Path, output: &Path) -> Result<()> {
    let folder = input.parent().unwrap_or(Path::new(""));
    let mut read = vec![input.to_owned()];
    if let Some(graph) = &model.graph {
        locations(graph, &mut |location| read.push(folder.join(location)));
    }
    read.sort_unstable();
    read.dedup();
    let mut beside = output.as_os_str().to_owned();
    beside.push(".data");
    for written in [output.to_owned(), PathBuf::from(beside)] {
        // `canonicalize` fails if the file does not exist; then it is not an input file.
        let Ok(real) = written.canonicalize() else { continue };
        if read.iter().any(|path| path.canonicalize().is_ok_and(|path| path == real)) {
            return Err(Error::OverInput { path: written });
        }
    }
    Ok(())
}

/// Calls a function with the location of each tensor that has external data. Recursion is safe, because the model was checked and so its
/// nesting is bounded.
fn locations(graph: &GraphProto, each: &mut dyn FnMut(&str)) {
    fn tensor(tensor: &TensorProto, each: &mut dyn FnMut(&str)) {
        tensor.external_data.iter().filter(|e| e.key() == "location").for_each(|e| each(e.value()));
    }
    fn attribute(a: &AttributeProto, each: &mut dyn FnMut(&str)) {
        a.t.iter().chain(&a.tensors).for_each(|t| tensor(t, each));
        a.g.iter().chain(&a.graphs).for_each(|g| locations(g, each));
    }
    graph.initializer.iter().for_each(|t| tensor(t, each));
    graph.node.iter().flat_map(|node| &node.attribute).for_each(|a| attribute(a, each));
}
