//! Tracing: running a function on graph values instead of elements, which records what it calls.
//!
//! [`Tracer`] is a backend. Its tensors know element type and extents, and the value where it is constant;
//! its operations compute nothing but what the small evaluator can.

mod check;
mod edit;
mod elements;
mod export;
mod extents;
mod form;
mod inlined;
mod keep;
mod liveness;
mod log;
mod model;
mod one_node;
mod ops;
mod options;
mod params;
mod print;
mod proto;
mod replay;
mod save;
mod steps;
mod stop;
mod table;
mod traced;
mod tracer;

pub(crate) use edit::{NewStep, Uses};
pub(crate) use export::to_graph;
pub use inlined::inlined;
pub use keep::Keep;
pub(crate) use keep::Kept;
pub(crate) use liveness::{LastRead, Liveness};
pub(crate) use log::{Event, Guard, Log, Place, Relation, Symbol, When};
pub use model::{ModelTrace, trace};
pub(crate) use one_node::one_node_graph;
pub use options::{ExportOptions, check_ir_version};
pub(crate) use params::{Recipe, SymbolicParams, SymbolicValue};
pub(crate) use print::called;
pub use save::save;
pub(crate) use steps::{
    InputIndex, Operation, OriginId, Phase, Step, StepId, StepOrigins, Trace, TraceValue, ValueSource,
    WeightId,
};
pub use stop::{NeededValue, TraceStop};
pub(crate) use table::{Table, TableIndex, held, indices};
pub use traced::TracedTensor;
pub use tracer::Tracer;
pub(crate) use tracer::Varies;
