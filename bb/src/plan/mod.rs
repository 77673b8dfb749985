//! From a checked graph to something that runs: staged tracing, plans, the interpreter.
//!
//! [`compile`] is what a backend with kernels inherits; [`compile_whole_graph`] is what
//! [`forward_to_execute!`](crate::forward_to_execute) writes. Both trace the graph's ONNX functions; the one runs
//! the steps, the other hands them over as a graph.

mod complete;
mod constants;
mod end;
mod estimate;
mod execute;
mod failure;
mod how;
mod interpreter;
mod lir;
mod module;
mod origin;
mod partition;
mod print;
mod profile;
mod program;
mod refuse;
mod repetition;
mod resolve;
mod run;
mod segment;
mod splice;
mod unroll;
mod watch;

pub(crate) use complete::{Complete, complete};
pub(crate) use end::End;
pub use estimate::{Estimate, NodeCost};
pub(crate) use execute::{execute, run_named};
pub(crate) use failure::initializer;
pub(crate) use how::{how, how_version};
pub use module::{CompileOptions, Module};
pub use profile::{Activity, Profile, ProfileRow, ProfiledNode, Scope, Span};
pub(crate) use program::compile;
pub use program::compile_whole_graph;
pub(crate) use program::compile_with;
#[cfg(feature = "conformance")]
pub(crate) use repetition::Repetition;
pub(crate) use resolve::Code;
#[cfg(feature = "conformance")]
pub(crate) use resolve::control_flow;
pub(crate) use resolve::{Resolved, is_control_flow};
pub(crate) use segment::{Outcome, SegmentInput, SegmentTrace, Settings, Start, Stop, Structure, trace};
pub(crate) use splice::subgraphs;
