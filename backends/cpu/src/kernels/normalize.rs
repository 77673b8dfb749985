//! Functions of whole rows that read memory once: softmax and normalisations.

use super::{Shared, walk};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 1 << 15;

/// Calls `f` on each dense row.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements; they are disjoint or the same.
unsafe fn each_row(
    rows: usize,
    cols: usize,
    out: *mut f32,
    x: *const f32,
    f: impl Fn(*mut f32, *const f32) + Sync,
) {
    let shared = Shared((out, x));
    walk::split(rows, cols, GRAIN, |from, to| {
        let (out, x) = shared.get();
        for i in from..to {
            // SAFETY: row `i` lies in both matrices.
            unsafe { f(out.add(i * cols), x.add(i * cols)) };
        }
    });
}

/// Writes `exp(x - max) / sum(exp(x - max))` for each row of a dense matrix.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements; they are disjoint or the same.
pub(crate) unsafe fn softmax([rows, cols]: [usize; 2], out: *mut f32, x: *const f32) {
    // SAFETY: this function has the same contract.
    unsafe {
        each_row(rows, cols, out, x, |out, x| {
            let mut max = f32::NEG_INFINITY;
            for j in 0..cols {
                let v = *x.add(j);
                if v > max || v.is_nan() {
                    max = v;
                }
            }
            let mut sum = 0.0;
            for j in 0..cols {
                let e = (*x.add(j) - max).exp();
                sum += e;
                out.add(j).write(e);
            }
            for j in 0..cols {
                *out.add(j) /= sum;
            }
        });
    }
}

/// Writes `(x - mean) / sqrt(variance + epsilon) * scale + bias` for each row of a dense matrix.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint or the same; `scale` and `bias` hold
/// `cols` elements or are null.
pub(crate) unsafe fn layer_norm(
    [rows, cols]: [usize; 2],
    out: *mut f32,
    x: *const f32,
    scale: *const f32,
    bias: *const f32,
    epsilon: f32,
) {
    let parameters = Shared((scale, bias));
    // SAFETY: this function has the same contract.
    unsafe {
        each_row(rows, cols, out, x, |out, x| {
            let (scale, bias) = parameters.get();
            let n = cols as f32;
            let mean = (0..cols).map(|j| *x.add(j)).sum::<f32>() / n;
            let variance = (0..cols).map(|j| (*x.add(j) - mean).powi(2)).sum::<f32>() / n;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            for j in 0..cols {
                let scale = if scale.is_null() { 1.0 } else { *scale.add(j) };
                let bias = if bias.is_null() { 0.0 } else { *bias.add(j) };
                out.add(j).write((*x.add(j) - mean) * inverse * scale + bias);
            }
        });
    }
}

/// Writes `x / sqrt(mean(x * x) + epsilon) * scale` for each row of a dense matrix.
///
/// # Safety
///
/// As for [`layer_norm`].
pub(crate) unsafe fn rms_norm(
    [rows, cols]: [usize; 2],
    out: *mut f32,
    x: *const f32,
    scale: *const f32,
    epsilon: f32,
) {
    let parameters = Shared(scale);
    // SAFETY: this function has the same contract.
    unsafe {
        each_row(rows, cols, out, x, |out, x| {
            let scale = parameters.get();
            let mean = (0..cols).map(|j| (*x.add(j)).powi(2)).sum::<f32>() / cols as f32;
            let inverse = 1.0 / (mean + epsilon).sqrt();
            for j in 0..cols {
                let scale = if scale.is_null() { 1.0 } else { *scale.add(j) };
                out.add(j).write(*x.add(j) * inverse * scale);
            }
        });
    }
}
