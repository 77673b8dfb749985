//! The core of `bb`: the trait of backends, families of operations, tracing, plans and the runtime.
//!
//! Users depend on `bb`, which re-exports the stable names of this crate. Backends of this repository depend on this
//! crate directly, so that they compile in parallel with ONNX's operators. The modules and items that are hidden in the
//! documentation are for `bb`, `bb-onnx` and `bb-conformance`.
//!
//! This crate refers to no ONNX operator by name: the module `operator` describes how operators are found.
#![forbid(unsafe_code)]

extern crate self as bb;

#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod contract;
pub mod cost;
#[doc(hidden)]
pub mod cut;
mod erased;
#[doc(hidden)]
pub mod error;
pub mod export;
pub mod ext;
mod external;
mod family;
mod forward;
#[doc(hidden)]
pub mod gradient;
pub mod ir;
#[doc(hidden)]
pub mod layer;
mod measure;
#[doc(hidden)]
pub mod narrow;
pub mod number;
#[doc(hidden)]
pub mod operator;
#[doc(hidden)]
pub mod plan;
pub mod profile;
#[doc(hidden)]
pub mod runtime;
mod service;
mod single_flight;
mod sync;
pub mod trace;
mod wire;

pub use bb_derive::{Backend, layer, native};
pub use bb_ir::{
    DataType, DataTypes, Element, ErrorKind, FileAccess, HostElement, Limits, Shape, TensorData, bf16, f16,
    op::{Primitive, RoundMode},
    proto::GraphProto,
};
pub use call::call_primitive;
pub use contract::{
    Backend, BackendAttrs, BackendError, Budget, CancelToken, Completer, CompletionHandle, ContractResponse,
    Executable, GraphCache, GraphIdentity, InputSpec, Kernel, KernelOperand, KernelOperands, Later, Outputs,
    Port, PrepareOperand, PrepareStep, ResultBuffer, RunOptions, SlotValue, Tensor,
};
pub use contract::{CompileOptions, Module, PassSwitch, PassSwitches};
pub use error::{
    BackendId, BackendOrigin, BoxError, BrokenPromise, BufferMismatch, BufferProblem, Error, InputMismatch,
    InputProblem, Internal, NarrowError, NodePart, OpenOption, OptionDefault, OwnOption, Problem,
    ProblemList, ResultMaker, TraceFault, Uncovered, WrongResult,
};

pub use layer::{Delegate, Erased, InnerBackend, Layer, LayerCall, compile_layer};

pub use export::trace;
pub use ext::operation;
pub use gradient::{Gradient, gradient, gradient_with_seed};
pub use number::Number;
pub use plan::{
    CheckedGraph, Condition, PassCount, PlanConditions, RowInput, RowProof, compile_whole_graph,
    limit_process_plans, pass_names,
};
pub use trace::{PrimitiveNode, decode};

pub use runtime::{
    Added, BackendHandle, Backends, Capabilities, Combined, CombinedRegistration, Declared, Device,
    DispatchResult, ErasedExecutable, LayerRegistration, LinkedBackend, LinkedBackends, OpenOptions,
    RegisteredLayer, Registration, Registry, RegistryBuilder, Runtime, State, Status, TypedBackend, Value,
    backend, backend_with, check_threads, is_trial, linked_backends, most_threads, supports_device,
};

#[doc(hidden)]
pub mod __private;

pub mod prelude {
    //! The traits whose methods compute: [`Backend`](crate::Backend), [`Tensor`](crate::Tensor) and the families of
    //! [`ext`](crate::ext). A glob import brings their methods into scope, but no names.

    pub use crate::Tensor as _;
    pub use crate::ext::Ops as _;
    pub use families::*;

    /// The traits whose methods are operations.
    pub mod families {
        pub use crate::Backend as _;
        pub use crate::ext::{
            Bits as _, Create as _, Image as _, Index as _, Llm as _, Ml as _, Nn as _, Quant as _,
            Scalar as _, Train as _,
        };
    }
}

pub mod services {
    //! Optional services of a backend, besides its operations: [`Lifecycle`], [`Memory`] and [`Kernels`].
    //!
    //! Each service is a small trait whose methods have defaults. A backend returns its implementation from
    //! [`Backend::lifecycle`](crate::Backend::lifecycle), [`Backend::memory`](crate::Backend::memory) and
    //! [`Backend::kernels`](crate::Backend::kernels); a backend without a service returns `None`. Users reach the
    //! services through [`BackendHandle`](crate::BackendHandle), which converts their errors into
    //! [`Error`](crate::Error)s that name the backend, and catches their panics.

    pub use crate::runtime::{BufferId, BufferMeta, Buffers, Found, KernelsHandle, MemoryHandle};
    pub use crate::service::*;
}
