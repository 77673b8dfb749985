//! Values: casts, extents, and the formats of files and frames.

mod cast;
mod extents;
mod files;
mod npy;
mod onnx_cast;
mod rounded_once;
mod tensor_proto;
mod wire;
