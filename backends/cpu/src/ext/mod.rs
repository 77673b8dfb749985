//! Operations beyond the primitives that this backend has kernels for.
//!
//! Each computes the operands that its kernel is for, and calls the operation's own body for all others.

mod conv;
mod create;
mod llm;
mod nn;
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

/// Returns an array of `f32` whose elements have no gaps; none for other types.
fn dense_f32(pool: &Arc<Pool>, x: &Array) -> Result<Option<Array>> {
    if x.dtype() == DataType::F32 { dense(pool, x).map(Some) } else { Ok(None) }
}

/// Points at the elements of an array of `f32`.
fn floats(x: &Array) -> *const f32 {
    debug_assert_eq!(x.dtype(), DataType::F32);
    x.ptr().cast()
}

/// Returns rows and columns if the dimensions from `axis` on are to be the columns.
fn rows_from(shape: &[usize], axis: usize) -> [usize; 2] {
    let (rows, cols) = shape.split_at_checked(axis).unwrap_or_default();
    [rows.iter().product(), cols.iter().product()]
}
