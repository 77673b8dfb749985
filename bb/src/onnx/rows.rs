//! The rows by which topics say what they serve: one per operator, beside its function.

use super::{Class, Halves};
use bb_ir::infer::Rule;

/// What a topic says of an operator.
#[derive(Debug)]
pub(in crate::onnx) struct Row {
    /// The domain; empty for `ai.onnx`.
    pub(in crate::onnx) domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub(in crate::onnx) name: &'static str,
    /// The first version that each function serves, and what the function is made of. A function serves all versions until
    /// the next function's; 0 stands for the operator's first version.
    pub(in crate::onnx) functions: &'static [(i64, Class)],
    /// What tells the types of the results.
    pub(in crate::onnx) rule: Rule,
    /// What the functions do with 16-bit floats.
    pub(in crate::onnx) halves: Halves,
    /// Attributes that the functions need not read, each with the reason.
    pub(in crate::onnx) ignores: &'static [(&'static str, &'static str)],
}

/// Declares what a topic serves.
///
/// ```text
/// operators! {
///     "domain" {
///         Name => Class(function), infer: Rule;
///         Name: 1 => Class(older), 7 => Class(newer), infer: Rule, halves: Once, ignores: { "attribute": "reason" };
///     }
/// }
/// ```
///
/// A number is the first version that a function serves; without one the function serves all. Which versions there are is
/// what ONNX's schemas say (`bb_ir::opset`). `Class` is one of [`Class`], `Rule` one of [`Rule`], `halves` one of [`Halves`],
/// and `ignores` names the attributes that the function need not read. Without `halves`, 16-bit floats are widened: the function
/// never sees them, and however many steps it takes, its results are rounded once.
///
/// The macro defines `ROWS`, and `body`, which returns a function of one of them.
macro_rules! operators {
    ($( $domain:literal { $(
        $name:ident $(: $first:literal)? => $class:ident($function:expr)
            $(, $from:literal => $other:ident($newer:expr))*
            , infer: $rule:expr $(, halves: $halves:ident)? $(, ignores: { $($attribute:literal: $reason:literal),+ })? ;
    )* } )*) => {
        pub(in crate::onnx) const ROWS: &[$crate::onnx::rows::Row] = {
            #[allow(unused_imports, reason = "not every topic has every kind of rule")]
            use bb_ir::infer::Rule::{As, Broadcast, By, Primitive, Same, Truth};
            &[$( $( $crate::onnx::rows::Row {
                domain: $domain,
                name: stringify!($name),
                functions: &[
                    (0 $(+ $first)?, $crate::onnx::Class::$class),
                    $( ($from, $crate::onnx::Class::$other), )*
                ],
                rule: $rule,
                halves: $crate::onnx::rows::halves!($($halves)?),
                ignores: &[$( $( ($attribute, $reason) ),+ )?],
            }, )* )*]
        };

        /// Returns a function of a row.
        pub(in crate::onnx) fn body<B: $crate::ext::Ops + ?Sized>(
            row: usize,
            function: usize,
        ) -> Option<$crate::onnx::Body<B>> {
            let bodies: &[&[$crate::onnx::Body<B>]] = &[$( $(
                $crate::onnx::rows::bodies!([$($halves)?] $class($function) $(, $other($newer))*),
            )* )*];
            bodies.get(row)?.get(function).copied()
        }
    };
}

/// What functions do with 16-bit floats; they are widened unless the row says otherwise.
macro_rules! halves {
    () => {
        $crate::onnx::Halves::Widened
    };
    ($halves:ident) => {
        $crate::onnx::Halves::$halves
    };
}

/// The functions of a row, which all treat 16-bit floats alike.
macro_rules! bodies {
    ($halves:tt $( $class:ident($function:expr) ),+) => {
        &[$( $crate::onnx::rows::body!($class, $function, $halves) ),+]
    };
}

/// What a function of a class works on.
macro_rules! body {
    (Primitives, $function:expr, [$($halves:ident)?]) => {
        $crate::onnx::Body::Tensors($crate::onnx::TensorFunction::new(
            $function,
            $crate::onnx::rows::halves!($($halves)?),
        ))
    };
    (HostByDefault, $function:expr, [$($halves:ident)?]) => {
        $crate::onnx::Body::Tensors($crate::onnx::TensorFunction::new(
            $function,
            $crate::onnx::rows::halves!($($halves)?),
        ))
    };
    (Host, $function:expr, [$($halves:ident)?]) => {
        $crate::onnx::Body::Host($function)
    };
    (Items, $function:expr, [$($halves:ident)?]) => {
        $crate::onnx::Body::Items($function)
    };
    (ControlFlow, $kind:expr, [$($halves:ident)?]) => {
        $crate::onnx::Body::ControlFlow($kind)
    };
}

pub(in crate::onnx) use {bodies, body, halves, operators};
