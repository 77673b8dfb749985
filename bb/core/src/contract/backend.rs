//! The contract: the trait that every backend implements.

use super::{
    BackendAttrs, CompileOptions, CompletionHandle, ContractResponse, Executable, Kernel, Module,
    PrepareStep, Tensor,
};
use crate::service::{DeviceInfo, Kernels, Lifecycle, Memory};
use bb_ir::TensorData;
use bb_ir::proto::GraphProto;
use std::collections::HashMap;
use std::sync::Arc;

/// The inputs or outputs of a graph, by name.
pub type Named<T> = HashMap<String, T>;

/// The error of a backend.
///
/// It must implement [`std::error::Error`] and [`From<bb::Error>`](crate::Error), and be `Send + Sync + 'static`.
/// Usually it is an enum with a variant `#[error(transparent)] Bb(#[from] bb::Error)`, which holds errors that `bb`
/// finds in operands.
#[diagnostic::on_unimplemented(
    message = "this type cannot be the error of a backend",
    label = "it must implement `std::error::Error` and `From<bb::Error>`",
    note = "write an enum with a variant that holds the errors of `bb`, and variants of your own: \
            `#[derive(Debug, thiserror::Error)] enum MyError {{ #[error(transparent)] Bb(#[from] bb::Error), … }}`"
)]
#[allow(
    misplaced_diagnostic_attributes,
    reason = "rustc asks the trait too, for the bounds that follow from it; then it says the message above, once"
)]
#[diagnostic::do_not_recommend]
pub trait BackendError: std::error::Error + From<crate::Error> + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<E: std::error::Error + From<crate::Error> + Send + Sync + 'static> BackendError for E {}

