//! Rows that are rounded to 8 bits in blocks.
//!
//! The scale of a block is its maximum absolute value divided by 127. Each number is divided by the scale and rounded
//! to the nearest integer, ties to even. If the scale would be below the smallest normal number, the block counts as
//! zeros. If a number is infinite or NaN, the scale is NaN, so that every result of the row is NaN.

use super::tile::Kernels;
use super::{Format, GRAIN};
use crate::error::Result;
use crate::kernels::walk;
use crate::pool::{Block, Pool};
use std::sync::Arc;

/// The per-block numbers of a row, which are stored separately from its integers.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Step {
    /// The scale.
    pub(super) scale: f32,
    /// The initial value of the sums of products: the sum of the integers times the offset that was subtracted from all
    /// numbers of the columns.
    pub(super) start: i32,
    /// The negated sum of the integers, or the sum times the scale, depending on [`Sums`].
    pub(super) sum: f32,
}

/// The meaning of [`Step::sum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sums {
    /// The negated sum of the integers, which is multiplied by zero points.
    Integers,
    /// The sum of the integers times the scale, which is multiplied by offsets.
    Scaled,
}

/// A row that is rounded.
#[derive(Debug)]
pub(super) struct Row<'a> {
    numbers: &'a [f32],
    /// The length of a block in numbers, and its padded length in bytes.
    block: usize,
    padded: usize,
    /// The factor that is multiplied by the sum of the integers to give [`Step::start`].
    lack: i32,
    sums: Sums,
    /// Memory for the integers and the steps of all blocks.
    to: *mut u8,
    steps: *mut Step,
}

/// A function that rounds a row.
///
/// # Safety
///
/// The row has room for its integers and steps.
pub(super) type Round = unsafe fn(Row<'_>);

/// Rounds a row.
///
/// # Safety
///
/// As for [`Round`].
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "sums become the nearest floats")]
pub(super) unsafe fn round(row: Row<'_>) {
    let Row { numbers, block, padded, lack, sums, to, steps } = row;
    for (i, numbers) in numbers.chunks(block).enumerate() {
        // The bits of floats without the sign are ordered like the absolute values; infinity and NaN have the largest
        // bits.
        let mut most = 0;
        for x in numbers {
            most = most.max(x.to_bits().cast_signed() & i32::MAX);
        }
        let mut scale = f32::from_bits(most.cast_unsigned()) / 127.0;
        let mut sum = 0;
        // SAFETY: this function's contract.
        let out = unsafe { std::slice::from_raw_parts_mut(to.add(i * padded), padded) };
        if scale.is_normal() {
            sum = integers(numbers, scale, out);
        } else {
            scale = if scale.is_finite() { 0.0 } else { f32::NAN };
            out.fill(0);
        }
        let scaled = match sums {
            Sums::Integers => -(sum as f32),
            Sums::Scaled => sum as f32 * scale,
        };
        // SAFETY: this function's contract.
        unsafe { steps.add(i).write(Step { scale, start: sum * lack, sum: scaled }) };
    }
}

/// Writes the rounded quotients of the numbers and the scale, followed by zeros. Returns the sum of the quotients.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "quotients are within 127")]
fn integers(numbers: &[f32], scale: f32, out: &mut [u8]) -> i32 {
    let mut sum = 0;
    let (own, rest) = out.split_at_mut(numbers.len().min(out.len()));
    for (out, x) in own.iter_mut().zip(numbers) {
        // SAFETY: the numbers are finite, and at most 127 times the scale except for rounding.
        let whole: i32 = unsafe { (x / scale).round_ties_even().to_int_unchecked() };
        sum += whole;
        *out = (whole as i8).cast_unsigned();
    }
    rest.fill(0);
    sum
}

/// Rounded rows.
#[derive(Debug)]
pub(crate) struct Left {
    memory: Block,
    rows: usize,
    /// The size of a row in bytes.
    stride: usize,
    /// The number of blocks of a row.
    blocks: usize,
}

impl Left {
    /// Rounds rows.
    pub(super) fn new(
        pool: &Arc<Pool>,
        format: Format,
        kernels: &Kernels,
        numbers: &[f32],
        lack: i32,
        sums: Sums,
    ) -> Result<Left> {
        let Format { block, inner, count: blocks, .. } = format;
        let (rows, padded) = (numbers.len() / inner, format.padded());
        let stride = blocks.saturating_mul(padded);
        let size = stride.saturating_add(blocks.saturating_mul(size_of::<Step>()));
        let memory = pool.take(rows.saturating_mul(size))?;
        let left = Left { memory, rows, stride, blocks };
        walk::split(rows, inner, GRAIN, |from, until| {
            for row in from..until {
                let numbers = numbers.get(row * inner..(row + 1) * inner).unwrap_or_default();
                let (to, steps) = (left.numbers(row).cast_mut(), left.steps(row).cast_mut());
                // SAFETY: the memory has room for each row, no other call writes this row, and the kernels are for this
                // processor.
                unsafe { (kernels.round)(Row { numbers, block, padded, lack, sums, to, steps }) };
            }
        });
        Ok(left)
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the distance between the integers of two rows, in bytes.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the integers of a row.
    pub(super) fn numbers(&self, row: usize) -> *const u8 {
        self.memory.ptr().wrapping_add(row * self.stride).cast_const()
    }

    /// Returns the steps of the blocks of a row.
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "rows have a multiple of 16 bytes, and the memory is aligned"
    )]
    pub(super) fn steps(&self, row: usize) -> *const Step {
        let all = self.memory.ptr().wrapping_add(self.rows * self.stride).cast::<Step>();
        all.wrapping_add(row * self.blocks).cast_const()
    }
}
