//! Operations beyond the primitives for which this backend has kernels.
//!
//! Each method runs its kernel if the kernel supports the operands; otherwise it calls the operation's body.

mod conv;
mod create;
mod llm;
mod nn;
mod quant;
mod recurrent;
mod scalar;
mod window;

use crate::array::Array;
use crate::error::Result;
use crate::ops::dense;
use crate::pool::Pool;
use bb::{DataType, Tensor};
use std::sync::Arc;

impl bb::ext::Ops for crate::backend::Cpu {}
#[bb::native]
impl bb::ext::Bits for crate::backend::Cpu {}
#[bb::native]
impl bb::ext::Image for crate::backend::Cpu {}
#[bb::native]
impl bb::ext::Index for crate::backend::Cpu {}

/// Returns a contiguous array of `f32`, or `None` for other element types.
fn dense_f32(pool: &Arc<Pool>, x: &Array) -> Result<Option<Array>> {
    if x.dtype() == DataType::F32 { dense(pool, x).map(Some) } else { Ok(None) }
}

/// Returns a pointer to the elements of an array of `f32`.
fn floats(x: &Array) -> *const f32 {
    debug_assert_eq!(x.dtype(), DataType::F32);
    x.ptr().cast()
}

/// Returns the numbers of rows and columns of a tensor seen as a matrix whose columns are the dimensions from `axis`
/// on.
fn rows_from(shape: &[usize], axis: usize) -> [usize; 2] {
    let (rows, cols) = shape.split_at_checked(axis).unwrap_or_default();
    [rows.iter().product(), cols.iter().product()]
}
