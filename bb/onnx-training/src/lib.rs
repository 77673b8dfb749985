//! Operators of the domain `ai.onnx.preview.training`: optimizers, and derivatives of a graph's values.
//!
//! A program that runs such models links this crate, and names nothing of it but for tests: `use bb_onnx_training as _;`. The feature
//! `training` of `bb`, which is enabled by default, does the same.

#![forbid(unsafe_code)]

mod gradient;
mod optimizers;
mod table;
