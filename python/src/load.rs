//! Models from files and bytes, with symbolic dimensions that the caller fixes.

use crate::convert::Problem;
use bb::Module;
use bb_ir::Limits;
use bb_ir::check::{self, CheckOptions};
use bb_ir::proto::ExternalData;
use bytes::Bytes;
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
/// The errors of [`Module::load_with`]; [`Problem::Tensor`] if no input has a dimension of a name, and [`Problem::Compiled`] if the
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
    check::fix_dims(&mut model, dims).map_err(|error| LoadError::Asked(Problem::Tensor(error)))?;
    let external_data = external.as_ref();
    let options = CheckOptions { limits: limits.clone(), external_data, operators: bb::onnx::OPERATORS };
    Ok(Module::new(check::check(&model, &options)?.graph))
}
