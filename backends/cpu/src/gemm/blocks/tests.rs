#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use super::*;
use crate::level::{at, levels};
use half::f16;

fn drawn(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn halved(list: Vec<f32>) -> Vec<f32> {
    list.into_iter().map(|x| f16::from_f32(x).to_f32()).collect()
}

/// Rounds a row in `f32` by the documented rule. Returns the scale and the integers of each block.
fn rounded(row: &[f32], block: usize) -> Vec<(f64, Vec<i64>)> {
    let of_block = |numbers: &[f32]| {
        if numbers.iter().any(|x| !x.is_finite()) {
            return (f64::NAN, vec![0; numbers.len()]);
        }
        let scale = numbers.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
        if scale < f32::MIN_POSITIVE {
            return (0.0, vec![0; numbers.len()]);
        }
        (f64::from(scale), numbers.iter().map(|x| (x / scale).round_ties_even() as i64).collect())
    };
    row.chunks(block).map(of_block).collect()
}

/// A quantised matrix, with its numbers before packing.
struct Matrix {
    format: Format,
    numbers: Vec<u8>,
    bytes: Vec<u8>,
    scales: Vec<f32>,
    /// The zero points as floats, and the type that they are passed as.
    points: Vec<f32>,
    given: ZeroPoints,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ZeroPoints {
    None,
    Bytes,
    Floats,
    /// Floats whose values fit in bytes.
    Whole,
    /// Floats that are computed from a minimum of 16 bits.
    Least,
}

const GIVEN: [ZeroPoints; 5] =
    [ZeroPoints::None, ZeroPoints::Bytes, ZeroPoints::Floats, ZeroPoints::Whole, ZeroPoints::Least];

impl Matrix {
    fn new(
        bits: usize,
        block: usize,
        inner: usize,
        columns: usize,
        given: ZeroPoints,
        halves: bool,
    ) -> Matrix {
        let count = inner.div_ceil(block);
        let format = Format { bits, block, count, inner, columns };
        let mask = u8::MAX >> (8 - bits);
        let of = |i: usize, seed: usize| ((i * 7919 + seed) % 2003) as u8 & mask;
        let numbers: Vec<u8> = (0..columns * count * block).map(|i| of(i, 3)).collect();
        let pack = |part: &[u8]| part.iter().rev().fold(0, |byte: u8, x| (u32::from(byte) << bits) as u8 | x);
        let bytes = numbers.chunks(8 / bits).map(pack).collect();
        let scales = drawn(columns * count, 5);
        let scales = if halves { halved(scales) } else { scales };
        let points: Vec<f32> = match given {
            ZeroPoints::None => vec![(1 << (bits - 1)) as f32; columns * count],
            ZeroPoints::Bytes | ZeroPoints::Whole => (0..columns * count).map(|i| of(i, 11).into()).collect(),
            ZeroPoints::Floats => drawn(columns * count, 7).iter().map(|x| 9.0 * x).collect(),
            ZeroPoints::Least => {
                let least = halved(drawn(columns * count, 13));
                least.iter().zip(&scales).map(|(least, scale)| -least / scale).collect()
            }
        };
        Matrix { format, numbers, bytes, scales, points, given }
    }

    fn weights(&self, pool: &Arc<Pool>) -> Weights {
        let bytes: Vec<u8> = self.points.iter().map(|&x| x as u8).collect();
        let zeros = match self.given {
            ZeroPoints::None => Zeros::One(self.points[0] as u8),
            ZeroPoints::Bytes => Zeros::Bytes(&bytes),
            _ => Zeros::Floats(&self.points),
        };
        Weights::new(pool, self.format, &self.bytes, &self.scales, zeros).unwrap()
    }

    /// Compares results with the definition: exact sums of integers, scaled in `f64`, within the rounding error of sums
    /// of blocks in `f32`.
    fn check(&self, rows: &[f32], got: &[f32], what: &str) {
        let Format { block, count, inner, columns, .. } = self.format;
        for (row, got) in rows.chunks(inner).zip(got.chunks(columns)) {
            let blocks = rounded(row, block);
            for (column, &got) in got.iter().enumerate() {
                let (mut want, mut size) = (0.0, 0.0);
                for (i, (scale, integers)) in blocks.iter().enumerate() {
                    let at = column * count + i;
                    let own = &self.numbers[at * block..(at + 1) * block];
                    let sum: i64 = own.iter().zip(integers).map(|(w, x)| i64::from(*w) * x).sum();
                    let all = integers.iter().sum::<i64>() as f64 * f64::from(self.points[at]);
                    let scale = scale * f64::from(self.scales[at]);
                    want += scale * (sum as f64 - all);
                    size += scale.abs() * ((sum as f64).abs() + all.abs());
                }
                let bound = size * (2 * count + 8) as f64 * 2f64.powi(-24);
                let is_near = (f64::from(got) - want).abs() <= bound || (want.is_nan() && got.is_nan());
                assert!(is_near, "{what}: {got}, expected {want} within {bound}");
            }
        }
    }
}

fn product(pool: &Arc<Pool>, weights: &Weights, rows: &[f32]) -> Vec<f32> {
    let format = weights.format();
    // The initial value reveals elements that are not written.
    let mut out = vec![12345.0; rows.len() / format.inner * format.columns];
    let left = weights.left(pool, rows).unwrap();
    // SAFETY: `out` has an element for each row of `rows` and each column of the weights.
    unsafe { weights.product(&left, out.as_mut_ptr()) };
    out
}

#[test]
fn products_are_the_definition() {
    let pool = Pool::new(1 << 20, None);
    for bits in [2, 4, 8] {
        for (block, inner, columns) in [
            (16, 16, 1),
            (16, 70, 7),
            (32, 96, 16),
            (32, 129, 33),
            (64, 64, 8),
            (128, 300, 17),
            (256, 512, 9),
            (8, 20, 3),
            (24, 60, 5),
        ] {
            for given in GIVEN {
                for halves in [false, true] {
                    let matrix = Matrix::new(bits, block, inner, columns, given, halves);
                    for level in levels() {
                        at(level, || {
                            let weights = matrix.weights(&pool);
                            for m in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 23] {
                                let rows = drawn(m * inner, m);
                                let what = format!(
                                    "{bits} {block} {inner} {columns} {given:?} {halves} {m} {level:?}"
                                );
                                matrix.check(&rows, &product(&pool, &weights, &rows), &what);
                            }
                        });
                    }
                }
            }
        }
    }
}

/// Tests the largest possible sums: no intermediate step saturates.
#[test]
fn the_greatest_numbers_are_exact() {
    let pool = Pool::new(1 << 20, None);
    for bits in [2, 4, 8] {
        for block in [32, 64, 256] {
            for (byte, sign) in [(0, 1.0), (255, 1.0), (255, -1.0), (0, -1.0)] {
                let mut matrix = Matrix::new(bits, block, 2 * block, 5, ZeroPoints::None, true);
                matrix.bytes.fill(byte);
                matrix.numbers.fill(byte & u8::MAX >> (8 - bits));
                matrix.scales.fill(1.0);
                for level in levels() {
                    at(level, || {
                        let weights = matrix.weights(&pool);
                        let rows = vec![127.0 * sign; 2 * block];
                        let got = product(&pool, &weights, &rows);
                        matrix.check(&rows, &got, &format!("{bits} {block} {byte} {sign} {level:?}"));
                    });
                }
            }
        }
    }
}

#[test]
fn zeros_and_the_least_numbers_give_zeros_and_numbers_without_bounds_nan() {
    let pool = Pool::new(1 << 20, None);
    for given in GIVEN {
        let matrix = Matrix::new(4, 32, 100, 20, given, true);
        for level in levels() {
            at(level, || {
                let weights = matrix.weights(&pool);
                for x in [0.0, -0.0, f32::from_bits(190), f32::MIN_POSITIVE] {
                    let got = product(&pool, &weights, &vec![x; 100]);
                    assert!(got.iter().all(|y| *y == 0.0), "{x} {given:?} {level:?} {got:?}");
                }
                for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
                    for place in [0, 50, 99] {
                        let mut rows = drawn(300, 2);
                        rows[100 + place] = x;
                        let got = product(&pool, &weights, &rows);
                        assert!(got[20..40].iter().all(|y| y.is_nan()), "{x} {given:?} {level:?}");
                        matrix.check(&rows[..100], &got[..20], "the row before");
                        matrix.check(&rows[200..], &got[40..], "the row behind");
                    }
                }
            });
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_among_others() {
    let pool = Pool::new(1 << 20, None);
    for (bits, given) in
        [(4, ZeroPoints::Least), (4, ZeroPoints::None), (8, ZeroPoints::Bytes), (2, ZeroPoints::Floats)]
    {
        let matrix = Matrix::new(bits, 32, 256, 40, given, true);
        for level in levels() {
            at(level, || {
                let weights = matrix.weights(&pool);
                let rows = drawn(19 * 256, 4);
                let bits = |list: Vec<f32>| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let together = bits(product(&pool, &weights, &rows));
                for (row, got) in rows.chunks(256).zip(together.chunks(40)) {
                    assert_eq!(bits(product(&pool, &weights, row)), got, "{given:?} {level:?}");
                }
            });
        }
    }
}

#[test]
fn what_belongs_to_blocks_takes_no_more_room_than_it_needs() {
    let pool = Pool::new(1 << 20, None);
    for (given, halves, of_block) in [
        (ZeroPoints::None, true, 2),
        (ZeroPoints::None, false, 4),
        (ZeroPoints::Bytes, true, 3),
        (ZeroPoints::Whole, true, 3),
        (ZeroPoints::Least, true, 4),
        (ZeroPoints::Floats, true, 6),
    ] {
        let weights = Matrix::new(4, 32, 64, 16, given, halves).weights(&pool);
        assert_eq!(weights.bytes(), 16 * 2 * (16 + of_block), "{given:?}");
    }
}
