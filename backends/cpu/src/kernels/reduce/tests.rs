#![expect(clippy::indexing_slicing, reason = "tests")]

use super::{Extents, kernel};
use crate::kernels::op::Reduction;
use crate::layout::Dim;
use crate::level::{at, levels};
use bb::Element;

const SIZES: [usize; 15] = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 257, 1000, 9001];
const ALL: [Reduction; 4] = [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min];

/// Reduces the middle of three contiguous dimensions.
fn reduce<T: Element + Default>(op: Reduction, [outer, len, inner]: [usize; 3], x: &[T]) -> Vec<T> {
    let mut y = vec![T::default(); outer * inner];
    let dim = |extent, stride: usize| Dim { extent, strides: [stride.cast_signed()] };
    let kept: Vec<_> =
        [dim(outer, len * inner), dim(inner, 1)].into_iter().filter(|d| d.extent > 1).collect();
    let extents = Extents { kept: &kept, reduced: &[dim(len, inner)], count: len };
    let kernel = kernel(op, T::DTYPE).expect("a type that is reduced");
    // SAFETY: the vectors have these extents.
    unsafe { kernel.run(&extents, x.as_ptr().cast(), y.as_mut_ptr().cast()) };
    y
}

#[test]
fn every_form_equals_the_definition() {
    for len in SIZES {
        for [outer, inner] in [[1, 1], [3, 1], [2, 5], [1, 300]] {
            let x: Vec<i64> = (0..outer * len * inner).map(|i| (i as i64 * 7919) % 1009 - 500).collect();
            let f: Vec<f32> = x.iter().map(|&v| v as f32).collect();
            let d: Vec<f64> = x.iter().map(|&v| v as f64).collect();
            let dims = [outer, len, inner];
            for (level, op) in levels().into_iter().flat_map(|level| ALL.map(|op| (level, op))) {
                let (yx, yf, yd) =
                    at(level, || (reduce(op, dims, &x), reduce(op, dims, &f), reduce(op, dims, &d)));
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let all = || (0..len).map(|l| x[(o * len + l) * inner + i]);
                    let sum: i64 = all().sum();
                    // All partial sums are integers below 2^24, so they are exact; a mean is rounded once.
                    let (ex, ef, ed) = match op {
                        Reduction::Sum => (sum, sum as f32, sum as f64),
                        Reduction::Mean => {
                            (sum / len as i64, sum as f32 / len as f32, sum as f64 / len as f64)
                        }
                        Reduction::Max => all().max().map_or((0, 0.0, 0.0), |v| (v, v as f32, v as f64)),
                        Reduction::Min => all().min().map_or((0, 0.0, 0.0), |v| (v, v as f32, v as f64)),
                    };
                    let at = o * inner + i;
                    assert_eq!((yx[at], yf[at], yd[at]), (ex, ef, ed), "{op:?} {dims:?} at {level:?}");
                }
            }
        }
    }
}

#[test]
fn sums_of_many_are_accurate() {
    let x: Vec<f32> = (0..1u64 << 20).map(|i| ((i * 7919) % 10007) as f32 / 10007.0).collect();
    let exact: f64 = x.iter().map(|&v| f64::from(v)).sum();
    for level in levels() {
        let y = at(level, || reduce(Reduction::Sum, [1, x.len(), 1], &x))[0];
        // NumPy's pairwise sum has an error of O(log n) units in the last place; this bound is one unit.
        assert!((f64::from(y) / exact - 1.0).abs() < 1.2e-7, "{y} {exact}");
    }
}

#[test]
fn nan_wins() {
    for position in [0, 5, 70, 99] {
        let mut x = vec![1f32; 100];
        x[position] = f32::NAN;
        for op in [Reduction::Max, Reduction::Min] {
            assert!(reduce(op, [1, 100, 1], &x)[0].is_nan());
        }
    }
}

/// Reduces rows, and compares the bits with a fold of the elements. Results that are zeros may have either sign.
fn extremes_of<T: Element + Default>(to: fn(f32) -> T, from: fn(T) -> f32) {
    let numbers: [fn(usize) -> f32; 6] = [
        |i| (i * 7919 % 601) as f32 - 300.0,
        |i| -1.0 - (i * 7919 % 601) as f32,
        |i| 1.0 + (i * 7919 % 601) as f32,
        |i| if i % 7 == 3 { f32::NEG_INFINITY } else { -2.0 },
        |i| if i % 100 == 31 { f32::INFINITY } else { i as f32 * 0.001 },
        |i| if i % 2 == 0 { 0.0 } else { -0.0 },
    ];
    for len in [1, 2, 31, 32, 63, 64, 65, 127, 768, 9001] {
        for number in numbers {
            for special in [None, Some(f32::NAN), Some(-f32::NAN)] {
                let mut x: Vec<T> = (0..3 * len).map(|i| to(number(i))).collect();
                if let Some(special) = special {
                    x[len + len / 2] = to(special);
                }
                for (level, op) in
                    levels().into_iter().flat_map(|level| [(level, Reduction::Max), (level, Reduction::Min)])
                {
                    let y = at(level, || reduce(op, [3, len, 1], &x));
                    for (row, y) in x.chunks(len).zip(y) {
                        let pick = |a: f32, b: f32| {
                            let first = if op == Reduction::Max { a >= b } else { a <= b };
                            if a.is_nan() || (first && !b.is_nan()) { a } else { b }
                        };
                        let want = row.iter().map(|&x| from(x)).reduce(pick).unwrap_or(f32::NAN);
                        let y = from(y);
                        assert!(
                            y == want || (y.is_nan() && want.is_nan()),
                            "{op:?} {len} {level:?}: {y}, not {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn extremes_of_16_bit_floats_equal_the_definition() {
    extremes_of(half::f16::from_f32, half::f16::to_f32);
    extremes_of(half::bf16::from_f32, half::bf16::to_f32);
}
