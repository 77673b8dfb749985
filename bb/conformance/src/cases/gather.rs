//! The case of `gather`.

use super::definition::{offset, positions};
use crate::check::refused;
use crate::{Subject, assert_same, numbers, rearranged, sample, tensor};
use bb_core::DataType;
use bb_ir::op::Primitive;

/// The shape of the data, the axis, the shape of the indices, and the indices.
type Case = (&'static [usize], i64, &'static [usize], &'static [i64]);

/// ONNX Gather: the shape of the indices replaces the axis in the shape of the data.
pub fn gather(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Gather, 0) {
        for index in on.taken(Primitive::Gather, 1) {
            every_axis(on, dtype, index);
        }
    }
    for index in on.taken(Primitive::Gather, 1) {
        for dtype in on.taken(Primitive::Gather, 0) {
            let data = on.bring(&sample(dtype, &[2, 3]));
            for bad in [3.0, -4.0, 100.0, f64::from(i32::MAX), f64::from(i32::MIN)] {
                let indices = numbers(on, index, [2], [0.0, bad]);
                let why = format_args!("index {bad} is out of range for extent 3");
                refused(on, on.gather(&data, &indices, 1), why);
            }
            for axis in [2, -3] {
                let why = format_args!("axis {axis} is out of range for rank 2");
                refused(on, on.gather(&data, &numbers(on, index, [], [0.0]), axis), why);
            }
            let none = on.bring(&sample(dtype, &[0, 3]));
            refused(
                on,
                on.gather(&none, &numbers(on, index, [1], [0.0]), 0),
                "index 0 is out of range for extent 0",
            );
            let scalar = on.bring(&sample(dtype, &[]));
            refused(
                on,
                on.gather(&scalar, &numbers(on, index, [], [0.0]), 0),
                "axis 0 is out of range for rank 0",
            );
        }
    }
    if on.supports(&[DataType::I64, DataType::U8]) {
        let data = tensor(on, [2], [7u8, 8]);
        for bad in [i64::MIN, i64::MAX, 1 << 32, -(1 << 32)] {
            let why = format_args!("index {bad} is out of range for extent 2");
            refused(on, on.gather(&data, &tensor(on, [1], [bad]), 0), why);
        }
    }
}

fn every_axis(on: &Subject<'_>, dtype: DataType, index: DataType) {
    let cases: [Case; 9] = [
        (&[4], 0, &[3], &[3, 0, 3]),
        (&[4], 0, &[], &[2]),
        (&[4], -1, &[2, 2], &[-1, -4, 1, 0]),
        (&[3, 2], 0, &[2], &[2, -3]),
        (&[3, 2], 1, &[3], &[1, 1, 0]),
        (&[2, 3, 2], 1, &[2, 1], &[-1, 0]),
        (&[2, 3, 2], -3, &[1], &[1]),
        (&[3, 2], 0, &[0], &[]),
        (&[0, 2], 1, &[3], &[1, 0, 1]),
    ];
    for (shape, axis, index_shape, indices) in cases {
        let x = sample(dtype, shape);
        let resolved = if axis < 0 { axis + shape.len() as i64 } else { axis } as usize;
        let extent = shape.get(resolved).copied().unwrap_or(0) as i64;
        let (before, rest) = shape.split_at(resolved);
        let after = rest.get(1..).unwrap_or_default();
        let mut order = Vec::new();
        for outer in positions(before) {
            for &i in indices {
                let entry = if i < 0 { i + extent } else { i } as usize;
                for inner in positions(after) {
                    order.push(offset(shape, &[outer.as_slice(), &[entry], &inner].concat()));
                }
            }
        }
        let to = [before, index_shape, after].concat();
        let values: Vec<f64> = indices.iter().map(|&i| i as f64).collect();
        let chosen = on.gather(&on.bring(&x), &numbers(on, index, index_shape, values), axis);
        assert_same(on, chosen, &rearranged(&x, &to, &order));
    }
}
