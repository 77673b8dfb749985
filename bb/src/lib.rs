//! A common interface for tensor backends. A backend that implements 30 methods, or one function that runs whole graphs, can run all of
//! ONNX.
//!
//! A backend implements [`Backend`] and derives its registration. Component code calls operations through a
//! context and does not depend on a backend.
//!
//! This crate re-exports the names that users need: backends and the runtime from `bb-core`; ONNX's operators from `bb-onnx` and from
//! the operator crates that features link; and, with the feature `conformance`, the tests of backends from `bb-conformance`.
#![forbid(unsafe_code)]

// These features only link the crates, so that their operators are registered.
#[cfg(feature = "microsoft")]
use bb_onnx_microsoft as _;
#[cfg(feature = "ml")]
use bb_onnx_ml as _;
#[cfg(feature = "training")]
use bb_onnx_training as _;
#[cfg(feature = "regex")]
use bb_patterns as _;
#[cfg(feature = "image")]
use bb_pictures as _;

mod conformance_macro;
pub mod coverage;
pub mod deployment;
mod first_of;
mod look;
pub mod onnx;
mod placement;

#[cfg(feature = "loaded")]
#[doc(inline)]
pub use bb_c::{
    BackendLibrary, LibraryKind, LoadError, LoadedBackend, LoadedError, LoadedTensor, export_backend,
    load_backend, load_path,
};
#[cfg(feature = "case-folders")]
#[doc(inline)]
pub use bb_conformance as conformance;
#[doc(inline)]
pub use bb_core::error::DoorAdvice;
#[doc(inline)]
pub use bb_core::{
    Added, Backend, BackendAttrs, BackendError, BackendHandle, BackendId, BackendOrigin, Backends, BoxError,
    BrokenPromise, Budget, BufferMismatch, BufferProblem, CancelToken, Capabilities, CheckedGraph,
    CombinedRegistration, CompileOptions, Completer, CompletionHandle, Condition, ContractResponse, DataType,
    DataTypes, Declared, Delegate, Device, DispatchResult, Element, Erased, ErasedExecutable, Error,
    ErrorKind, Executable, FileAccess, Gradient, GraphCache, GraphIdentity, GraphProto, HostElement,
    InnerBackend, InputMismatch, InputProblem, InputSpec, Internal, Kernel, KernelOperand, KernelOperands,
    Later, Layer, LayerCall, LayerRegistration, Limits, LinkedBackend, LinkedBackends, Module, NarrowError,
    NodePart, Number, OpenOption, OpenOptions, OptionDefault, Outputs, OwnOption, PassCount, PassSwitch,
    PassSwitches, PlanConditions, Port, PrepareOperand, PrepareStep, Primitive, PrimitiveNode, Problem,
    ProblemList, RegisteredLayer, Registration, Registry, RegistryBuilder, ResultBuffer, ResultMaker,
    RoundMode, RowInput, RowProof, RunOptions, Runtime, Shape, SlotValue, State, Status, Tensor, TensorData,
    TraceFault, TypedBackend, Uncovered, Value, WrongResult, backend, backend_with, bf16, call_primitive,
    check_threads, compile_layer, compile_whole_graph, decode, f16, forward_to_call, forward_to_execute,
    gradient, gradient_with_seed, is_trial, layer, limit_process_plans, linked_backends, most_threads,
    native, operation, pass_names, register_layer, supports_device,
};
#[doc(inline)]
pub use bb_core::{cost, export, ext, ir, number, profile, services, trace};
pub use deployment::component::{Component, Ctx};
pub use deployment::models::Deployment;
pub use first_of::{Fallback, FirstOf, FirstOfError, Transfers, first_of};
pub use placement::PlacedTensor;

/// The traits whose methods compute: [`Backend`] and the families of [`ext`]. `use bb::prelude::*;` imports only their methods, no
/// names.
///
/// # Examples
///
/// ```
/// use bb::prelude::*;
/// # fn main() -> Result<(), bb::Error> {
/// let graph = bb::trace(&[("x", bb::DataType::F32, &[2, 3])], |on, inputs| {
///     let [x] = inputs else { return Ok(vec![]) };
///     Ok(vec![on.softmax(&on.add(x, x)?, -1)?])
/// })?;
/// assert!(graph.node.len() > 1);
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    pub use bb_core::prelude::families::*;
}

/// The former name of [`linked_backends`].
///
/// # Errors
///
/// As [`linked_backends`].
#[deprecated(note = "renamed to `linked_backends`: `Backends` are the running backends of a program")]
pub fn backends() -> Result<LinkedBackends, Error> {
    linked_backends()
}

// Used by the expansion of macros that authors of backends call.
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub use bb_conformance::__conformance;

/// Runs the program of the page about limits as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/limits.md")]
mod limits_page {}

#[doc(inline)]
pub use bb_core::vendor;
#[doc(hidden)]
pub use bb_core::{
    __call_method, __derived, __either, __either_items, __either_operands, __erased_input, __erased_output,
    __erased_param, __families_named, __family, __family_item, __family_options, __forward_all,
    __forward_execute, __forward_method, __forward_one, __forwarded_input, __forwarded_output, __given_param,
    __input_type, __layer, __layer_backend, __layer_methods, __list_operands, __list_params, __open_option,
    __option_default, __options_struct, __output_type, __pass_operand, __private, __push_operand,
    __take_operand, __take_param, __unwrap_output, __vendor_condition, __vendor_function, __vendor_made_of,
    __vendor_named, __vendor_on, __vendor_patterns, __vendor_rows, __vendor_traced, __wrap_output,
};
