#![expect(clippy::indexing_slicing, reason = "tests")]

use bb::DataType;
use half::{bf16, f16};

use super::pack::panel;
use super::panels::Panels;
use super::{Compute, Dims, End, Number, Strided, batched, gemm_plus, multiply};
use crate::caches::simulated;
use crate::level::{at, levels};
use crate::pool::Pool;
use crate::threads::as_if;
use std::ops::Range;
use std::sync::Mutex;

/// Returns small integers, whose products are summed exactly in every type.
fn numbers(n: usize, seed: u64) -> Vec<i64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % 3
    };
    (0..n).map(step).collect()
}

const SIZES: [usize; 14] = [0, 1, 2, 3, 5, 7, 8, 15, 17, 31, 33, 63, 65, 130];

fn check<T: Number + std::fmt::Debug>(from: impl Fn(i64) -> T, [m, k, n]: [usize; 3])
where
    T::Sum: Compute,
{
    let (x, y) = (numbers(m * k, 1), numbers(k * n, 2));
    let mut expected = vec![0i64; m * n];
    for i in 0..m {
        for p in 0..k {
            for j in 0..n {
                expected[i * n + j] += x[i * k + p] * y[p * n + j];
            }
        }
    }
    let expected: Vec<T> = expected.into_iter().map(&from).collect();
    for forms in 0..4 {
        // Each operand is stored in row-major order, and in column-major order with gaps.
        let lay = |data: &[i64], rows: usize, cols: usize, by_columns: bool| -> (Vec<T>, isize, isize) {
            if !by_columns {
                return (data.iter().map(|&v| from(v)).collect(), cols as isize, 1);
            }
            let mut moved = vec![from(1); (rows + 3) * cols];
            for i in 0..rows {
                for j in 0..cols {
                    moved[j * (rows + 3) + i] = from(data[i * cols + j]);
                }
            }
            (moved, 1, rows as isize + 3)
        };
        let (a, a_row, a_col) = lay(&x, m, k, forms & 1 == 1);
        let (b, b_row, b_col) = lay(&y, k, n, forms & 2 == 2);
        let a = Strided { ptr: a.as_ptr(), row: a_row, col: a_col };
        let b = Strided { ptr: b.as_ptr(), row: b_row, col: b_col };
        for level in levels() {
            for gap in [0, 2] {
                let mut c = vec![from(2); m * (n + gap)];
                at(level, || {
                    // SAFETY: the operands and the result have these extents.
                    unsafe { multiply(Dims { m, k, n }, c.as_mut_ptr(), n + gap, a, b) }
                });
                let rows: Vec<T> = (0..m).flat_map(|i| c[i * (n + gap)..][..n].to_vec()).collect();
                assert_eq!(rows, expected, "{m}x{k}x{n} layout {forms} at {level:?}");
                let gaps = (0..m).flat_map(|i| c[i * (n + gap)..][n..n + gap].to_vec());
                assert!(gaps.into_iter().all(|v| v == from(2)), "wrote between rows");
            }
        }
    }
}

#[test]
fn f32_equals_the_definition_at_every_size_and_layout() {
    for m in SIZES {
        for n in SIZES {
            for k in [0, 1, 3, 16, 37, 65] {
                check(|v| v as f32, [m, k, n]);
            }
        }
    }
}

#[test]
fn extents_beyond_a_block_accumulate() {
    for [m, k, n] in [
        [3, 700, 70],
        [100, 1100, 100],
        [20, 2500, 70],
        [13, 513, 1],
        [1, 1025, 9],
        [1, 5, 4500],
        [9, 130, 7],
        [14, 80, 600],
        [200, 300, 190],
        // A wide right operand with few rows, which is read in place.
        [40, 16, 9001],
    ] {
        check(|v| v as f32, [m, k, n]);
        check(|v| v as f64, [m, k, n]);
        check(|v| v as i32, [m, k, n]);
    }
}

#[test]
fn every_type_equals_the_definition() {
    for [m, k, n] in
        [[1, 1, 1], [2, 3, 4], [5, 33, 1], [1, 17, 40], [13, 21, 35], [37, 40, 50], [128, 20, 100]]
    {
        check(|v| v as f64, [m, k, n]);
        check(|v| v as i32, [m, k, n]);
        check(|v| v, [m, k, n]);
        check(|v| f16::from_f32(v as f32), [m, k, n]);
        check(|v| bf16::from_f32(v as f32), [m, k, n]);
    }
}

