//! ONNX's operators as functions that a tracer records, for ONNX's own domain and `ai.onnx.preview`.
//!
//! The crate submits its table of operators to `inventory`, as other operator crates do; the planner finds it when the crate is linked. The
//! other crates use the module `shared`. The function of an operator reads the attributes and tensor parameters of its [`Call`], handles
//! the differences between opsets, and calls primitives and extension methods. The [`Tracer`](bb_core::trace::Tracer) records these calls:
//! this is how operators are lowered.
//!
//! Functions read elements (`ints`, `to_host`) of their own operands only, so that the planner knows which operand values a plan depends
//! on. The planner handles operators with subgraphs itself.
//!
//! Operators whose results depend on data or are not numeric are functions on host tensors. Operators on sequences, optionals and maps are
//! functions on [`OnnxValue`]s.

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
