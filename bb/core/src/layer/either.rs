//! Implements a backend for an enum of backends. The variant is chosen when the value is constructed.

use crate::Error;
use crate::contract::OnnxValue;
use smallvec::SmallVec;

/// Restores the type of operands. `own` returns the tensor if it belongs to the variant that runs.
///
/// # Errors
///
/// [`Error::Operand`] if an operand belongs to another variant.
pub fn restored<'a, T, U>(
    op: &'static str,
    inputs: impl IntoIterator<Item = Option<&'a T>>,
    own: impl Fn(&'a T) -> Option<&'a U>,
) -> Result<SmallVec<[Option<&'a U>; 4]>, Error>
where
    T: 'a,
    U: 'a,
{
    let restore = |(index, x): (usize, Option<&'a T>)| match x {
        None => Ok(None),
        Some(x) => own(x).map(Some).ok_or_else(|| foreign(op, index)),
    };
    inputs.into_iter().enumerate().map(restore).collect()
}

/// Restores the type of inputs that may be sequences.
///
/// # Errors
///
/// [`Error::Operand`] if an input belongs to another variant.
pub fn restored_items<'a, T, U>(
    inputs: &[Option<OnnxValue<&'a T>>],
    own: impl Fn(&'a T) -> Option<&'a U>,
) -> Result<Vec<Option<OnnxValue<&'a U>>>, Error> {
    let restore = |(index, item): (usize, &Option<OnnxValue<&'a T>>)| match item {
        None => Ok(None),
        Some(item) => item.try_map(&mut |x: &&'a T| own(x).ok_or_else(|| foreign("run", index))).map(Some),
    };
    inputs.iter().enumerate().map(restore).collect()
}

/// Returns the error for a tensor of another variant.
pub fn foreign(op: &'static str, index: usize) -> Error {
    Error::Operand { op, index, expected: "a tensor of the variant that runs" }
}

/// Returns the error for a graph that another variant compiled.
pub fn other_variant() -> Error {
    Error::excluded("a graph that this variant compiled")
}

/// Implements [`Backend`](crate::Backend) for an enum whose variants contain backends. The derive expands to
/// this.
#[doc(hidden)]
#[macro_export]
macro_rules! __either {
    ([$vis:vis $any:ident, $tensor:ident, $error:ident, $compiled:ident] $( $variant:ident($inner:ty) ),+) => {
        const _: fn() = || { $( $crate::__private::layer::is_inner::<$inner>(); )+ };

        #[doc = ::core::concat!("A tensor of one of the backends of [`", ::core::stringify!($any), "`].")]
        #[allow(missing_docs, reason = "the variants are those of the backends")]
        $vis enum $tensor where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+ { $( $variant(<$inner as $crate::Backend>::Tensor) ),+ }

        impl ::core::clone::Clone for $tensor
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn clone(&self) -> Self {
                match self { $( Self::$variant(x) => Self::$variant(::core::clone::Clone::clone(x)) ),+ }
            }
        }

        impl $crate::Tensor for $tensor
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn dtype(&self) -> $crate::DataType {
                match self { $( Self::$variant(x) => $crate::Tensor::dtype(x) ),+ }
            }

            fn shape(&self) -> &[usize] {
                match self { $( Self::$variant(x) => $crate::Tensor::shape(x) ),+ }
            }
        }

        #[doc = ::core::concat!("An error of one of the backends of [`", ::core::stringify!($any), "`].")]
        #[derive(::core::fmt::Debug)]
        #[allow(missing_docs, reason = "the variants are those of the backends")]
        $vis enum $error where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+ {
            $( $variant(<$inner as $crate::Backend>::Error), )+
            /// An error of `bb` itself.
            Bb($crate::Error),
        }

        impl ::core::fmt::Display for $error
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self {
                    $( Self::$variant(error) => ::core::fmt::Display::fmt(error, f), )+
                    Self::Bb(error) => ::core::fmt::Display::fmt(error, f),
                }
            }
        }

        impl ::core::error::Error for $error
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn source(&self) -> $crate::__private::Option<&(dyn ::core::error::Error + 'static)> {
                match self {
                    $( Self::$variant(error) => ::core::error::Error::source(error), )+
                    Self::Bb(error) => ::core::error::Error::source(error),
                }
            }
        }

        impl ::core::convert::From<$crate::Error> for $error
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn from(error: $crate::Error) -> Self {
                Self::Bb(error)
            }
        }

        impl $any
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn __apply(
                &self,
                op: $crate::Primitive,
                inputs: &[$crate::__private::Option<&$tensor>],
                params: &[$crate::ir::op::Param<'_>],
            ) -> $crate::__private::Result<$crate::Outputs<$tensor>, $error> {
                match self { $( Self::$variant(on) => {
                    let operands = $crate::__either_operands!($tensor $variant, op.spec().method, inputs.iter().copied());
                    let results = $crate::call_primitive(on, op, &operands, params).map_err($error::$variant)?;
                    $crate::__private::Result::Ok(results.into_iter().map($tensor::$variant).collect())
                } )+ }
            }
        }

        impl $crate::Backend for $any
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            type Tensor = $tensor;
            type Error = $error;

            $crate::forward_to_call!(Self::__apply);

            fn types(&self) -> $crate::__private::ir::DataTypes {
                match self { $( Self::$variant(on) => $crate::Backend::types(on) ),+ }
            }

            fn has_every_type(&self) -> $crate::__private::bool {
                match self { $( Self::$variant(on) => $crate::Backend::has_every_type(on) ),+ }
            }

            fn runs_primitive(&self, op: $crate::Primitive) -> $crate::__private::bool {
                match self { $( Self::$variant(on) => $crate::Backend::runs_primitive(on, op) ),+ }
            }

            fn maker_of(&self, spec: &'static $crate::ir::op::OpSpec) -> $crate::ResultMaker {
                match self { $( Self::$variant(on) => $crate::Backend::maker_of(on, spec) ),+ }
            }

            fn runs_whole_graphs(&self) -> $crate::__private::bool {
                match self { $( Self::$variant(on) => $crate::Backend::runs_whole_graphs(on) ),+ }
            }

            fn wrapped(error: &$error) -> $crate::__private::Option<&$crate::Error> {
                match error {
                    $( $error::$variant(error) => <$inner as $crate::Backend>::wrapped(error), )+
                    $error::Bb(error) => $crate::__private::Option::Some(error),
                }
            }

            fn wrapped_in<'error>(
                &self,
                error: &'error (dyn ::core::error::Error + 'static),
            ) -> $crate::__private::Option<&'error $crate::Error> {
                match error.downcast_ref() {
                    Some($error::Bb(error)) => $crate::__private::Option::Some(error),
                    $( Some($error::$variant(inner)) => match self {
                        Self::$variant(on) => $crate::Backend::wrapped_in(on, inner),
                        #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                        _ => $crate::__private::Option::None,
                    }, )+
                    $crate::__private::Option::None => $crate::__private::Option::None,
                }
            }

            fn to_host(&self, x: &$tensor) -> $crate::__private::Result<$crate::TensorData, $error> {
                match (self, x) {
                    $( (Self::$variant(on), $tensor::$variant(x)) => {
                        $crate::Backend::to_host(on, x).map_err($error::$variant)
                    } )+
                    #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                    _ => $crate::__private::Result::Err($crate::__private::layer::either::foreign("to_host", 0).into()),
                }
            }

            fn read_into(&self, x: &$tensor, into: &mut [u8]) -> $crate::__private::Result<(), $error> {
                match (self, x) {
                    $( (Self::$variant(on), $tensor::$variant(x)) => {
                        $crate::Backend::read_into(on, x, into).map_err($error::$variant)
                    } )+
                    #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                    _ => $crate::__private::Result::Err($crate::__private::layer::either::foreign("read_into", 0).into()),
                }
            }

            fn execute(
                &self,
                graph: &$crate::GraphProto,
                inputs: $crate::__private::Named<$tensor>,
                attrs: $crate::BackendAttrs<'_>,
            ) -> $crate::__private::Result<$crate::__private::Named<$tensor>, $error> {
                if !$crate::Backend::runs_whole_graphs(self) {
                    return $crate::__private::execute_planned(self, graph, inputs, attrs);
                }
                match self { $( Self::$variant(on) => {
                    let mut own = $crate::__private::Named::with_capacity(inputs.len());
                    for (index, (name, x)) in inputs.into_iter().enumerate() {
                        let $tensor::$variant(x) = x else {
                            return $crate::__private::Result::Err(
                                $crate::__private::layer::either::foreign("execute", index).into(),
                            );
                        };
                        own.insert(name, x);
                    }
                    let results = $crate::Backend::execute(on, graph, own, attrs.asked_of(on)).map_err($error::$variant)?;
                    $crate::__private::Result::Ok(
                        results.into_iter().map(|(name, y)| (name, $tensor::$variant(y))).collect(),
                    )
                } )+ }
            }

            fn compile(
                &self,
                module: $crate::Module,
                options: &$crate::CompileOptions,
            ) -> $crate::__private::Result<$crate::__private::Box<dyn $crate::Executable<Self>>, $error> {
                match self { $( Self::$variant(on) => {
                    let options = $crate::__private::layer::with_natives(on, options);
                    let compiled = $crate::Backend::compile(on, module, &options).map_err($error::$variant)?;
                    $crate::__private::Result::Ok($crate::__private::Box::new($compiled::$variant(compiled)))
                } )+ }
            }

            fn declines(
                &self,
                graph: &$crate::__private::ir::graph::Graph,
                node: &$crate::__private::ir::graph::Node,
            ) -> $crate::__private::Option<::std::string::String> {
                match self { $( Self::$variant(on) => $crate::Backend::declines(on, graph, node) ),+ }
            }

            fn device_info(&self) -> $crate::services::DeviceInfo {
                match self { $( Self::$variant(on) => $crate::Backend::device_info(on) ),+ }
            }

            fn lifecycle(&self) -> $crate::__private::Option<&dyn $crate::services::Lifecycle> {
                match self { $( Self::$variant(on) => $crate::Backend::lifecycle(on) ),+ }
            }
        }

        impl $crate::InnerBackend for $any
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn natives(&self) -> $crate::__private::Vec<($crate::__private::Family, $crate::__private::OpSet)> {
                match self { $( Self::$variant(on) => $crate::InnerBackend::natives(on) ),+ }
            }

            fn native(
                &self,
                spec: &'static $crate::ir::op::OpSpec,
                inputs: &[$crate::__private::Option<&$tensor>],
                params: &[$crate::ir::op::Param<'_>],
            ) -> $crate::__private::Result<$crate::Outputs<$tensor>, $error> {
                match self { $( Self::$variant(on) => {
                    let operands = $crate::__either_operands!($tensor $variant, spec.method, inputs.iter().copied());
                    let results = $crate::InnerBackend::native(on, spec, &operands, params).map_err($error::$variant)?;
                    $crate::__private::Result::Ok(results.into_iter().map($tensor::$variant).collect())
                } )+ }
            }

            fn version(&self) -> &'static $crate::__private::str {
                match self { $( Self::$variant(on) => $crate::InnerBackend::version(on) ),+ }
            }
        }

        /// A graph that a variant's backend compiled.
        enum $compiled where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+ { $( $variant($crate::__private::Box<dyn $crate::Executable<$inner>>) ),+ }

        impl $crate::Executable<$any> for $compiled
        where $( for<'held> $inner: $crate::__private::IsInner<'held> ),+
        {
            fn inputs(&self) -> &[$crate::Port] {
                match self { $( Self::$variant(compiled) => compiled.inputs() ),+ }
            }

            fn outputs(&self) -> &[$crate::Port] {
                match self { $( Self::$variant(compiled) => compiled.outputs() ),+ }
            }

            fn run(
                &self,
                on: &$any,
                inputs: &[$crate::__private::Option<&$tensor>],
            ) -> $crate::__private::Result<$crate::__private::Vec<$tensor>, $error> {
                match (self, on) {
                    $( (Self::$variant(compiled), $any::$variant(on)) => {
                        let operands = $crate::__either_operands!($tensor $variant, "run", inputs.iter().copied());
                        let results = compiled.run(on, &operands).map_err($error::$variant)?;
                        $crate::__private::Result::Ok(results.into_iter().map($tensor::$variant).collect())
                    } )+
                    #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                    _ => $crate::__private::Result::Err($crate::__private::layer::either::other_variant().into()),
                }
            }

            fn run_items(
                &self,
                on: &$any,
                inputs: &[$crate::__private::Option<$crate::__private::OnnxValue<&$tensor>>],
            ) -> $crate::__private::Result<$crate::__private::Vec<$crate::__private::OnnxValue<$tensor>>, $error> {
                match (self, on) {
                    $( (Self::$variant(compiled), $any::$variant(on)) => {
                        let own = $crate::__either_items!($tensor $variant, inputs);
                        let results = compiled.run_items(on, &own).map_err($error::$variant)?;
                        let wrap = &mut |y: &<$inner as $crate::Backend>::Tensor| {
                            $tensor::$variant(::core::clone::Clone::clone(y))
                        };
                        $crate::__private::Result::Ok(results.iter().map(|y| y.map(wrap)).collect())
                    } )+
                    #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                    _ => $crate::__private::Result::Err($crate::__private::layer::either::other_variant().into()),
                }
            }

            fn run_profiled(
                &self,
                on: &$any,
                inputs: &[$crate::__private::Option<$crate::__private::OnnxValue<&$tensor>>],
                profile: &mut $crate::profile::Profile,
            ) -> $crate::__private::Result<$crate::__private::Vec<$crate::__private::OnnxValue<$tensor>>, $error> {
                match (self, on) {
                    $( (Self::$variant(compiled), $any::$variant(on)) => {
                        let own = $crate::__either_items!($tensor $variant, inputs);
                        let results = compiled.run_profiled(on, &own, profile).map_err($error::$variant)?;
                        let wrap = &mut |y: &<$inner as $crate::Backend>::Tensor| {
                            $tensor::$variant(::core::clone::Clone::clone(y))
                        };
                        $crate::__private::Result::Ok(results.iter().map(|y| y.map(wrap)).collect())
                    } )+
                    #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                    _ => $crate::__private::Result::Err($crate::__private::layer::either::other_variant().into()),
                }
            }

            fn plan_ahead(
                &self,
                on: &$any,
                inputs: &[$crate::__private::Option<($crate::DataType, &[usize])>],
            ) -> $crate::__private::Result<(), $error> {
                match (self, on) {
                    $( (Self::$variant(compiled), $any::$variant(on)) => {
                        compiled.plan_ahead(on, inputs).map_err($error::$variant)
                    } )+
                    #[allow(unreachable_patterns, reason = "an enum may have one variant")]
                    _ => $crate::__private::Result::Err($crate::__private::layer::either::other_variant().into()),
                }
            }

            fn compiled_module(&self) -> $crate::__private::Result<$crate::__private::Option<$crate::Module>, $error> {
                match self { $( Self::$variant(compiled) => compiled.compiled_module().map_err($error::$variant) ),+ }
            }
        }
    };
}

/// Restores the operands of a variant.
#[doc(hidden)]
#[macro_export]
macro_rules! __either_operands {
    ($tensor:ident $variant:ident, $op:expr, $inputs:expr) => {
        $crate::__private::layer::either::restored($op, $inputs, |x: &$tensor| match x {
            $tensor::$variant(x) => $crate::__private::Option::Some(x),
            #[allow(unreachable_patterns, reason = "an enum may have one variant")]
            _ => $crate::__private::Option::None,
        })?
    };
}

/// Restores the inputs of a variant, which may be sequences.
#[doc(hidden)]
#[macro_export]
macro_rules! __either_items {
    ($tensor:ident $variant:ident, $inputs:expr) => {
        $crate::__private::layer::either::restored_items($inputs, |x: &$tensor| match x {
            $tensor::$variant(x) => $crate::__private::Option::Some(x),
            #[allow(unreachable_patterns, reason = "an enum may have one variant")]
            _ => $crate::__private::Option::None,
        })?
    };
}
