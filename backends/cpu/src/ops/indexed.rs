//! Reads and writes elements and slices that index tensors select: `gather_elements`, `gather_nd`, and the scatter
//! operations.
//!
//! Each function returns `None` for operands that it does not support or that do not fit; the operation's body then computes
//! the result or reports the error.

use super::{copied, copy_to, dense, made};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::moves;
use crate::kernels::places::{Indices, Tuples, places};
use crate::kernels::scatter::{self, Meeting};
use crate::layout::{Dim, Dims, collapse, dense_strides, is_dense};
use crate::pool::Pool;
use bb::ir::{Axis, Error};
use bb::{DataType, Shape, Tensor};
use std::slice;
use std::sync::Arc;

/// Returns the elements of a contiguous index tensor; `None` for types that ONNX does not allow for indices.
fn indices(x: &Array) -> Option<Indices<'_>> {
    debug_assert!(x.is_dense() && !x.is_empty());
    // SAFETY: the elements are contiguous, have this type, and are not written again while the array exists.
    unsafe {
        Some(match x.dtype() {
            DataType::I32 => Indices::Narrow(slice::from_raw_parts(x.ptr().cast(), x.len())),
            DataType::I64 => Indices::Wide(slice::from_raw_parts(x.ptr().cast(), x.len())),
            _ => return None,
        })
    }
}

/// The elements that index tensors select. Each tuple of indices selects a run of consecutive elements.
struct Selection {
    op: &'static str,
    /// The dimensions of the tuples, with strides in elements of the indexed tensor.
    dims: Dims<1>,
    /// The dimensions of the indexed tensor that a tuple has an index for.
    named: Dims<1>,
    /// The number of elements that a tuple selects.
    run: usize,
}

impl Selection {
    /// Calls `each` with the positions of selected runs, and with the number of elements of each run.
    fn places(&self, indices: Indices<'_>, each: impl FnMut(&[usize], usize)) -> bool {
        places(&self.dims, Tuples { indices, named: &self.named }, self.run, each)
    }

    /// Returns the result, or the error for the first index that is out of range.
    fn checked(&self, inside: bool, indices: Indices<'_>, result: Array) -> Result<Option<Array>> {
        if inside {
            return Ok(Some(result));
        }
        match (Tuples { indices, named: &self.named }).refused() {
            Some((index, extent)) => Err(Error::Index { op: self.op, index, extent }.into()),
            None => Ok(None),
        }
    }
}

/// Describes the elements that `indices` select along an axis of a tensor with this shape and these strides.
fn elements(
    op: &'static str,
    shape: &[usize],
    strides: &[isize],
    indices: &Array,
    axis: i64,
) -> Option<Selection> {
    let at = Axis::new(axis, shape.len()).ok()?.get();
    let asked = indices.shape();
    let fits = asked.len() == shape.len()
        && asked.iter().zip(shape).enumerate().all(|(d, (asked, have))| d == at || asked <= have);
    let named = Dim { extent: *shape.get(at)?, strides: [*strides.get(at)?] };
    let dims = asked.iter().zip(strides).enumerate();
    let dims = dims.map(|(d, (&extent, &s))| Dim { extent, strides: [if d == at { 0 } else { s }] });
    fits.then(|| Selection { op, dims: collapse(dims), named: Dims::from_elem(named, 1), run: 1 })
}

/// Describes the slices that tuples of indices select. The first `batch` dimensions are common to both tensors.
fn slices(
    op: &'static str,
    shape: &[usize],
    strides: &[isize],
    indices: &Array,
    batch: usize,
) -> Option<Selection> {
    let (&tuple, lead) = indices.shape().split_last()?;
    let (shared, rows) = lead.split_at_checked(batch)?;
    let (outer, rest) = shape.split_at_checked(batch)?;
    let (_, slice) = rest.split_at_checked(tuple)?;
    if tuple == 0 || shared != outer {
        return None;
    }
    let dim = |(&extent, &s): (&usize, &isize)| Dim { extent, strides: [s] };
    let dims = outer.iter().zip(strides).map(dim).chain(rows.iter().map(|extent| dim((extent, &0))));
    Some(Selection {
        op,
        dims: collapse(dims),
        named: shape.iter().zip(strides).skip(batch).take(tuple).map(dim).collect(),
        run: slice.iter().product(),
    })
}

