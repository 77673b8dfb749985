//! Loads models from files and bytes, fixes symbolic dimensions and replaces constants.

use crate::convert::Problem;
use bb::{Module, TensorData};
use bb_ir::Limits;
use bb_ir::check::{self, CheckOptions};
use bb_ir::proto::ExternalData;
use bytes::Bytes;
use std::path::PathBuf;

/// The source of a model.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// The serialized model, and the folder of its external data, if there is one.
    Bytes(Bytes, Option<PathBuf>),
}

/// An error of loading a model.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The model is not valid.
    Model(bb::Error),
    /// The caller's options do not fit the model.
    Asked(Problem),
}

impl<E: Into<bb::Error>> From<E> for LoadError {
    fn from(error: E) -> LoadError {
        LoadError::Model(error.into())
    }
}

/// Changes to a model before it is checked.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The names of symbolic dimensions, and their extents.
    pub(crate) dims: Vec<(String, usize)>,
    /// The names of constants, and their replacements. Names that the model does not have are ignored.
    pub(crate) constants: Vec<(String, TensorData)>,
    /// The names of constants, and their replacements. The model must have the names.
    pub(crate) external: Vec<(String, TensorData)>,
    /// The contents of external data files, by the names that the model uses for the files.
    pub(crate) files: Vec<(String, Bytes)>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        let Changes { dims, constants, external, files } = self;
        dims.is_empty() && constants.is_empty() && external.is_empty() && files.is_empty()
    }
}

/// Loads a model with changes.
///
/// # Errors
///
/// The errors of [`Module::load_with`]; [`Problem::Tensor`] if no input has a dimension with one of the names, or if a tensor does not
/// match its constant; [`Problem::NoConstant`]; and [`Problem::Compiled`] if the model was compiled, so that it cannot be changed.
pub(crate) fn load(source: &Source, changes: &Changes, limits: &Limits) -> Result<Module, LoadError> {
    if changes.is_empty() {
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
    let asked = |error| LoadError::Asked(Problem::Tensor(error));
    check::fix_dims(&mut model, &changes.dims).map_err(asked)?;
    check::replace_constants(&mut model, &changes.constants).map_err(asked)?;
    if let [name, ..] = *check::replace_constants(&mut model, &changes.external).map_err(asked)? {
        return Err(LoadError::Asked(Problem::NoConstant { name: name.to_owned() }));
    }
    let external = match changes.files.is_empty() {
        true => external,
        false => Some(ExternalData::in_memory(changes.files.iter().cloned())),
    };
    let external_data = external.as_ref();
    let options = CheckOptions { limits: limits.clone(), external_data, operators: bb::onnx::OPERATORS };
    Ok(Module::new(check::check(&model, &options)?.graph))
}
