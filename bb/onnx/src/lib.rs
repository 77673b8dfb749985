//! ONNX's operators as functions over the tracer, for ONNX's own domain and `ai.onnx.preview`.
//!
//! The crate submits its table to `inventory`, as other crates of operators do, and plans find it when the crate is linked. These crates
//! build on the module `shared`. A function reads its [`Call`]'s attributes and tensor parameters, accepts a value in the form that its
//! opset uses, and calls primitives and extension methods. The [`Tracer`](bb_core::trace::Tracer) records these calls: this is how operators are lowered.
//!
//! Functions read elements (`ints`, `to_host`) of their own operands only, so that a planner knows which
//! operand's value a plan depends on. Operators with subgraphs belong to the plan.
//!
//! Operators whose results depend on data or are not numeric are functions on host tensors; sequences, optionals and maps are taken apart
//! by functions on [`OnnxValue`]s.

#![forbid(unsafe_code)]

mod arithmetic;
mod attention;
mod attributes;
mod bit_cast;
mod cache;
mod control;
mod cumulative;
mod determinant;
mod early;
mod einsum;
mod flex_attention;
mod folded;
mod grid;
mod image;
mod inline;
mod linear_attention;
mod loss;
mod movement;
mod ngrams;
mod normalize;
mod pattern;
mod picture;
mod quant;
mod random;
mod recurrent;
mod reduce;
mod region;
mod resize;
mod rows;
mod scalar;
mod selection;
mod sequence;
mod sequence_axis;
mod served;
mod shape;
#[doc(hidden)]
pub mod shared;
mod signal;
mod sorting;
mod strings;
mod suppression;
mod table;
mod topics;
mod window;

pub use bb_core::operator::{
    AttributeReads, Body, Call, Class, Function, Halves, HostFunction, ItemFunction, ItemResult, OPERATORS,
    OnnxValue, OpOutputs, OpResult, Operator, TensorFunction,
};
pub use topics::{OPTIONAL_DOMAINS, operators};
