//! Tracing: running a function on graph values instead of elements, which records what it calls.
//!
//! [`Tracer`] is a backend. Its tensors know element type and extents, and the value where it is constant;
//! its operations compute nothing but what the small evaluator can.

mod eval;
mod export;
mod recorded;
mod tracer;

pub use export::trace;
pub(crate) use export::{one_node_graph, to_graph};
pub(crate) use recorded::{Operation, Recorded, Source, Step, Value, ValueNo};
pub use tracer::{Traced, Tracer};
