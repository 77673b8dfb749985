//! ONNX's operators as functions over any backend.
//!
//! [`lookup`] finds the function that serves an operator of an opset. A function reads its [`Call`]'s
//! attributes and tensor parameters, resolves what ONNX moved between the two across opsets, and calls
//! primitives and extension methods. Run on a backend's tensors it computes; run on a
//! [`Tracer`](crate::trace::Tracer) it records what it calls, which is how operators are lowered.
//!
//! Functions read elements (`ints`, `to_host`) of their own operands only, so that a planner knows which
//! operand's value a plan depends on. Operators with subgraphs belong to the plan.
//!
//! What depends on data, or is no number, is a function on host tensors; sequences, optionals and maps are taken apart
//! by functions on [`OnnxValue`]s.

mod arithmetic;
mod attention;
mod bit_cast;
mod call;
mod control;
mod cumulative;
mod determinant;
mod early;
mod einsum;
mod flex_attention;
mod folded;
mod gradient;
mod grid;
mod halves;
mod image;
mod infer;
mod inline;
mod kept;
mod linear_attention;
mod loss;
mod microsoft;
mod missing;
mod ml;
mod movement;
mod ngrams;
mod normalize;
mod pattern;
mod picture;
mod quant;
mod random;
mod reads;
mod recurrent;
mod reduce;
mod region;
mod resize;
mod rows;
mod scalar;
mod selection;
pub(crate) mod sequence;
mod sequence_axis;
mod shape;
mod signal;
mod sorting;
mod strings;
mod suppression;
mod table;
mod training;
pub(crate) mod vendor;
mod window;

/// The attributes that preparing a graph adds to nodes.
pub(crate) const PREPARED: [&str; 2] = [gradient::DIFFERENTIATED, microsoft::BLOCK];

pub use crate::contract::OnnxValue;
pub use call::{Body, Call, Function, HostFunction, ItemFunction, OpOutputs, OpResult};
pub(crate) use gradient::prepare as prepare_gradients;
pub use halves::{Halves, TensorFunction};
pub(crate) use microsoft::prepare_blocks;
pub(crate) use missing::{advice, missing};
pub use reads::AttributeReads;
pub use table::{Class, OPERATORS, Operator, lookup, operators};
