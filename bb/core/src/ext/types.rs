//! Checks the element types and the shapes of operands.
//!
//! A body checks its operands only if its primitives would accept invalid ones.

use super::{Extent, fail};
use crate::error::NodePart;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};
use DataType::{
    BF16, Bool, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64,
};

/// The float types that backends compute with.
pub(crate) const FLOATS: &[DataType] = &[F16, BF16, F32, F64];

/// The float types that have infinities or NaN, including 8-bit floats.
pub(crate) const ALL_FLOATS: &[DataType] = &[F16, BF16, F32, F64, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ];

/// The float and integer types that backends compute with.
pub(crate) const NUMBERS: &[DataType] = &[F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64];

/// The integer types that backends compute with.
pub(crate) const INTEGERS: &[DataType] = &[I8, I16, I32, I64, U8, U16, U32, U64];

/// The integer types of index tensors.
pub(crate) const INDICES: &[DataType] = &[I32, I64];

/// The boolean type.
pub(crate) const TRUTH: &[DataType] = &[Bool];

/// Returns whether a shape broadcasts to another shape without changing that shape.
pub(crate) fn broadcasts(own: &[usize], to: &[usize]) -> bool {
    own.len() <= to.len() && own.iter().rev().zip(to.iter().rev()).all(|(own, to)| own == to || *own == 1)
}

/// Returns an error if an operand does not broadcast to the shape of `x`.
///
/// # Errors
///
/// [`bb_ir::Error::Shapes`] if it does not.
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

/// Returns an error unless the operand at `index` is a vector of `extent` elements.
///
/// # Errors
///
/// [`Error::Operator`](crate::Error::Operator) if it is not.
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

/// Returns an error unless the element type of an operand is in `expected`.
///
/// # Errors
///
/// [`bb_ir::Error::ElementType`] if it has another type.
pub fn take(op: &'static str, x: &TracedTensor, expected: &'static [DataType]) -> Result<(), TraceStop> {
    let got = x.dtype();
    if expected.contains(&got) { Ok(()) } else { fail(bb_ir::Error::ElementType { op, expected, got }) }
}

/// Returns an error if the element type of an operand differs from the type of `x`.
///
/// # Errors
///
/// [`bb_ir::Error::DataType`] if they differ.
pub fn alike(operand: &TracedTensor, x: &TracedTensor) -> Result<(), TraceStop> {
    let (expected, got) = (x.dtype(), operand.dtype());
    if got == expected { Ok(()) } else { fail(bb_ir::Error::DataType { expected, got }) }
}

/// Returns an error if the rank of an operand differs from `expected`.
///
/// # Errors
///
/// [`Error::Operator`](crate::Error::Operator) if they differ.
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
