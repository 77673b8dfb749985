//! Element-wise operations, with broadcasting.

use super::{copied, made, room, text, unsupported};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::element_loop::{GRAIN, Kernel, map};
use crate::kernels::elementwise as kernels;
use crate::kernels::op::{Binary, Test, Unary};
use crate::kernels::walk::{split, walk};
use crate::kernels::{FEW, Shared, compare, gelu};
use crate::layout::{Dim, Dims, broadcast_strides, collapse, for_each_index, innermost};
use crate::pool::Pool;
use bb::ir::{Error, infer};
use bb::{DataType, Shape, Tensor};
use std::sync::Arc;

/// Computes an operation with one operand.
pub(crate) fn unary(pool: &Arc<Pool>, op: Unary, x: &Array) -> Result<Array> {
    let dtype = x.dtype();
    if matches!(op, Unary::Abs | Unary::Relu) && dtype.is_unsigned_integer() {
        // The absolute value and the ReLU of an unsigned integer are the integer itself.
        return Ok(x.clone());
    }
    let few = x.is_dense() && x.len() < FEW;
    let kernel = kernels::unary(op, dtype, few);
    let Some(kernel) = &kernel else {
        return Err(unsupported(op.name(), dtype));
    };
    if x.is_dense() {
        // SAFETY: the kernel takes elements of this type, of which `x` has `len` without gaps.
        return unsafe { dense_results(pool, kernel, dtype, x.shape(), x.len(), [x.ptr()]) };
    }
    // SAFETY: the kernel takes elements of this type, and `x` has them at every index of its dimensions.
    unsafe { results(pool, kernel, dtype, Shape::from_slice(x.shape()), &dims(x), [x.ptr()]) }
}

/// Applies a test to each element. Returns `None` if the test does not exist for the element type.
pub(crate) fn test(pool: &Arc<Pool>, test: Test, x: &Array) -> Option<Result<Array>> {
    let kernel = compare::test(test, x.dtype())?;
    // SAFETY: the kernel takes elements of this type, and `x` has them at every index of its dimensions.
    Some(unsafe { results(pool, &kernel, DataType::Bool, Shape::from_slice(x.shape()), &dims(x), [x.ptr()]) })
}

/// Applies `f` to each element of an `f32` array.
pub(crate) fn map_f32(pool: &Arc<Pool>, x: &Array, f: impl Fn(f32) -> f32 + Copy + Sync) -> Result<Array> {
    slices_f32(pool, x, GRAIN, |out, x| map(out, x, f))
}

/// Computes `x * sigmoid(alpha * x)` for each element of an `f32` array.
pub(crate) fn swish(pool: &Arc<Pool>, x: &Array, alpha: f32) -> Result<Array> {
    slices_f32(pool, x, GRAIN / 4, |out, x| gelu::swish(out, x, alpha))
}

/// Creates an `f32` array from an `f32` array. Each call of `f` computes the results of one range of elements.
fn slices_f32(
    pool: &Arc<Pool>,
    x: &Array,
    grain: usize,
    f: impl Fn(&mut [f32], &[f32]) + Sync,
) -> Result<Array> {
    debug_assert_eq!(x.dtype(), DataType::F32);
    let x = super::dense(pool, x)?;
    let from = x.ptr().cast::<f32>();
    made(pool, DataType::F32, Shape::from_slice(x.shape()), |out| {
        let shared = Shared((out.cast::<f32>(), from));
        split(x.len(), 1, grain, |start, end| {
            let (out, from) = shared.get();
            // SAFETY: both arrays have `len` contiguous elements, and no other call writes these.
            let (out, x) = unsafe {
                let x = std::slice::from_raw_parts(from.add(start), end - start);
                (std::slice::from_raw_parts_mut(out.add(start), end - start), x)
            };
            f(out, x);
        });
    })
}

