//! The cases of `equal greater less`.

use super::definition::{each_integer, each_signed, pairs};
use crate::{Subject, assert_tensor, numbers, tensor};
use bb_core::DataType;
use bb_core::ext::ErasedTensor;
use bb_ir::op::Primitive;

const INFINITY: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Returns two functions whose numbers form pairs that are less, equal and greater.
fn around() -> (impl Fn(usize) -> f64, impl Fn(usize) -> f64) {
    (|i| (i % 3) as f64, |i| ((i * 2 + 1) % 3) as f64)
}

fn truth(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

/// ONNX Equal: NaN equals nothing, zeros of either sign are equal, and strings are compared by bytes.
pub fn equal(on: &Subject<'_>) {
    if !on.supports(&[DataType::Bool]) {
        return;
    }
    // The cast to bool only keeps whether a number is zero.
    let same = |dtype, a: f64, b: f64| {
        truth(if dtype == DataType::Bool { (a != 0.0) == (b != 0.0) } else { a == b })
    };
    pairs(on, Primitive::Equal, |a, b| on.equal(a, b), around(), same, Some(DataType::Bool));
    for dtype in on.taken(Primitive::Sqrt, 0) {
        let a = numbers(on, dtype, [5], [NAN, 0.0, INFINITY, INFINITY, NAN]);
        let b = numbers(on, dtype, [5], [NAN, -0.0, INFINITY, -INFINITY, 1.0]);
        assert_tensor(on, on.equal(&a, &b), [5], [false, true, true, false, false]);
    }
    each_integer!(on, T => {
        // Adjacent integers, which would be equal in the 64-bit types if they were compared as floats.
        let (a, b) = (tensor(on, [2], [T::MAX, T::MIN]), tensor(on, [2], [T::MAX - 1, T::MIN]));
        assert_tensor(on, on.equal(&a, &b), [2], [false, true]);
    });
    if on.supports(&[DataType::String]) {
        let a = tensor(on, [5], ["a", "", "ab", "é", "a"]);
        let b = tensor(on, [5], ["a", "", "a", "e\u{301}", "A"]);
        assert_tensor(on, on.equal(&a, &b), [5], [true, true, false, false, false]);
        let column = tensor(on, [2, 1], ["a", "b"]);
        assert_tensor(
            on,
            on.equal(&column, &tensor(on, [2], ["b", "a"])),
            [2, 2],
            [false, true, true, false],
        );
        assert_tensor(on, on.equal(&tensor(on, [], ["x"]), &tensor(on, [0], [""; 0])), [0], [true; 0]);
    }
}

/// ONNX Greater: NaN is not greater than anything, nor is anything greater than NaN.
pub fn greater(on: &Subject<'_>) {
    if !on.supports(&[DataType::Bool]) {
        return;
    }
    let call = |a: &ErasedTensor, b: &ErasedTensor| on.greater(a, b);
    pairs(on, Primitive::Greater, call, around(), |_, a, b| truth(a > b), Some(DataType::Bool));
    for dtype in on.taken(Primitive::Sqrt, 0) {
        let a = numbers(on, dtype, [6], [NAN, 1.0, INFINITY, 0.0, -INFINITY, NAN]);
        let b = numbers(on, dtype, [6], [1.0, NAN, 1.0, -0.0, INFINITY, NAN]);
        assert_tensor(on, on.greater(&a, &b), [6], [false, false, true, false, false, false]);
    }
    each_integer!(on, T => {
        let (a, b) = (tensor(on, [3], [T::MAX, T::MAX - 1, T::MIN]), tensor(on, [3], [T::MAX - 1, T::MAX, T::MAX]));
        assert_tensor(on, on.greater(&a, &b), [3], [true, false, false]);
    });
    each_signed!(on, T => {
        let (a, b) = (tensor(on, [2], [0 as T, -1]), tensor(on, [2], [-1 as T, T::MIN]));
        assert_tensor(on, on.greater(&a, &b), [2], [true, true]);
    });
}

/// ONNX Less: NaN is not less than anything, nor is anything less than NaN.
pub fn less(on: &Subject<'_>) {
    if !on.supports(&[DataType::Bool]) {
        return;
    }
    pairs(on, Primitive::Less, |a, b| on.less(a, b), around(), |_, a, b| truth(a < b), Some(DataType::Bool));
    for dtype in on.taken(Primitive::Sqrt, 0) {
        let a = numbers(on, dtype, [6], [NAN, 1.0, 1.0, -0.0, -INFINITY, NAN]);
        let b = numbers(on, dtype, [6], [1.0, NAN, INFINITY, 0.0, INFINITY, NAN]);
        assert_tensor(on, on.less(&a, &b), [6], [false, false, true, false, true, false]);
    }
    each_integer!(on, T => {
        let (a, b) = (tensor(on, [3], [T::MAX, T::MAX - 1, T::MIN]), tensor(on, [3], [T::MAX - 1, T::MAX, T::MAX]));
        assert_tensor(on, on.less(&a, &b), [3], [false, true, true]);
    });
    each_signed!(on, T => {
        let (a, b) = (tensor(on, [2], [-1 as T, T::MIN]), tensor(on, [2], [0 as T, -1]));
        assert_tensor(on, on.less(&a, &b), [2], [true, true]);
    });
}
