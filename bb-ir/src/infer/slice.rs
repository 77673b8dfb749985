//! The shape rule of slices, which resolves ONNX's bounds.

use super::extent::{Extent, Extents};
use crate::{Axis, Error, Shape};
use smallvec::SmallVec;

/// The part of a dimension that a slice selects: `count` elements, beginning at the index `start`, at the distance `step`.
///
/// All selected indices are within the extent. If `count` is 0, `start` is 0; if `count` is less than 2, `step` is 1. So
/// arithmetic on these fields cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceDim {
    /// The index of the first selected element.
    pub start: usize,
    /// The distance to the next selected element. It is negative if the slice goes backwards, and never 0.
    pub step: isize,
    /// The number of selected elements.
    pub count: usize,
}

/// The part of a tensor that a slice selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sliced {
    /// The selected part of each dimension.
    pub dims: SmallVec<[SliceDim; 6]>,
    /// The shape of the result.
    pub shape: Shape,
}

/// A bound of a slice: an index, counted from the start or from the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound<E> {
    /// The number of elements between the start and the bound.
    FromStart(E),
    /// The number of elements between the bound and the end.
    FromEnd(E),
    /// A bound before the start of every extent.
    Before,
    /// A bound after the end of every extent.
    After,
}

impl<E: Extent> Bound<E> {
    /// Converts a number to a bound. A negative number counts from the end.
    #[inline]
    pub fn of(number: i64) -> Bound<E> {
        // A number that does not fit in this type (which has 32 bits on some processors) exceeds every extent. `i64::MIN`
        // cannot be negated.
        if number < 0 {
            number.checked_neg().and_then(E::of).map_or(Bound::Before, Bound::FromEnd)
        } else {
            E::of(number).map_or(Bound::After, Bound::FromStart)
        }
    }

    /// Converts an integer that is computed from extents to a bound; `None` if its sign is unknown.
    pub fn read(number: &E) -> Option<Bound<E>> {
        match number.number() {
            Some(number) => Some(Bound::of(number)),
            None if number.at_least(0)? => Some(Bound::FromStart(number.clone())),
            None => E::of(0)?.minus(number).map(Bound::FromEnd),
        }
    }

    /// Returns the index of the bound in an extent, plus `more`, clamped to the range from 0 to the extent.
    #[inline]
    fn position(&self, extent: &E, more: i64) -> Option<E> {
        match self {
            Bound::FromStart(at) if far(at, extent) => Some(extent.clone()),
            Bound::FromStart(at) => at.shifted(more)?.min(extent),
            Bound::FromEnd(at) if far(at, extent) => E::of(0),
            Bound::FromEnd(at) => extent.beyond(&at.shifted(more.checked_neg()?)?),
            Bound::Before => E::of(0),
            Bound::After => Some(extent.clone()),
        }
    }
}

/// Returns whether a number means the end of any extent: exporters write the maximum of 32-bit or 64-bit integers.
#[inline]
fn far<E: Extent>(at: &E, extent: &E) -> bool {
    match at.number() {
        Some(i64::MAX) => true,
        Some(at) => {
            at >= i64::from(i32::MAX) && extent.number().is_none() && extent.at_least(at) != Some(true)
        }
        None => false,
    }
}

/// Returns the number of elements that a slice selects from an extent; `None` if it cannot be determined, or if the step is 0.
#[inline]
pub fn slice_count<E: Extent>(extent: &E, start: &Bound<E>, end: &Bound<E>, step: i64) -> Option<E> {
    // A step that is longer than the extent could overflow this type. A step of the length of the extent selects the same
    // elements.
    let step = match extent.number() {
        Some(extent) => step.clamp(-extent.max(1), extent.max(1)),
        None => step,
    };
    if step < 0 {
        // Both indices are increased by 1, so that the index before the first element is not negative.
        let (first, last) = (start.position(extent, 1)?, end.position(extent, 1)?);
        return first.beyond(&last)?.ceil_div(step.checked_neg().unwrap_or(i64::MAX));
    }
    // A start beyond the end selects nothing, like a start at the end, so it need not be clamped.
    let first = match start {
        Bound::FromStart(at) if !far(at, extent) => at.clone(),
        other => other.position(extent, 0)?,
    };
    let count = match end {
        Bound::FromEnd(at) if !far(at, extent) => extent.beyond(&first.plus(at)?)?,
        other => other.position(extent, 0)?.beyond(&first)?,
    };
    if step == 0 { None } else { count.ceil_div(step) }
}

