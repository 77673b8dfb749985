//! Operators of the domain `ai.onnx.ml`: models of classical machine learning.
//!
//! A program that runs models with these operators links this crate and uses none of its names, except in tests:
//! `use bb_onnx_ml as _;`. The feature `ml` of `bb`, which is enabled by default, does the same.
//!
//! ONNX leaves much of this domain to its reference evaluator. If the evaluator and ONNX Runtime differ, a function
//! follows the evaluator, unless the documentation of the operator says otherwise.

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

/// Returns the type for computing scores: `f64` for features in `f64`, otherwise `f32`.
fn wide(dtype: DataType) -> DataType {
    if dtype == DataType::F64 { DataType::F64 } else { DataType::F32 }
}
