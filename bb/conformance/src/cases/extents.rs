//! The cases of `reshape transpose squeeze unsqueeze identity`, which do not change elements, on every element type.

use super::definition::{offset, positions};
use crate::check::refused;
use crate::{Subject, assert_same, rearranged, sample};
use bb_ir::op::Primitive;

/// The row-major indices of the elements of `[2, 3]` in the order after transposing.
const TRANSPOSED: [usize; 6] = [0, 3, 1, 4, 2, 5];

/// ONNX Reshape. The parameter is the shape of the result; 0 and -1 have no special meaning.
pub fn reshape(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Reshape, 0) {
        let x = sample(dtype, &[2, 3]);
        let all: Vec<usize> = (0..6).collect();
        for shape in [&[6][..], &[3, 2], &[1, 6, 1], &[2, 3]] {
            assert_same(on, on.reshape(&on.bring(&x), shape), &rearranged(&x, shape, &all));
        }
        // The reshape of a transposed tensor uses the order of the transposed elements, not the order in memory.
        if let Some(t) = on.reversed(&on.bring(&x)) {
            assert_same(on, on.reshape(&t, &[6]), &rearranged(&x, &[6], &TRANSPOSED));
        }
        for (from, to) in [(&[][..], &[1, 1][..]), (&[1], &[]), (&[0, 3], &[3, 0, 5]), (&[2, 0], &[0])] {
            let x = sample(dtype, from);
            let all: Vec<usize> = (0..x.len()).collect();
            assert_same(on, on.reshape(&on.bring(&x), to), &rearranged(&x, to, &all));
        }
        for shape in [&[5][..], &[], &[0], &[2, 3, 2], &[usize::MAX, 2]] {
            refused(
                on,
                on.reshape(&on.bring(&x), shape),
                format_args!("the shape {shape:?} has other than 6 elements"),
            );
        }
    }
}

/// ONNX Transpose: dimension `i` of the result is dimension `perm[i]` of the operand.
pub fn transpose(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Transpose, 0) {
        for shape in [&[2usize, 3, 4][..], &[2, 0, 3], &[1, 3, 1]] {
            let x = sample(dtype, shape);
            for perm in [[0i64, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let dims: Vec<usize> = perm.iter().map(|&p| p as usize).collect();
                let to: Vec<usize> = dims.iter().filter_map(|&d| shape.get(d).copied()).collect();
                let order: Vec<usize> = positions(&to)
                    .iter()
                    .map(|p| {
                        let mut source = vec![0; 3];
                        for (&d, &i) in dims.iter().zip(p) {
                            if let Some(slot) = source.get_mut(d) {
                                *slot = i;
                            }
                        }
                        offset(shape, &source)
                    })
                    .collect();
                assert_same(on, on.transpose(&on.bring(&x), &perm), &rearranged(&x, &to, &order));
            }
        }
        let x = sample(dtype, &[2, 3]);
        assert_same(on, on.transpose(&on.bring(&x), &[]), &rearranged(&x, &[3, 2], &TRANSPOSED));
        for shape in [&[][..], &[5]] {
            let x = sample(dtype, shape);
            assert_same(on, on.transpose(&on.bring(&x), &[]), &x);
        }
        for perm in [&[0][..], &[0, 0], &[0, 2], &[0, 1, 2], &[-1, 0]] {
            refused(
                on,
                on.transpose(&on.bring(&x), perm),
                format_args!("{perm:?} is no permutation of [0, 1]"),
            );
        }
    }
}

/// ONNX Squeeze. Without axes, it removes every dimension of extent 1.
pub fn squeeze(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Squeeze, 0) {
        let cases: [(&[usize], &[i64], &[usize]); 8] = [
            (&[1, 3, 1], &[], &[3]),
            (&[1, 3, 1], &[0], &[3, 1]),
            (&[1, 3, 1], &[-1], &[1, 3]),
            (&[1, 3, 1], &[2, 0], &[3]),
            (&[1, 1], &[], &[]),
            (&[], &[], &[]),
            (&[2, 3], &[], &[2, 3]),
            (&[1, 0], &[0], &[0]),
        ];
        for (from, axes, to) in cases {
            let x = sample(dtype, from);
            let all: Vec<usize> = (0..x.len()).collect();
            assert_same(on, on.squeeze(&on.bring(&x), axes), &rearranged(&x, to, &all));
        }
        for axes in [&[1][..], &[3], &[-4], &[0, 0], &[0, -3]] {
            let x = on.bring(&sample(dtype, &[1, 3, 1]));
            let why =
                format_args!("the axes {axes:?} are out of range, repeated, or of another extent than 1");
            refused(on, on.squeeze(&x, axes), why);
        }
    }
}

/// ONNX Unsqueeze. The axes refer to the result.
pub fn unsqueeze(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Unsqueeze, 0) {
        let cases: [(&[usize], &[i64], &[usize]); 8] = [
            (&[2, 3], &[0], &[1, 2, 3]),
            (&[2, 3], &[1], &[2, 1, 3]),
            (&[2, 3], &[2], &[2, 3, 1]),
            (&[2, 3], &[-1], &[2, 3, 1]),
            (&[2, 3], &[0, -1], &[1, 2, 3, 1]),
            (&[2, 3], &[3, 1], &[2, 1, 3, 1]),
            (&[], &[0, 1], &[1, 1]),
            (&[0], &[0], &[1, 0]),
        ];
        for (from, axes, to) in cases {
            let x = sample(dtype, from);
            let all: Vec<usize> = (0..x.len()).collect();
            assert_same(on, on.unsqueeze(&on.bring(&x), axes), &rearranged(&x, to, &all));
        }
        for axes in [&[3][..], &[-4], &[0, 0], &[0, -4]] {
            let x = on.bring(&sample(dtype, &[2, 3]));
            let why = format_args!("the axes {axes:?} of the result are out of range or repeated");
            refused(on, on.unsqueeze(&x, axes), why);
        }
    }
}

/// ONNX Identity.
pub fn identity(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Identity, 0) {
        for shape in [&[][..], &[3], &[2, 3], &[0], &[2, 0, 3]] {
            let x = sample(dtype, shape);
            assert_same(on, on.identity(&on.bring(&x)), &x);
        }
    }
}
