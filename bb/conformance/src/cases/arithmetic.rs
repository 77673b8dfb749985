//! The cases of `add sub mul div neg abs`.

use super::definition::{each_integer, each_signed, pairs};
use crate::check::refused;
use crate::{Subject, assert_numbers, assert_tensor, numbers, tensor};
use bb_core::DataType;
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_ir::op::Primitive;

const INFINITY: f64 = f64::INFINITY;

/// Returns two functions with small numbers in all combinations. No type rounds the results.
fn small() -> (impl Fn(usize) -> f64, impl Fn(usize) -> f64) {
    (|i| (5 + i % 7) as f64, |i| (1 + i % 4) as f64)
}

fn floats(on: &Subject<'_>) -> Vec<DataType> {
    on.taken(Primitive::Sqrt, 0)
}

/// ONNX Add: IEEE 754 for floats; integers wrap.
pub fn add(on: &Subject<'_>) {
    pairs(on, Primitive::Add, |a, b| on.add(a, b), small(), |_, a, b| a + b, None);
    each_integer!(on, T => {
        let (a, b) = (tensor(on, [3], [T::MAX, T::MIN, T::MAX]), tensor(on, [3], [1 as T, T::MIN, T::MAX]));
        assert_tensor(on, on.add(&a, &b), [3], [T::MIN, 0, (0 as T).wrapping_sub(2)]);
    });
    for dtype in floats(on) {
        let a = numbers(on, dtype, [4], [INFINITY, INFINITY, f64::NAN, 1.0]);
        let b = numbers(on, dtype, [4], [-INFINITY, 1.0, 1.0, -INFINITY]);
        assert_numbers(on, on.add(&a, &b), dtype, [4], [f64::NAN, INFINITY, f64::NAN, -INFINITY]);
    }
    // The sum is the first integer that the type cannot represent exactly. It is a tie, which is rounded to
    // even.
    for (dtype, last) in [(DataType::F16, 11), (DataType::BF16, 8), (DataType::F32, 24), (DataType::F64, 53)]
    {
        if on.supports(&[dtype]) {
            let last = f64::powi(2.0, last);
            let sum = on.add(&numbers(on, dtype, [], [last]), &numbers(on, dtype, [], [1.0]));
            assert_numbers(on, sum, dtype, [], [last]);
        }
    }
}

/// ONNX Sub.
pub fn sub(on: &Subject<'_>) {
    pairs(on, Primitive::Sub, |a, b| on.sub(a, b), small(), |_, a, b| a - b, None);
    each_integer!(on, T => {
        let a = tensor(on, [2], [T::MIN, 0 as T]);
        let b = tensor(on, [2], [1 as T, T::MAX]);
        assert_tensor(on, on.sub(&a, &b), [2], [T::MAX, (0 as T).wrapping_sub(T::MAX)]);
    });
    for dtype in floats(on) {
        let a = numbers(on, dtype, [3], [INFINITY, f64::NAN, 1.0]);
        let b = numbers(on, dtype, [3], [INFINITY, 1.0, INFINITY]);
        assert_numbers(on, on.sub(&a, &b), dtype, [3], [f64::NAN, f64::NAN, -INFINITY]);
    }
}

/// ONNX Mul.
pub fn mul(on: &Subject<'_>) {
    pairs(on, Primitive::Mul, |a, b| on.mul(a, b), small(), |_, a, b| a * b, None);
    each_integer!(on, T => {
        // Modulo 2^bits, twice the maximum integer is -2, and its square is 1.
        let a = tensor(on, [2], [T::MAX, T::MAX]);
        let b = tensor(on, [2], [2 as T, T::MAX]);
        assert_tensor(on, on.mul(&a, &b), [2], [(0 as T).wrapping_sub(2), 1]);
    });
    for dtype in floats(on) {
        let a = numbers(on, dtype, [4], [INFINITY, f64::NAN, -2.0, INFINITY]);
        let b = numbers(on, dtype, [4], [0.0, 0.0, INFINITY, -1.0]);
        assert_numbers(on, on.mul(&a, &b), dtype, [4], [f64::NAN, f64::NAN, -INFINITY, -INFINITY]);
    }
}