/// Checks the lists of a slice, and returns the axis and the step for each bound.
fn named(
    rank: usize,
    counts: [usize; 2],
    axes: &[i64],
    steps: &[i64],
    wrong: impl Fn(&'static str, &'static str) -> Error,
) -> Result<SmallVec<[(usize, i64); 6]>, Error> {
    let [count, ends] = counts;
    if ends != count {
        return Err(wrong("ends", "has another length than `starts`"));
    }
    if !axes.is_empty() && axes.len() != count {
        return Err(wrong("axes", "has another length than `starts`"));
    }
    if !steps.is_empty() && steps.len() != count {
        return Err(wrong("steps", "has another length than `starts`"));
    }
    if axes.is_empty() && count > rank {
        return Err(wrong("starts", "is longer than the rank"));
    }
    let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, rank);
    let mut named = SmallVec::new();
    for i in 0..count {
        let at = match axes.get(i) {
            Some(&axis) => Axis::new(axis, rank)?.get(),
            None => i,
        };
        let step = steps.get(i).copied().unwrap_or(1);
        if step == 0 {
            return Err(wrong("steps", "has a 0"));
        }
        match seen.get_mut(at) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(wrong("axes", "repeats an axis")),
        }
        named.push((at, step));
    }
    Ok(named)
}

/// Resolves ONNX's `starts`, `ends`, `axes` and `steps` for a tensor of `shape`.
///
/// Shapes: if `axes` is empty, the first `starts.len()` dimensions are sliced; if `steps` is empty, all steps are 1. Negative
/// bounds count from the end; all bounds are clamped.
///
/// # Errors
///
/// [`Error::Param`] if the lists differ in length, a step is 0 or an axis is repeated; [`Error::Axis`] if an axis is out of
/// range.
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
    let mut dims: SmallVec<[SliceDim; 6]> =
        shape.iter().map(|&count| SliceDim { start: 0, step: 1, count }).collect();
    let named = named(shape.len(), [starts.len(), ends.len()], axes, steps, wrong)?;
    for ((at, step), (&start, &end)) in named.into_iter().zip(starts.iter().zip(ends)) {
        if let Some(dim) = dims.get_mut(at) {
            *dim = resolve(dim.count, start, end, step)
                .ok_or_else(|| Error::Overflow { op: "slice", shape: shape.into() })?;
        }
    }
    let shape = dims.iter().map(|d| d.count).collect();
    Ok(Sliced { dims, shape })
}

/// Returns the shape of a slice of a tensor of `shape`, as [`slice`](fn@slice) does, but some bounds may be unknown.
///
/// # Errors
///
/// As for [`slice`](fn@slice).
pub fn slice_by<E: Extent>(
    shape: &[E],
    starts: &[Option<Bound<E>>],
    ends: &[Option<Bound<E>>],
    axes: &[i64],
    steps: &[i64],
) -> Result<Extents<E>, Error> {
    let now = || super::current(shape).unwrap_or_default().into_boxed_slice();
    let wrong = |param, problem| Error::Param { op: "slice", param, problem, shape: now() };
    let mut out = Extents::from(shape);
    let named = named(shape.len(), [starts.len(), ends.len()], axes, steps, wrong)?;
    for ((at, step), bounds) in named.into_iter().zip(starts.iter().zip(ends)) {
        if let Some(extent) = out.get_mut(at) {
            let count = match bounds {
                (Some(start), Some(end)) => slice_count(extent, start, end, step),
                _ => None,
            };
            *extent = E::or_unknown(count, || Error::Overflow { op: "slice", shape: now() })?;
        }
    }
    Ok(out)
}

/// Resolves the bounds of one dimension; `step` must not be 0.
fn resolve(extent: usize, start: i64, end: i64, step: i64) -> Option<SliceDim> {
    let (start, end) = (Bound::of(start), Bound::of(end));
    let count = slice_count(&extent, &start, &end, step)?;
    let first =
        if step > 0 { start.position(&extent, 0)? } else { start.position(&extent, 1)?.saturating_sub(1) };
    Some(SliceDim {
        start: if count == 0 { 0 } else { first },
        step: if count < 2 { 1 } else { isize::try_from(step).ok()? },
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dim;

    fn positions(extent: usize, start: i64, end: i64, step: i64) -> Vec<usize> {
        let s = slice(&[extent], &[start], &[end], &[0], &[step]).expect("valid");
        let d = s.dims.first().copied().expect("one dimension");
        (0..d.count).map(|i| d.start.wrapping_add_signed(d.step * i as isize)).collect()
    }

    /// Expected: Python's `range(5)[start:end:step]`, where ONNX agrees with Python.
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

    #[test]
    fn bounds_of_symbols_are_clamped_where_they_must_be() {
        let n = Dim::Symbol("n".to_owned());
        let count = |start, end, step| {
            let (start, end) = (Bound::of(start), Bound::of(end));
            slice_count(&n, &start, &end, step).expect("told").to_string()
        };
        assert_eq!(count(0, i64::MAX, 1), "n");
        assert_eq!(count(1, i64::from(i32::MAX), 1), "max(0, n - 1)");
        assert_eq!(count(-1, i64::MAX, 1), "max(0, n - max(0, n - 1))");
        assert_eq!(count(0, -2, 1), "max(0, n - 2)");
        assert_eq!(count(0, 5, 2), "floor((min(5, n) + 1)/2)");
        assert_eq!(count(-1, i64::MIN, -1), "n");
    }
}
