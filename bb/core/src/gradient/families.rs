//! Looks up derivatives: of primitives, and of operations whose table rows name a derivative.

use super::rules::{At, Gradients};
use super::{derivatives, rules};
use crate::Error;
use crate::ext::{
    BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, OpSet, QuantOp, ScalarOp, TrainOp, every_operation,
};
use crate::family::of_family;
use crate::trace::TraceStop;
use bb_ir::op::{Family, OpSpec, Primitive};

type Found = Result<Gradients, TraceStop>;

/// A family whose table rows may name derivatives.
trait Differentiable {
    /// The operations whose rows name a derivative.
    const KNOWN: OpSet;

    /// Computes the gradients of an operation by its operands; returns `None` if its row names no derivative.
    fn gradients(index: u16, at: &At<'_>) -> Option<Found>;
}

impl Differentiable for Primitive {
    const KNOWN: OpSet = OpSet::NONE;

    fn gradients(index: u16, at: &At<'_>) -> Option<Found> {
        Primitive::from_index(index).map(|primitive| rules::rule(at, primitive))
    }
}

/// Adds an operation to a set, if its row names a derivative.
macro_rules! with_derivative {
    ($set:ident, $index:expr) => {};
    ($set:ident, $index:expr, $derivative:ident) => {
        $set = $set.with($index);
    };
}

/// Expands to the call of the derivative that a row names.
macro_rules! gradients {
    ($at:ident) => {
        None
    };
    ($at:ident $derivative:ident) => {
        Some(derivatives::$derivative($at))
    };
}

macro_rules! differentiable {
    ([$trait:ident, $enum:ident] $( $name:ident {
           $class:ident $(, cost: $cost:ident)? $(, export: $operator:ident = $form:ident)?
           $(, batch: $batch:ident $(($($at:expr),*))?)? $(, derivative: $derivative:ident)?
       } )*) => {
        impl Differentiable for $enum {
            const KNOWN: OpSet = {
                #[allow(unused_mut, reason = "the rows of some families name no derivatives")]
                let mut known = OpSet::NONE;
                $( with_derivative!(known, $enum::$name as u16 $(, $derivative)?); )*
                known
            };

            #[allow(unused_variables, reason = "the rows of some families name no derivatives")]
            fn gradients(index: u16, at: &At<'_>) -> Option<Found> {
                match $enum::from_index(index)? { $( $enum::$name => gradients!(at $($derivative)?), )* }
            }
        }
    };
}

bb_ir::for_each_family!(bb_ir::facts_of_rows, differentiable);

/// Returns the operations of families that have derivatives, as native operations of a tracer.
pub(super) fn with_rules() -> Vec<(Family, OpSet)> {
    every_operation()
        .into_iter()
        .map(|(family, _)| (family, of_family!(family, KNOWN, OpSet::NONE)))
        .collect()
}

/// Computes the gradients of an operation by its operands.
pub(super) fn rule(at: &At<'_>, spec: &OpSpec) -> Found {
    let of_vendor: fn(u16, &At<'_>) -> Option<Found> = |_, _| None;
    let gradients = of_family!(spec.family, gradients, of_vendor);
    let unknown =
        || Err(Error::NotDifferentiable { op: spec.method, reason: "there is no rule for it" }.into());
    gradients(spec.index, at).unwrap_or_else(unknown)
}
