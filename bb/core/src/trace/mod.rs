//! Tracing: runs a function on symbolic tensors and records the operations that it calls.
//!
//! [`Tracer`] is a backend. A traced tensor has an element type and extents, and its elements if they are
//! constant. The tracer computes elements only for small tensors and constants.

mod compact;
mod decode;
mod edit;
pub(crate) mod elements;
mod elementwise;
pub(crate) mod extent;
mod extents;
mod form;
pub(crate) mod host;
mod keep;
mod liveness;
mod log;
mod one_node;
mod params;
mod print;
mod proto;
mod run;
mod steps;
mod stop;
mod table;
mod traced;
mod tracer;
mod write;

pub use decode::{PrimitiveNode, decode};
pub(crate) use edit::{NewStep, NewValue, TraceEdit, Uses};
pub(crate) use extent::{Extent, Extents, negative};
pub(crate) use host::HostKernel;
pub use keep::Keep;
pub(crate) use keep::{Kept, Policy};
pub(crate) use liveness::LiveStep;
pub use liveness::{LastRead, Liveness};
pub(crate) use log::{Event, Guard, MOST_COMPARED, Place, Relation, Symbol, When, needed};
pub(crate) use one_node::one_node_graph;
pub(crate) use params::{Recipe, SymbolicParams, SymbolicValue};
pub(crate) use print::called;
pub(crate) use proto::{known, value_info};
pub(crate) use steps::{ConstantIndex, Varying};
pub use steps::{
    InputIndex, Operation, OriginId, Phase, Step, StepId, StepOrigins, Trace, TraceValue, ValueSource,
    WeightId,
};
pub use stop::{NeededValue, TraceStop};
pub(crate) use table::{Table, TableIndex, held, indices};
pub use traced::TracedTensor;
pub(crate) use traced::{Follow, TracedElements, Type};
pub use tracer::Tracer;
pub use tracer::Varies;
pub(crate) use write::{Target, Weight, to_graph, write};
