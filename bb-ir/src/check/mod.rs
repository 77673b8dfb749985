//! Turns an untrusted ONNX model into a [`Graph`](crate::graph::Graph), or says what is wrong with it.
//!
//! The one place that faces models from strangers: protobuf is decoded once, names become numbers,
//! nodes are put in order, functions are inlined, and everything a graph promises (see
//! [`graph`](crate::graph)) is proved. Nothing is dropped silently: what is not understood is an
//! error. Whether a backend can run the graph is not asked here.

mod attribute;
mod build;
mod constant;
mod control;
mod function;
mod model;
mod names;
mod order;
mod schema;
mod types;

pub use model::{CheckOptions, CheckedModel, check, check_graph, declared_inputs, load_model, parse_model};

pub(crate) use types::{merge, weight};
