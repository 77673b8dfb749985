//! Operations on single elements, broadcast.

use super::{copied, made, room, text, unsupported};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::vector::{self, FEW, Plane};
use crate::kernels::{binary, strided, unary};
use crate::layout::{Dim, Dims, broadcast_strides, collapse, for_each_index};
use crate::pool::Pool;
use crate::simd::element::Binary;
use bb::ir::{Error, infer};
use bb::{DataType, Primitive, Shape, Tensor};
use std::sync::Arc;

/// Computes a unary operation.
pub(crate) fn unary(pool: &Arc<Pool>, op: Primitive, kind: unary::Kind, x: &Array) -> Result<Array> {
    let dtype = x.dtype();
    let few = match unary::kernel(kind, dtype) {
        Some(kernel) if infer::accepts(op, 0, dtype) => kernel,
        _ => return Err(unsupported(op.spec().method, dtype)),
    };
    if x.is_dense() && x.len() < FEW {
        let mut storage = room(pool, dtype, x.len())?;
        // SAFETY: the operand and the room have `len` elements without gaps.
        unsafe { few(x.len(), x.ptr(), 1, storage.room()) };
        return Ok(Array::dense(dtype, Shape::from_slice(x.shape()), x.len(), storage));
    }
    each(pool, dtype, x, |plane, out, at| {
        // SAFETY: `at` points at a plane of the operand, and `out` at room for its results.
        unsafe { vector::unary(kind, dtype, plane, out, at) }
    })
}

/// Makes an array of `dtype` with the shape of `x`, plane by plane.
///
/// `f` gets a plane, where to write its results, and where its elements are.
pub(crate) fn each(
    pool: &Arc<Pool>,
    dtype: DataType,
    x: &Array,
    f: impl Fn(&Plane<1>, *mut u8, *const u8),
) -> Result<Array> {
    let dims = dims(x);
    let (outer, plane) = Plane::split(&dims);
    let size = element_size(x.dtype()) as isize;
    made(pool, dtype, Shape::from_slice(x.shape()), |mut out| {
        for_each_index(outer, |[at]| {
            f(&plane, out, x.ptr().wrapping_offset(at * size));
            out = out.wrapping_add(plane.len() * element_size(dtype));
        });
    })
}

