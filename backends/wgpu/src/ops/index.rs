//! Selects entries along an axis: `gather`.

use super::launch::{Dims, Side, Walk, params};
use super::{own, result, scan};
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::layout::{Strides, collapsed, row_major};
use crate::wgsl::gather::GatherKey;
use crate::wgsl::scan::ScanKey;
use crate::{Result, Tensor, WgpuError};
use bb::ir::infer;
use bb::{Primitive, Tensor as _};
use std::sync::Arc;

pub(crate) fn gather(gpu: &Arc<Gpu>, data: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor> {
    own(gpu, "gather", &[data, indices])?;
    infer::dtype(Primitive::Gather, &[data.dtype(), indices.dtype()], &[])?;
    let joined = infer::gather(data.shape(), indices.shape(), axis)?;
    let axis = joined.axis.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    if scan::any(gpu, "gather", ScanKey::Index, extent, &[indices])? {
        return Err(out_of_range(gpu, indices, extent)?);
    }
    let y = result(gpu, "gather", data.elem(), joined.shape)?;
    let (Some(to), Some(from), Some(by)) = (Side::of(&y), Side::of(data), Side::of(indices)) else {
        return Ok(y);
    };
    let stride = data.0.strides.get(axis).copied().unwrap_or(0);
    // The result's dimensions are the data's dimensions before the axis, the indices' dimensions, and the data's dimensions after the
    // axis.
    let (mut a, mut b) = (Strides::new(), Strides::new());
    let others = data.0.strides.iter().enumerate();
    let (before, after): (Vec<_>, Vec<_>) = others.filter(|(i, _)| *i != axis).partition(|(i, _)| *i < axis);
    for (_, stride) in &before {
        a.push(**stride);
        b.push(0);
    }
    for stride in &indices.0.strides {
        a.push(0);
        b.push(*stride);
    }
    for (_, stride) in &after {
        a.push(**stride);
        b.push(0);
    }
    let dims: Dims = collapsed(y.shape(), [&row_major(y.shape()), &a, &b, &[], &[], &[], &[]]);
    // If the data is too large for one binding, bind ranges of the axis one after another.
    let inner = crate::layout::reach(&dims, 1);
    let reach = (inner.1 - inner.0).unsigned_abs() as u64 * 4;
    let room =
        (gpu.binding - u64::from(gpu.limits.min_storage_buffer_offset_alignment)).saturating_sub(reach);
    let window = (room / (stride.unsigned_abs().max(1) as u64 * 4)).min(extent as u64) as usize;
    if window == 0 && after.is_empty() {
        let bytes = reach + 4;
        return Err(WgpuError::Binding { op: "gather", bytes, limit: gpu.binding });
    }
    let window = window.max(1);
    let mut first = 0;
    while first < extent {
        let count = window.min(extent - first);
        let mut params = params();
        params[8] = stride as u32;
        params[9] = extent as u32;
        params[10] = first as u32;
        params[11] = count as u32;
        let mut from = from.clone();
        from.start += first as isize * stride;
        from.more = (count as isize - 1) * stride;
        let sides = [to.clone(), from, by.clone()];
        let walk = Walk {
            op: "gather",
            key: Key::Gather(GatherKey),
            sides: &sides,
            params,
            strided: true,
            anywhere: false,
        };
        walk.run(gpu, &dims)?;
        first += count;
    }
    Ok(y)
}

/// Returns the error for an index that is out of range. Reads the indices to find it.
fn out_of_range(gpu: &Arc<Gpu>, indices: &Tensor, extent: usize) -> Result<WgpuError> {
    let host = super::host::to_host(gpu, indices)?;
    let wrong = |&&i: &&i32| i64::from(i) < -(extent as i64) || i64::from(i) >= extent as i64;
    let index = host.as_slice::<i32>()?.iter().find(wrong).copied().unwrap_or(0);
    Ok(bb::ir::Error::Index { op: "gather", index: i64::from(index), extent }.into())
}
