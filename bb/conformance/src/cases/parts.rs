//! The cases of `concat slice split`, on every element type.

use super::definition::{offset, positions};
use crate::check::refused;
use crate::run_call::wrong_results;
use crate::{Subject, assert_same, rearranged, sample};
use bb_core::{DataType, TensorData};
use bb_ir::op::Primitive;

/// Splits a sample into tensors of these shapes, in order. Returns the sample and the parts.
fn dealt(dtype: DataType, shapes: &[&[usize]]) -> (TensorData, Vec<TensorData>) {
    let counts = shapes.iter().map(|shape| shape.iter().product::<usize>());
    let all = sample(dtype, &[counts.clone().sum()]);
    let mut start = 0;
    let cut = |(shape, count): (&&[usize], usize)| {
        let order: Vec<usize> = (start..start + count).collect();
        start += count;
        rearranged(&all, shape, &order)
    };
    let parts = shapes.iter().zip(counts).map(cut).collect();
    (all, parts)
}

/// The shapes of the operands, the axis, the shape of the result, and the index in all operands of each
/// element of the result.
type Join = (&'static [&'static [usize]], i64, &'static [usize], &'static [usize]);

/// ONNX Concat. A negative axis counts from the end.
pub fn concat(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Concat, 0) {
        let cases: [Join; 9] = [
            (&[&[2], &[3], &[1]], 0, &[6], &[0, 1, 2, 3, 4, 5]),
            (&[&[1, 2], &[1, 1]], -1, &[1, 3], &[0, 1, 2]),
            (&[&[2, 2], &[2, 1]], 1, &[2, 3], &[0, 1, 4, 2, 3, 5]),
            (&[&[2, 2], &[1, 2]], 0, &[3, 2], &[0, 1, 2, 3, 4, 5]),
            (&[&[2, 1, 2], &[2, 1, 2]], -2, &[2, 2, 2], &[0, 1, 4, 5, 2, 3, 6, 7]),
            (&[&[3]], 0, &[3], &[0, 1, 2]),
            (&[&[0], &[2], &[0]], 0, &[2], &[0, 1]),
            (&[&[2, 0], &[2, 1]], 1, &[2, 1], &[0, 1]),
            (&[&[0, 2], &[0, 3]], 1, &[0, 5], &[]),
        ];
        for (shapes, axis, shape, order) in cases {
            let (all, parts) = dealt(dtype, shapes);
            let parts: Vec<_> = parts.iter().map(|part| on.bring(part)).collect();
            let parts: Vec<_> = parts.iter().collect();
            assert_same(on, on.concat(&parts, axis), &rearranged(&all, shape, order));
        }
        let [a, b, scalar] = [&[2, 2][..], &[3, 2], &[]].map(|shape| on.bring(&sample(dtype, shape)));
        refused(on, on.concat(&[], 0), "there is no operand");
        refused(on, on.concat(&[&a, &b], 1), "the shapes [2, 2] and [3, 2] differ on another axis than 1");
        refused(on, on.concat(&[&a, &a], 2), "axis 2 is out of range for rank 2");
        refused(on, on.concat(&[&a, &a], -3), "axis -3 is out of range for rank 2");
        refused(on, on.concat(&[&scalar], 0), "axis 0 is out of range for rank 0");
    }
}

/// ONNX Slice. Bounds are clamped as in Python. To include the first element, a backward slice ends at
/// `i64::MIN`; in Python, the end is omitted.
pub fn slice(on: &Subject<'_>) {
    // Source: Python, `range(5)[start:end:step]`.
    let cases: [(i64, i64, i64, &[usize]); 14] = [
        (1, 4, 1, &[1, 2, 3]),
        (0, 5, 1, &[0, 1, 2, 3, 4]),
        (-3, i64::MAX, 1, &[2, 3, 4]),
        (i64::MIN, i64::MAX, 2, &[0, 2, 4]),
        (1, 4, 2, &[1, 3]),
        (0, 4, 3, &[0, 3]),
        (10, 20, 1, &[]),
        (3, 1, 1, &[]),
        (4, 0, -1, &[4, 3, 2, 1]),
        (i64::MAX, i64::MIN, -1, &[4, 3, 2, 1, 0]),
        (-1, i64::MIN, -2, &[4, 2, 0]),
        (3, i64::MIN, -2, &[3, 1]),
        (2, i64::MIN, i64::MIN, &[2]),
        (0, 5, i64::MAX, &[0]),
    ];
    for dtype in on.taken(Primitive::Slice, 0) {
        let x = sample(dtype, &[5]);
        for (start, end, step, order) in cases {
            let part = on.slice(&on.bring(&x), &[start], &[end], &[0], &[step]);
            assert_same(on, part, &rearranged(&x, &[order.len()], order));
        }
        several_axes(on, dtype);
        let x = on.bring(&sample(dtype, &[5, 2]));
        refused(on, on.slice(&x, &[0], &[1], &[0], &[0]), "the step is 0");
        refused(on, on.slice(&x, &[0], &[1], &[2], &[1]), "axis 2 is out of range for rank 2");
        refused(
            on,
            on.slice(&x, &[0, 0], &[1, 1], &[0, -2], &[]),
            "the axes 0 and -2 of rank 2 are the same",
        );
        refused(on, on.slice(&x, &[0, 0], &[1], &[], &[]), "there are fewer ends than starts");
        refused(on, on.slice(&x, &[0; 3], &[1; 3], &[], &[]), "rank 2 has fewer than three axes");
    }
}

