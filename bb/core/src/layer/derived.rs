//! The code that the derive of a layer expands to.
//!
//! While rustc compiles a generic `impl`, it assumes that the bounds of the `impl` hold, but it checks bounds of a type
//! without parameters immediately. So for a type without parameters, the derive writes bounds with a lifetime, as in
//! `for<'it> LayerOf<MyLayer>: IsLayer<'it>`, which rustc assumes to hold too. A bound that does not hold is therefore
//! reported once, where the derive asserts it ([`is_layer`], [`is_inner`]), and not in each method.

use super::{Delegate, Layer, LayerError, LayerTensor};
use crate::contract::{CompileOptions, Module};
use crate::ext::FamilyTable;
use crate::{Backend, Executable, InnerBackend, Kernel, Outputs, PrepareStep};
use bb_ir::op::{OpSpec, Param};
use std::marker::PhantomData;

/// The type that the bound [`IsLayer`] of a layer `L` is written for.
///
/// The bound is not written for the layer itself. Rustc knows that a type without `impl bb::Layer` is no layer, so it
/// would accept an author's `impl bb::Backend` in addition to the derive's, and then report each method as ambiguous.
/// For a type of another crate rustc cannot rule out an `impl`, so it reports the two `impl`s as one error.
#[derive(Debug)]
pub struct LayerOf<L>(PhantomData<fn() -> L>);

/// A kernel that a layer prepared for a step.
type PreparedKernel<L> = Box<dyn Kernel<L>>;

/// The [`LayerOf`] of a type that implements [`Layer`], for any lifetime.
///
/// It does not require [`Backend`], because the `impl` of [`Backend`] has this trait as a bound.
pub trait IsLayer<'layer> {
    /// The layer.
    type On: Delegate;

    /// The same layer, with the bound [`Layer`].
    type As: Layer + Delegate<Inner = <Self::On as Delegate>::Inner>;

    /// Casts the layer to the type that has the bound [`Layer`].
    fn as_layer(on: &Self::On) -> &Self::As;

    /// Does the same as [`Layer::compile`].
    ///
    /// # Errors
    ///
    /// The errors of the layer.
    fn compile_layer(
        on: &Self::On,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self::On>>, LayerError<Self::On>>
    where
        Self::On: Backend;

    /// Does the same as [`Backend::prepare`].
    ///
    /// # Errors
    ///
    /// The errors of the inner backend.
    fn prepare_layer(
        on: &Self::On,
        step: &PrepareStep<'_, LayerTensor<Self::On>>,
    ) -> Result<Option<PreparedKernel<Self::On>>, LayerError<Self::On>>
    where
        Self::On: Backend;

    /// Does the same as [`InnerBackend::native`]. `own` are the families that the layer implements itself.
    ///
    /// # Errors
    ///
    /// The operation's own errors.
    fn native_of_layer(
        on: &Self::On,
        own: &[FamilyTable<Self::On>],
        spec: &'static OpSpec,
        inputs: &[Option<&LayerTensor<Self::On>>],
        params: &[Param<'_>],
    ) -> Result<Outputs<LayerTensor<Self::On>>, LayerError<Self::On>>
    where
        Self::On: Backend;
}

#[diagnostic::do_not_recommend]
impl<L: Layer> IsLayer<'_> for LayerOf<L> {
    type On = L;
    type As = L;

    #[inline]
    fn as_layer(on: &L) -> &L {
        on
    }

    fn compile_layer(
        on: &L,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<L>>, LayerError<L>> {
        Layer::compile(on, module, options)
    }

    fn prepare_layer(
        on: &L,
        step: &PrepareStep<'_, LayerTensor<L>>,
    ) -> Result<Option<Box<dyn Kernel<L>>>, LayerError<L>> {
        super::prepare(on, step)
    }

    #[inline]
    fn native_of_layer(
        on: &L,
        own: &[FamilyTable<L>],
        spec: &'static OpSpec,
        inputs: &[Option<&LayerTensor<L>>],
        params: &[Param<'_>],
    ) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
        super::natives::layer_native(on, own, spec, inputs, params)
    }
}

/// A backend that a layer or a variant of an enum contains, for any lifetime.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no backend, so that neither a layer nor a variant can hold it",
    label = "this is no backend",
    note = "write `#[derive(bb::Backend)]` on a backend, and `#[bb::layer] impl bb::Layer` for a layer"
)]
pub trait IsInner<'held>: InnerBackend {}

