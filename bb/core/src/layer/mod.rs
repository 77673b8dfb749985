//! Layers: backends built on another backend.
//!
//! A layer holds a backend, changes what some operations do, and passes on the rest. It is a backend itself: every
//! function that takes a backend takes a layer, and layers stand on layers. The derive with `#[bb(delegate = field)]`
//! says which field holds the inner backend ([`Delegate`]), and the author writes the methods that differ in an `impl`
//! of [`Layer`] under `#[bb::layer]`.
//!
//! A layer has the tensors and errors of its inner backend, so that nothing is wrapped and no result is allocated. A
//! method that is not written is a direct call of the inner backend's. If no operation is written, graphs are compiled
//! by the inner backend, too: a layer that only passes on costs nothing in a plan. Otherwise plans call the layer, and
//! keep the inner backend's prepared kernels of all operations that are not written.

mod call;
mod derived;
pub mod either;
mod erased;
mod natives;
mod passed;
mod prepared;

pub use call::LayerCall;
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

/// Tensors by name.
type Named<T> = HashMap<String, T>;

/// A type that holds a backend. `#[bb(delegate = field)]` of the derive writes this.
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

    /// The operations of families that the layer writes itself (`extensions(…)` of the derive).
    const NATIVES: &'static [(Family, OpSet)];

    /// Returns the inner backend.
    fn inner(&self) -> &Self::Inner;
}

/// Lists the methods that an `impl` of [`Layer`] contains. `#[bb::layer]` writes this.
#[diagnostic::on_unimplemented(
    message = "`bb::Layer` is implemented for `{Self}` without `#[bb::layer]`",
    label = "write `#[bb::layer]` above this `impl`",
    note = "`#[bb::layer]` records which methods are written; plans call the inner backend for all others"
)]
pub trait Written {
    /// The names of the methods.
    const METHODS: &'static [&'static str];
}

/// Returns whether a list has a name; also in constants.
const fn has(mut list: &[&str], name: &str) -> bool {
    while let [first, rest @ ..] = list {
        if bb_ir::op::same(first, name) {
            return true;
        }
        list = rest;
    }
    false
}

/// Returns whether a layer writes an operation, a primitive or the hook that all operations go through.
const fn writes_operations<L: Layer>() -> bool {
    let mut methods = L::METHODS;
    while let [first, rest @ ..] = methods {
        if Primitive::from_method(first).is_some() || bb_ir::op::same(first, "operation") {
            return true;
        }
        methods = rest;
    }
    !L::NATIVES.is_empty()
}

/// Returns whether a layer passes graphs on as they are.
pub const fn passes_graphs<L: Layer>() -> bool {
    !writes_operations::<L>() && !has(L::METHODS, "execute") && !has(L::METHODS, "compile")
}

/// Returns whether a layer writes the operation, so that no prepared kernel of the inner backend may replace it.
fn writes<L: Layer>(spec: &OpSpec) -> bool {
    let native = |(family, set): &(Family, OpSet)| *family == spec.family && set.contains(spec.index);
    (spec.family == Family::Primitive && has(L::METHODS, spec.method)) || L::NATIVES.iter().any(native)
}

/// Returns the options of a compilation with the natives of a backend.
pub fn with_natives<B: InnerBackend>(on: &B, options: &CompileOptions) -> CompileOptions {
    options.clone().with_families(natives::kept_tables::<B>(&on.natives())).asked_of(on)
}

/// Returns whether a layer takes whole graphs: if its inner backend does, and the layer writes no operation.
pub fn runs_whole_graphs<L: Layer>(on: &L) -> bool {
    !const { writes_operations::<L>() } && on.inner().runs_whole_graphs()
}

/// Returns why a layer does not run a node: what its inner backend says, if graphs are passed on to that one as they are.
pub fn declines<L: Layer>(on: &L, graph: &Graph, node: &Node) -> Option<String> {
    match const { passes_graphs::<L>() } {
        true => on.inner().declines(graph, node),
        false => None,
    }
}

/// Compiles a graph for a layer: what [`Layer::compile`] does unless it is written.
///
/// If the layer writes an operation, it plans for the layer; otherwise the inner backend compiles. A layer that writes `compile`, to look
/// at graphs or to change options, ends with this.
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

/// Prepares a step of a plan for a layer: keeps the inner backend's kernel, unless the layer writes the operation.
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

