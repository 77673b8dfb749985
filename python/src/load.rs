//! Models from files and bytes, with symbolic dimensions that the caller fixes.

use crate::convert::Problem;
use bb::Module;
use bb_ir::Limits;
use bb_ir::check::{self, CheckOptions};
use bb_ir::proto::tensor_shape_proto::dimension;
use bb_ir::proto::{ExternalData, ModelProto, TypeProto, ValueInfoProto, type_proto};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where a model comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// The serialized model, and the folder with its external data if it may have some.
    Bytes(Bytes, Option<PathBuf>),
}

/// What loading a model fails with.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The model is not valid.
    Model(bb::Error),
    /// What the caller asked for does not fit the model.
    Asked(Problem),
}

impl<E: Into<bb::Error>> From<E> for LoadError {
    fn from(error: E) -> LoadError {
        LoadError::Model(error.into())
    }
}

/// Loads a model, and gives its symbolic dimensions the extents in `dims`.
///
/// # Errors
///
/// The errors of [`Module::load_with`]; [`Problem::UnknownDim`] if no input has a dimension of a name, and [`Problem::Compiled`] if the
/// model was compiled, so that its dimensions cannot change.
pub(crate) fn load(source: &Source, dims: &[(String, usize)], limits: &Limits) -> Result<Module, LoadError> {
    if dims.is_empty() {
        return Ok(match source {
            Source::File(path) => Module::load_with(path, limits)?,
            Source::Bytes(bytes, None) => Module::from_bytes_with(bytes.clone(), limits)?,
            Source::Bytes(bytes, Some(folder)) => Module::from_bytes_in(bytes.clone(), folder, limits)?,
        });
    }
    let (bytes, external) = match source {
        Source::File(path) => (bb_ir::file::load(path, limits)?, Some(ExternalData::of_model(path, limits))),
        Source::Bytes(bytes, folder) => {
            (bytes.clone(), folder.as_ref().map(|folder| ExternalData::in_folder(folder, limits)))
        }
    };
    if bb_ir::compact::is_saved(&bytes) {
        return Err(LoadError::Asked(Problem::Compiled));
    }
    let mut model = check::parse_model(bytes, limits)?;
    fix(&mut model, dims)?;
    let external_data = external.as_ref();
    let options = CheckOptions { limits: limits.clone(), external_data, operators: bb::onnx::OPERATORS };
    Ok(Module::new(check::check(&model, &options)?.graph))
}

/// Writes extents in place of symbolic dimensions.
fn fix(model: &mut ModelProto, dims: &[(String, usize)]) -> Result<(), LoadError> {
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    let mut known = BTreeSet::new();
    let set = |value: &mut ValueInfoProto, names: &mut BTreeSet<String>| {
        if let Some(ty) = value.r#type.as_mut() {
            fix_type(ty, dims, names);
        }
    };
    graph.input.iter_mut().for_each(|value| set(value, &mut known));
    for (name, _) in dims {
        if !known.contains(name) {
            let known: Vec<String> = known.into_iter().collect();
            return Err(LoadError::Asked(Problem::UnknownDim { name: name.clone(), known }));
        }
    }
    // What the model claims of other values has the same names.
    let others = graph.output.iter_mut().chain(&mut graph.value_info);
    others.for_each(|value| set(value, &mut BTreeSet::new()));
    Ok(())
}

fn fix_type(ty: &mut TypeProto, dims: &[(String, usize)], known: &mut BTreeSet<String>) {
    let mut ty = Some(ty);
    // The types of sequences and optionals contain others; what is deeper than models nest is left to the check.
    for _ in 0..Limits::MAX_NESTING {
        let shape = match ty.and_then(|ty| ty.value.as_mut()) {
            Some(type_proto::Value::TensorType(tensor)) => tensor.shape.as_mut(),
            Some(type_proto::Value::SparseTensorType(tensor)) => tensor.shape.as_mut(),
            Some(type_proto::Value::SequenceType(of)) => {
                ty = of.elem_type.as_deref_mut();
                continue;
            }
            Some(type_proto::Value::OptionalType(of)) => {
                ty = of.elem_type.as_deref_mut();
                continue;
            }
            _ => return,
        };
        for dim in shape.into_iter().flat_map(|shape| &mut shape.dim) {
            let Some(dimension::Value::DimParam(name)) = &dim.value else { continue };
            known.insert(name.clone());
            if let Some((_, extent)) = dims.iter().find(|(known, _)| known == name) {
                dim.value = Some(dimension::Value::DimValue(i64::try_from(*extent).unwrap_or(i64::MAX)));
            }
        }
        return;
    }
}
