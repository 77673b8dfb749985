//! Operators of the domain `ai.onnx.ml`.
//!
//! ONNX leaves much of this domain to its reference evaluator. Where that and ONNX Runtime differ, a function follows
//! the evaluator, unless the text of the operator says otherwise.

pub(super) mod ensemble;
pub(super) mod features;
mod forest;
pub(super) mod labels;
pub(super) mod linear;
pub(super) mod maps;
mod scores;
pub(super) mod svm;

use bb_core::operator::Call;
use bb_core::{DataType, Error};

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
