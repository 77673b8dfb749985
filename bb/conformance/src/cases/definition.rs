//! ONNX's definitions, computed on the host one element at a time: broadcasting, indices and reductions.

use crate::{Subject, assert_near, assert_numbers, numbers};
use bb_core::DataType;
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_ir::op::Primitive;

/// Lists the multi-dimensional indices of all elements of a shape, in row-major order.
pub(super) fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &extent in shape {
        all = all.iter().flat_map(|p| (0..extent).map(|i| [p.as_slice(), &[i]].concat())).collect();
    }
    all
}

/// Converts a multi-dimensional index to the index in row-major order.
pub(super) fn offset(shape: &[usize], position: &[usize]) -> usize {
    shape.iter().zip(position).fold(0, |sum, (extent, i)| sum * extent + i)
}

/// Returns the row-major index in `shape` of the element that broadcasting reads for an index of the result.
pub(super) fn stretched(shape: &[usize], position: &[usize]) -> usize {
    let own = position.iter().skip(position.len() - shape.len());
    let own: Vec<usize> = own.zip(shape).map(|(&i, &extent)| if extent == 1 { 0 } else { i }).collect();
    offset(shape, &own)
}

/// Pairs of shapes, and the shape that each pair broadcasts to. Source: NumPy's rules.
pub(super) const BROADCASTS: [(&[usize], &[usize], &[usize]); 10] = [
    (&[2, 3], &[2, 3], &[2, 3]),
    (&[], &[], &[]),
    (&[], &[2, 2], &[2, 2]),
    (&[3], &[2, 1], &[2, 3]),
    (&[2, 1, 2], &[3, 1], &[2, 3, 2]),
    (&[1], &[1, 1], &[1, 1]),
    (&[4, 1], &[1], &[4, 1]),
    (&[2, 3, 4], &[3, 1], &[2, 3, 4]),
    (&[2, 0], &[1], &[2, 0]),
    (&[0, 1], &[1, 3], &[0, 3]),
];

/// Checks an operation on two tensors, on every supported type and with each kind of broadcasting.
///
/// `a` and `b` return the operands' elements by index. `f` is the definition. `result` is the element type
/// of the result; `None` means the element type of `a`.
pub(super) fn pairs(
    on: &Subject<'_>,
    op: Primitive,
    call: impl Fn(&ErasedTensor, &ErasedTensor) -> Result<ErasedTensor, ErasedError>,
    (a, b): (impl Fn(usize) -> f64, impl Fn(usize) -> f64),
    f: impl Fn(DataType, f64, f64) -> f64,
    result: Option<DataType>,
) {
    for dtype in on.taken(op, 0).into_iter().filter(|&t| t.is_compute()) {
        let result = result.unwrap_or(dtype);
        if !on.supports(&[result]) {
            continue;
        }
        for (left, right, shape) in BROADCASTS {
            let fill = |shape: &[usize], f: &dyn Fn(usize) -> f64| -> Vec<f64> {
                (0..shape.iter().product()).map(f).collect()
            };
            let (x, y) = (fill(left, &a), fill(right, &b));
            let at =
                |values: &[f64], i: usize| values.get(i).copied().expect("positions are within the shape");
            let want: Vec<f64> = positions(shape)
                .iter()
                .map(|p| f(dtype, at(&x, stretched(left, p)), at(&y, stretched(right, p))))
                .collect();
            let out = call(&numbers(on, dtype, left, x), &numbers(on, dtype, right, y));
            if result.is_float() {
                assert_near(on, out, result, shape, want);
            } else {
                assert_numbers(on, out, result, shape, want);
            }
        }
    }
}

/// Runs a block for each supported integer type, as `T`.
macro_rules! each_integer {
    ($on:expr, $T:ident => $body:block) => {
        each_integer!(@ $on, $T => $body, i8 i16 i32 i64 u8 u16 u32 u64)
    };
    (@ $on:expr, $T:ident => $body:block, $($type:ident)*) => { $(
        if $on.supports(&[<$type as crate::Value>::DTYPE]) {
            type $T = $type;
            $body
        }
    )* };
}

/// Runs a block for each supported signed integer type, as `T`.
macro_rules! each_signed {
    ($on:expr, $T:ident => $body:block) => {
        crate::cases::definition::each_integer!(@ $on, $T => $body, i8 i16 i32 i64)
    };
}

pub(super) use {each_integer, each_signed};
