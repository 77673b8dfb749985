//! Sums, means and extremes along one of three collapsed dimensions.

use super::cast::Cast;
use super::element::{Float, Number};
use super::{Shared, walk};

/// What to reduce to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// The sum, wrapping for integers; 0 of nothing.
    Sum,
    /// The sum divided by the extent; integers truncate. NaN of nothing for floating point, else 0.
    Mean,
    /// The largest, NaN if any is; the caller excludes empty extents.
    Max,
    /// The smallest, NaN if any is; the caller excludes empty extents.
    Min,
}

/// Reduces the middle of three dimensions: `out[o, i] = op over l of x[o, l, i]`.
///
/// `strides` are those of `x` in elements, in the order of `dims`; `out` is dense, `outer * inner`
/// elements. Sums of 16-bit floats are kept in `f32`; the error of a floating-point sum grows with
/// the logarithm of the extent where the reduced dimension is contiguous.
///
/// # Safety
///
/// `x` covers `dims`; `out` is disjoint from it.
pub unsafe fn reduce<T: Number>(
    op: Reduce,
    [outer, len, inner]: [usize; 3],
    out: *mut T,
    x: *const T,
    [so, sl, si]: [isize; 3],
) {
    let shared = Shared((out, x));
    walk::split(outer * inner, len.max(1), 1 << 17, |from, to| {
        let (out, x) = shared.get();
        for at in from..to {
            let (o, i) = ((at / inner) as isize, (at % inner) as isize);
            // SAFETY: this function's contract.
            unsafe {
                let x = x.offset(o * so + i * si);
                out.add(at).write(T::reduce(op, len, x, sl));
            }
        }
    });
}

/// # Safety
///
/// `x` points to `n` elements `stride` apart.
unsafe fn extreme<T: Number>(op: Reduce, n: usize, x: *const T, stride: isize) -> T {
    // SAFETY: the caller's promise.
    let elements = (0..n).map(|i| unsafe { *x.offset(i as isize * stride) });
    let chosen = match op {
        Reduce::Max => elements.reduce(T::max),
        _ => elements.reduce(T::min),
    };
    chosen.unwrap_or_default()
}

/// # Safety
///
/// As for [`Number::reduce`].
pub(crate) unsafe fn integers<T: Number + Cast<i64>>(op: Reduce, n: usize, x: *const T, stride: isize) -> T
where
    i64: Cast<T>,
{
    match op {
        // SAFETY: the caller's promise.
        Reduce::Max | Reduce::Min => unsafe { extreme(op, n, x, stride) },
        Reduce::Sum | Reduce::Mean => {
            // SAFETY: as above.
            let elements = (0..n).map(|i| unsafe { *x.offset(i as isize * stride) });
            let sum = elements.fold(T::default(), T::add);
            if op == Reduce::Sum { sum } else { sum.div((n as i64).cast()) }
        }
    }
}

/// # Safety
///
/// As for [`Number::reduce`].
pub(crate) unsafe fn floats<T: Float>(op: Reduce, n: usize, x: *const T, stride: isize) -> T {
    match op {
        // SAFETY: the caller's promise.
        Reduce::Max | Reduce::Min => unsafe { extreme(op, n, x, stride) },
        Reduce::Sum | Reduce::Mean => {
            // SAFETY: as above.
            let elements = (0..n).map(|i| unsafe { *x.offset(i as isize * stride) });
            let sum = elements.fold(0.0, |sum, v| sum + v.to_f64());
            T::from_f64(if op == Reduce::Sum { sum } else { sum / n as f64 })
        }
    }
}

/// # Safety
///
/// As for [`Number::reduce`].
pub(crate) unsafe fn halves<T: Float>(op: Reduce, n: usize, x: *const T, stride: isize) -> T {
    // SAFETY: the caller's promise.
    unsafe { floats(op, n, x, stride) }
}