/// Copies the selected elements to a new array.
fn read(
    pool: &Arc<Pool>,
    data: &Array,
    list: &Array,
    shape: Shape,
    selection: Selection,
) -> Result<Option<Array>> {
    let Some(indices) = indices(list) else { return Ok(None) };
    let size = element_size(data.dtype());
    let mut inside = false;
    let result = made(pool, data.dtype(), shape, |mut out| {
        inside = selection.places(indices, |at, run| {
            // SAFETY: positions are those of runs of the operand; the result has room for a run for each.
            unsafe {
                moves::pick(at, run, size, data.ptr(), 1, out);
                out = out.add(at.len() * run * size);
            }
        });
    })?;
    selection.checked(inside, indices, copied(result, data.text().cloned()))
}

/// Selects one element along an axis for each index.
pub(crate) fn gather_elements(
    pool: &Arc<Pool>,
    data: &Array,
    indices: &Array,
    axis: i64,
) -> Result<Option<Array>> {
    let selection = elements("gather_elements", data.shape(), &data.strides(), indices, axis);
    let Some(selection) = selection.filter(|_| !indices.is_empty()) else { return Ok(None) };
    read(pool, data, &dense(pool, indices)?, Shape::from_slice(indices.shape()), selection)
}

/// Selects a slice for each tuple of indices.
pub(crate) fn gather_nd(
    pool: &Arc<Pool>,
    data: &Array,
    indices: &Array,
    batch: i64,
) -> Result<Option<Array>> {
    let Ok(batch) = usize::try_from(batch) else { return Ok(None) };
    let Some((&tuple, lead)) = indices.shape().split_last() else { return Ok(None) };
    let strides = data.strides();
    let Some(selection) = slices("gather_nd", data.shape(), &strides, indices, batch) else {
        return Ok(None);
    };
    if indices.is_empty() || selection.run == 0 {
        return Ok(None);
    }
    let slice = data.shape().get(batch + tuple..).unwrap_or_default();
    if !is_dense(slice, strides.get(batch + tuple..).unwrap_or_default()) {
        return gather_nd(pool, &dense(pool, data)?, indices, batch as i64);
    }
    let shape = lead.iter().chain(slice).copied().collect();
    read(pool, data, &dense(pool, indices)?, shape, selection)
}

/// Copies the operand and writes updates to the selected elements. `meeting` says how an update is combined with the
/// element.
fn write(
    pool: &Arc<Pool>,
    [data, list, updates]: [&Array; 3],
    selection: Selection,
    meeting: Meeting,
) -> Result<Option<Array>> {
    let dtype = data.dtype();
    let size = element_size(dtype);
    let alike = updates.dtype() == dtype && dtype != DataType::String && !dtype.is_sub_byte();
    let Some(update) = scatter::kernel(meeting, dtype, size).filter(|_| alike) else { return Ok(None) };
    let (list, updates) = (dense(pool, list)?, dense(pool, updates)?);
    let Some(indices) = indices(&list) else { return Ok(None) };
    let strides = dense_strides(data.shape());
    let mut inside = false;
    let result = made(pool, dtype, Shape::from_slice(data.shape()), |out| {
        let mut from = updates.ptr();
        // SAFETY: the result has room for the elements of the operand. Each selected position begins a run of the result, and
        // `updates` has a run for each position.
        unsafe {
            copy_to(data, out, &strides);
            inside = selection.places(indices, |at, run| {
                update(at, run, from, out);
                from = from.add(at.len() * run * size);
            });
        }
    })?;
    selection.checked(inside, indices, result)
}

/// Writes one update along an axis for each index.
pub(crate) fn scatter_elements(
    pool: &Arc<Pool>,
    operands: [&Array; 3],
    axis: i64,
    meeting: Meeting,
) -> Result<Option<Array>> {
    let [data, indices, updates] = operands;
    let strides = dense_strides(data.shape());
    let selection = elements("scatter_elements", data.shape(), &strides, indices, axis)
        .filter(|_| updates.shape() == indices.shape() && !indices.is_empty() && !data.is_empty());
    let Some(selection) = selection else { return Ok(None) };
    write(pool, operands, selection, meeting)
}

/// Writes a slice of updates for each tuple of indices.
pub(crate) fn scatter_nd(pool: &Arc<Pool>, operands: [&Array; 3], meeting: Meeting) -> Result<Option<Array>> {
    let [data, indices, updates] = operands;
    let strides = dense_strides(data.shape());
    let Some((&tuple, lead)) = indices.shape().split_last() else { return Ok(None) };
    let slice = data.shape().get(tuple..).unwrap_or_default();
    let selection = slices("scatter_nd", data.shape(), &strides, indices, 0)
        .filter(|_| lead.iter().chain(slice).eq(updates.shape()) && !indices.is_empty() && !data.is_empty());
    let Some(selection) = selection else { return Ok(None) };
    write(pool, operands, selection, meeting)
}
