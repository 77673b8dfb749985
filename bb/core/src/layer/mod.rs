//! Layers: backends that wrap another backend.
//!
//! A layer contains a backend, changes the behavior of some operations, and passes on the rest. It is a backend itself:
//! every function that takes a backend also takes a layer, and a layer can wrap a layer. The derive with `#[bb(delegate
//! = field)]` specifies the field of the inner backend ([`Delegate`]). The author writes the methods that differ in an
//! `impl` of [`Layer`] under `#[bb::layer]`.
//!
//! A layer has the tensor and error types of its inner backend, so nothing is wrapped and no result is allocated. A
//! method that is not written calls the inner backend's method directly. If no operation is written, the inner backend
//! also compiles graphs, so a layer that only passes on has no cost in a plan. Otherwise plans call the layer, but use
//! the inner backend's prepared kernels for all operations that are not written.

mod call;
mod derived;
pub mod either;
mod erased;
mod erased_graph;
mod natives;
mod passed;
mod prepared;

pub(crate) use call::{FindLayerName, RegisteredLayers};
pub use call::{LayerCall, method};
pub use derived::{IsInner, IsLayer, LayerOf, as_layer, is_inner, is_layer};
pub use erased::Erased;
pub use natives::interned;
pub(crate) use natives::kept_tables;
pub use natives::{InnerBackend, layer_natives, layer_version};

#[doc(hidden)]
pub use crate::ext::result_types;
#[doc(hidden)]
pub use crate::ext::rows;

use crate::contract::{CompileOptions, Module};
use crate::ext::OpSet;
use crate::service::{DeviceInfo, Kernels, Lifecycle, Memory};
use crate::{
    Backend, BackendAttrs, CompletionHandle, ContractResponse, Executable, Kernel, Outputs, PrepareStep,
    ResultMaker,
};
use bb_ir::TensorData;
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, OpSpec, Primitive};
use bb_ir::proto::GraphProto;
use prepared::PreparedLayer;
use std::collections::HashMap;
use std::sync::Arc;

/// The tensor type of a layer and of its inner backend.
pub type LayerTensor<L> = <<L as Delegate>::Inner as Backend>::Tensor;

/// The error type of a layer and of its inner backend.
pub type LayerError<L> = <<L as Delegate>::Inner as Backend>::Error;

/// Tensors by name, for the inputs or outputs of a graph.
type Named<T> = HashMap<String, T>;

/// A type that contains an inner backend. `#[bb(delegate = field)]` of the derive implements this.
#[diagnostic::on_unimplemented(
    message = "write `#[derive(bb::Backend)]` with `#[bb(delegate = inner)]` above `{Self}`: it does not say which field holds the inner backend",
    label = "this layer names no field",
    note = "the derive then writes `bb::Backend` and `bb::InnerBackend` for the layer"
)]
pub trait Delegate: Send + Sync + Sized + 'static {
    /// The inner backend.
    type Inner: InnerBackend;

    /// The version of the layer.
    const VERSION: &'static str;

    /// The operations of families that the layer implements itself (`extensions(…)` of the derive).
    const NATIVES: &'static [(Family, OpSet)];

    /// Returns the inner backend.
    fn inner(&self) -> &Self::Inner;
}

/// The names of the methods that an `impl` of [`Layer`] contains. `#[bb::layer]` implements this.
#[diagnostic::on_unimplemented(
    message = "`bb::Layer` is implemented for `{Self}` without `#[bb::layer]`",
    label = "write `#[bb::layer]` above this `impl`",
    note = "`#[bb::layer]` records which methods are written; plans call the inner backend for all others"
)]
pub trait Written {
    /// The names of the methods.
    const METHODS: &'static [&'static str];
}

/// Returns whether a list contains a name. It can be called in constants.
pub(crate) const fn has(mut list: &[&str], name: &str) -> bool {
    while let [first, rest @ ..] = list {
        if bb_ir::op::same(first, name) {
            return true;
        }
        list = rest;
    }
    false
}

