//! One contract for tensor backends: a backend that implements 30 methods, or one function that runs whole
//! graphs, can run all of ONNX.
//!
//! A backend implements [`Backend`] and derives its registration. Component code calls operations through a
//! context and does not depend on a backend.
#![forbid(unsafe_code)]

extern crate self as bb;

mod call;
#[cfg(feature = "conformance")]
pub mod conformance;
mod conformance_macro;
mod contract;
pub mod cost;
pub mod coverage;
mod deployment;
mod error;
pub mod ext;
mod forward;
pub mod onnx;
mod plan;
mod runtime;
pub mod trace;
mod wire;

pub use bb_derive::{Backend, native};
pub use bb_ir::{
    self as ir, DataType, Element, Shape, TensorData, bf16, f16,
    op::{Primitive, RoundMode},
    proto::GraphProto,
};
pub use call::primitive as call;
pub use contract::{
    Backend, BackendAttrs, Completer, CompletionHandle, ContractResponse, Executable, GraphIdentity,
    InputSpec, Later, Outputs, Port, SlotValue, Tensor,
};
pub use error::{
    BackendId, BoxError, Error, InputMismatch, InputProblem, Internal, Problem, ProblemList, TraceFault,
    Uncovered,
};

pub use deployment::{
    BackendSubgraph, Component, Ctx, Deployment, DeploymentBuilder, Executor, Model, NodePlacement,
    Placement, Side, Source, Transfer,
};
pub use plan::{
    Activity, CompileOptions, Condition, Estimate, Module, NodeCost, PassCount, PlanConditions, Profile,
    ProfileRow, ProfiledNode, Scope, Span, pass_names,
};
pub use runtime::{
    BackendHandle, BackendRuntime, Backends, Capabilities, Declared, Device, DispatchResult,
    ErasedExecutable, Lifecycle, Linked, OpenOption, OpenOptions, Registration, Registry, RegistryBuilder,
    Runtime, Status, Typed, Value, backend, backend_with, backends,
};
pub use trace::trace;

/// Runs the program of the page about limits as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/limits.md")]
mod limits_page {}

#[doc(hidden)]
pub mod __private;