#[test]
fn integers_wrap() {
    let (a, b, mut c) = ([i32::MAX, 2], [3, i32::MAX], [0]);
    // SAFETY: one row times one column of two elements.
    unsafe {
        multiply(
            Dims { m: 1, k: 2, n: 1 },
            c.as_mut_ptr(),
            1,
            Strided::dense(a.as_ptr(), 2),
            Strided::dense(b.as_ptr(), 1),
        );
    }
    assert_eq!(c, [i32::MAX.wrapping_mul(3).wrapping_add(i32::MAX.wrapping_mul(2))]);
}

#[test]
fn batches_follow_their_offsets() {
    let a: Vec<f32> = numbers(6 * 20 * 30, 3).into_iter().map(|v| v as f32).collect();
    let b: Vec<f32> = numbers(30 * 25, 4).into_iter().map(|v| v as f32).collect();
    let dims = Dims { m: 20, k: 30, n: 25 };
    let mut c = vec![0f32; 6 * 20 * 25];
    // SAFETY: the six left operands follow each other, and share the right operand.
    unsafe {
        let (a, b) = (Strided::dense(a.as_ptr(), 30), Strided::dense(b.as_ptr(), 25));
        batched(6, dims, c.as_mut_ptr(), a, b, &|i| (i as isize * 600, 0));
    }
    for (row, c) in c.chunks(25).enumerate() {
        for (j, &c) in c.iter().enumerate() {
            let sum: f32 = (0..30).map(|p| a[row * 30 + p] * b[p * 25 + j]).sum();
            assert_eq!(c, sum);
        }
    }
}

/// Returns floats whose sums need rounding.
fn fractions(n: usize, seed: u64) -> Vec<f32> {
    numbers(n, seed)
        .iter()
        .zip(numbers(n, seed + 7))
        .map(|(&a, b)| (a - 1) as f32 / 3.0 + b as f32 / 7.0)
        .collect()
}

/// Computes a product with `threads` threads and operands that begin `shift` elements after an aligned address. Returns
/// the result's bits.
fn divided([m, k, n]: [usize; 3], by_columns: [bool; 2], threads: usize, shift: usize) -> Vec<u32> {
    let (x, y) = (fractions(m * k, 1), fractions(k * n, 2));
    let lay = |data: &[f32], rows: usize, cols: usize, by_columns: bool| {
        let mut room = vec![0f32; shift + 16 + rows * cols];
        let first = room.as_ptr().align_offset(64) + shift;
        for (i, row) in data.chunks(cols).enumerate() {
            for (j, &v) in row.iter().enumerate() {
                room[first + if by_columns { j * rows + i } else { i * cols + j }] = v;
            }
        }
        let strides = if by_columns { (1, rows as isize) } else { (cols as isize, 1) };
        (room, first, strides)
    };
    let (x, at_x, (a_row, a_col)) = lay(&x, m, k, by_columns[0]);
    let (y, at_y, (b_row, b_col)) = lay(&y, k, n, by_columns[1]);
    let a = Strided { ptr: x[at_x..].as_ptr(), row: a_row, col: a_col };
    let b = Strided { ptr: y[at_y..].as_ptr(), row: b_row, col: b_col };
    let mut c = vec![0f32; m * n];
    // SAFETY: the operands and the result have these extents.
    as_if(threads, || unsafe { multiply(Dims { m, k, n }, c.as_mut_ptr(), n, a, b) });
    c.into_iter().map(f32::to_bits).collect()
}

#[test]
fn neither_threads_nor_addresses_change_a_bit() {
    let sizes = [
        [1, 2000, 70],
        [1, 700, 300],
        [1, 129, 1030],
        [2, 1100, 300],
        [3, 700, 300],
        [5, 129, 513],
        [13, 129, 512],
        [13, 700, 1],
        [40, 600, 33],
        [70, 1100, 100],
        [130, 300, 200],
    ];
    for dims in sizes {
        for forms in [[false, false], [false, true], [true, false], [true, true]] {
            for level in levels() {
                let bits = |threads, shift| at(level, || divided(dims, forms, threads, shift));
                let expected = bits(1, 0);
                for threads in [2, 3, 5, 16, 100] {
                    assert!(bits(threads, 0) == expected, "{dims:?} {forms:?} {level:?}: {threads} threads");
                }
                for shift in [1, 3, 8] {
                    assert!(
                        bits(1, shift) == expected,
                        "{dims:?} {forms:?} {level:?}: {shift} elements further"
                    );
                }
            }
        }
    }
}

