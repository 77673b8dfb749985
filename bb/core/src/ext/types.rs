//! The element types and the extents that operations take.
//!
//! A body checks its operands where primitives would compute something of others.

use super::{Extent, fail};
use crate::error::NodePart;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};
use DataType::{
    BF16, Bool, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64,
};

/// The floats that backends compute in.
pub(crate) const FLOATS: &[DataType] = &[F16, BF16, F32, F64];

/// The floats that have infinities or NaN, including floats of 8 bits.
pub(crate) const ALL_FLOATS: &[DataType] = &[F16, BF16, F32, F64, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ];

/// The floats and the integers.
pub(crate) const NUMBERS: &[DataType] = &[F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64];

/// Integers that backends compute with.
pub(crate) const INTEGERS: &[DataType] = &[I8, I16, I32, I64, U8, U16, U32, U64];

/// The integer types of indices.
pub(crate) const INDICES: &[DataType] = &[I32, I64];

/// Truth values.
pub(crate) const TRUTH: &[DataType] = &[Bool];

/// Returns whether a shape broadcasts to another without changing it.
pub(crate) fn broadcasts(own: &[usize], to: &[usize]) -> bool {
    own.len() <= to.len() && own.iter().rev().zip(to.iter().rev()).all(|(own, to)| own == to || *own == 1)
}

/// Refuses an operand that does not broadcast to the extents of `x` without changing them.
///
/// # Errors
///
/// [`bb_ir::Error::Shapes`].
pub(crate) fn fits(
    on: &Tracer,
    op: &'static str,
    operand: &TracedTensor,
    x: &TracedTensor,
) -> Result<(), TraceStop> {
    if on.broadcasts_to(operand, x) {
        return Ok(());
    }
    fail(bb_ir::Error::Shapes { op, left: x.shape().into(), right: operand.shape().into() })
}

/// Refuses the operand at `index` unless it is a vector of `extent` elements.
///
/// # Errors
///
/// [`Error::Operator`](crate::Error::Operator).
pub(crate) fn vector(
    on: &Tracer,
    op: &'static str,
    (index, operand): (usize, &TracedTensor),
    extent: &Extent,
) -> Result<(), TraceStop> {
    if let [only] = on.extents(operand).as_slice()
        && only.equals(extent)
    {
        return Ok(());
    }
    fail(crate::Error::Operator {
        op: op.to_owned(),
        part: NodePart::Operand(index),
        problem: format!("has the extents {:?}, expected [{}]", operand.shape(), extent.present()),
    })
}

/// Refuses an operand of another element type than `expected`.
///
/// # Errors
///
/// [`bb_ir::Error::ElementType`].
pub fn take(op: &'static str, x: &TracedTensor, expected: &'static [DataType]) -> Result<(), TraceStop> {
    let got = x.dtype();
    if expected.contains(&got) { Ok(()) } else { fail(bb_ir::Error::ElementType { op, expected, got }) }
}

/// Refuses an operand whose element type differs from the type of `x`.
///
/// # Errors
///
/// [`bb_ir::Error::DataType`].
pub fn alike(operand: &TracedTensor, x: &TracedTensor) -> Result<(), TraceStop> {
    let (expected, got) = (x.dtype(), operand.dtype());
    if got == expected { Ok(()) } else { fail(bb_ir::Error::DataType { expected, got }) }
}

/// Refuses an operand of another rank than `expected`.
///
/// # Errors
///
/// [`Error::Operator`](crate::Error::Operator).
pub(crate) fn ranked(
    op: &'static str,
    (name, x): (&'static str, &TracedTensor),
    expected: usize,
) -> Result<(), TraceStop> {
    if x.rank() == expected {
        return Ok(());
    }
    fail(crate::Error::Operator {
        op: op.to_owned(),
        part: NodePart::Other(name.into()),
        problem: format!("has rank {}, expected {expected}", x.rank()),
    })
}
