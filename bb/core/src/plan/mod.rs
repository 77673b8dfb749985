//! Turns a checked graph into something that runs: staged tracing, plans, the interpreter.
//!
//! [`compile`] is the default of backends with kernels; [`compile_whole_graph`] is the one that
//! [`forward_to_execute!`](crate::forward_to_execute) uses. Both trace the graph's ONNX functions. [`compile`] runs the traced
//! steps one by one; [`compile_whole_graph`] passes them to the backend as a graph.

mod cache;
#[doc(hidden)]
pub mod carriers;
mod checked;
mod claims;
mod compiled;
mod complete;
mod conditions;
mod constants;
mod engine;
mod estimate;
mod execute;
mod failure;
mod guard;
#[doc(hidden)]
pub mod how;
mod interpreter;
mod kernels;
mod lir;
mod mapped;
mod module;
mod narrowed;
mod origin;
mod params;
mod partition;
mod passes;
mod prepare;
mod print;
mod program;
mod refuse;
mod repetition;
mod resolve;
mod rows;
mod run_segments;
mod run_state;
mod saved;
mod segment;
mod segment_end;
mod splice;
mod stamp;
mod target;
mod trace_nodes;
mod watch;

pub use crate::contract::tensor_bytes;
use crate::contract::{CompileOptions, Module};
use crate::measure::Profile;
pub use crate::operator::{Form, Item};
pub use cache::limit_process_plans;
pub use checked::CheckedGraph;
pub use compiled::compile;
pub(crate) use compiled::compile_narrowed;
pub use compiled::compile_whole_graph;
pub use complete::{Complete, complete};
pub use conditions::{Condition, PlanConditions};
pub use estimate::{Estimate, NodeCost};
pub(crate) use execute::taken_by_port;
pub use execute::{execute, run_named};
pub use failure::initializer;
pub use how::{how, how_version};
pub(crate) use narrowed::{GraphOutput, NarrowedGraph};
pub use passes::{PassCount, pass_names};
pub use resolve::Code;
pub use resolve::Resolved;
pub use resolve::control_flow;
pub use rows::{RowInput, RowProof};
pub use segment::{Explored, SegmentInput, SegmentTrace, Settings, Start, Stop, Structure, explore};
pub(crate) use stamp::Stamp;