/// Returns whether a layer passes graphs on, unchanged, to the backend at this address, of the type with this name.
pub fn stands_on<L: Layer>(on: &L, backend: *const (), ty: &str) -> bool {
    let inner = on.inner();
    let is_inner =
        std::ptr::eq(std::ptr::from_ref(inner).cast(), backend) && ty == std::any::type_name::<L::Inner>();
    // A layer that acts on graphs does not count, because plans of only the inner backend would skip it.
    let passes = const { passes_graphs::<L>() && !has(L::METHODS, "dispatch") };
    passes && (is_inner || inner.stands_on(backend, ty))
}

/// Returns whether all operations of a layer go through [`Layer::operation`].
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
        /// A backend built on another: each method that is not written calls the inner backend's method.
        ///
        /// Write the `impl` under `#[bb::layer]`, and reach the inner backend by the field of your struct. Every layer
        /// is a [`Backend`], whose methods call the methods of this trait. Both traits have methods of the same names;
        /// import neither, or call a layer by `bb::Backend::add(&layer, …)`.
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
            /// Intercepts every operation, if this method is written: each primitive that is not written itself, each
            /// native operation of the inner backend, and each prepared kernel. [`LayerCall::run`] calls the inner
            /// backend.
            ///
            /// # Errors
            ///
            /// The errors of the inner backend, and the layer's own, as an error of `bb`.
            fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<LayerTensor<Self>>, LayerError<Self>> {
                call.run()
            }

            /// Returns whether plans keep the kernels that the inner backend prepares. They do by default. A layer that needs all operands
            /// of each operation returns false: a kernel has packed some.
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

            /// As [`Backend::types`].
            fn types(&self) -> bb_ir::DataTypes {
                self.inner().types()
            }

            /// As [`Backend::to_host`].
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn to_host(&self, x: &LayerTensor<Self>) -> Result<TensorData, LayerError<Self>> {
                self.inner().to_host(x)
            }

            /// As [`Backend::read_into`].
            ///
            /// # Errors
            ///
            /// The errors of the inner backend.
            fn read_into(&self, x: &LayerTensor<Self>, into: &mut [u8]) -> Result<(), LayerError<Self>> {
                self.inner().read_into(x, into)
            }

            /// As [`Backend::execute`]. The default gives the graph to an inner backend that runs whole graphs, if no operation is
            /// written; otherwise the plan that [`compile`](Self::compile) made runs.
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
                if !const { writes_operations::<Self>() } && self.inner().runs_whole_graphs() {
                    return self.inner().execute(graph, inputs, attrs.asked_of(self.inner()));
                }
                crate::plan::execute(self, graph, inputs, attrs)
            }

            /// As [`Backend::dispatch`]. The default lets the inner backend answer, now or later, if neither an operation nor
            /// [`execute`](Self::execute) is written.
            fn dispatch(
                &self,
                graph: Arc<GraphProto>,
                inputs: Named<LayerTensor<Self>>,
                attrs: BackendAttrs<'_>,
                completion: CompletionHandle<Named<LayerTensor<Self>>, LayerError<Self>>,
            ) -> ContractResponse<Named<LayerTensor<Self>>, LayerError<Self>> {
                match const { passes_graphs::<Self>() } {
                    true => self.inner().dispatch(graph, inputs, attrs.asked_of(self.inner()), completion),
                    false => ContractResponse::Now(Layer::execute(self, &graph, inputs, attrs)),
                }
            }

            /// As [`Backend::compile`]. The default is [`compile_layer`].
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

            /// As [`Backend::materialize_from_wire`].
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

            /// As [`Backend::device_info`].
            fn device_info(&self) -> DeviceInfo {
                self.inner().device_info()
            }

            /// As [`Backend::lifecycle`].
            fn lifecycle(&self) -> Option<&dyn Lifecycle> {
                self.inner().lifecycle()
            }

            /// As [`Backend::memory`].
            fn memory(&self) -> Option<&dyn Memory<LayerTensor<Self>>> {
                self.inner().memory()
            }

            /// As [`Backend::kernels`].
            fn kernels(&self) -> Option<&dyn Kernels<LayerTensor<Self>>> {
                self.inner().kernels()
            }
        }
    };
}

bb_ir::for_each_primitive!(layers);