#[diagnostic::do_not_recommend]
impl<B: InnerBackend> IsInner<'_> for B {}

/// Casts a layer to the type that has the bound [`Layer`], in the derive.
#[inline]
pub fn as_layer<L>(on: &L) -> &<LayerOf<L> as IsLayer<'static>>::As
where
    LayerOf<L>: IsLayer<'static, On = L>,
{
    <LayerOf<L> as IsLayer<'static>>::as_layer(on)
}

/// Asserts that a type is a layer.
pub const fn is_layer<L: Layer>() {}

/// Asserts that a type is a backend that a layer or a variant can contain.
pub const fn is_inner<B: IsInner<'static>>() {}

/// Implements the traits of a layer for its derive. The arguments are `[parameters] [type] [bounds] [bounds of a layer]
/// [own families] field: type, version`.
#[doc(hidden)]
#[macro_export]
macro_rules! __layer {
    ([$($params:tt)*] [$on:ty] [$($bounds:tt)*] [$($layered:tt)*] [$($table:expr),*] $field:tt: $inner:ty, $version:expr) => {
        #[automatically_derived]
        impl $($params)* $crate::__private::Delegate for $on $($bounds)* {
            type Inner = $inner;
            const VERSION: &'static $crate::__private::str = $version;
            const NATIVES: &'static [($crate::__private::Family, $crate::__private::OpSet)] = &[$({
                let table: $crate::__private::FamilyTable<Self> = $table;
                (table.family(), table.native())
            }),*];

            #[inline]
            fn inner(&self) -> &Self::Inner {
                &self.$field
            }
        }

        #[automatically_derived]
        impl $($params)* $crate::__private::InnerBackend for $on $($layered)* {
            const ADOPTS: () = $crate::__families_named! { @each layer Self };

            fn natives(&self) -> $crate::__private::Vec<($crate::__private::Family, $crate::__private::OpSet)> {
                const { <Self as $crate::__private::InnerBackend>::ADOPTS };
                $crate::__private::layer::layer_natives($crate::__private::layer::as_layer(self))
            }

            fn native(
                &self,
                spec: &'static $crate::ir::op::OpSpec,
                inputs: &[$crate::__private::Option<&<Self as $crate::Backend>::Tensor>],
                params: &[$crate::ir::op::Param<'_>],
            ) -> $crate::__private::Result<
                $crate::Outputs<<Self as $crate::Backend>::Tensor>,
                <Self as $crate::Backend>::Error,
            > {
                <$crate::__private::layer::LayerOf<Self> as $crate::__private::IsLayer<'_>>::native_of_layer(
                    self, &[$($table),*], spec, inputs, params,
                )
            }

            fn version(&self) -> &'static $crate::__private::str {
                $crate::__private::layer::layer_version($crate::__private::layer::as_layer(self))
            }
        }

        $crate::__private::for_each_primitive!(
            $crate::__layer_backend,
            [impl $($params)* $crate::Backend for $on $($layered)*]
        );
    };
}

