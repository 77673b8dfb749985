//! Loads models from bytes, and fixes symbolic dimensions.

use crate::failure::Failure;
use bb::Module;
use bb_ir::Limits;
use bb_ir::check::{self, CheckOptions};
use bb_ir::proto::ExternalData;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Loads a model. `files` contains its external data by location, and `dims` the extents of symbolic dimensions.
///
/// # Errors
///
/// The errors of [`Module::from_bytes_with`]; [`Failure::Dims`] for the errors of [`check::fix_dims`]; [`Failure::Compiled`] for a
/// compiled model, because its dimensions cannot change.
pub(crate) fn load(
    bytes: Bytes,
    files: Vec<(String, Bytes)>,
    dims: &BTreeMap<String, usize>,
    limits: &Limits,
) -> Result<Module, Failure> {
    let external = (!files.is_empty()).then(|| ExternalData::in_memory(files));
    if bb_ir::compact::is_saved(&bytes) {
        return if dims.is_empty() {
            Ok(Module::from_bytes_with(bytes, limits)?)
        } else {
            Err(Failure::Compiled)
        };
    }
    let dims: Vec<(String, usize)> = dims.iter().map(|(name, extent)| (name.clone(), *extent)).collect();
    let mut model = check::parse_model(bytes, limits)?;
    check::fix_dims(&mut model, &dims).map_err(Failure::Dims)?;
    let options = CheckOptions {
        limits: limits.clone(),
        external_data: external.as_ref(),
        operators: bb::onnx::OPERATORS,
    };
    Ok(Module::new(check::check(&model, &options)?.graph))
}