/// The defaults of [`Backend::execute`] and [`Backend::compile`], which plan.
///
/// Implemented for every backend by a module that knows plans, so that the contract need not know them.
pub(crate) trait Planned: Backend {
    /// As [`Backend::execute`].
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::execute`].
    fn execute_planned(
        &self,
        graph: &GraphProto,
        inputs: Named<Self::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named<Self::Tensor>, Self::Error>;

    /// As [`Backend::compile`].
    ///
    /// # Errors
    ///
    /// The errors of [`Backend::compile`].
    fn compile_planned(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, Self::Error>
    where
        Self: 'static;
}

/// Expands the trait from the op table; the methods that are not operations are written out below.
macro_rules! contract {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// A tensor backend: it implements the primitives, or one function that runs whole graphs.
        ///
        /// An implementor either writes the operations and inherits the rest, or writes
        /// [`forward_to_execute!`](crate::forward_to_execute) and runs graphs. The op table documents operands and
        /// parameters. For anything that a backend does not support, it returns an error that names the operation and
        /// the element type. It never returns an approximation.
        #[diagnostic::on_unimplemented(
            message = "`{Self}` is not a backend: `bb::Backend` is not implemented for it",
            label = "this type has no `impl bb::Backend`",
            note = "write `impl bb::Backend for {Self}` with the primitives, or with `bb::forward_to_execute!(Self::run);`",
            note = "if it is a layer, write `#[bb::layer] impl bb::Layer for {Self} {{ … }}` instead"
        )]
        // Rustc shows the line of a bound that does not hold.
        pub trait Backend: Send + Sync /* threads share a backend: what changes belongs into a `Mutex` or an atomic */ {
            /// The tensors that operations take and return.
            type Tensor: Tensor;

            /// The error of a failed operation.
            // Each missing bound is one error. The bounds for sharing between threads are listed separately, because rustc
            // then names the field that forbids it.
            type Error: Send + Sync + BackendError;

            $(
                $(#[$doc])*
                #[allow(clippy::too_many_arguments, reason = "a method has as many arguments as its row")]
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<crate::__output_type!($output), Self::Error>;
            )*

            /// Returns the element types that the backend's tensors may have.
            ///
            /// By default a backend supports every type. If a type is missing, the runtime never passes the backend a
            /// tensor of that type: it stores the elements in a type that the backend supports, if that is exact, and
            /// the host computes the rest. See "Which element types" in the guide `writing-a-backend.md`.
            ///
            /// The runtime calls this once, when the backend starts. The result may depend on the device.
            fn types(&self) -> bb_ir::DataTypes {
                bb_ir::DataTypes::ALL
            }

            /// Returns whether the backend takes whole graphs: its [`execute`](Self::execute) runs graphs of
            /// primitives. Then a single operation is a graph of one node, which may have to be compiled.
            ///
            /// [`forward_to_execute!`](crate::forward_to_execute) without a list of operations overrides this method.
            /// If a whole-graph backend declares [`types`](Self::types), it gets whole graphs in these types. The
            /// runtime relies on the declaration and never tests which types the backend supports.
            fn runs_whole_graphs(&self) -> bool {
                false
            }

            /// Returns whether the backend supports a primitive. Backends that take whole graphs and loaded backends override this
            /// method; another backend returns an error from the method of the primitive.
            ///
            /// Coverage and `Deployment::ready` do not try single calls on a whole-graph backend, so they rely on this
            /// method. A graph with an unsupported primitive is refused before the backend gets it, and the tests of
            /// `bb::conformance!` skip the primitive. By default all primitives are supported.
            fn runs_primitive(&self, op: bb_ir::op::Primitive) -> bool {
                let _any = op;
                true
            }

            /// Returns the reason why the backend refuses a node of a graph; `None` if it may run the node.
            ///
            /// Override this for a backend that takes models unchanged, for example on a third-party engine. It
            /// compiles nodes itself, so a trial of single operations would not show which nodes it refuses. Coverage
            /// counts a refused node as unsupported, and `bb::FirstOf` places it on another backend. The default
            /// refuses no node.
            fn declines(&self, graph: &bb_ir::graph::Graph, node: &bb_ir::graph::Node) -> Option<String> {
                let _any = (graph, node);
                None
            }

            /// Returns the error of `bb` that an error of this backend wraps, if there is one.
            ///
            /// A backend whose error has a variant for errors of `bb` returns the content of that variant. Then callers
            /// of the backend can see who caused an error: for example, an index out of range is an error of the caller
            /// that chose the operands. The default returns `None`.
            fn wrapped(error: &Self::Error) -> Option<&crate::Error>
            where
                Self: Sized,
            {
                let _opaque = error;
                None
            }

            /// Does the same as `wrapped` for an error whose type is erased. A backend that contains another backend
            /// delegates to it.
            #[doc(hidden)]
            fn wrapped_in<'a>(&self, error: &'a (dyn ::std::error::Error + 'static)) -> Option<&'a crate::Error>
            where
                Self: Sized,
            {
                Self::wrapped(error.downcast_ref()?)
            }

            /// Copies a tensor to the host. Types: all.
            ///
            /// # Errors
            ///
            /// The backend's own error if the device failed.
            fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error>;

            /// Copies a tensor that is not of strings into memory of the caller, in the layout that [`TensorData`]
            /// describes.
            ///
            /// [`Executable::run_into`] calls this. The default copies what [`to_host`](Self::to_host) returns.
            ///
            /// Units: `into` has exactly the number of bytes that the tensor takes on the host.
            ///
            /// # Errors
            ///
            /// [`bb_ir::Error::ByteLength`] if `into` has another number of bytes; the backend's own error if the
            /// device failed. Then the contents of `into` are unspecified.
            fn read_into(&self, x: &Self::Tensor, into: &mut [u8]) -> Result<(), Self::Error> {
                crate::contract::copy_from_host(&self.to_host(x)?, into).map_err(Self::Error::from)
            }

            /// Runs a graph and returns its outputs by name.
            ///
            /// The default lowers the graph and runs what [`compile`](Self::compile) returns. If a
            /// [`Runtime`](crate::Runtime) calls, it caches the compiled graph; otherwise each call compiles again. A
            /// backend that overrides this method gets the graph as it is in the model, with its operators, opsets and
            /// functions.
            ///
            /// # Errors
            ///
            /// The backend's own error if the graph is invalid, an input is missing, or a node fails.
            fn execute(&self, graph: &GraphProto, inputs: Named<Self::Tensor>, attrs: BackendAttrs<'_>)
                -> Result<Named<Self::Tensor>, Self::Error> {
                self.execute_planned(graph, inputs, attrs)
            }

            /// Runs a graph and returns the result immediately or later.
            ///
            /// The default calls [`execute`](Self::execute) and returns the result immediately.
            fn dispatch(
                &self,
                graph: Arc<GraphProto>,
                inputs: Named<Self::Tensor>,
                attrs: BackendAttrs<'_>,
                completion: CompletionHandle<Named<Self::Tensor>, Self::Error>,
            ) -> ContractResponse<Named<Self::Tensor>, Self::Error> {
                let _answers_now = completion;
                ContractResponse::Now(self.execute(&graph, inputs, attrs.by_default_dispatch()))
            }

            /// Prepares a graph that will run more than once.
            ///
            /// The default plans the graph and calls the operations in the order of the plan. The options
            /// contain the attributes and metadata of the caller.
            ///
            /// # Errors
            ///
            /// The backend's own error if the graph is invalid or the options refuse it.
            fn compile(&self, module: Module, options: &CompileOptions)
                -> Result<Box<dyn Executable<Self>>, Self::Error>
            where
                Self: 'static,
            {
                self.compile_planned(module, options)
            }

            /// Prepares a step of a plan that will run more than once, for example by packing its constants and
            /// choosing an algorithm.
            ///
            /// A compiled graph calls this once for each step of a plan; runs then call the returned kernel instead of
            /// the operation. The compiled graph releases the constants that only prepared kernels use, unless a
            /// [`Kernel`] reports that it reads them. A step whose parameters differ between runs, or that runs once
            /// for all runs, is not prepared.
            ///
            /// The default prepares nothing.
            ///
            /// # Errors
            ///
            /// The backend's own error if preparing failed; then no plan is made. For a step that the backend does not
            /// prepare, it returns `None` and no error.
            fn prepare(&self, step: &PrepareStep<'_, Self::Tensor>)
                -> Result<Option<Box<dyn Kernel<Self>>>, Self::Error> {
                let _unprepared = step;
                Ok(None)
            }

            /// Builds a tensor from a frame that was received.
            ///
            /// # Errors
            ///
            /// [`Error::Ir`](crate::Error::Ir) if the frame is damaged or declares another hash than
            /// `type_hash`.
            fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Self::Tensor, Self::Error> {
                self.constant(&crate::wire::decode(type_hash, bytes)?)
            }

            /// Returns the backend's description of its device, for [`Capabilities`](crate::Capabilities): its kind,
            /// the maximum rank of a tensor, the alignment of memory, and further details.
            ///
            /// The default describes nothing.
            fn device_info(&self) -> DeviceInfo {
                DeviceInfo::default()
            }

            /// Returns the service that waits for the device and detects its loss, if the backend has one.
            fn lifecycle(&self) -> Option<&dyn Lifecycle> {
                None
            }

            /// Returns the service that reports and limits the memory in use, if the backend has one.
            fn memory(&self) -> Option<&dyn Memory<Self::Tensor>> {
                None
            }

            /// Returns whether the backend accepts tensors of every element type. A wrapper that emulates the types that
            /// its inner backend lacks returns true. Its [`types`](Self::types) still returns the types of the inner
            /// backend, because bodies compute in these types.
            #[doc(hidden)]
            fn has_every_type(&self) -> bool {
                self.types().is_all()
            }

            /// Returns the part of the program that computes an operation, for errors about its results. Layers override this.
            #[doc(hidden)]
            fn maker_of(&self, spec: &'static bb_ir::op::OpSpec) -> crate::ResultMaker {
                let _any = spec;
                crate::ResultMaker::backend::<Self>()
            }

            /// Returns whether the backend passes graphs on, unchanged, to the backend at this address whose type has
            /// this name. Layers override this, so that the inner backend uses the plans of the runtime that runs the
            /// layer.
            #[doc(hidden)]
            fn stands_on(&self, backend: *const (), ty: &str) -> bool {
                let _alone = (backend, ty);
                false
            }

            /// Returns the service that compiles kernels of users, if the backend has one.
            fn kernels(&self) -> Option<&dyn Kernels<Self::Tensor>> {
                None
            }
        }
    };
}

bb_ir::for_each_primitive!(contract);

/// The Rust type of an operand of each kind.
#[doc(hidden)]
#[macro_export]
macro_rules! __input_type {
    (Tensor) => { &Self::Tensor };
    (Optional) => { ::core::option::Option<&Self::Tensor> };
    (Tensors) => { &[&Self::Tensor] };
}

/// The Rust type of a result of each kind.
#[doc(hidden)]
#[macro_export]
macro_rules! __output_type {
    (Tensor) => { Self::Tensor };
    (Tensors) => { ::std::vec::Vec<Self::Tensor> };
}