/// Returns the dimensions in which an array is walked, merged.
pub(crate) fn dims(x: &Array) -> Dims<1> {
    if x.is_dense() {
        return std::iter::once(Dim { extent: x.len(), strides: [1] }).collect();
    }
    let strides = x.strides();
    collapse(x.shape().iter().zip(&strides).map(|(&extent, &s)| Dim { extent, strides: [s] }))
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
    let few = match binary::kernel(kind, dtype) {
        Some(kernel) => kernel,
        None if dtype == DataType::String && kind == binary::Kind::Equal => return text::equal(pool, a, b),
        None => return Err(unsupported(op.spec().method, dtype)),
    };
    let result = match kind {
        binary::Kind::Equal | binary::Kind::Greater | binary::Kind::Less => DataType::Bool,
        _ => dtype,
    };
    if kind == binary::Kind::Div && dtype.is_integer() && has_zero(b) {
        // The shapes are looked at first: an empty quotient divides nothing.
        if infer::broadcast("div", &[a.shape(), b.shape()])?.iter().all(|&d| d != 0) {
            return Err(Error::DivisionByZero { op: "div" }.into());
        }
    }
    if a.is_dense() && b.is_dense() && a.shape() == b.shape() {
        let mut storage = room(pool, result, a.len())?;
        // SAFETY: both operands and the room have `len` elements without gaps.
        unsafe {
            if a.len() < FEW {
                few(a.len(), a.ptr(), 1, b.ptr(), 1, storage.room());
            } else {
                let line = [Dim { extent: a.len(), strides: [1, 1] }];
                vector::binary(kind, dtype, &Plane::split(&line).1, storage.room(), a.ptr(), b.ptr());
            }
        }
        return Ok(Array::dense(result, Shape::from_slice(a.shape()), a.len(), storage));
    }
    let shape = infer::broadcast(op.spec().method, &[a.shape(), b.shape()])?;
    if shape.iter().product::<usize>() < FEW {
        return rows(pool, few, result, a, b, shape);
    }
    let dims = joint([a, b], &shape);
    planes(pool, result, shape, &dims, a, b, |plane, out, a, b| {
        // SAFETY: the pointers are at a plane of each operand, and at room for its results.
        unsafe { vector::binary(kind, dtype, plane, out, a, b) }
    })
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

/// Computes an extreme of two numbers of one type.
pub(crate) fn extreme(pool: &Arc<Pool>, op: Binary, a: &Array, b: &Array) -> Result<Array> {
    let dtype = a.dtype();
    let method = if op == Binary::Max { "maximum" } else { "minimum" };
    let shape = infer::broadcast(method, &[a.shape(), b.shape()])?;
    let dims = joint([a, b], &shape);
    planes(pool, dtype, shape, &dims, a, b, |plane, out, a, b| {
        // SAFETY: the pointers are at a plane of each operand, and at room for its results.
        unsafe { vector::arithmetic(op, dtype, plane, out, a, b) }
    })
}

/// Makes an array plane by plane from two of one type; `f` gets the plane, where to write and where
/// the operands' elements are.
fn planes(
    pool: &Arc<Pool>,
    result: DataType,
    shape: Shape,
    dims: &Dims<2>,
    a: &Array,
    b: &Array,
    f: impl Fn(&Plane<2>, *mut u8, *const u8, *const u8),
) -> Result<Array> {
    let (outer, plane) = Plane::split(dims);
    let size = element_size(a.dtype()) as isize;
    made(pool, result, shape, |mut out| {
        for_each_index(outer, |[i, j]| {
            f(&plane, out, a.ptr().wrapping_offset(i * size), b.ptr().wrapping_offset(j * size));
            out = out.wrapping_add(plane.len() * element_size(result));
        });
    })
}

/// Applies a kernel for few elements to operands of whatever types it was chosen for.
pub(crate) fn rows(
    pool: &Arc<Pool>,
    kernel: binary::Row,
    result: DataType,
    a: &Array,
    b: &Array,
    shape: Shape,
) -> Result<Array> {
    let dims = joint([a, b], &shape);
    let (outer, row) = innermost(&dims);
    let sizes = [a, b].map(|x| element_size(x.dtype()) as isize);
    made(pool, result, shape, |mut out| {
        for_each_index(outer, |[i, j]| {
            // SAFETY: `i` and `j` are indices of the operands, and rows are written one after another.
            unsafe {
                let ([sa, sb], [size_a, size_b]) = (row.strides, sizes);
                kernel(row.extent, a.ptr().offset(i * size_a), sa, b.ptr().offset(j * size_b), sb, out);
                out = out.add(row.extent * element_size(result));
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
    if x.is_empty() {
        return false;
    }
    let dims = dims(x);
    let (outer, plane) = Plane::split(&dims);
    let mut found = false;
    for_each_index(outer, |[at]| {
        let at = x.ptr().wrapping_offset(at * element_size(x.dtype()) as isize);
        // SAFETY: `at` points at a plane of the array.
        found = found || unsafe { vector::contains_zero(x.dtype(), &plane, at) };
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
    let size = element_size(dtype);
    let out = made(pool, dtype, shape, |out| {
        let (outer, plane) = Plane::split(&dims);
        let (width, mut to, mut done) = (size as isize, out, true);
        for_each_index(outer, |[i, j, k]| {
            // SAFETY: `i`, `j` and `k` are indices of the operands, and planes are written one after
            // another.
            unsafe {
                let (c, x, y) =
                    (condition.ptr().offset(i), x.ptr().offset(j * width), y.ptr().offset(k * width));
                done = done && vector::select(&plane, size, to, c, x, y);
                to = to.add(plane.len() * size);
            }
        });
        if !done {
            // SAFETY: the operands have elements at every index of `dims`, and the room is for as many.
            unsafe { strided::select(&dims, size, condition.ptr(), x.ptr(), y.ptr(), out) };
        }
    })?;
    Ok(copied(out, joined))
}