fn several_axes(on: &Subject<'_>, dtype: DataType) {
    let x = sample(dtype, &[3, 4]);
    let here = on.bring(&x);
    // Axes that are not listed are not sliced; the default step is 1.
    assert_same(
        on,
        on.slice(&here, &[1], &[3], &[], &[]),
        &rearranged(&x, &[2, 4], &[4, 5, 6, 7, 8, 9, 10, 11]),
    );
    assert_same(on, on.slice(&here, &[1], &[3], &[-1], &[]), &rearranged(&x, &[3, 2], &[1, 2, 5, 6, 9, 10]));
    let part = on.slice(&here, &[3, 2], &[0, 0], &[1, 0], &[-2, -1]);
    assert_same(on, part, &rearranged(&x, &[2, 2], &[11, 9, 7, 5]));
    assert_same(on, on.slice(&here, &[], &[], &[], &[]), &x);
    // Slices a slice of a transposed tensor.
    if let Some(turned) = on.reversed(&here) {
        let inner = on.made(on.slice(&turned, &[1], &[4], &[0], &[]));
        assert_same(
            on,
            on.slice(&inner, &[2, 2], &[-9, 0], &[0, 1], &[-1, -1]),
            &rearranged(&x, &[3, 2], &[11, 7, 10, 6, 9, 5]),
        );
    }
    let empty = sample(dtype, &[0, 3]);
    assert_same(
        on,
        on.slice(&on.bring(&empty), &[0, 1], &[5, 3], &[], &[]),
        &rearranged(&empty, &[0, 2], &[]),
    );
}

/// ONNX Split.
pub fn split(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Split, 0) {
        let cases: [(&[usize], i64, &[usize]); 7] = [
            (&[6], 0, &[2, 1, 3]),
            (&[6], -1, &[6]),
            (&[2, 5], 1, &[2, 3]),
            (&[5, 2], -2, &[1, 4]),
            (&[3, 2, 2], 1, &[1, 1]),
            (&[4], 0, &[0, 4, 0]),
            (&[2, 0], 1, &[0, 0]),
        ];
        for (shape, axis, sizes) in cases {
            let x = sample(dtype, shape);
            let parts = on.split(&on.bring(&x), axis, sizes);
            let parts = on.made(parts);
            let (got, expected) = (parts.len(), sizes.len());
            assert!(got == expected, "{} {}", on.last(), wrong_results(got, expected));
            let axis = if axis < 0 { axis + shape.len() as i64 } else { axis } as usize;
            let mut start = 0;
            for (part, &size) in parts.into_iter().zip(sizes) {
                let own: Vec<usize> =
                    shape.iter().enumerate().map(|(i, &d)| if i == axis { size } else { d }).collect();
                let order: Vec<usize> = positions(&own)
                    .into_iter()
                    .map(|mut p| {
                        if let Some(i) = p.get_mut(axis) {
                            *i += start;
                        }
                        offset(shape, &p)
                    })
                    .collect();
                assert_same(on, Ok(part), &rearranged(&x, &own, &order));
                start += size;
            }
        }
        let x = on.bring(&sample(dtype, &[4, 2]));
        for (axis, sizes) in [(0, &[1, 2][..]), (0, &[4, 1]), (0, &[usize::MAX, 5])] {
            refused(on, on.split(&x, axis, sizes), format_args!("the sizes {sizes:?} do not add up to 4"));
        }
        for axis in [2, -3] {
            refused(on, on.split(&x, axis, &[2]), format_args!("axis {axis} is out of range for rank 2"));
        }
        refused(on, on.split(&on.bring(&sample(dtype, &[])), 0, &[1]), "axis 0 is out of range for rank 0");
    }
}
