//! The case of `matmul`.

use super::arithmetic::signs;
use super::definition::{offset, positions, stretched};
use crate::check::refused;
use crate::{Subject, assert_numbers, assert_tensor, numbers, tensor};
use bb_core::DataType;
use bb_ir::op::Primitive;

/// The shapes of two operands and of their product. Source: NumPy's `matmul`.
const SHAPES: [(&[usize], &[usize], &[usize]); 18] = [
    (&[2, 3], &[3, 4], &[2, 4]),
    (&[1, 1], &[1, 1], &[1, 1]),
    (&[1, 5], &[5, 1], &[1, 1]),
    (&[5, 1], &[1, 5], &[5, 5]),
    (&[3], &[3], &[]),
    (&[3], &[3, 2], &[2]),
    (&[2, 3], &[3], &[2]),
    (&[3], &[2, 3, 2], &[2, 2]),
    (&[2, 2, 3], &[3], &[2, 2]),
    (&[2, 3, 4], &[4, 2], &[2, 3, 2]),
    (&[3, 4], &[2, 4, 2], &[2, 3, 2]),
    (&[2, 1, 3, 4], &[5, 4, 2], &[2, 5, 3, 2]),
    (&[17, 33], &[33, 9], &[17, 9]),
    (&[2, 0], &[0, 3], &[2, 3]),
    (&[0], &[0], &[]),
    (&[0, 3], &[3, 2], &[0, 2]),
    (&[2, 3], &[3, 0], &[2, 0]),
    (&[0, 2, 3], &[1, 3, 2], &[0, 2, 2]),
];

/// Returns small numbers. No type rounds a sum of 33 products of them.
fn left(i: usize) -> f64 {
    (i % 3) as f64
}

fn right(i: usize) -> f64 {
    (i % 4) as f64
}

/// Returns the elements of the product, computed from the definition.
fn definition(a: &[usize], b: &[usize], shape: &[usize]) -> Vec<f64> {
    // A vector is treated as a matrix with a dimension of extent 1, which the result omits.
    let (rows, columns) = (a.len() > 1, b.len() > 1);
    let a_matrix = if rows { a.to_vec() } else { [&[1], a].concat() };
    let b_matrix = if columns { b.to_vec() } else { [b, &[1]].concat() };
    let inner = a.last().copied().unwrap_or(0);
    positions(shape)
        .into_iter()
        .map(|mut position| {
            let column = if columns { position.pop().unwrap_or(0) } else { 0 };
            let row = if rows { position.pop().unwrap_or(0) } else { 0 };
            let matrix = |shape: &[usize], row: usize, column: usize| {
                let (batch, extents) = shape.split_at(shape.len() - 2);
                let which =
                    stretched(batch, position.get(position.len() - batch.len()..).unwrap_or_default());
                let size: usize = extents.iter().product();
                which * size + offset(extents, &[row, column])
            };
            (0..inner).map(|k| left(matrix(&a_matrix, row, k)) * right(matrix(&b_matrix, k, column))).sum()
        })
        .collect()
}

fn fill(shape: &[usize], f: fn(usize) -> f64) -> Vec<f64> {
    (0..shape.iter().product()).map(f).collect()
}

/// ONNX MatMul, which is NumPy's `matmul`.
pub fn matmul(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::MatMul, 0) {
        for (a, b, shape) in SHAPES {
            let product =
                on.matmul(&numbers(on, dtype, a, fill(a, left)), &numbers(on, dtype, b, fill(b, right)));
            assert_numbers(on, product, dtype, shape, definition(a, b, shape));
        }
        if dtype.is_float() {
            let (none, none_below) = (numbers(on, dtype, [2, 0], []), numbers(on, dtype, [0, 1], []));
            let signs = signs(on, on.matmul(&none, &none_below));
            assert_eq!(signs, [false, false], "the product of {dtype} with the inner extent 0 is 0, not -0");
        }
        transposed(on, dtype);
        for (a, b) in
            [(&[2, 3][..], &[2, 3][..]), (&[], &[1]), (&[1], &[]), (&[2, 2, 3], &[3, 3, 2]), (&[3], &[2])]
        {
            let product =
                on.matmul(&numbers(on, dtype, a, fill(a, left)), &numbers(on, dtype, b, fill(b, right)));
            refused(on, product, format_args!("the shapes {a:?} and {b:?} have no product"));
        }
    }
    wraps(on);
    special(on);
}

/// Checks that the product with a transposed view equals the product with the same matrix in row-major order.
fn transposed(on: &Subject<'_>, dtype: DataType) {
    let (a, b) = (fill(&[3, 2], left), fill(&[4, 3], right));
    let [at, bt] = [(a, [3, 2]), (b, [4, 3])].map(|(x, shape)| on.reversed(&numbers(on, dtype, shape, x)));
    let (Some(at), Some(bt)) = (at, bt) else { return };
    let want: Vec<f64> = positions(&[2, 4])
        .iter()
        .map(|p| match p.as_slice() {
            [i, j] => (0..3).map(|k| left(k * 2 + i) * right(j * 3 + k)).sum(),
            _ => 0.0,
        })
        .collect();
    assert_numbers(on, on.matmul(&at, &bt), dtype, [2, 4], want);
}

fn wraps(on: &Subject<'_>) {
    if on.supports(&[DataType::I32]) {
        let a = tensor(on, [2, 2], [i32::MAX, 1, 1 << 16, 0]);
        let b = tensor(on, [2, 1], [1i32, 1]);
        assert_tensor(on, on.matmul(&a, &b), [2, 1], [i32::MIN, 1 << 16]);
        let squared = on.matmul(&tensor(on, [1], [1i32 << 16]), &tensor(on, [1], [1i32 << 16]));
        assert_tensor(on, squared, [], [0i32]);
    }
    if on.supports(&[DataType::U32]) {
        let dot = on.matmul(&tensor(on, [2], [u32::MAX, 2]), &tensor(on, [2], [1u32, 1]));
        assert_tensor(on, dot, [], [1u32]);
    }
    if on.supports(&[DataType::I64]) {
        // The numbers exceed 2^53, so a sum computed in floats would differ.
        let dot = on.matmul(&tensor(on, [2], [(1i64 << 60) + 1, i64::MAX]), &tensor(on, [2], [1i64, 1]));
        assert_tensor(on, dot, [], [i64::MIN + (1 << 60)]);
    }
    if on.supports(&[DataType::U64]) {
        let dot = on.matmul(&tensor(on, [1], [u64::MAX]), &tensor(on, [1], [u64::MAX]));
        assert_tensor(on, dot, [], [1u64]);
    }
}

fn special(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Sqrt, 0) {
        let a = numbers(on, dtype, [3, 2], [f64::INFINITY, 1.0, f64::NAN, 0.0, 0.0, 1.0]);
        let b = numbers(on, dtype, [2, 2], [0.0, 1.0, 1.0, 1.0]);
        let want = [f64::NAN, f64::INFINITY, f64::NAN, f64::NAN, 1.0, 1.0];
        assert_numbers(on, on.matmul(&a, &b), dtype, [3, 2], want);
        // NumPy does not round the sum of 16-bit floats after each term. Otherwise, the sums would stop at 2048 and
        // 256.
        let ones = numbers(on, dtype, [4096], vec![1.0; 4096]);
        assert_numbers(on, on.matmul(&ones, &ones), dtype, [], [4096.0]);
    }
}
