//! Macros that write the methods of a backend that runs whole graphs, or of a backend that takes operations as values.

mod operands;
mod signature;

pub use operands::{Operand, operand, operands, outputs};
pub use signature::{Constructs, ForwardedCall, ForwardedGraph, Signature};

use crate::contract::{Caller, nested};
use crate::erased::plans_of;
use crate::trace::one_node_graph;
use crate::{Backend, BackendAttrs, DataType, Error, Outputs, Tensor};
use bb_ir::op::{Param, Primitive};
use bb_ir::proto::GraphProto;
use std::cell::Cell;
use std::collections::HashMap;

/// Runs one primitive as a graph of one node through [`Backend::execute`].
///
/// # Errors
///
/// [`Error::NoPrimitive`] if the backend does not support the operation; the errors of the backend; [`Error::Results`]
/// if an output is missing.
pub fn one_node<B: Backend + ?Sized>(
    on: &B,
    op: Primitive,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    if !on.runs_primitive(op) {
        return Err(Error::NoPrimitive { op: op.spec().method }.into());
    }
    for param in params {
        if let Param::Data(data) = param
            && data.dtype() == DataType::String
        {
            // A protobuf message allocates for each string, and the message library does not report a failed
            // allocation. So this checks the memory beforehand, for the written graph and for the copy that checking it
            // creates.
            let (count, bytes) = (data.len().saturating_mul(3), data.byte_len().saturating_mul(3));
            bb_ir::memory::probe_strings(op.spec().method, count, bytes).map_err(Error::from)?;
        }
    }
    let types = inputs.iter().flatten().map(|x| (x.dtype(), x.rank())).collect();
    let single = one_node_graph(op, types, params)?;
    let named: HashMap<String, B::Tensor> =
        single.inputs.iter().cloned().zip(inputs.iter().flatten().map(|&x| x.clone())).collect();
    let caller = Caller::current();
    let mut attrs = BackendAttrs::default();
    if let Some(identity) = single.identity {
        attrs = attrs.with_identity(identity);
    }
    if let Some(caller) = &caller {
        attrs = attrs.with_node(&caller.attributes, &caller.metadata);
    }
    let mut results = on.execute(&single.graph, named, attrs)?;
    single
        .outputs
        .iter()
        .map(|name| {
            let result = results.remove(name);
            result.ok_or_else(|| Error::missing_output(name, &results).into())
        })
        .collect()
}

/// The types of a backend, for the signatures that the macros write inside its `impl`.
///
/// If the macros wrote `Self::Tensor`, rustc would check the supertraits of [`Backend`] for each method. It would then
/// report a type that is not `Sync` once for every method, instead of only once.
pub trait Types {
    /// The tensor.
    type Tensor;
    /// The error.
    type Error;
}

impl<B: Backend + ?Sized> Types for B {
    type Tensor = B::Tensor;
    type Error = B::Error;
}

/// Runs a graph with the plan of primitives that the calling runtime caches for it. If no runtime caches a plan,
/// returns the inputs as `Err`.
///
/// There is no plan for a graph that a plan of primitives runs itself, or for a graph from a caller that is not a
/// runtime.
///
/// # Errors
///
/// The inner result contains the backend's own error.
#[expect(clippy::type_complexity, reason = "what `execute` takes and returns")]
pub fn kept<B: Backend + ?Sized>(
    on: &B,
    graph: &GraphProto,
    inputs: HashMap<String, B::Tensor>,
    attrs: BackendAttrs<'_>,
) -> Result<Result<HashMap<String, B::Tensor>, B::Error>, HashMap<String, B::Tensor>> {
    if let Err(error) = attrs.reach_default(on) {
        return Ok(Err(error.into()));
    }
    match plans_of(on, attrs) {
        Some(plans) => Ok(plans.run_typed::<B>(graph, inputs, attrs)),
        None => crate::narrow::execute_with_kept(on, graph, inputs, attrs),
    }
}