/// Computes an operation with two operands of the same element type.
pub(crate) fn binary(pool: &Arc<Pool>, op: Binary, a: &Array, b: &Array) -> Result<Array> {
    let dtype = a.dtype();
    if dtype != b.dtype() {
        return Err(mismatch(op, dtype, b.dtype()));
    }
    if dtype == DataType::String && op == Binary::Equal {
        return text::equal(pool, a, b);
    }
    let alike = a.is_dense() && b.is_dense() && a.shape() == b.shape();
    let shape = match alike {
        true => None,
        false => Some(infer::broadcast(op.name(), &[a.shape(), b.shape()])?),
    };
    let len = shape.as_ref().map_or(a.len(), |shape| shape.iter().product());
    let kernel = kernels::binary(op, dtype, len < FEW);
    let Some(kernel) = &kernel else {
        return Err(unsupported(op.name(), dtype));
    };
    // If the result is empty, no division is computed, so a zero in `b` is no error.
    if op == Binary::Div && dtype.is_integer() && len > 0 && has_zero(b) {
        return Err(Error::DivisionByZero { op: "div" }.into());
    }
    let result = if op.compares() { DataType::Bool } else { dtype };
    let operands = [a.ptr(), b.ptr()];
    let Some(shape) = shape else {
        // SAFETY: the kernel takes elements of this type, of which both operands have `len` without gaps.
        return unsafe { dense_results(pool, kernel, result, a.shape(), len, operands) };
    };
    let dims = joint([a, b], &shape);
    // SAFETY: the kernel takes elements of this type, and the operands have them at every index of `dims`.
    unsafe { results(pool, kernel, result, shape, &dims, operands) }
}

/// Computes an operation with one operand into the memory of `out`. Returns false, and writes nothing, if there is no kernel
/// for the operation, if `out` does not have the type and shape of the result, or if the memory of `out` is shared.
pub(crate) fn unary_into(pool: &Arc<Pool>, op: Unary, x: &Array, out: &mut Array) -> Result<bool> {
    let (dtype, few) = (x.dtype(), x.is_dense() && x.len() < FEW);
    if (out.dtype(), out.shape()) != (dtype, x.shape()) || dtype.is_sub_byte() {
        return Ok(false);
    }
    let Some(kernel) = kernels::unary(op, dtype, few) else { return Ok(false) };
    // SAFETY: the kernel takes elements of this type, and `x` has them at every index of its dimensions.
    unsafe { results_into(pool, &kernel, &dims(x), [x.ptr()], out) }
}

/// Computes an operation with two operands of the same element type into the memory of `out`, as [`unary_into`] does.
pub(crate) fn binary_into(
    pool: &Arc<Pool>,
    op: Binary,
    [a, b]: [&Array; 2],
    out: &mut Array,
) -> Result<bool> {
    let dtype = a.dtype();
    let divides = op == Binary::Div && dtype.is_integer();
    if dtype != b.dtype() || dtype.is_sub_byte() || dtype == DataType::String || divides {
        return Ok(false);
    }
    let Ok(shape) = infer::broadcast(op.name(), &[a.shape(), b.shape()]) else { return Ok(false) };
    let result = if op.compares() { DataType::Bool } else { dtype };
    if (out.dtype(), out.shape()) != (result, &*shape) {
        return Ok(false);
    }
    let Some(kernel) = kernels::binary(op, dtype, out.len() < FEW) else { return Ok(false) };
    let dims = joint([a, b], &shape);
    // SAFETY: the kernel takes elements of this type, and the operands have them at every index of `dims`.
    unsafe { results_into(pool, &kernel, &dims, [a.ptr(), b.ptr()], out) }
}

/// Writes the results of a kernel into the memory of `out`. Returns false, and writes nothing, if that memory is shared.
///
/// # Safety
///
/// As for [`results`]; `out` has one element of the kernel's result type for each index of `dims`.
unsafe fn results_into<const N: usize>(
    pool: &Arc<Pool>,
    kernel: &Kernel<N>,
    dims: &[Dim<N>],
    operands: [*const u8; N],
    out: &mut Array,
) -> Result<bool> {
    if out.is_empty() {
        return Ok(true);
    }
    let Some(room) = out.sole_room() else { return Ok(false) };
    // SAFETY: the caller guarantees that the operands are valid. `room` belongs to `out` only, so it overlaps no operand.
    pool.run(|| unsafe { walk(kernel, dims, room, operands) })?;
    Ok(true)
}

#[cold]
fn mismatch(op: Binary, expected: DataType, got: DataType) -> crate::CpuError {
    for dtype in [expected, got] {
        let strings = dtype == DataType::String && op == Binary::Equal;
        if !strings && kernels::binary(op, dtype, true).is_none() {
            return unsupported(op.name(), dtype);
        }
    }
    Error::mixed(op.name(), ("a", expected), ("b", got)).into()
}

