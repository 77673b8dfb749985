//! Depthwise convolutions of bytes (each channel has its own filters), computed as convolutions of floats.
//!
//! Integer matrix products are fast only for deep inner dimensions, and the filter of a single channel has few weights. Its
//! sums are exact in `f32`, because they are less than 2^24. So each channel is converted to `f32` and convolved like any
//! floats.

use super::conv::{FilterSums, Finish, Operands, Plan, Segment};
use super::{Zeros, bytes, number, signed, zero_scalar};
use crate::error::{CpuError, Result};
use crate::ext::conv::{self, with_buffers};
use crate::ext::fused::Results;
use crate::ext::sliding::Sliding;
use crate::gemm::integer::PANEL;
use crate::kernels::quantize::{Source, dequantize, whole};
use crate::ops::dense;
use crate::pool::Pool;
use bb::Tensor;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of weights of a filter. Differences of two bytes are at most 255, so the sum of this number of products
/// of two differences is less than 2^24 and exact in `f32`.
const MOST: usize = (1 << 24) / (255 * 255);

/// Computes a convolution and passes all sums to `finish`. Returns false for convolutions that are not supported.
pub(super) fn convolve(pool: &Arc<Pool>, plan: &Plan, o: &Operands<'_>, finish: &dyn Finish) -> Result<bool> {
    let &Plan { n, groups, depth, filters, ref plane, .. } = plan;
    let taps = plane.rows.kernel * plane.cols.kernel;
    if depth != 1 || taps > MOST {
        return Ok(false);
    }
    let floats = conv::Plan { plane: plane.clone(), n: 1, groups: 1, depth, filters };
    let (Some(x_signed), Some(w_signed)) = (signed(o.x.dtype()), signed(o.w.dtype())) else {
        return Ok(false);
    };
    let Some(x_zero) = o.x_zero.map_or(Some(0), zero_scalar) else { return Ok(false) };
    let Some(sliding) = Sliding::new(&floats) else { return Ok(false) };
    let Some(zeros) = Zeros::read(pool, o.w_zero, groups * filters, 0)? else { return Ok(false) };
    let (x, w) = (dense(pool, o.x)?, dense(pool, o.w)?);
    let bias = o.bias.map(|bias| dense(pool, bias)).transpose()?;
    let weight = |(i, &byte): (usize, &u8)| (number(byte, w_signed) - zeros.at(i / taps)) as f32;
    let weights = bb::ir::memory::collected("conv_integer", bytes(&w).iter().enumerate().map(weight))?;
    let (size, results) = plane.sizes();
    let source = Source::new(x_signed, x_zero, 1.0);
    let failed = Mutex::new(None::<CpuError>);
    with_buffers(
        pool,
        size + filters * results,
        n * groups,
        filters * taps * results,
        |buffer, from, to| {
            for at in from..to {
                let group = at % groups;
                // SAFETY: the buffer has room for a channel and for the sums of its filters.
                let (channel, sums) = unsafe { (buffer, buffer.add(size)) };
                // SAFETY: the first part of the buffer is written before it becomes a slice.
                let widened = unsafe {
                    channel.write_bytes(0, size);
                    std::slice::from_raw_parts_mut(channel, size)
                };
                dequantize(widened, bytes(&x).get(at * size..(at + 1) * size).unwrap_or_default(), source);
                let own = weights.get(group * filters * taps..).unwrap_or_default().as_ptr();
                // SAFETY: the channel, the weights of its filters and the room for their sums have the extents of the plan.
                let plain = Results::plain(sums);
                let done = unsafe { sliding.convolve(pool, channel, own, std::ptr::null(), &plain) };
                if let Err(error) = done {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
                for f in 0..filters {
                    let filter = group * filters + f;
                    // SAFETY: the bias has a number for each filter.
                    let plus = bias.as_ref().map_or(0, |b| unsafe { *b.ptr().cast::<i32>().add(filter) });
                    // SAFETY: the convolution has written the sums of all filters.
                    let sums = unsafe { std::slice::from_raw_parts(sums.add(f * results), results) };
                    let plane = (at * filters + f) * results;
                    for (part, sums) in sums.chunks(PANEL).enumerate() {
                        let mut integers = [0; PANEL];
                        let Some(integers) = integers.get_mut(..sums.len()) else { return };
                        // SAFETY: the sums are less than 2^24.
                        unsafe { whole(integers, sums, plus) };
                        let segment = Segment { from: 0, to: part * PANEL, len: sums.len() };
                        let (stride, width, segments) = (sums.len(), sums.len(), &[segment]);
                        let sums = &*integers;
                        // SAFETY: the result has this part of the filter's plane, and no other call writes it.
                        unsafe {
                            finish.rows(FilterSums {
                                filter,
                                plane,
                                size: results,
                                sums,
                                stride,
                                width,
                                segments,
                            });
                        }
                    }
                }
            }
        },
    )?;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(true), Err)
}
