//! Operators of the domain `ai.onnx.ml`.
//!
//! ONNX leaves much of this domain to its reference evaluator. Where that and ONNX Runtime differ, a function follows
//! the evaluator, unless the text of the operator says otherwise.

mod ensemble;
mod features;
mod forest;
mod labels;
mod linear;
mod maps;
mod scores;
mod svm;

pub(super) use ensemble::{tree_ensemble, tree_ensemble_classifier, tree_ensemble_regressor};
pub(super) use features::{
    array_feature_extractor, binarizer, feature_vectorizer, imputer, normalizer, one_hot_encoder, scaler,
};
pub(super) use labels::{category_mapper, label_encoder, label_encoder_by_position};
pub(super) use linear::{linear_classifier, linear_regressor};
pub(super) use maps::{cast_map, dict_vectorizer, zip_map};
pub(super) use svm::{svm_classifier, svm_regressor};

use super::call::Call;
use crate::{DataType, Error};

/// Reads a list of strings, if it is given.
pub(super) fn texts<'a, T>(call: &Call<'a, T>, name: &str) -> Result<Option<Vec<&'a str>>, Error> {
    let Some(list) = call.texts(name)? else { return Ok(None) };
    let text = |bytes: &'a Vec<u8>| {
        std::str::from_utf8(bytes).map_err(|_| call.wrong(name, "has a string that is no UTF-8"))
    };
    list.iter().map(text).collect::<Result<_, _>>().map(Some)
}

/// The type that scores are computed in: `f64` for what comes as such, else `f32`.
fn wide(dtype: DataType) -> DataType {
    if dtype == DataType::F64 { DataType::F64 } else { DataType::F32 }
}