thread_local! {
    /// The number of nested functions of `forward_to_execute!` on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The maximum nesting depth of functions of `forward_to_execute!`. A greater depth means that a function calls
/// `execute` of its own backend.
const MOST_DEEP: usize = 32;

/// Runs the function of a whole-graph backend. Without the limit, a function that calls itself would overflow the
/// stack.
///
/// # Errors
///
/// [`Error::EndlessExecute`] if the limit is reached; the function's own errors.
pub fn once<B: Backend + ?Sized, R>(
    on: &B,
    run: impl FnOnce() -> Result<R, B::Error>,
) -> Result<R, B::Error> {
    let _of_this_backend = on;
    nested(&DEPTH, MOST_DEEP, || Error::EndlessExecute, run)
}

/// Writes the operations and `execute` of a backend that runs whole graphs.
///
/// Inside an `impl bb::Backend`, `bb::forward_to_execute!(Self::run);` writes all operations, `execute`, a
/// `compile` that passes on whole graphs, and [`runs_whole_graphs`](crate::Backend::runs_whole_graphs). The function
/// must have the signature
///
/// ```text
/// fn run(&self, graph: &bb::GraphProto, inputs: HashMap<String, Self::Tensor>, attrs: bb::BackendAttrs<'_>)
///     -> Result<HashMap<String, Self::Tensor>, Self::Error>
/// ```
///
/// The nodes of the graph are primitives. [`decode`](crate::decode) reads them.
///
/// `bb::forward_to_execute!(Self::run; pow, gather);` writes only the listed operations and `execute`, for a
/// backend that has kernels for the other operations.
#[macro_export]
macro_rules! forward_to_execute {
    (Self::$run:ident() $($list:tt)*) => {
        ::core::compile_error!(::core::concat!("write `Self::", ::core::stringify!($run), "`, without parentheses"));
        $crate::__private::for_each_primitive!($crate::__forward_all, $crate::__private::one_node);
    };
    ($run:path) => {
        $crate::__private::for_each_primitive!($crate::__forward_all, $crate::__private::one_node);
        $crate::__forward_execute!($run);

        fn runs_whole_graphs(&self) -> bool {
            true
        }

        fn compile(
            &self,
            module: $crate::Module,
            options: &$crate::CompileOptions,
        ) -> ::core::result::Result<
            ::std::boxed::Box<dyn $crate::Executable<Self>>,
            <Self as $crate::__private::Types>::Error,
        >
        where
            Self: 'static,
        {
            $crate::__private::compile_whole_graph(self, module, options)
        }
    };
    ($run:path; $($method:ident),+ $(,)?) => {
        $( $crate::__forward_method!($method); )+
        $crate::__forward_execute!($run);
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "write `bb::forward_to_execute!(Self::run);`, or `bb::forward_to_execute!(Self::run; add, mul);` with the \
             operations that have no kernel"
        );
        // Without this, rustc would also report every operation as missing.
        $crate::__private::for_each_primitive!($crate::__forward_all, $crate::__private::one_node);
    };
}

/// Writes the operations of a backend as calls of one function that takes the operation as a value.
///
/// Inside an `impl bb::Backend`, `bb::forward_to_call!(Self::call);` writes all operations. It suits backends
/// that send operations elsewhere, that wrap another backend, or that choose their kernels themselves. The function
/// must have the signature
///
/// ```text
/// fn call(&self, op: bb::Primitive, inputs: &[Option<&Self::Tensor>], params: &[bb::ir::op::Param<'_>])
///     -> Result<bb::Outputs<Self::Tensor>, Self::Error>
/// ```
///
/// Operands and parameters are in the order of the method's arguments; an omitted operand is `None`.
///
/// # Examples
///
/// This backend counts the operations that another backend computes:
///
/// ```
/// use bb::{Backend, Outputs, Primitive, TensorData, ir::op::Param};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// struct Counting<B> {
///     on: B,
///     operations: AtomicUsize,
/// }
///
/// impl<B: Backend> Counting<B> {
///     fn call(
///         &self,
///         op: Primitive,
///         inputs: &[Option<&B::Tensor>],
///         params: &[Param<'_>],
///     ) -> Result<Outputs<B::Tensor>, B::Error> {
///         self.operations.fetch_add(1, Ordering::Relaxed);
///         bb::call_primitive(&self.on, op, inputs, params)
///     }
/// }
///
/// impl<B: Backend> Backend for Counting<B> {
///     type Tensor = B::Tensor;
///     type Error = B::Error;
///
///     bb::forward_to_call!(Self::call);
///
///     fn to_host(&self, x: &B::Tensor) -> Result<TensorData, B::Error> {
///         self.on.to_host(x)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_to_call {
    (Self::$call:ident()) => {
        ::core::compile_error!(::core::concat!("write `Self::", ::core::stringify!($call), "`, without parentheses"));
        $crate::__private::for_each_primitive!($crate::__forward_all, $crate::__private::one_node);
    };
    ($call:path; $($list:tt)*) => {
        ::core::compile_error!("`forward_to_call!` takes no list, because it forwards every operation: write `bb::forward_to_call!(Self::call);`");
        $crate::__private::for_each_primitive!($crate::__forward_all, $crate::__private::one_node);
    };
    ($call:path) => {
        $crate::__private::for_each_primitive!($crate::__forward_calls, $call);
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "expected the path of a function, which a closure does not have: write `bb::forward_to_call!(Self::call);`"
        );
        // Without this, rustc would also report every operation as missing.
        $crate::__private::for_each_primitive!($crate::__forward_all, $crate::__private::one_node);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __forward_execute {
    ($run:path) => {
        fn execute(
            &self,
            graph: &$crate::GraphProto,
            inputs: ::std::collections::HashMap<
                ::std::string::String,
                <Self as $crate::__private::Types>::Tensor,
            >,
            attrs: $crate::BackendAttrs<'_>,
        ) -> ::core::result::Result<
            ::std::collections::HashMap<::std::string::String, <Self as $crate::__private::Types>::Tensor>,
            <Self as $crate::__private::Types>::Error,
        > {
            match $crate::__private::kept(self, graph, inputs, attrs) {
                ::core::result::Result::Ok(ran) => ran,
                ::core::result::Result::Err(inputs) => {
                    let forwarded =
                        $crate::__private::ForwardedGraph { on: self, run: $run, graph, inputs, attrs };
                    $crate::__private::at! { [$run] forwarded.signature().takes_graphs(); }
                    $crate::__private::once(self, || forwarded.run())
                }
            }
        }
    };
}

