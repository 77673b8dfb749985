//! Turns an untrusted ONNX model into a [`Graph`](crate::graph::Graph), or reports its faults.
//!
//! Only this module processes untrusted models: it decodes protobuf once, replaces names by identifiers, sorts
//! the nodes, inlines functions, and checks all guarantees of a graph (see [`graph`](crate::graph)). It
//! ignores nothing silently: an unsupported construct is an error. It does not check whether a backend can run
//! the graph.

mod attribute;
mod build;
mod constant;
mod constants;
mod control;
mod dims;
mod function;
mod imports;
mod loaded;
mod model;
mod names;
mod order;
mod schema;
mod types;

pub use constants::replace_constants;
pub use dims::fix_dims;
pub use loaded::loaded;
pub use model::{CheckOptions, CheckedModel, check, check_graph, declared_inputs, load_model, parse_model};