/// Returns whether a layer writes a primitive, an operation of a family, or the hook `operation` that intercepts all of
/// them.
pub(crate) const fn writes_operations<L: Layer>() -> bool {
    let mut methods = L::METHODS;
    while let [first, rest @ ..] = methods {
        if Primitive::from_method(first).is_some() || bb_ir::op::same(first, "operation") {
            return true;
        }
        methods = rest;
    }
    !L::NATIVES.is_empty()
}

/// Returns whether a layer passes graphs on unchanged.
pub const fn passes_graphs<L: Layer>() -> bool {
    !writes_operations::<L>() && !has(L::METHODS, "execute") && !has(L::METHODS, "compile")
}

/// Returns whether a layer writes the operation. If so, a prepared kernel of the inner backend must not replace it.
fn writes<L: Layer>(spec: &OpSpec) -> bool {
    let native = |(family, set): &(Family, OpSet)| *family == spec.family && set.contains(spec.index);
    (spec.family == Family::Primitive && has(L::METHODS, spec.method)) || L::NATIVES.iter().any(native)
}

/// Returns compile options with the native operations of a backend.
pub fn with_natives<B: InnerBackend>(on: &B, options: &CompileOptions) -> CompileOptions {
    options.clone().with_families(natives::kept_tables::<B>(&on.natives())).asked_of(on)
}

/// Returns whether a layer takes whole graphs: its inner backend does, and the layer writes no operation.
pub fn runs_whole_graphs<L: Layer>(on: &L) -> bool {
    !const { writes_operations::<L>() } && on.inner().runs_whole_graphs()
}

/// Returns whether a layer accepts tensors of every element type: its inner backend does, or the layer writes `types` and
/// returns all of them.
pub fn has_every_type<L: Layer>(on: &L) -> bool {
    match const { has(L::METHODS, "types") } {
        true => Layer::types(on).is_all(),
        false => on.inner().has_every_type(),
    }
}

/// Returns the reason why a layer refuses a node. If the layer passes graphs on unchanged, this is the inner backend's
/// reason; otherwise `None`.
pub fn declines<L: Layer>(on: &L, graph: &Graph, node: &Node) -> Option<String> {
    match const { passes_graphs::<L>() } {
        true => on.inner().declines(graph, node),
        false => None,
    }
}

/// Compiles a graph for a layer. This is the default of [`Layer::compile`].
///
/// If the layer writes an operation, this makes a plan that calls the layer; otherwise the inner backend compiles. A
/// layer that overrides `compile`, to inspect graphs or to change options, calls this at the end.
///
/// # Errors
///
/// The errors of the inner backend.
///
/// # Examples
///
/// ```
/// /// Compiles without fused operations.
/// #[derive(bb::Backend)]
/// #[bb(delegate = inner)]
/// struct Unfused<B> {
///     inner: B,
/// }
///
/// #[bb::layer]
/// impl<B: bb::InnerBackend> bb::Layer for Unfused<B> {
///     fn compile(
///         &self,
///         module: bb::Module,
///         options: &bb::CompileOptions,
///     ) -> Result<Box<dyn bb::Executable<Self>>, B::Error> {
///         bb::compile_layer(self, module, &options.clone().with_fuse(false))
///     }
/// }
/// ```
pub fn compile_layer<L: Layer>(
    on: &L,
    module: Module,
    options: &CompileOptions,
) -> Result<Box<dyn Executable<L>>, LayerError<L>> {
    match const { writes_operations::<L>() } {
        true => crate::plan::compile(on, module, options),
        false => passed::compile(on, module, options),
    }
}

/// Prepares a step of a plan for a layer. Uses the inner backend's kernel, unless the layer writes the operation.
///
/// # Errors
///
/// The errors of the inner backend.
fn prepare<L: Layer>(
    on: &L,
    step: &PrepareStep<'_, LayerTensor<L>>,
) -> Result<Option<Box<dyn Kernel<L>>>, LayerError<L>> {
    if writes::<L>(step.spec()) || !on.keeps_prepared() {
        return Ok(None);
    }
    let kernel = on.inner().prepare(step)?;
    Ok(kernel.map(|kernel| PreparedLayer::<L>::boxed(kernel, step.spec(), step.params())))
}

