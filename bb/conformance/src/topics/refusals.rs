//! Tests that invalid calls return an error, and neither panic nor compute something.

use crate::{Subject, assert_refused, numbers, sample, tensor};
use bb_core::DataType;
use bb_ir::op::Primitive;

/// Tests that operands are refused if their element types differ but must agree.
///
/// # Panics
///
/// If they are not refused.
pub fn mixed_types(on: &Subject<'_>) {
    for &a in DataType::ALL.iter().filter(|t| on.supports(&[**t])) {
        for &b in DataType::ALL.iter().filter(|t| **t != a && on.supports(&[**t])) {
            let (x, y) = (on.bring(&sample(a, &[2, 2])), on.bring(&sample(b, &[2, 2])));
            assert_refused(on.add(&x, &y), ("add", a, b));
            assert_refused(on.sub(&x, &y), ("sub", a, b));
            assert_refused(on.mul(&x, &y), ("mul", a, b));
            assert_refused(on.div(&x, &y), ("div", a, b));
            assert_refused(on.matmul(&x, &y), ("matmul", a, b));
            assert_refused(on.concat(&[&x, &y], 0), ("concat", a, b));
            assert_refused(on.equal(&x, &y), ("equal", a, b));
            assert_refused(on.greater(&x, &y), ("greater", a, b));
            assert_refused(on.less(&x, &y), ("less", a, b));
            if on.supports(&[DataType::Bool]) {
                let condition = tensor(on, [2, 2], [true; 4]);
                assert_refused(on.r#where(&condition, &x, &y), ("where", a, b));
            }
            if a != DataType::Bool {
                assert_refused(on.r#where(&x, &y, &y), ("where with a condition of", a));
            }
            if !matches!(a, DataType::I32 | DataType::I64) {
                assert_refused(on.gather(&y, &x, 0), ("gather with indices of", a));
            }
        }
    }
}

/// Tests that wrong shapes, axes and other arguments are refused.
///
/// # Panics
///
/// If they are not refused.
pub fn wrong_arguments(on: &Subject<'_>) {
    use Primitive as P;
    for (a, b) in [(&[2][..], &[3][..]), (&[2, 3], &[2]), (&[2], &[0]), (&[2, 1, 3], &[2, 2])] {
        let of = |op: Primitive| on.taken(op, 0).into_iter().filter(|t| t.is_compute());
        let make = |dtype, shape: &[usize]| numbers(on, dtype, shape, vec![1.0; shape.iter().product()]);
        for dtype in of(P::Add) {
            let (x, y) = (make(dtype, a), make(dtype, b));
            for (name, result) in [
                ("add", on.add(&x, &y)),
                ("sub", on.sub(&x, &y)),
                ("mul", on.mul(&x, &y)),
                ("div", on.div(&x, &y)),
                ("equal", on.equal(&x, &y)),
                ("greater", on.greater(&x, &y)),
                ("less", on.less(&x, &y)),
            ] {
                assert_refused(result, (name, dtype, a, b));
            }
        }
        for dtype in of(P::Pow) {
            assert_refused(on.pow(&make(dtype, a), &make(dtype, b)), ("pow", dtype, a, b));
        }
        if on.supports(&[DataType::Bool]) {
            for dtype in of(P::Identity) {
                let result = on.r#where(&make(DataType::Bool, a), &make(dtype, b), &make(dtype, b));
                assert_refused(result, ("where", dtype, a, b));
            }
        }
    }
}
