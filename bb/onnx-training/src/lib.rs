//! Operators of the domain `ai.onnx.preview.training`: optimizers, and derivatives of a graph's values.
//!
//! A program that runs models with these operators links this crate and uses none of its names, except in tests: `use
//! bb_onnx_training as _;`. The feature `training` of `bb`, which is enabled by default, does the same.

#![forbid(unsafe_code)]

mod gradient;
mod optimizers;
mod table;