/// Returns whether a layer passes graphs on, unchanged, to the backend at this address whose type has this name.
pub fn stands_on<L: Layer>(on: &L, backend: *const (), ty: &str) -> bool {
    let inner = on.inner();
    let is_inner =
        std::ptr::eq(std::ptr::from_ref(inner).cast(), backend) && ty == std::any::type_name::<L::Inner>();
    // A layer that overrides the handling of graphs does not count, because plans of the inner backend would skip the
    // layer.
    let passes = const { passes_graphs::<L>() && !has(L::METHODS, "dispatch") };
    passes && (is_inner || inner.stands_on(backend, ty))
}

/// Returns the part of the program that computes an operation of a layer: the layer if it overrides the operation.
pub fn maker_of<L: Layer>(on: &L, spec: &'static OpSpec) -> ResultMaker {
    let inner = on.inner().maker_of(spec);
    match observes::<L>() || writes::<L>(spec) {
        true => ResultMaker::layer::<L>(inner),
        false => inner,
    }
}

/// Returns whether the layer overrides [`Layer::operation`], so that all operations go through it.
pub(crate) const fn observes<L: Layer>() -> bool {
    has(L::METHODS, "operation")
}

/// The Rust type of an operand of each kind.
macro_rules! layer_input {
    (Tensor) => { &LayerTensor<Self> };
    (Optional) => { Option<&LayerTensor<Self>> };
    (Tensors) => { &[&LayerTensor<Self>] };
}

/// The Rust type of a result of each kind.
macro_rules! layer_output {
    (Tensor) => { LayerTensor<Self> };
    (Tensors) => { Vec<LayerTensor<Self>> };
}

