//! Operations on single elements, broadcast.

use super::{made, room, text, unsupported};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::{binary, strided, unary};
use crate::layout::{Dim, Dims, broadcast_strides, collapse, for_each_index};
use crate::pool::Pool;
use bb::ir::{Error, infer};
use bb::{DataType, Primitive, Shape, Tensor};
use std::sync::Arc;

/// Computes a unary operation.
pub(crate) fn unary(pool: &Arc<Pool>, op: Primitive, kind: unary::Kind, x: &Array) -> Result<Array> {
    let dtype = x.dtype();
    let kernel = match unary::kernel(kind, dtype) {
        Some(kernel) if infer::accepts(op, 0, dtype) => kernel,
        _ => return Err(unsupported(op.spec().method, dtype)),
    };
    let shape = Shape::from_slice(x.shape());
    let mut storage = room(pool, dtype, x.len())?;
    let out = storage.room();
    if x.is_dense() {
        // SAFETY: the operand and the room have `len` elements without gaps.
        unsafe { kernel(x.len(), x.ptr(), 1, out) };
    } else if !x.is_empty() {
        let strides = x.strides();
        let dims = collapse(x.shape().iter().zip(&strides).map(|(&extent, &s)| Dim { extent, strides: [s] }));
        let (outer, row) = innermost(&dims);
        let mut out = out;
        for_each_index(outer, |[at]| {
            // SAFETY: `at` is an index of `x`, and rows are written one after another.
            unsafe {
                kernel(row.extent, x.ptr().offset(at * element_size(dtype) as isize), row.strides[0], out);
                out = out.add(row.extent * element_size(dtype));
            }
        });
    }
    Ok(Array::dense(dtype, shape, x.len(), storage))
}

/// Splits off the innermost dimension.
fn innermost<const N: usize>(dims: &Dims<N>) -> (&[Dim<N>], Dim<N>) {
    match dims.as_slice() {
        [outer @ .., row] => (outer, *row),
        [] => (&[], Dim { extent: 1, strides: [0; N] }),
    }
}

/// Computes a binary operation on operands of one type.
#[inline]
pub(crate) fn binary(
    pool: &Arc<Pool>,
    op: Primitive,
    kind: binary::Kind,
    a: &Array,
    b: &Array,
) -> Result<Array> {
    let dtype = a.dtype();
    if dtype != b.dtype() {
        return Err(mismatch(op, dtype, b.dtype()));
    }
    let kernel = match binary::kernel(kind, dtype) {
        Some(kernel) => kernel,
        None if dtype == DataType::String && kind == binary::Kind::Equal => return text::equal(pool, a, b),
        None => return Err(unsupported(op.spec().method, dtype)),
    };
    let out = match kind {
        binary::Kind::Equal | binary::Kind::Greater | binary::Kind::Less => DataType::Bool,
        _ => dtype,
    };
    if kind == binary::Kind::Div && dtype.is_integer() && has_zero(b) {
        // The shapes are looked at first: an empty quotient divides nothing.
        if infer::broadcast("div", &[a.shape(), b.shape()])?.iter().all(|&d| d != 0) {
            return Err(Error::DivisionByZero { op: "div" }.into());
        }
    }
    rows(pool, op, kernel, out, a, b)
}

#[cold]
fn mismatch(op: Primitive, expected: DataType, got: DataType) -> crate::CpuError {
    for (i, dtype) in [expected, got].into_iter().enumerate() {
        if !infer::accepts(op, i, dtype) {
            return unsupported(op.spec().method, dtype);
        }
    }
    Error::DataType { expected, got }.into()
}

/// Applies a kernel to operands of whatever types it was chosen for.
pub(crate) fn rows(
    pool: &Arc<Pool>,
    op: Primitive,
    kernel: binary::Row,
    out: DataType,
    a: &Array,
    b: &Array,
) -> Result<Array> {
    if a.is_dense() && b.is_dense() && a.shape() == b.shape() {
        let mut storage = room(pool, out, a.len())?;
        // SAFETY: both operands and the room have `len` elements without gaps.
        unsafe { kernel(a.len(), a.ptr(), 1, b.ptr(), 1, storage.room()) };
        return Ok(Array::dense(out, Shape::from_slice(a.shape()), a.len(), storage));
    }
    let shape = infer::broadcast(op.spec().method, &[a.shape(), b.shape()])?;
    let dims = joint([a, b], &shape);
    let (outer, row) = innermost(&dims);
    let sizes = [a, b].map(|x| element_size(x.dtype()) as isize);
    made(pool, out, shape, |mut to| {
        for_each_index(outer, |[i, j]| {
            // SAFETY: `i` and `j` are indices of the operands, and rows are written one after another.
            unsafe {
                let [sa, sb] = row.strides;
                kernel(row.extent, a.ptr().offset(i * sizes[0]), sa, b.ptr().offset(j * sizes[1]), sb, to);
                to = to.add(row.extent * element_size(out));
            }
        });
    })
}

/// Returns the dimensions in which the operands are walked together, merged.
pub(crate) fn joint<const N: usize>(operands: [&Array; N], shape: &[usize]) -> Dims<N> {
    let strides = operands.map(|x| broadcast_strides(x.shape(), &x.strides(), shape));
    collapse(shape.iter().enumerate().map(|(i, &extent)| Dim {
        extent,
        strides: std::array::from_fn(|k| strides.get(k).and_then(|s| s.get(i)).copied().unwrap_or(0)),
    }))
}

/// Tells whether an integer is zero.
fn has_zero(x: &Array) -> bool {
    let strides = x.strides();
    let size = element_size(x.dtype());
    let dims = collapse(x.shape().iter().zip(&strides).map(|(&extent, &s)| Dim { extent, strides: [s] }));
    let (outer, row) = innermost(&dims);
    let mut found = false;
    for_each_index(outer, |[at]| {
        for i in 0..row.extent as isize {
            let at = (at + i * row.strides[0]) * size as isize;
            // SAFETY: `at` is an index of `x`, whose elements are integers of `size` bytes.
            found |= unsafe {
                let p = x.ptr().offset(at);
                match size {
                    1 => *p == 0,
                    2 => *p.cast::<u16>() == 0,
                    4 => *p.cast::<u32>() == 0,
                    _ => *p.cast::<u64>() == 0,
                }
            };
        }
    });
    found
}

/// Chooses between `x` and `y`.
pub(crate) fn select(pool: &Arc<Pool>, condition: &Array, x: &Array, y: &Array) -> Result<Array> {
    if condition.dtype() != DataType::Bool {
        return Err(unsupported("where", condition.dtype()));
    }
    let dtype = x.dtype();
    if dtype != y.dtype() {
        return Err(Error::DataType { expected: dtype, got: y.dtype() }.into());
    }
    let shape = infer::broadcast("where", &[condition.shape(), x.shape(), y.shape()])?;
    let (y, joined) = text::under_one(pool, x, y)?;
    let dims = joint([condition, x, &y], &shape);
    // SAFETY: the operands have elements at every index of `dims`, and the room is for as many.
    let out = made(pool, dtype, shape, |out| unsafe {
        strided::select(&dims, element_size(dtype), condition.ptr(), x.ptr(), y.ptr(), out);
    })?;
    Ok(match joined {
        None => out,
        text => out.with_text(text),
    })
}
