//! The rows by which topics say what they serve: one per operator, beside its function.

use super::Class;
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
    /// Attributes that the functions need not read, each with the reason.
    pub(in crate::onnx) ignores: &'static [(&'static str, &'static str)],
}

/// Declares what a topic serves.
///
/// ```text
/// operators! {
///     "domain" {
///         Name => Class(function), infer: Rule;
///         Name: 1 => Class(older), 7 => Class(newer), infer: Rule, ignores: { "attribute": "reason" };
///     }
/// }
/// ```
///
/// A number is the first version that a function serves; without one the function serves all. Which versions there are is
/// what ONNX's schemas say (`bb_ir::opset`). `Class` is one of [`Class`], `Rule` one of [`Rule`], and `ignores` names the
/// attributes that the function need not read.
///
/// The macro defines `ROWS`, and `body`, which returns a function of one of them.
macro_rules! operators {
    ($( $domain:literal { $(
        $name:ident $(: $first:literal)? => $class:ident($function:expr)
            $(, $from:literal => $other:ident($newer:expr))*
            , infer: $rule:expr $(, ignores: { $($attribute:literal: $reason:literal),+ })? ;
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
                ignores: &[$( $( ($attribute, $reason) ),+ )?],
            }, )* )*]
        };

        /// Returns a function of a row.
        pub(in crate::onnx) fn body<B: $crate::ext::Ops + ?Sized>(
            row: usize,
            function: usize,
        ) -> Option<$crate::onnx::Body<B>> {
            let bodies: &[&[$crate::onnx::Body<B>]] = &[$( $( &[
                $crate::onnx::rows::body!($class, $function),
                $( $crate::onnx::rows::body!($other, $newer), )*
            ], )* )*];
            bodies.get(row)?.get(function).copied()
        }
    };
}

/// What a function of a class works on.
macro_rules! body {
    (Primitives, $function:expr) => {
        $crate::onnx::Body::Tensors($function)
    };
    (HostByDefault, $function:expr) => {
        $crate::onnx::Body::Tensors($function)
    };
    (Host, $function:expr) => {
        $crate::onnx::Body::Host($function)
    };
    (Items, $function:expr) => {
        $crate::onnx::Body::Items($function)
    };
    (ControlFlow, $kind:expr) => {
        $crate::onnx::Body::ControlFlow($kind)
    };
}

pub(in crate::onnx) use {body, operators};
