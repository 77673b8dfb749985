//! ONNX's protobuf messages.
//!
//! `onnx.rs` is generated from `bb-ir/schema/onnx.proto` and committed to the repository.

#[allow(missing_docs, clippy::all, reason = "generated from the schema, whose comments it carries")]
#[allow(unreachable_pub, rustdoc::all, reason = "generated")]
#[rustfmt::skip]
mod onnx;

mod data;
mod external;
mod scan;
mod sha1;
mod sparse;
mod tensor;
mod text;

pub use data::{ElementKind, MapProto, OptionalProto, SequenceProto};
pub use external::ExternalData;
pub use onnx::*;
pub use scan::{FileMessage, decode};