macro_rules! layers {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// A backend that wraps another backend. Each method that is not written calls the inner backend's method.
        ///
        /// Write the `impl` under `#[bb::layer]`, and access the inner backend through the field of your struct. Every
        /// layer is a [`Backend`], whose methods call the methods of this trait. Both traits have methods with the same
        /// names, so import neither, or call a layer with `bb::Backend::add(&layer, …)`.
        ///
        /// # Examples
        ///
        /// ```
        /// /// Refuses products of more than a number of elements.
        /// #[derive(bb::Backend)]
        /// #[bb(delegate = inner)]
        /// struct Small<B> {
        ///     inner: B,
        ///     most: usize,
        /// }
        ///
        /// #[bb::layer]
        /// impl<B: bb::InnerBackend> bb::Layer for Small<B> {
        ///     fn matmul(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        ///         let elements: usize = bb::Tensor::shape(b).iter().product();
        ///         if elements > self.most {
        ///             let refused = format!("at most {} elements", self.most);
        ///             return Err(bb::Error::layer("small", "matmul", bb::ErrorKind::Limit, refused).into());
        ///         }
        ///         self.inner.matmul(a, b)
        ///     }
        /// }
        /// ```
        #[diagnostic::on_unimplemented(
            message = "`{Self}` is no layer: `bb::Layer` is not implemented for it",
            label = "this type has no `impl bb::Layer`",
            note = "write `#[bb::layer] impl bb::Layer for {Self} {{ … }}` with the methods that differ; it may be empty",
            note = "the derive of a layer writes `impl bb::Backend`: remove an `impl bb::Backend` of your own"
        )]
        pub trait Layer:
            Delegate + Written + InnerBackend + Backend<Tensor = LayerTensor<Self>, Error = LayerError<Self>>
        {
            /// Intercepts every operation, if this method is written: each primitive whose own method is not written,
            /// each native operation of the inner backend, and each prepared kernel. [`LayerCall::run`] calls the inner
            /// backend.
            ///
            /// # Errors
            ///
            /// The errors of the inner backend, and the layer's own errors as errors of `bb`.
            fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<LayerTensor<Self>>, LayerError<Self>> {
                call.run()
            }

            /// Returns whether plans use the kernels that the inner backend prepares. The default is true. A layer that
            /// needs all operands of each operation returns false, because a kernel may have packed some of them.
            fn keeps_prepared(&self) -> bool {
                true
            }

            $(
                $(#[$doc])*
                #[allow(clippy::too_many_arguments, reason = "a method has as many arguments as its row")]
                fn $method(&self $(, $input: layer_input!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<layer_output!($output), LayerError<Self>> {
                    if const { observes::<Self>() } {
                        let outputs = call::operation(
                            self,
                            Primitive::$name.spec(),
                            &crate::call::list_operands!($($kind $input),*),
                            &crate::call::list_params!($($($pkind $param),+)?),
                        )?;
                        return crate::call::unwrap_output!($output, stringify!($method), outputs);
                    }
                    self.inner().$method($($input,)* $($($param,)+)?)
                }
            )*

            /// Does the same as [`Backend::types`].
            fn types(&self) -> bb_ir::DataTypes {
                self.inner().types()
            }

            /// Does the same as [`Backend::to_host`].
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn to_host(&self, x: &LayerTensor<Self>) -> Result<TensorData, LayerError<Self>> {
                self.inner().to_host(x)
            }

            /// Does the same as [`Backend::read_into`].
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn read_into(&self, x: &LayerTensor<Self>, into: &mut [u8]) -> Result<(), LayerError<Self>> {
                self.inner().read_into(x, into)
            }

            /// Does the same as [`Backend::execute`]. The default passes the graph to the inner backend if neither an
            /// operation nor [`compile`](Self::compile) is written, or if no operation is written and the inner backend
            /// runs whole graphs. Otherwise the default runs the plan that [`compile`](Self::compile) returns.
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn execute(
                &self,
                graph: &GraphProto,
                inputs: Named<LayerTensor<Self>>,
                attrs: BackendAttrs<'_>,
            ) -> Result<Named<LayerTensor<Self>>, LayerError<Self>> {
                if const { passes_graphs::<Self>() } || runs_whole_graphs(self) {
                    let attrs = attrs.handed_on_by(self).asked_of(self.inner());
                    return self.inner().execute(graph, inputs, attrs);
                }
                crate::plan::execute(self, graph, inputs, attrs)
            }

            /// Does the same as [`Backend::dispatch`]. If neither an operation nor [`execute`](Self::execute) is
            /// written, the default lets the inner backend answer, immediately or later.
            fn dispatch(
                &self,
                graph: Arc<GraphProto>,
                inputs: Named<LayerTensor<Self>>,
                attrs: BackendAttrs<'_>,
                completion: CompletionHandle<Named<LayerTensor<Self>>, LayerError<Self>>,
            ) -> ContractResponse<Named<LayerTensor<Self>>, LayerError<Self>> {
                match const { passes_graphs::<Self>() } {
                    true => {
                        let attrs = attrs.handed_on_by(self).asked_of(self.inner());
                        self.inner().dispatch(graph, inputs, attrs, completion)
                    }
                    false => ContractResponse::Now(Layer::execute(self, &graph, inputs, attrs)),
                }
            }

            /// Does the same as [`Backend::compile`]. The default is [`compile_layer`].
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn compile(
                &self,
                module: Module,
                options: &CompileOptions,
            ) -> Result<Box<dyn Executable<Self>>, LayerError<Self>> {
                compile_layer(self, module, options)
            }

            /// Does the same as [`Backend::materialize_from_wire`].
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<LayerTensor<Self>, LayerError<Self>> {
                if const { writes_operations::<Self>() } {
                    return Backend::constant(self, &crate::wire::decode(type_hash, bytes)?);
                }
                self.inner().materialize_from_wire(type_hash, bytes)
            }

            /// Does the same as [`Backend::device_info`].
            fn device_info(&self) -> DeviceInfo {
                self.inner().device_info()
            }

            /// Does the same as [`Backend::lifecycle`].
            fn lifecycle(&self) -> Option<&dyn Lifecycle> {
                self.inner().lifecycle()
            }

            /// Does the same as [`Backend::memory`].
            fn memory(&self) -> Option<&dyn Memory<LayerTensor<Self>>> {
                self.inner().memory()
            }

            /// Does the same as [`Backend::kernels`].
            fn kernels(&self) -> Option<&dyn Kernels<LayerTensor<Self>>> {
                self.inner().kernels()
            }
        }
    };
}

bb_ir::for_each_primitive!(layers);