/// ONNX Div: integer quotients are truncated towards zero; the op table makes division by zero an error.
pub fn div(on: &Subject<'_>) {
    let quotient = |dtype: DataType, a: f64, b: f64| if dtype.is_integer() { (a / b).trunc() } else { a / b };
    pairs(on, Primitive::Div, |a, b| on.div(a, b), small(), quotient, None);
    each_signed!(on, T => {
        let a = tensor(on, [5], [-7 as T, 7, -7, T::MIN, T::MIN]);
        let b = tensor(on, [5], [2 as T, -2, -2, -1, 1]);
        assert_tensor(on, on.div(&a, &b), [5], [-3 as T, -3, 3, T::MIN, T::MIN]);
    });
    each_integer!(on, T => {
        let a = tensor(on, [3], [1 as T, 2, 3]);
        refused(on, on.div(&a, &tensor(on, [3], [1 as T, 0, 1])), "a divisor is 0");
        refused(on, on.div(&a, &tensor(on, [], [0 as T])), "the divisor is 0");
        assert_tensor(on, on.div(&tensor(on, [1], [T::MAX]), &tensor(on, [1], [T::MAX])), [1], [1 as T]);
    });
    for dtype in floats(on) {
        let a = numbers(on, dtype, [6], [1.0, -1.0, 0.0, INFINITY, 1.0, f64::NAN]);
        let b = numbers(on, dtype, [6], [0.0, 0.0, 0.0, INFINITY, INFINITY, 1.0]);
        let want = [INFINITY, -INFINITY, f64::NAN, f64::NAN, 0.0, f64::NAN];
        assert_numbers(on, on.div(&a, &b), dtype, [6], want);
    }
}

/// Returns the sign bits of a tensor of floats.
pub(super) fn signs(on: &Subject<'_>, x: Result<ErasedTensor, ErasedError>) -> Vec<bool> {
    let host = on.fetch(&on.made(x));
    crate::numbers_of(&host).iter().map(|v| v.is_sign_negative()).collect()
}

/// ONNX Neg: flips the sign, also of zero.
pub fn neg(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Neg, 0) {
        for (shape, values) in shapes_of_five() {
            let want: Vec<f64> = values.iter().map(|v| 0.0 - v).collect();
            assert_numbers(on, on.neg(&numbers(on, dtype, shape, values)), dtype, shape, want);
        }
    }
    each_signed!(on, T => {
        let x = tensor(on, [3], [T::MIN, T::MAX, -1]);
        assert_tensor(on, on.neg(&x), [3], [T::MIN, -T::MAX, 1]);
    });
    for dtype in floats(on) {
        let x = numbers(on, dtype, [3], [INFINITY, -INFINITY, f64::NAN]);
        assert_numbers(on, on.neg(&x), dtype, [3], [-INFINITY, INFINITY, f64::NAN]);
        assert_eq!(
            signs(on, on.neg(&numbers(on, dtype, [2], [0.0, -0.0]))),
            [true, false],
            "neg of zeros, {dtype}"
        );
    }
}

/// ONNX Abs: clears the sign, also of zero.
pub fn abs(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Abs, 0) {
        let unsigned = dtype.is_integer() && !dtype.is_signed_integer();
        for (shape, values) in shapes_of_five() {
            let values: Vec<f64> = values.iter().map(|v| if unsigned { v.abs() } else { *v }).collect();
            let want: Vec<f64> = values.iter().map(|v| v.abs()).collect();
            assert_numbers(on, on.abs(&numbers(on, dtype, shape, values)), dtype, shape, want);
        }
    }
    each_signed!(on, T => {
        let x = tensor(on, [3], [T::MIN, T::MAX, -T::MAX]);
        assert_tensor(on, on.abs(&x), [3], [T::MIN, T::MAX, T::MAX]);
    });
    for dtype in floats(on) {
        let x = numbers(on, dtype, [3], [-INFINITY, INFINITY, f64::NAN]);
        assert_numbers(on, on.abs(&x), dtype, [3], [INFINITY, INFINITY, f64::NAN]);
        assert_eq!(
            signs(on, on.abs(&numbers(on, dtype, [2], [0.0, -0.0]))),
            [false, false],
            "abs of zeros, {dtype}"
        );
    }
}

/// Returns small numbers in five shapes, of different ranks and with zero extents.
fn shapes_of_five() -> [(&'static [usize], Vec<f64>); 5] {
    let values = |n: usize| (0..n).map(|i| i as f64 - 2.0).collect();
    [(&[], values(1)), (&[5], values(5)), (&[2, 3], values(6)), (&[0], values(0)), (&[2, 0, 3], values(0))]
}