/// The Rust type of an operand of each kind, in forwarded methods.
#[doc(hidden)]
#[macro_export]
macro_rules! __forwarded_input {
    (Tensor) => { &<Self as $crate::__private::Types>::Tensor };
    (Optional) => { ::core::option::Option<&<Self as $crate::__private::Types>::Tensor> };
    (Tensors) => { &[&<Self as $crate::__private::Types>::Tensor] };
}

/// The Rust type of a result of each kind, in forwarded methods.
#[doc(hidden)]
#[macro_export]
macro_rules! __forwarded_output {
    (Tensor) => { <Self as $crate::__private::Types>::Tensor };
    (Tensors) => { ::std::vec::Vec<<Self as $crate::__private::Types>::Tensor> };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __forward_all {
    ([$call:path] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $( $crate::__forward_one!([$call] $name $method ($($input : $kind),*) ($($($param : $pkind),+)?) $output); )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __forward_one {
    ([$call:path] $name:ident $method:ident ($($input:ident : $kind:ident),*) ($($param:ident : $pkind:ident),*) $output:ident) => {
        fn $method(&self $(, $input: $crate::__forwarded_input!($kind))* $(, $param: $crate::__private::ir::param_type!($pkind))*)
            -> ::core::result::Result<$crate::__forwarded_output!($output), <Self as $crate::__private::Types>::Error> {
            let outputs = $call(
                self,
                $crate::Primitive::$name,
                &$crate::__private::operands(&[$( $crate::__private::operand::$kind($input) ),*]),
                &[$( $crate::__private::ir::param_value!($pkind, $param) ),*],
            )?;
            $crate::__private::outputs::$output::<Self>(outputs)
        }
    };
}

/// Does the same as `__forward_all`, for the function that an author named in `forward_to_call!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_calls {
    ([$call:path] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $(
            fn $method(&self $(, $input: $crate::__forwarded_input!($kind))* $($(, $param: $crate::__private::ir::param_type!($pkind))+)?)
                -> ::core::result::Result<$crate::__forwarded_output!($output), <Self as $crate::__private::Types>::Error> {
                let forwarded = $crate::__private::ForwardedCall {
                    on: self,
                    call: $call,
                    op: $crate::Primitive::$name,
                    inputs: &$crate::__private::operands(&[$( $crate::__private::operand::$kind($input) ),*]),
                    params: &[$( $($crate::__private::ir::param_value!($pkind, $param)),+ )?],
                };
                $crate::__forward_check!($method $call, forwarded);
                $crate::__private::outputs::$output::<Self>(forwarded.call()?)
            }
        )*
    };
}

/// Checks the signature of the function in only one of the methods, so that a wrong signature causes one error.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_check {
    (add $call:path, $forwarded:ident) => {
        $crate::__private::at! { [$call] $forwarded.signature().takes_calls(); }
    };
    ($method:ident $call:path, $forwarded:ident) => {};
}

/// Defines `__forward_method!`, with one arm per primitive.
macro_rules! forward_method {
    ([$dollar:tt] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! __forward_method {
            $( ($method) => {
                $crate::__forward_one!([$crate::__private::one_node] $name $method ($($input : $kind),*) ($($($param : $pkind),+)?) $output);
            }; )*
            $( ($name) => {
                ::core::compile_error!(::core::concat!(
                    "write `", ::core::stringify!($method), "`, the method of `", ::core::stringify!($name), "`"
                ));
            }; )*
            (where) => {
                ::core::compile_error!("write `r#where`, because `where` is a word of Rust");
            };
            ($dollar other:ident) => {
                ::core::compile_error!(::core::concat!(
                    "`", ::core::stringify!($dollar other), "` is not a primitive: write the method of one, as in `exp`, or remove it"
                ));
            };
        }
    };
}

bb_ir::for_each_primitive!(forward_method, $);
