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