/// The size of the second-level cache determines the number of rows of a block, but never the order of a sum.
#[test]
fn products_do_not_depend_on_caches() {
    let fraction = |n: usize, seed: u64| {
        numbers(n, seed)
            .iter()
            .enumerate()
            .map(|(i, &v)| v as f32 / 3.0 + i as f32 * 1e-4)
            .collect::<Vec<_>>()
    };
    let [m, k, n] = [150, 1100, 130];
    let (a, b) = (fraction(m * k, 1), fraction(k * n, 2));
    // Row-major operands are read in place, and column-major ones are packed.
    for (a_row, a_col) in [(k as isize, 1), (1, m as isize)] {
        let a = Strided { ptr: a.as_ptr(), row: a_row, col: a_col };
        let b = Strided { ptr: b.as_ptr(), row: 1, col: k as isize };
        for level in levels() {
            let product = || {
                let mut c = vec![0f32; m * n];
                // SAFETY: the operands and the result have these extents.
                at(level, || unsafe { multiply(Dims { m, k, n }, c.as_mut_ptr(), n, a, b) });
                c.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let expected = product();
            for size in [1 << 18, 3 << 18, 1 << 22] {
                assert_eq!(simulated(size, product), expected, "{size} bytes at {level:?}");
            }
        }
    }
}

/// Checks that packing writes each element of a panel: the operand's elements, and zeros after them. Tiles read whole
/// vectors of panels.
fn filled<T: Number<Sum: std::fmt::Debug>>(from: impl Fn(i64) -> T, stale: T::Sum) {
    for [k, cols, room] in
        [[1, 1, 8], [3, 5, 8], [4, 7, 16], [9, 16, 16], [17, 9, 16], [5, 17, 32], [33, 31, 32]]
    {
        let x: Vec<T> = numbers(k * cols * 2, 1).into_iter().map(&from).collect();
        for (row, col) in [(cols, 1), (1, k), (2 * cols, 2), (0, 1), (1, 0)] {
            for level in levels() {
                let mut to = vec![stale; k * room];
                let operand = Strided { ptr: x.as_ptr(), row: row as isize, col: col as isize };
                // SAFETY: the operand has these extents, and the panel has room for its rows.
                at(level, || unsafe { panel(k, cols, room, operand, to.as_mut_ptr()) });
                for (at, got) in to.into_iter().enumerate() {
                    let (p, j) = (at / room, at % room);
                    let want = if j < cols { x[p * row + j * col].widen() } else { from(0).widen() };
                    assert_eq!(got, want, "{p}, {j} of {k}x{cols} in {room}, {row} {col}, at {level:?}");
                }
            }
        }
    }
}

#[test]
fn panels_have_zeros_beyond_the_operand() {
    filled(|v| v as f32, f32::NAN);
    filled(|v| v as f64, f64::NAN);
    filled(|v| v as i32, i32::MAX);
    filled(|v| f16::from_f32(v as f32), f32::NAN);
}

/// Few rows are multiplied with several panels in one tile, and the remaining panels one by one.
#[test]
fn products_with_panels_equal_the_definition() {
    let pool = Pool::new(1 << 20, None);
    for k in [5, 37, 1100] {
        for n in [16, 40, 64, 100, 200] {
            let (x, y) = (numbers(8 * k, 1), numbers(k * n, 2));
            let [a, b] = [&x, &y].map(|x| x.iter().map(|&v| v as f32).collect::<Vec<_>>());
            // The operand is column-major, so that it is packed whatever its size.
            let moved: Vec<f32> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
            let right = Strided { ptr: moved.as_ptr(), row: 1, col: k as isize };
            for level in levels() {
                // SAFETY: the operand has these extents.
                let panels = at(level, || unsafe { Panels::new(&pool, DataType::F32, [k, n], right.cast()) });
                let Ok(Some(panels)) = panels else { continue };
                for m in 1..=8 {
                    let mut c = vec![f32::NAN; m * n];
                    let left = Strided::dense(a.as_ptr(), k).cast();
                    // SAFETY: the operands and the result have these extents.
                    at(level, || unsafe { panels.products(1, m, left, c.as_mut_ptr().cast(), &|_| 0) });
                    for (at, &got) in c.iter().enumerate() {
                        let (i, j) = (at / n, at % n);
                        let want: i64 = (0..k).map(|p| x[i * k + p] * y[p * n + j]).sum();
                        assert_eq!(got, want as f32, "{m}x{k}x{n} at {level:?}");
                    }
                }
            }
        }
    }
}

/// The functions after a product apply to each sum. Expected: the product with the same operands, followed by each
/// function in turn.
#[test]
fn what_follows_products_is_done_to_every_sum() {
    for [m, k, n] in [[1, 9, 40], [13, 7, 3], [20, 3, 50], [33, 64, 300], [70, 1100, 130], [97, 300, 190]] {
        let mut a: Vec<f32> = numbers(m * k, 1).iter().map(|&v| v as f32 - 0.7).collect();
        let b: Vec<f32> = numbers(k * n, 2).iter().map(|&v| v as f32 - 1.1).collect();
        let plus: Vec<f32> = numbers(m, 3).iter().map(|&v| v as f32 * 0.3).collect();
        let other: Vec<f32> = numbers(m * n, 4).iter().map(|&v| v as f32 * 0.9 - 1.0).collect();
        for (row, special) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
            if let Some(slot) = a.get_mut((3 * row + 2) * k) {
                *slot = special;
            }
        }
        let (left, right) = (Strided::dense(a.as_ptr(), k), Strided::dense(b.as_ptr(), n));
        for level in levels() {
            for forms in 0..8 {
                let plus = if forms & 1 == 1 { plus.as_ptr() } else { std::ptr::null() };
                let swish = (forms & 4 == 4).then_some([0.2f32, 0.5]);
                let mut c = vec![9.0f32; m * n];
                let beside = if forms & 2 == 2 { other.as_ptr() } else { std::ptr::null() };
                let end = End { beside: (c.as_ptr(), beside), bounds: [-0.0, 1.5], swish };
                // Returns how often `done` was called for each element of the result.
                let product = |c: &mut [f32], end, most| {
                    let dims = Dims { m, k, n };
                    let said = Mutex::new(vec![0; m * n]);
                    let done = |[rows, columns]: [Range<usize>; 2]| {
                        let mut said = said.lock().expect("no panic");
                        for i in rows {
                            columns.clone().for_each(|j| said[i * n + j] += 1);
                        }
                    };
                    // SAFETY: the operands and the result have these extents.
                    at(level, || unsafe {
                        gemm_plus(dims, (c.as_mut_ptr(), n), [left, right], plus, end, most, &done);
                    });
                    said.into_inner().expect("no panic")
                };
                let mut want = vec![9.0f32; m * n];
                assert_eq!(product(&mut want, std::ptr::null(), usize::MAX), vec![1; m * n]);
                for most in [1000, 1] {
                    let mut again = vec![9.0f32; m * n];
                    assert_eq!(product(&mut again, std::ptr::null(), most), vec![1; m * n]);
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&again), bits(&want), "{m}x{k}x{n}");
                }
                let said = product(&mut c, &raw const end, usize::MAX);
                if said.first() == Some(&1) {
                    assert_eq!(said, vec![1; m * n]);
                    assert_eq!(c, want);
                    continue;
                }
                assert_eq!(said, vec![0; m * n]);
                for (i, (got, want)) in c.iter().zip(&want).enumerate() {
                    let x = if beside.is_null() { *want } else { want + other[i] };
                    let within = |x: f32| Number::min(Number::max(x, -0.0), 1.5);
                    let want = swish.map_or_else(|| within(x), |[by, plus]| within(x * by + plus) * x);
                    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                    assert!(same, "{got:e} at {i} of {m}x{k}x{n}, expected {want:e}: {forms} {level:?}");
                }
            }
        }
    }
}
