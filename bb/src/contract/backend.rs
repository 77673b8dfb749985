//! The contract.

use super::{BackendAttrs, CompletionHandle, ContractResponse, Executable, Tensor};
use crate::plan::{CompileOptions, Module};
use bb_ir::TensorData;
use bb_ir::proto::GraphProto;
use std::collections::HashMap;
use std::sync::Arc;

/// Tensors by name: the inputs or outputs of a graph.
type Named<T> = HashMap<String, T>;

/// Expands the trait from the op table; the rest of it is below, in plain sight.
macro_rules! contract {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident; )*) => {
        /// A tensor backend: thirty operations, or one function that runs whole graphs.
        ///
        /// Write the operations and inherit the rest, or write
        /// [`forward_to_execute!`](crate::forward_to_execute) and run graphs. Operands and parameters keep
        /// what the op table says; what is not supported is an error that names operation and element type,
        /// never an approximation.
        #[diagnostic::on_unimplemented(
            message = "`{Self}` is not a backend: `bb::Backend` is not implemented for it",
            label = "this type has no `impl bb::Backend`",
            note = "write `impl bb::Backend for {Self}` with the 30 primitives, or with `bb::forward_to_execute!(Self::run);`"
        )]
        pub trait Backend: Send + Sync {
            /// The tensor that operations take and return.
            type Tensor: Tensor;

            /// Why an operation failed.
            type Error: std::error::Error + From<crate::Error> + Send + Sync + 'static;

            $(
                $(#[$doc])*
                #[allow(clippy::too_many_arguments, reason = "the row has them")]
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<crate::__output_type!($output), Self::Error>;
            )*

            /// Copies a tensor to the host. Types: all.
            ///
            /// # Errors
            ///
            /// The backend's own, if the device failed.
            fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error>;

            /// Runs a graph; the result has its outputs by name.
            ///
            /// The default lowers the graph, by what [`compile`](Self::compile) makes of it, and keeps that where a
            /// [`Runtime`](crate::Runtime) hands the graph over; else it plans on each call. Whoever writes it gets the
            /// graph as the model has it: its operators, its opsets, its functions.
            ///
            /// # Errors
            ///
            /// What makes the graph invalid, what is missing, or the failure of a node.
            fn execute(&self, graph: &GraphProto, inputs: Named<Self::Tensor>, attrs: BackendAttrs<'_>)
                -> Result<Named<Self::Tensor>, Self::Error> {
                crate::plan::execute(self, graph, inputs, attrs)
            }

            /// Runs a graph and answers now or later.
            ///
            /// The default answers now, by [`execute`](Self::execute).
            fn dispatch(
                &self,
                graph: Arc<GraphProto>,
                inputs: Named<Self::Tensor>,
                attrs: BackendAttrs<'_>,
                completion: CompletionHandle<Named<Self::Tensor>, Self::Error>,
            ) -> ContractResponse<Named<Self::Tensor>, Self::Error> {
                let _answers_now = completion;
                ContractResponse::Now(self.execute(&graph, inputs, attrs))
            }

            /// Prepares a graph that will run more than once.
            ///
            /// The default is the planned interpreter, which calls the operations in order. Attributes and metadata of
            /// the caller are in the options.
            ///
            /// # Errors
            ///
            /// What makes the graph invalid, or what the options refuse.
            fn compile(&self, module: Module, options: &CompileOptions)
                -> Result<Box<dyn Executable<Self>>, Self::Error>
            where
                Self: 'static,
            {
                crate::plan::compile(self, module, options)
            }

            /// Makes a tensor of a frame that came over the wire.
            ///
            /// # Errors
            ///
            /// [`Error::Ir`](crate::Error::Ir) if the frame is damaged or `type_hash` is not the one that
            /// it declares.
            fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Self::Tensor, Self::Error> {
                self.constant(&crate::wire::decode(type_hash, bytes)?)
            }
        }
    };
}

bb_ir::for_each_primitive!(contract);

/// The Rust type of an operand, by its kind in a row.
#[doc(hidden)]
#[macro_export]
macro_rules! __input_type {
    (Tensor) => { &Self::Tensor };
    (Optional) => { ::core::option::Option<&Self::Tensor> };
    (Tensors) => { &[&Self::Tensor] };
}

/// The Rust type of a result, by its kind in a row.
#[doc(hidden)]
#[macro_export]
macro_rules! __output_type {
    (Tensor) => { Self::Tensor };
    (Tensors) => { ::std::vec::Vec<Self::Tensor> };
}
