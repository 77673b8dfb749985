//! One contract for tensor backends: a backend that implements 30 methods, or one function that runs whole
//! graphs, can run all of ONNX.
//!
//! A backend implements [`Backend`] and derives its registration. Component code calls operations through a
//! context and does not depend on a backend.
#![forbid(unsafe_code)]

extern crate self as bb;

// The features only link these crates: they change nothing else of this one.
#[cfg(feature = "regex")]
use bb_patterns as _;
#[cfg(feature = "image")]
use bb_pictures as _;

mod call;
#[cfg(feature = "case-folders")]
pub mod conformance;
mod conformance_macro;
mod contract;
pub mod cost;
pub mod coverage;
pub mod deployment;
mod error;
pub mod export;
pub mod ext;
mod forward;
mod gradient;
pub mod ir;
mod made;
mod narrow;
pub mod number;
pub mod onnx;
mod plan;
pub mod profile;
mod runtime;
pub mod services;
mod sync;
pub mod trace;
mod wire;

pub use bb_derive::{Backend, native};
pub use bb_ir::{
    DataType, DataTypes, Element, ErrorKind, FileAccess, HostElement, Limits, Shape, TensorData, bf16, f16,
    op::{Primitive, RoundMode},
    proto::GraphProto,
};
pub use call::call_primitive;
pub use contract::{
    Backend, BackendAttrs, BackendError, CancelToken, Completer, CompletionHandle, ContractResponse,
    Executable, GraphIdentity, InputSpec, Kernel, KernelOperand, KernelOperands, Later, Outputs, Port,
    PrepareOperand, PrepareStep, ResultBuffer, RunOptions, SlotValue, Tensor,
};
pub use error::{
    BackendId, BoxError, BufferMismatch, BufferProblem, Error, InputMismatch, InputProblem, Internal,
    NarrowError, NodePart, OpenOption, OptionDefault, OwnOption, Problem, ProblemList, TraceFault, Uncovered,
};

pub use deployment::component::{Component, Ctx};
pub use deployment::models::Deployment;
pub use export::trace;
pub use ext::operation;
pub use gradient::{Gradient, gradient, gradient_with_seed};
pub use number::Number;
pub use plan::{
    CompileOptions, Condition, Module, PassCount, PlanConditions, RowInput, RowProof, compile_whole_graph,
    limit_process_plans, pass_names,
};
pub use runtime::{
    BackendHandle, BackendRuntime, Backends, Capabilities, CheckedGraph, Declared, Device, DispatchResult,
    ErasedExecutable, LinkedBackend, LinkedBackends, OpenOptions, Registration, Registry, RegistryBuilder,
    Runtime, State, Status, TypedBackend, Value, backend, backend_with, backends, check_threads,
    most_threads, supports_device,
};

/// Runs the program of the page about limits as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/limits.md")]
mod limits_page {}

#[doc(hidden)]
pub mod __private;