/// Expands to an `impl` of [`Backend`](crate::Backend) that calls the methods of [`Layer`](crate::Layer).
#[doc(hidden)]
#[macro_export]
macro_rules! __layer_backend {
    ([[$($head:tt)*]] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[automatically_derived]
        $($head)* {
            type Tensor = $crate::__private::LayerTensor<Self>;
            type Error = $crate::__private::LayerError<Self>;

            $(
                #[inline]
                fn $method(&self $(, $input: $crate::__input_type!($kind))* $($(, $param: $crate::__private::ir::param_type!($pkind))+)?)
                    -> $crate::__private::Result<$crate::__output_type!($output), Self::Error> {
                    $crate::__private::layer::method::<_, _, { $crate::Primitive::$name as u16 }>(
                        $crate::__private::layer::as_layer(self),
                        |on| $crate::Layer::$method(on, $($input,)* $($($param,)+)?),
                    )
                }
            )*

            fn types(&self) -> $crate::__private::ir::DataTypes {
                $crate::Layer::types($crate::__private::layer::as_layer(self))
            }

            fn has_every_type(&self) -> $crate::__private::bool {
                $crate::__private::layer::has_every_type($crate::__private::layer::as_layer(self))
            }

            fn declines(
                &self,
                graph: &$crate::__private::ir::graph::Graph,
                node: &$crate::__private::ir::graph::Node,
            ) -> $crate::__private::Option<::std::string::String> {
                $crate::__private::layer::declines($crate::__private::layer::as_layer(self), graph, node)
            }

            fn runs_primitive(&self, op: $crate::Primitive) -> $crate::__private::bool {
                $crate::Backend::runs_primitive($crate::Delegate::inner(self), op)
            }

            fn maker_of(&self, spec: &'static $crate::ir::op::OpSpec) -> $crate::ResultMaker {
                $crate::__private::layer::maker_of($crate::__private::layer::as_layer(self), spec)
            }

            fn runs_whole_graphs(&self) -> $crate::__private::bool {
                $crate::__private::layer::runs_whole_graphs($crate::__private::layer::as_layer(self))
            }

            fn wrapped(error: &Self::Error) -> ::core::option::Option<&$crate::Error> {
                <<Self as $crate::Delegate>::Inner as $crate::Backend>::wrapped(error)
            }

            fn wrapped_in<'error>(
                &self,
                error: &'error (dyn ::core::error::Error + 'static),
            ) -> ::core::option::Option<&'error $crate::Error> {
                $crate::Backend::wrapped_in($crate::Delegate::inner(self), error)
            }

            fn to_host(&self, x: &Self::Tensor) -> $crate::__private::Result<$crate::TensorData, Self::Error> {
                $crate::Layer::to_host($crate::__private::layer::as_layer(self), x)
            }

            fn read_into(&self, x: &Self::Tensor, into: &mut [u8]) -> $crate::__private::Result<(), Self::Error> {
                $crate::Layer::read_into($crate::__private::layer::as_layer(self), x, into)
            }

            fn execute(
                &self,
                graph: &$crate::GraphProto,
                inputs: $crate::__private::Named<Self::Tensor>,
                attrs: $crate::BackendAttrs<'_>,
            ) -> $crate::__private::Result<$crate::__private::Named<Self::Tensor>, Self::Error> {
                $crate::Layer::execute($crate::__private::layer::as_layer(self), graph, inputs, attrs)
            }

            fn dispatch(
                &self,
                graph: $crate::__private::Arc<$crate::GraphProto>,
                inputs: $crate::__private::Named<Self::Tensor>,
                attrs: $crate::BackendAttrs<'_>,
                completion: $crate::CompletionHandle<$crate::__private::Named<Self::Tensor>, Self::Error>,
            ) -> $crate::ContractResponse<$crate::__private::Named<Self::Tensor>, Self::Error> {
                $crate::Layer::dispatch($crate::__private::layer::as_layer(self), graph, inputs, attrs, completion)
            }

            fn compile(
                &self,
                module: $crate::Module,
                options: &$crate::CompileOptions,
            ) -> $crate::__private::Result<$crate::__private::Box<dyn $crate::Executable<Self>>, Self::Error> {
                <$crate::__private::layer::LayerOf<Self> as $crate::__private::IsLayer<'_>>::compile_layer(self, module, options)
            }

            fn prepare(
                &self,
                step: &$crate::PrepareStep<'_, Self::Tensor>,
            ) -> $crate::__private::Result<
                ::core::option::Option<$crate::__private::Box<dyn $crate::Kernel<Self>>>,
                Self::Error,
            > {
                <$crate::__private::layer::LayerOf<Self> as $crate::__private::IsLayer<'_>>::prepare_layer(self, step)
            }

            fn materialize_from_wire(
                &self,
                type_hash: u64,
                bytes: $crate::__private::Vec<u8>,
            ) -> $crate::__private::Result<Self::Tensor, Self::Error> {
                $crate::Layer::materialize_from_wire($crate::__private::layer::as_layer(self), type_hash, bytes)
            }

            fn device_info(&self) -> $crate::services::DeviceInfo {
                $crate::Layer::device_info($crate::__private::layer::as_layer(self))
            }

            fn lifecycle(&self) -> ::core::option::Option<&dyn $crate::services::Lifecycle> {
                $crate::Layer::lifecycle($crate::__private::layer::as_layer(self))
            }

            fn memory(&self) -> ::core::option::Option<&dyn $crate::services::Memory<Self::Tensor>> {
                $crate::Layer::memory($crate::__private::layer::as_layer(self))
            }

            fn kernels(&self) -> ::core::option::Option<&dyn $crate::services::Kernels<Self::Tensor>> {
                $crate::Layer::kernels($crate::__private::layer::as_layer(self))
            }

            fn stands_on(&self, backend: *const (), ty: &$crate::__private::str) -> $crate::__private::bool {
                $crate::__private::layer::stands_on($crate::__private::layer::as_layer(self), backend, ty)
            }
        }
    };
}