/// Creates an array of the results of a kernel. Their element type is `dtype`.
///
/// # Safety
///
/// Each operand points to an element, of the type that the kernel was chosen for, at every index of `dims`. The number of these
/// indices is the number of elements of `shape`.
pub(super) unsafe fn results<const N: usize>(
    pool: &Arc<Pool>,
    kernel: &Kernel<N>,
    dtype: DataType,
    shape: Shape,
    dims: &[Dim<N>],
    operands: [*const u8; N],
) -> Result<Array> {
    // SAFETY: the caller guarantees that the operands are valid. The memory is new, and has room for all results.
    made(pool, dtype, shape, |out| unsafe { walk(kernel, dims, out, operands) })
}

/// Creates an array as [`results`] does, from operands of `len` contiguous elements.
///
/// # Safety
///
/// Each operand points to `len` elements of the type that the kernel was chosen for, and `shape` has `len` elements.
#[inline]
unsafe fn dense_results<const N: usize>(
    pool: &Arc<Pool>,
    kernel: &Kernel<N>,
    dtype: DataType,
    shape: &[usize],
    len: usize,
    operands: [*const u8; N],
) -> Result<Array> {
    if len == 0 || len >= FEW || kernel.half.is_some() {
        let line = [Dim { extent: len, strides: [1; N] }];
        // SAFETY: the operands have an element at every index of the one dimension.
        return unsafe { results(pool, kernel, dtype, Shape::from_slice(shape), &line, operands) };
    }
    // For a small number of elements, calling the kernel directly costs less than a walk over dimensions.
    let mut storage = room(pool, dtype, len)?;
    // SAFETY: the caller guarantees that the operands are valid. The memory is new, and has room for all results.
    unsafe { (kernel.run)(storage.room(), operands, len) };
    Ok(Array::dense(dtype, Shape::from_slice(shape), len, storage))
}

/// Returns the merged dimensions of a loop over an array.
pub(crate) fn dims(x: &Array) -> Dims<1> {
    if x.is_dense() {
        return std::iter::once(Dim { extent: x.len(), strides: [1] }).collect();
    }
    let strides = x.strides();
    collapse(x.shape().iter().zip(&strides).map(|(&extent, &s)| Dim { extent, strides: [s] }))
}

/// Returns the merged dimensions of a loop over operands that are broadcast to `shape`.
pub(crate) fn joint<const N: usize>(operands: [&Array; N], shape: &[usize]) -> Dims<N> {
    let strides = operands.map(|x| broadcast_strides(x.shape(), &x.strides(), shape));
    collapse(shape.iter().enumerate().map(|(i, &extent)| Dim {
        extent,
        strides: std::array::from_fn(|k| strides.get(k).and_then(|s| s.get(i)).copied().unwrap_or(0)),
    }))
}

/// Returns whether any element of an integer array is zero.
fn has_zero(x: &Array) -> bool {
    if x.is_empty() {
        return false;
    }
    let size = element_size(x.dtype());
    let dims = dims(x);
    let (outer, Dim { extent, strides: [stride] }) = innermost(&dims);
    let mut found = false;
    for_each_index(outer, |[at]| {
        let row = x.ptr().wrapping_offset(at * size.cast_signed());
        // SAFETY: the array has these integers.
        found = found || unsafe { kernels::any_zero(size, row, stride * size.cast_signed(), extent) };
    });
    found
}

/// Selects each element from `x` if the condition is true, and from `y` otherwise.
pub(crate) fn select(pool: &Arc<Pool>, condition: &Array, x: &Array, y: &Array) -> Result<Array> {
    infer::check_operand(bb::Primitive::Where, 0, condition.dtype())?;
    let dtype = x.dtype();
    if dtype != y.dtype() {
        return Err(Error::mixed("where", ("x", dtype), ("y", y.dtype())).into());
    }
    let shape = infer::broadcast("where", &[condition.shape(), x.shape(), y.shape()])?;
    let (y, joined) = text::under_one(pool, x, y)?;
    let dims = joint([condition, x, &y], &shape);
    let kernel = kernels::select(element_size(dtype));
    // SAFETY: the kernel takes a bool and two elements of this size, which the operands have at every index of `dims`.
    let out = unsafe { results(pool, &kernel, dtype, shape, &dims, [condition.ptr(), x.ptr(), y.ptr()]) }?;
    Ok(copied(out, joined))
}
