//! The cases of `reduce_sum reduce_mean reduce_max reduce_min`.

use super::arithmetic::signs;
use super::definition::{each_integer, offset, positions};
use crate::check::refused;
use crate::{Subject, assert_near, assert_numbers, assert_tensor, numbers, tensor};
use bb_core::DataType;
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_ir::op::Primitive;

const INFINITY: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Axes of a tensor `[2, 3, 4]`, and whether each dimension is reduced.
const AXES: [(&[i64], [bool; 3]); 8] = [
    (&[], [true, true, true]),
    (&[0], [true, false, false]),
    (&[1], [false, true, false]),
    (&[2], [false, false, true]),
    (&[-1], [false, false, true]),
    (&[0, 2], [true, false, true]),
    (&[-1, 1], [false, true, true]),
    (&[2, 0, 1], [true, true, true]),
];

/// Checks a reduction of a tensor `[2, 3, 4]` along every choice of axes, and of a scalar. Also checks that
/// invalid axes are refused.
fn by_definition(
    on: &Subject<'_>,
    op: Primitive,
    call: impl Fn(&ErasedTensor, &[i64], bool) -> Result<ErasedTensor, ErasedError>,
    f: impl Fn(DataType, &[f64]) -> f64,
) {
    let shape = [2usize, 3, 4];
    // The values are not sorted, neighbours differ, and their sum is exact in every type.
    let values: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 13)).collect();
    for dtype in on.taken(op, 0) {
        let values: Vec<f64> =
            values.iter().map(|&v| if dtype == DataType::Bool { f64::from(v > 6.0) } else { v }).collect();
        let x = numbers(on, dtype, shape, &values);
        for (axes, reduced) in AXES {
            let kept: Vec<usize> =
                shape.iter().zip(reduced).map(|(&d, gone)| if gone { 1 } else { d }).collect();
            let dropped: Vec<usize> =
                shape.iter().zip(reduced).filter(|(_, gone)| !gone).map(|(&d, _)| d).collect();
            let want: Vec<f64> = positions(&kept)
                .iter()
                .map(|at| {
                    let group = positions(&shape)
                        .into_iter()
                        .filter(|p| p.iter().zip(at).zip(reduced).all(|((p, at), gone)| gone || p == at));
                    let group: Vec<f64> =
                        group.filter_map(|p| values.get(offset(&shape, &p)).copied()).collect();
                    f(dtype, &group)
                })
                .collect();
            assert_near(on, call(&x, axes, true), dtype, &kept, &want);
            assert_near(on, call(&x, axes, false), dtype, &dropped, &want);
        }
        let one = numbers(on, dtype, [], [1.0]);
        assert_numbers(on, call(&one, &[], true), dtype, [], [1.0]);
        assert_numbers(on, call(&one, &[], false), dtype, [], [1.0]);
        for axes in [&[3][..], &[-4], &[0, 0], &[1, -2]] {
            refused(
                on,
                call(&x, axes, true),
                format_args!("the axes {axes:?} of rank 3 are out of range or repeated"),
            );
        }
        refused(on, call(&one, &[0], true), "axis 0 is out of range for rank 0");
        // The operand has no elements, although the reduced extent is not 0. So the result has none either.
        assert_numbers(on, call(&numbers(on, dtype, [0, 3], []), &[1], false), dtype, [0], []);
    }
}

/// ONNX ReduceSum. The sum of no elements is 0; 16-bit floats are summed in `f32`.
pub fn reduce_sum(on: &Subject<'_>) {
    by_definition(on, Primitive::ReduceSum, |x, a, k| on.reduce_sum(x, a, k), |_, group| group.iter().sum());
    for dtype in on.taken(Primitive::ReduceSum, 0) {
        let none = numbers(on, dtype, [2, 0], []);
        assert_numbers(on, on.reduce_sum(&none, &[1], true), dtype, [2, 1], [0.0, 0.0]);
        assert_numbers(on, on.reduce_sum(&none, &[], false), dtype, [], [0.0]);
        if dtype.is_float() {
            let signs = signs(on, on.reduce_sum(&none, &[1], true));
            assert_eq!(signs, [false, false], "the sum of no {dtype} is 0, not -0");
        }
        // If each partial sum were rounded, the sums of 16-bit floats would stop at 2048 and 256.
        let ones = numbers(on, dtype, [4096], vec![1.0; 4096]);
        assert_numbers(on, on.reduce_sum(&ones, &[], false), dtype, [], [4096.0]);
        if dtype.is_float() {
            let x = numbers(on, dtype, [3, 2], [INFINITY, -INFINITY, NAN, 1.0, INFINITY, 1.0]);
            assert_numbers(on, on.reduce_sum(&x, &[1], false), dtype, [3], [NAN, NAN, INFINITY]);
        }
    }
    each_integer!(on, T => {
        if bb_ir::infer::accepts(Primitive::ReduceSum, 0, <T as crate::Value>::DTYPE) {
            let x = tensor(on, [2], [T::MAX, 1 as T]);
            assert_tensor(on, on.reduce_sum(&x, &[0], false), [], [T::MIN]);
        }
    });
}

