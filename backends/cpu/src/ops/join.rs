//! Concatenates arrays, and selects entries along an axis.

use super::{copied, copy_to, dense, made, text};
use crate::array::{Array, element_size};
use crate::error::{CpuError, Result};
use crate::kernels::moves;
use crate::layout::{Dim, collapse, dense_strides, for_each_index, innermost, is_dense};
use crate::pace::{Pace, STRETCH};
use crate::pool::Pool;
use bb::ir::{Error, infer, memory};
use bb::{DataType, Shape, Tensor};
use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::Arc;

/// Concatenates arrays along an axis.
pub(crate) fn concat(pool: &Arc<Pool>, xs: &[&Array], axis: i64) -> Result<Array> {
    let shapes: SmallVec<[&[usize]; 8]> = xs.iter().map(|x| x.shape()).collect();
    let joined = infer::concat(shapes.iter().copied(), axis)?;
    let [first, rest @ ..] = xs else {
        return Err(Error::Arity { op: "concat", expected: "at least one tensor", got: 0 }.into());
    };
    let dtype = first.dtype();
    for (index, x) in (1..).zip(rest) {
        if x.dtype() != dtype {
            return Err(Error::mixed("concat", ("xs[0]", dtype), (format!("xs[{index}]"), x.dtype())).into());
        }
    }
    if rest.is_empty() {
        return Ok((*first).clone());
    }
    if dtype == DataType::String {
        return concat_strings(pool, xs, joined.axis.get(), joined.shape);
    }
    placed(pool, dtype, joined.axis.get(), joined.shape, xs.iter().copied())
}

/// Copies arrays to adjacent ranges along `axis`.
fn placed<'a>(
    pool: &Arc<Pool>,
    dtype: DataType,
    axis: usize,
    shape: Shape,
    xs: impl Iterator<Item = &'a Array>,
) -> Result<Array> {
    let strides = dense_strides(&shape);
    let step = strides.get(axis).map_or(0, |s| s.unsigned_abs()) * element_size(dtype);
    made(pool, dtype, shape, |mut out| {
        for x in xs {
            // SAFETY: the extents along the axis add up to the result's, and the others are equal.
            unsafe {
                copy_to(x, out, &strides);
                out = out.wrapping_add(x.shape().get(axis).copied().unwrap_or(0) * step);
            }
        }
    })
}

fn concat_strings(pool: &Arc<Pool>, xs: &[&Array], axis: usize, shape: Shape) -> Result<Array> {
    let mut text = Vec::new();
    let mut moved = Vec::with_capacity(xs.len());
    for x in xs {
        moved.push(text::shifted(pool, x, text.len() as u64)?);
        memory::append("concat", &mut text, x.text().map(|t| &t[..]).unwrap_or_default())?;
    }
    let out = placed(pool, DataType::String, axis, shape, moved.iter())?;
    Ok(out.with_text(Some(Arc::new(Bytes::from(text)))))
}

/// Selects the entries with these indices along an axis.
pub(crate) fn gather(pool: &Arc<Pool>, data: &Array, indices: &Array, axis: i64) -> Result<Array> {
    infer::check_operand(bb::Primitive::Gather, 1, indices.dtype())?;
    let joined = infer::gather(data.shape(), indices.shape(), axis)?;
    let axis = joined.axis.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let at = pool.run(|| positions(indices, extent))??;
    let strides = data.strides();
    let step = strides.get(axis).copied().unwrap_or(0);
    if let [at] = at[..] {
        // A single entry needs no copy: return a view of the operand.
        let mut kept = strides;
        kept.remove(axis);
        kept.insert_many(axis, std::iter::repeat_n(1, indices.shape().len()));
        return Ok(data.view(joined.shape, kept, at.cast_signed() * step));
    }
    let (_, inner) = data.shape().split_at_checked(axis + 1).unwrap_or_default();
    let (_, inner_strides) = strides.split_at_checked(axis + 1).unwrap_or_default();
    if !is_dense(inner, inner_strides) {
        return gather(pool, &dense(pool, data)?, indices, joined.axis.get() as i64);
    }
    let run = inner.iter().product::<usize>();
    let size = element_size(data.dtype());
    let outer = collapse(
        data.shape().iter().zip(&strides).take(axis).map(|(&extent, &s)| Dim { extent, strides: [s] }),
    );
    let out = made(pool, data.dtype(), joined.shape, |mut out| {
        let mut pace = Pace::new();
        if let [Dim { extent: rows, strides: [row] }] = outer[..]
            && run == 1
            && at.len() < moves::COLUMNS.min(rows)
        {
            // SAFETY: positions are below the extent, and the result has room for an element for each row and position.
            return unsafe { moves::pick_columns(&at, [rows, size], data.ptr(), [row, step], out) };
        }
        for_each_index(&outer, |[o]| {
            // SAFETY: `o` is an index of the dimensions before the axis.
            let base = unsafe { data.ptr().offset(o * size.cast_signed()) };
            for at in at.chunks((STRETCH / run.max(1)).max(1)) {
                pace.step(at.len() * run);
                // SAFETY: positions are below the extent; the result has room for a run for each of them.
                unsafe {
                    moves::pick(at, run, size, base, step, out);
                    out = out.add(at.len() * run * size);
                }
            }
        });
    })?;
    Ok(copied(out, data.text().cloned()))
}

/// Returns the positions that the indices select, in row-major order. Negative indices count from the end.
fn positions(indices: &Array, extent: usize) -> Result<SmallVec<[usize; 16]>> {
    let mut at = SmallVec::new();
    let none = |_| CpuError::no_memory(indices.len().saturating_mul(size_of::<usize>()));
    at.try_reserve_exact(indices.len()).map_err(none)?;
    let strides = indices.strides();
    let dims =
        collapse(indices.shape().iter().zip(&strides).map(|(&extent, &s)| Dim { extent, strides: [s] }));
    let (outer, row) = innermost(&dims);
    let [step] = row.strides;
    let mut refused = None;
    let narrow = indices.dtype() == DataType::I32;
    let signed = extent as i64;
    let mut pace = Pace::new();
    for_each_index(outer, |[first]| {
        pace.step(row.extent);
        for k in 0..row.extent.cast_signed() {
            let i = first + k * step;
            // SAFETY: `i` is an index of the array, whose type was checked.
            let index = unsafe {
                if narrow {
                    i64::from(*indices.ptr().cast::<i32>().offset(i))
                } else {
                    *indices.ptr().cast::<i64>().offset(i)
                }
            };
            let from_start = if index < 0 { index.wrapping_add(signed) } else { index };
            if from_start < 0 || from_start >= signed {
                refused.get_or_insert(index);
            }
            at.push(from_start as usize);
        }
    });
    match refused {
        None => Ok(at),
        Some(index) => Err(Error::Index { op: "gather", index, extent }.into()),
    }
}
