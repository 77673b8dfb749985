//! Operators of the domain `ai.onnx.ml`: models of classical machine learning.
//!
//! A program that runs models with these operators links this crate and uses none of its names, except in tests:
//! `use bb_onnx_ml as _;`. The feature `ml` of `bb`, which is enabled by default, does the same.
//!
//! ONNX leaves much of this domain to its reference evaluator. Where that and ONNX Runtime differ, a function follows
//! the evaluator, unless the text of the operator says otherwise.

#![forbid(unsafe_code)]

mod ensemble;
mod features;
mod forest;
mod labels;
mod linear;
mod maps;
mod scores;
mod svm;
mod table;

use bb_core::DataType;

/// The type that scores are computed in: `f64` for features in `f64`, else `f32`.
fn wide(dtype: DataType) -> DataType {
    if dtype == DataType::F64 { DataType::F64 } else { DataType::F32 }
}
