//! ONNX's protobuf messages.
//!
//! `onnx.rs` is generated from `bb-ir/schema/onnx.proto` and committed.

#[allow(missing_docs, clippy::all, reason = "generated from the schema, whose comments it carries")]
#[allow(unreachable_pub, rustdoc::all, reason = "generated")]
mod onnx;

pub use onnx::*;
