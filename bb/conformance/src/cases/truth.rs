//! The case of `where`.

use super::definition::{positions, stretched};
use crate::check::refused;
use crate::{Subject, assert_same, rearranged, sample, tensor};
use bb_core::DataType;
use bb_ir::op::Primitive;

/// The shapes of condition, `x` and `y`, and the shape that they broadcast to. Source: NumPy's rules.
const SHAPES: [([&[usize]; 3], &[usize]); 9] = [
    ([&[2, 3], &[2, 3], &[2, 3]], &[2, 3]),
    ([&[], &[], &[]], &[]),
    ([&[], &[2, 2], &[2, 2]], &[2, 2]),
    ([&[3], &[], &[]], &[3]),
    ([&[2, 1], &[3], &[]], &[2, 3]),
    ([&[4], &[2, 1, 1], &[3, 1]], &[2, 3, 4]),
    ([&[2, 2], &[1], &[2, 1]], &[2, 2]),
    ([&[0], &[1], &[]], &[0]),
    ([&[2, 1], &[0], &[1, 1]], &[2, 0]),
];

/// ONNX Where, on every element type.
pub fn r#where(on: &Subject<'_>) {
    if !on.supports(&[DataType::Bool]) {
        return;
    }
    for dtype in on.taken(Primitive::Where, 1) {
        for ([condition, x, y], shape) in SHAPES {
            let count = |shape: &[usize]| shape.iter().product::<usize>();
            let chosen: Vec<bool> = (0..count(condition)).map(|i| i % 3 != 1).collect();
            // The elements of both operands differ, because they come from one sample. So each element of
            // the result shows its operand.
            let all = sample(dtype, &[count(x) + count(y)]);
            let [left, right]: [Vec<usize>; 2] =
                [(0..count(x)).collect(), (count(x)..count(x) + count(y)).collect()];
            let order: Vec<usize> = positions(shape)
                .iter()
                .map(|p| match chosen.get(stretched(condition, p)) {
                    Some(true) => stretched(x, p),
                    _ => count(x) + stretched(y, p),
                })
                .collect();
            let out = on.r#where(
                &tensor(on, condition, &chosen),
                &on.bring(&rearranged(&all, x, &left)),
                &on.bring(&rearranged(&all, y, &right)),
            );
            assert_same(on, out, &rearranged(&all, shape, &order));
        }
        let [a, b] = [&[2][..], &[3]].map(|shape| on.bring(&sample(dtype, shape)));
        let condition = tensor(on, [], [true]);
        refused(on, on.r#where(&condition, &a, &b), "the shapes [2] and [3] do not broadcast");
    }
}
