//! Slices: ONNX's bounds made exact.

use crate::{Axis, Error, Shape};
use smallvec::SmallVec;

/// What a slice takes of one dimension: `count` elements from `start`, `step` apart.
///
/// Every position is within the extent. `start` is 0 where `count` is 0, and `step` is 1 where
/// `count` is less than 2, so that arithmetic on them cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceDim {
    /// The first position taken.
    pub start: usize,
    /// The distance to the next, negative to go backwards, never 0.
    pub step: isize,
    /// How many are taken.
    pub count: usize,
}

/// What a slice takes of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sliced {
    /// What it takes of each dimension.
    pub dims: SmallVec<[SliceDim; 6]>,
    /// The extents of the result.
    pub shape: Shape,
}

/// Resolves ONNX's `starts`, `ends`, `axes` and `steps` for a tensor of `shape`.
///
/// Shapes: empty `axes` means the first `starts.len()` dimensions, empty `steps` means 1. Negative
/// bounds count from the end; both are clamped.
///
/// # Errors
///
/// [`Error::Param`] if the lists differ in length, a step is 0 or an axis repeated; [`Error::Axis`]
/// if an axis is out of range.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// let all_reversed = bb_ir::infer::slice(&[5], &[-1], &[i64::MIN], &[], &[-2])?;
/// assert_eq!(all_reversed.shape[..], [3]);
/// assert_eq!(all_reversed.dims[0].start, 4);
/// # Ok(())
/// # }
/// ```
///
/// Source: ONNX `Slice`, opset 13.
pub fn slice(
    shape: &[usize],
    starts: &[i64],
    ends: &[i64],
    axes: &[i64],
    steps: &[i64],
) -> Result<Sliced, Error> {
    let wrong = |param, problem| Error::Param { op: "slice", param, problem, shape: shape.into() };
    if ends.len() != starts.len() {
        return Err(wrong("ends", "has another length than `starts`"));
    }
    if !axes.is_empty() && axes.len() != starts.len() {
        return Err(wrong("axes", "has another length than `starts`"));
    }
    if !steps.is_empty() && steps.len() != starts.len() {
        return Err(wrong("steps", "has another length than `starts`"));
    }
    if axes.is_empty() && starts.len() > shape.len() {
        return Err(wrong("starts", "is longer than the rank"));
    }
    let mut dims: SmallVec<[SliceDim; 6]> =
        shape.iter().map(|&count| SliceDim { start: 0, step: 1, count }).collect();
    let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, shape.len());
    for (i, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        let at = match axes.get(i) {
            Some(&axis) => Axis::new(axis, shape.len())?.get(),
            None => i,
        };
        let step = steps.get(i).copied().unwrap_or(1);
        if step == 0 {
            return Err(wrong("steps", "has a 0"));
        }
        if let (Some(seen), Some(dim), Some(&extent)) = (seen.get_mut(at), dims.get_mut(at), shape.get(at)) {
            if *seen {
                return Err(wrong("axes", "repeats an axis"));
            }
            *seen = true;
            *dim = resolve(extent, start, end, step);
        }
    }
    let shape = dims.iter().map(|d| d.count).collect();
    Ok(Sliced { dims, shape })
}

/// Clamps the bounds of one dimension; `step` is not 0.
fn resolve(extent: usize, start: i64, end: i64, step: i64) -> SliceDim {
    // In `i128` neither negation nor addition of 64-bit numbers overflows.
    let d = extent as i128;
    let from_end = |v: i64| {
        if v < 0 { i128::from(v) + d } else { i128::from(v) }
    };
    let (start, end, step) = (from_end(start), from_end(end), i128::from(step));
    let (start, distance) = if step > 0 {
        let start = start.clamp(0, d);
        (start, end.clamp(0, d) - start)
    } else {
        let start = start.clamp(-1, d - 1);
        (start, start - end.clamp(-1, d - 1))
    };
    let count = if distance <= 0 {
        0
    } else {
        let stride = step.unsigned_abs();
        ((distance as u128).div_ceil(stride)) as usize
    };
    SliceDim {
        start: if count == 0 { 0 } else { start as usize },
        step: if count < 2 { 1 } else { step as isize },
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(extent: usize, start: i64, end: i64, step: i64) -> Vec<usize> {
        let s = slice(&[extent], &[start], &[end], &[0], &[step]).expect("valid");
        let d = s.dims.first().copied().expect("one dimension");
        (0..d.count).map(|i| d.start.wrapping_add_signed(d.step * i as isize)).collect()
    }

    /// Expected values: Python's `range(5)[start:end:step]` where ONNX agrees with it.
    #[test]
    fn bounds_are_clamped_as_python_does() {
        let cases: [(i64, i64, i64, &[usize]); 12] = [
            (1, 4, 1, &[1, 2, 3]),
            (-3, i64::MAX, 1, &[2, 3, 4]),
            (i64::MIN, i64::MAX, 2, &[0, 2, 4]),
            (10, 20, 1, &[]),
            (3, 1, 1, &[]),
            (4, 0, -1, &[4, 3, 2, 1]),
            (i64::MAX, i64::MIN, -1, &[4, 3, 2, 1, 0]),
            (-1, i64::MIN, -2, &[4, 2, 0]),
            (0, i64::MIN, -1, &[0]),
            (2, i64::MIN, i64::MIN, &[2]),
            (0, 5, i64::MAX, &[0]),
            (1, 3, -1, &[]),
        ];
        for (start, end, step, want) in cases {
            assert_eq!(positions(5, start, end, step), want, "[{start}:{end}:{step}]");
        }
        assert_eq!(positions(0, 0, 5, 1), []);
        assert_eq!(positions(0, 5, i64::MIN, -1), []);
    }

    #[test]
    fn lists_must_agree_and_steps_not_be_zero() {
        assert!(matches!(slice(&[5], &[0], &[], &[], &[]), Err(Error::Param { .. })));
        assert!(matches!(slice(&[5], &[0], &[1], &[0, 0], &[]), Err(Error::Param { .. })));
        assert!(matches!(slice(&[5], &[0], &[1], &[], &[0]), Err(Error::Param { .. })));
        assert!(matches!(slice(&[5], &[0, 0], &[1, 1], &[], &[]), Err(Error::Param { .. })));
        assert!(matches!(slice(&[5], &[0, 0], &[1, 1], &[0, -1], &[]), Err(Error::Param { .. })));
        assert!(matches!(slice(&[5], &[0], &[1], &[1], &[]), Err(Error::Axis { .. })));
    }
}
