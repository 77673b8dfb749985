#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use super::{Bytes, Ints, Left, Packed, Right, Zeros, product, right_bytes};
use crate::gemm::{Dims, Strided};
use crate::level::{at, levels};
use crate::pool::Pool;
use crate::threads::as_if;

/// Returns varied bytes, many of them with extreme values.
fn varied(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 60 {
            0 => 0,
            1 => 255,
            2 => 128,
            3 => 127,
            _ => (state >> 40) as u8,
        }
    };
    (0..n).map(step).collect()
}

fn number(byte: u8, signed: bool) -> i64 {
    if signed { i64::from(byte as i8) } else { i64::from(byte) }
}

/// One product: its extents, the signs of the operands, whether they are stored by columns, and whether each row and
/// each column has its own zero point.
#[derive(Debug, Clone, Copy)]
struct Case {
    dims: [usize; 3],
    signed: [bool; 2],
    by_columns: [bool; 2],
    lists: [bool; 2],
    packed: bool,
}

fn check(case: Case) {
    let Case { dims: [m, k, n], signed, by_columns, lists, packed } = case;
    let (x, y) = (varied(m * k, 1), varied(k * n, 2));
    let zero = |list: bool, signed: bool, i: usize| {
        let i = if list { i } else { 0 };
        number([3, 200, 0, 128, 255, 77][i % 6], signed)
    };
    let mut expected = vec![0i32; m * n];
    for i in 0..m {
        for j in 0..n {
            let sum: i64 = (0..k)
                .map(|p| {
                    (number(x[i * k + p], signed[0]) - zero(lists[0], signed[0], i))
                        * (number(y[p * n + j], signed[1]) - zero(lists[1], signed[1], j))
                })
                .sum();
            expected[i * n + j] = sum as i32;
        }
    }
    // Column-major operands have gaps.
    let lay = |data: &[u8], rows: usize, cols: usize, by_columns: bool| {
        if !by_columns {
            return (data.to_vec(), cols as isize, 1);
        }
        let mut moved = vec![9; (rows + 3) * cols];
        for i in 0..rows {
            for j in 0..cols {
                moved[j * (rows + 3) + i] = data[i * cols + j];
            }
        }
        (moved, 1, rows as isize + 3)
    };
    let (a, a_row, a_col) = lay(&x, m, k, by_columns[0]);
    let (b, b_row, b_col) = lay(&y, k, n, by_columns[1]);
    let a = Strided { ptr: a.as_ptr(), row: a_row, col: a_col };
    let b = Strided { ptr: b.as_ptr(), row: b_row, col: b_col };
    let pool = Pool::new(1 << 20, None);
    for level in levels() {
        // The left operand is unsigned and the right one signed, or the other way round.
        for left_signed in [false, true] {
            for threads in [1, 3] {
                let left = Bytes { signed: left_signed, flipped: signed[0] != left_signed };
                let right = at(level, || right_bytes(left_signed, signed[1]));
                let zeros = |of_left: bool, i: usize| {
                    let (at, by) = if of_left { (0, left) } else { (1, right) };
                    zero(lists[at], signed[at], i) as i32 + by.shift()
                };
                let got = as_if(threads, || {
                    at(level, || run(&pool, [m, k, n], (a, left), (b, right), lists[1], packed, &zeros))
                });
                assert!(
                    got == expected,
                    "{case:?} at {level:?}, left signed: {left_signed}, {threads} threads"
                );
            }
        }
    }
}

fn run(
    pool: &Arc<Pool>,
    [m, k, n]: [usize; 3],
    (a, left): (Strided<u8>, Bytes),
    (b, right): (Strided<u8>, Bytes),
    by_column: bool,
    packed: bool,
    zero: &dyn Fn(bool, usize) -> i32,
) -> Vec<i32> {
    // SAFETY: the operands have these extents.
    unsafe {
        let a = Left::new(pool, [m, k], a, left, true).unwrap();
        let rows = Ints::new(pool, m, |i| zero(true, i)).unwrap();
        let added = |i: usize| zero(false, 0).wrapping_mul(k as i32 * zero(true, i) - a.sums()[i]);
        let added = if by_column { Ints::none() } else { Ints::new(pool, m, added).unwrap() };
        let cols = if by_column { Ints::new(pool, n, |j| zero(false, j)).unwrap() } else { Ints::none() };
        let zeros = Zeros { added: &added, rows: &rows, cols: &cols };
        let b = Right::Strided(b, right);
        let kept = packed.then(|| Packed::new(pool, [k, n], &b).unwrap());
        let b = kept.as_ref().map_or(b, Right::Packed);
        let out = Mutex::new(vec![i32::MIN; m * n]);
        product(Dims { m, k, n }, &a, &b, &zeros, &|sums| {
            for (i, row) in sums.rows() {
                out.lock().unwrap()[i * n + sums.col..][..row.len()].copy_from_slice(row);
            }
        });
        out.into_inner().unwrap()
    }
}

const EITHER: [bool; 2] = [false, true];

#[test]
fn products_equal_the_definition_at_every_extent() {
    let sizes = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 33, 47, 48, 49, 65, 100];
    for m in [0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33] {
        for n in sizes {
            for k in [0, 1, 2, 3, 4, 5, 8, 31, 64] {
                let signed = [(m + k) % 2 == 0, (n + k) % 3 == 0];
                let (by_columns, lists) = ([m % 3 == 0, n % 2 == 0], [m % 2 == 0, n % 5 < 2]);
                check(Case { dims: [m, k, n], signed, by_columns, lists, packed: (m + n) % 3 == 0 });
            }
        }
    }
}

#[test]
fn every_type_layout_and_zero_point_equals_the_definition() {
    for dims in [[1, 37, 50], [5, 16, 49], [19, 131, 101], [140, 9, 7]] {
        for bits in 0..128 {
            let bit = |i: u32| bits >> i & 1 == 1;
            check(Case {
                dims,
                signed: [bit(0), bit(1)],
                by_columns: [bit(2), bit(3)],
                lists: [bit(4), bit(5)],
                packed: bit(6),
            });
        }
    }
}

#[test]
fn sums_of_many_extremes_are_exact() {
    for (left, right) in [(255, 0x7f), (255, 0x80), (0, 0x80), (128, 0x80)] {
        for signed in EITHER {
            let (m, k, n) = (3, 70_000, 20);
            let (a, b) = (vec![left; m * k], vec![right; k * n]);
            let expected: i64 = number(left, false) * number(right, signed) * k as i64;
            let pool = Pool::new(1 << 20, None);
            let (a, b) = (Strided::dense(a.as_ptr(), k), Strided::dense(b.as_ptr(), n));
            for level in levels() {
                let sides =
                    (Bytes { signed: false, flipped: false }, at(level, || right_bytes(false, signed)));
                let shift = sides.1.shift();
                let zero = |of_left: bool, _: usize| if of_left { 0 } else { shift };
                let got =
                    at(level, || run(&pool, [m, k, n], (a, sides.0), (b, sides.1), false, false, &zero));
                assert!(got.iter().all(|&v| v == expected as i32), "{left} {right} {level:?}");
            }
        }
    }
}