/// ONNX ReduceMean. Means of integers are truncated towards zero. The mean of no elements is NaN for floats and an
/// error for integers.
pub fn reduce_mean(on: &Subject<'_>) {
    let mean = |dtype: DataType, group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        if dtype.is_integer() { mean.trunc() } else { mean }
    };
    by_definition(on, Primitive::ReduceMean, |x, a, k| on.reduce_mean(x, a, k), mean);
    for dtype in on.taken(Primitive::ReduceMean, 0) {
        let none = numbers(on, dtype, [2, 0], []);
        if dtype.is_float() {
            assert_numbers(on, on.reduce_mean(&none, &[1], true), dtype, [2, 1], [NAN, NAN]);
            let x = numbers(on, dtype, [2, 2], [INFINITY, 1.0, NAN, 1.0]);
            assert_numbers(on, on.reduce_mean(&x, &[1], false), dtype, [2], [INFINITY, NAN]);
        } else {
            refused(on, on.reduce_mean(&none, &[1], true), "the mean of no integers has no value");
        }
        if dtype.is_signed_integer() {
            let x = numbers(on, dtype, [2, 2], [-3.0, -4.0, 3.0, 4.0]);
            assert_numbers(on, on.reduce_mean(&x, &[1], false), dtype, [2], [-3.0, 3.0]);
        }
    }
}

/// ONNX ReduceMax. If an element is NaN, so is the result. The maximum of no elements is the minimum of the type.
pub fn reduce_max(on: &Subject<'_>) {
    let max = |_, group: &[f64]| group.iter().copied().fold(-INFINITY, f64::max);
    by_definition(on, Primitive::ReduceMax, |x, a, k| on.reduce_max(x, a, k), max);
    for dtype in on.taken(Primitive::ReduceMax, 0) {
        if dtype.is_float() {
            let x = numbers(on, dtype, [4, 2], [NAN, 1.0, 1.0, NAN, -INFINITY, -1.0, INFINITY, 1.0]);
            assert_numbers(on, on.reduce_max(&x, &[1], false), dtype, [4], [NAN, NAN, -1.0, INFINITY]);
            assert_numbers(on, on.reduce_max(&x, &[0], false), dtype, [2], [NAN, NAN]);
            let none = numbers(on, dtype, [0, 2], []);
            assert_numbers(on, on.reduce_max(&none, &[0], true), dtype, [1, 2], [-INFINITY; 2]);
        }
    }
    if on.supports(&[DataType::Bool]) {
        let x = tensor(on, [3, 2], [false, false, false, true, true, true]);
        assert_tensor(on, on.reduce_max(&x, &[1], false), [3], [false, true, true]);
        assert_tensor(on, on.reduce_max(&tensor(on, [1, 0], [false; 0]), &[1], false), [1], [false]);
    }
    each_integer!(on, T => {
        if bb_ir::infer::accepts(Primitive::ReduceMax, 0, <T as crate::Value>::DTYPE) {
            let x = tensor(on, [3], [T::MIN, T::MAX, T::MAX - 1]);
            assert_tensor(on, on.reduce_max(&x, &[], true), [1], [T::MAX]);
            assert_tensor(on, on.reduce_max(&tensor(on, [0], [T::MIN; 0]), &[0], false), [], [T::MIN]);
        }
    });
}

/// ONNX ReduceMin. If an element is NaN, so is the result. The minimum of no elements is the maximum of the type.
pub fn reduce_min(on: &Subject<'_>) {
    let min = |_, group: &[f64]| group.iter().copied().fold(INFINITY, f64::min);
    by_definition(on, Primitive::ReduceMin, |x, a, k| on.reduce_min(x, a, k), min);
    for dtype in on.taken(Primitive::ReduceMin, 0) {
        if dtype.is_float() {
            let x = numbers(on, dtype, [4, 2], [NAN, 1.0, 1.0, NAN, -INFINITY, -1.0, INFINITY, 1.0]);
            assert_numbers(on, on.reduce_min(&x, &[1], false), dtype, [4], [NAN, NAN, -INFINITY, 1.0]);
            assert_numbers(on, on.reduce_min(&x, &[0], false), dtype, [2], [NAN, NAN]);
            let none = numbers(on, dtype, [0, 2], []);
            assert_numbers(on, on.reduce_min(&none, &[0], true), dtype, [1, 2], [INFINITY; 2]);
        }
    }
    if on.supports(&[DataType::Bool]) {
        let x = tensor(on, [3, 2], [false, false, false, true, true, true]);
        assert_tensor(on, on.reduce_min(&x, &[1], false), [3], [false, false, true]);
        assert_tensor(on, on.reduce_min(&tensor(on, [1, 0], [false; 0]), &[1], false), [1], [true]);
    }
    each_integer!(on, T => {
        if bb_ir::infer::accepts(Primitive::ReduceMin, 0, <T as crate::Value>::DTYPE) {
            let x = tensor(on, [3], [T::MIN + 1, T::MAX, T::MIN]);
            assert_tensor(on, on.reduce_min(&x, &[], true), [1], [T::MIN]);
            assert_tensor(on, on.reduce_min(&tensor(on, [0], [T::MIN; 0]), &[0], false), [], [T::MAX]);
        }
    });
}
