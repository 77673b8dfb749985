//! The operations of extensions that this backend has kernels for.
//!
//! Each method runs its kernel if the kernel supports the operands; otherwise it calls the operation's body.

mod attention;
mod bits;
pub(crate) mod conv;
mod create;
pub(crate) mod fused;
mod image;
mod index;
mod layers;
mod llm;
pub(crate) mod ml;
mod nn;
mod pooling;
pub(crate) mod quant;
mod ragged;
pub(crate) mod recurrent;
mod rows;
mod scalar;
mod sliding;
pub(crate) mod small_channels;
mod small_planes;
mod transposed;
mod unrolled;
mod window;
#[cfg(test)]
mod windows_tests;
pub(crate) mod winograd;

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ops::{convert, dense};
use crate::pool::Pool;
use bb::ext::Extended;
use bb::{DataType, RoundMode, Tensor};
use std::sync::Arc;

impl bb::ext::Ops for Cpu {}

impl Cpu {
    /// Returns the bodies of operations, which run if a kernel does not support the operands.
    pub(crate) const fn body(&self) -> Extended<'_, Cpu> {
        Extended::declining(self)
    }
}

/// Losses and optimizers run through their bodies: chains of element-wise functions, which have kernels.
#[bb::native]
impl bb::ext::Train for Cpu {}

/// Returns a contiguous `f32` array; `None` for other element types.
fn dense_f32(pool: &Arc<Pool>, x: &Array) -> Result<Option<Array>> {
    if x.dtype() == DataType::F32 { dense(pool, x).map(Some) } else { Ok(None) }
}

/// Returns a contiguous `f32` array, widened from 16-bit floats if necessary. Returns `None` for other element types.
pub(crate) fn single(pool: &Arc<Pool>, x: &Array) -> Result<Option<Array>> {
    match x.dtype() {
        DataType::F16 | DataType::BF16 => rounded(pool, x.clone(), DataType::F32).map(Some),
        _ => dense_f32(pool, x),
    }
}

/// Returns whether kernels support the element type: `f32`, or 16-bit floats, which are widened to `f32`.
fn computed(x: &Array) -> bool {
    matches!(x.dtype(), DataType::F32 | DataType::F16 | DataType::BF16)
}

/// Returns an array with its elements rounded to `dtype`.
pub(crate) fn rounded(pool: &Arc<Pool>, x: Array, dtype: DataType) -> Result<Array> {
    if x.dtype() == dtype { Ok(x) } else { convert::cast(pool, &x, dtype, true, RoundMode::default()) }
}

/// Returns a pointer to the elements of an array of `f32`.
fn floats(x: &Array) -> *const f32 {
    debug_assert_eq!(x.dtype(), DataType::F32);
    x.ptr().cast()
}

/// Returns the numbers of rows and columns of a tensor seen as a matrix: the dimensions from `axis` on form the columns.
fn rows_from(shape: &[usize], axis: usize) -> [usize; 2] {
    let (rows, cols) = shape.split_at_checked(axis).unwrap_or_default();
    [rows.iter().product(), cols.iter().product()]
}
