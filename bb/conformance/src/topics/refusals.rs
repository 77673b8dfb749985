//! Tests that invalid calls return an error, instead of a panic or a result.

use crate::check::refused;
use crate::{Subject, numbers, sample, tensor};
use bb_core::DataType;
use bb_ir::op::Primitive;

/// Tests that operands are refused if their element types differ but must agree.
///
/// # Panics
///
/// If the operands are not refused.
pub fn mixed_types(on: &Subject<'_>) {
    for &a in DataType::ALL.iter().filter(|t| on.supports(&[**t])) {
        for &b in DataType::ALL.iter().filter(|t| **t != a && on.supports(&[**t])) {
            let (x, y) = (on.bring(&sample(a, &[2, 2])), on.bring(&sample(b, &[2, 2])));
            let differ = format_args!("the element types {a} and {b} differ");
            refused(on, on.add(&x, &y), differ);
            refused(on, on.sub(&x, &y), differ);
            refused(on, on.mul(&x, &y), differ);
            refused(on, on.div(&x, &y), differ);
            refused(on, on.matmul(&x, &y), differ);
            refused(on, on.concat(&[&x, &y], 0), differ);
            refused(on, on.equal(&x, &y), differ);
            refused(on, on.greater(&x, &y), differ);
            refused(on, on.less(&x, &y), differ);
            if on.supports(&[DataType::Bool]) {
                let condition = tensor(on, [2, 2], [true; 4]);
                refused(on, on.r#where(&condition, &x, &y), differ);
            }
            if a != DataType::Bool {
                refused(on, on.r#where(&x, &y, &y), format_args!("the condition is {a} instead of bool"));
            }
            if !matches!(a, DataType::I32 | DataType::I64) {
                let why = format_args!("the indices are {a} instead of i32 or i64");
                refused(on, on.gather(&y, &x, 0), why);
            }
        }
    }
}

/// Tests that invalid shapes, axes and other arguments are refused.
///
/// # Panics
///
/// If they are not refused.
pub fn wrong_arguments(on: &Subject<'_>) {
    use Primitive as P;
    for (a, b) in [(&[2][..], &[3][..]), (&[2, 3], &[2]), (&[2], &[0]), (&[2, 1, 3], &[2, 2])] {
        let of = |op: Primitive| on.taken(op, 0).into_iter().filter(|t| t.is_compute());
        let make = |dtype, shape: &[usize]| numbers(on, dtype, shape, vec![1.0; shape.iter().product()]);
        let why = format_args!("the shapes {a:?} and {b:?} do not broadcast");
        for dtype in of(P::Add) {
            let (x, y) = (make(dtype, a), make(dtype, b));
            refused(on, on.add(&x, &y), why);
            refused(on, on.sub(&x, &y), why);
            refused(on, on.mul(&x, &y), why);
            refused(on, on.div(&x, &y), why);
            refused(on, on.equal(&x, &y), why);
            refused(on, on.greater(&x, &y), why);
            refused(on, on.less(&x, &y), why);
        }
        for dtype in of(P::Pow) {
            refused(on, on.pow(&make(dtype, a), &make(dtype, b)), why);
        }
        if on.supports(&[DataType::Bool]) {
            for dtype in of(P::Identity) {
                let result = on.r#where(&make(DataType::Bool, a), &make(dtype, b), &make(dtype, b));
                refused(on, result, why);
            }
        }
    }
}
