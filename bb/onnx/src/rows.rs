//! The table rows that declare the operators of a topic, one row per operator, next to its function.
//!
//! The macros use paths through [`shared`](crate::shared), because other operator crates expand them, too.

use bb_core::operator::{Class, Halves};
use bb_ir::infer::Rule;
use bb_ir::op::OpSpec;

/// The declaration of one operator.
#[derive(Debug)]
pub struct Row {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The first version that each function implements, and the class of the function. A function implements all versions up to the first
    /// version of the next function; 0 is the operator's first version.
    pub functions: &'static [(i64, Class)],
    /// The rule that infers the types of the results.
    pub rule: Rule,
    /// The primitive or family operation that the operator equals, if there is one.
    pub becomes: Option<&'static OpSpec>,
    /// How the functions treat 16-bit floats.
    pub halves: Halves,
    /// Attributes that the functions do not need to read, each with the reason.
    pub ignores: &'static [(&'static str, &'static str)],
}

/// Declares the operators of a topic.
///
/// ```text
/// operators! {
///     "domain" {
///         Name => Class(function), infer: Rule;
///         Name: 1 => Class(older), 7 => Class(newer), infer: Rule, becomes: NnOp::Name, halves: Once, ignores: { "attribute": "reason" };
///     }
/// }
/// ```
///
/// A number is the first version that a function implements; a function without a number implements all versions. ONNX's schemas define
/// the versions (`bb_ir::opset`). `Class` is a variant of [`Class`], or `Rounds` for control flow whose iterations the operator's crate
/// itself schedules ([`RoundsOperator`](bb_core::operator::RoundsOperator)). `Rule` is a variant of [`Rule`], and `halves` a variant of
/// [`Halves`]. `becomes` names the primitive or the family operation that the operator equals; the operator is then native wherever that
/// operation is. `ignores` names the attributes that the function does not need to read. A function of items may name the
/// [`SequenceStep`](bb_core::operator::SequenceStep) that a plan runs instead of the function, as in `Items(at; At)`. Without `halves`,
/// 16-bit floats are widened: the function never receives them, and its results are rounded once, even after many steps.
///
/// The macro defines `ROWS`, and `body`, which returns a function of a row.
#[doc(hidden)]
#[macro_export]
macro_rules! __operators {
    ($( $domain:literal { $(
        $name:ident $(: $first:literal)? => $class:ident($function:expr $(; $step:ident)?)
            $(, $from:literal => $other:ident($newer:expr $(; $newer_step:ident)?))*
            , infer: $rule:expr $(, becomes: $operation:expr)? $(, halves: $halves:ident)? $(, ignores: { $($attribute:literal: $reason:literal),+ })? ;
    )* } )*) => {
        pub(crate) const ROWS: &[$crate::shared::Row] = {
            #[allow(unused_imports, reason = "not every topic has every kind of rule")]
            use bb_ir::infer::Rule::{As, Broadcast, By, Primitive, Same, Truth};
            &[$( $( $crate::shared::Row {
                domain: $domain,
                name: stringify!($name),
                functions: &[
                    (0 $(+ $first)?, $crate::__row_class!($class)),
                    $( ($from, $crate::__row_class!($other)), )*
                ],
                rule: $rule,
                becomes: $crate::__row_becomes!($($operation)?),
                halves: $crate::__row_halves!($($halves)?),
                ignores: &[$( $( ($attribute, $reason) ),+ )?],
            }, )* )*]
        };

        /// Returns a function of a row.
        pub(crate) fn body(row: usize, function: usize) -> Option<bb_core::operator::Body> {
            let bodies: &[&[bb_core::operator::Body]] = &[$( $(
                $crate::__row_bodies!([$($halves)?] $class($function $(; $step)?) $(, $other($newer $(; $newer_step)?))*),
            )* )*];
            bodies.get(row)?.get(function).copied()
        }
    };
}

/// Expands to the class of a row.
#[doc(hidden)]
#[macro_export]
macro_rules! __row_class {
    (Rounds) => {
        bb_core::operator::Class::ControlFlow
    };
    ($class:ident) => {
        bb_core::operator::Class::$class
    };
}

/// Expands to the operation of a row.
#[doc(hidden)]
#[macro_export]
macro_rules! __row_becomes {
    () => {
        None
    };
    ($operation:expr) => {{
        #[allow(unused_imports, reason = "the operation is of one family")]
        use bb_core::ext::{
            BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, QuantOp, ScalarOp, TrainOp,
        };
        #[allow(unused_imports, reason = "the operation is of one family")]
        use bb_ir::op::Primitive;
        Some($operation.spec())
    }};
}

/// Expands to the treatment of 16-bit floats. They are widened unless the row says otherwise.
#[doc(hidden)]
#[macro_export]
macro_rules! __row_halves {
    () => {
        bb_core::operator::Halves::Widened
    };
    ($halves:ident) => {
        bb_core::operator::Halves::$halves
    };
}

/// Expands to the functions of a row, which all treat 16-bit floats alike.
#[doc(hidden)]
#[macro_export]
macro_rules! __row_bodies {
    ($halves:tt $( $class:ident($function:expr $(; $step:ident)?) ),+) => {
        &[$( $crate::__row_body!($class, $function, $halves $(, $step)?) ),+]
    };
}

/// Expands to the step that a plan runs instead of the function, if a sequence passes through the plan as a whole.
#[doc(hidden)]
#[macro_export]
macro_rules! __row_step {
    () => {
        None
    };
    ($step:ident) => {
        Some(bb_core::operator::SequenceStep::$step)
    };
}

/// Expands to a function as the `Body` variant of its class.
#[doc(hidden)]
#[macro_export]
macro_rules! __row_body {
    (Primitives, $function:expr, [$($halves:ident)?]) => {
        bb_core::operator::Body::Tensors(bb_core::operator::TensorFunction::new(
            $function,
            $crate::__row_halves!($($halves)?),
        ))
    };
    (HostByDefault, $function:expr, [$($halves:ident)?]) => {
        bb_core::operator::Body::Tensors(bb_core::operator::TensorFunction::new(
            $function,
            $crate::__row_halves!($($halves)?),
        ))
    };
    (Host, $function:expr, [$($halves:ident)?]) => {
        bb_core::operator::Body::Host($function)
    };
    (Items, $function:expr, [$($halves:ident)?] $(, $step:ident)?) => {
        bb_core::operator::Body::Items($function, $crate::__row_step!($($step)?))
    };
    (ControlFlow, $kind:expr, [$($halves:ident)?]) => {
        bb_core::operator::Body::ControlFlow($kind)
    };
    (Rounds, $operator:expr, [$($halves:ident)?]) => {
        bb_core::operator::Body::Rounds($operator)
    };
}

pub use crate::__operators as operators;
