//! Shape rules of concatenating, splitting and gathering along one axis.

use super::countable;
use super::extent::{Extent, Extents, current, mismatch};
use crate::{Axis, Error};

/// The result of an operation along one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined<E = usize> {
    /// The resolved axis.
    pub axis: Axis,
    /// The shape of the result.
    pub shape: Extents<E>,
}

/// Returns the resolved axis and the shape of the concatenation of tensors of `shapes` along `axis`.
///
/// # Errors
///
/// [`Error::Arity`] if there is no tensor; [`Error::Axis`] if the axis is out of range (always for rank 0);
/// [`Error::Shapes`] if another extent differs; [`Error::Overflow`] if the result has more elements than memory can hold.
pub fn concat<'a, E: Extent + 'a>(
    shapes: impl IntoIterator<Item = &'a [E]>,
    axis: i64,
) -> Result<Joined<E>, Error> {
    let op = "concat";
    let mut shapes = shapes.into_iter();
    let Some(first) = shapes.next() else {
        return Err(Error::Arity { op, expected: "at least one tensor", got: 0 });
    };
    let axis = Axis::new(axis, first.len())?;
    let mut shape = Extents::from(first);
    for other in shapes {
        let wrong = || mismatch(op, &[first, other]);
        if other.len() != first.len() {
            return Err(wrong());
        }
        for (i, (slot, more)) in shape.iter_mut().zip(other).enumerate() {
            *slot = if i == axis.get() {
                let overflow =
                    || Error::Overflow { op, shape: current(other).unwrap_or_default().into_boxed_slice() };
                E::or_unknown(slot.plus(more), overflow)?
            } else {
                slot.agreed(more).ok_or_else(wrong)?
            };
        }
    }
    Ok(Joined { axis, shape: countable(op, shape)? })
}

/// Checks that the sum of `sizes` is the extent of `axis`, and returns the resolved axis.
///
/// Part `i` has the operand's shape, but with `sizes[i]` at the axis.
///
/// # Errors
///
/// [`Error::Axis`] if the axis is out of range; [`Error::Param`] if the sum of the sizes is not the extent.
pub fn split<E: Extent>(shape: &[E], axis: i64, sizes: &[E]) -> Result<Axis, Error> {
    let axis = Axis::new(axis, shape.len())?;
    let Some(whole) = shape.get(axis.get()).and_then(E::current) else { return Ok(axis) };
    let Some(sizes) = current(sizes) else { return Ok(axis) };
    let sum = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    if sum != usize::try_from(whole).ok() {
        return Err(Error::Param {
            op: "split",
            param: "sizes",
            problem: "does not sum to the extent of the axis",
            shape: current(shape).unwrap_or_default().into_boxed_slice(),
        });
    }
    Ok(axis)
}

/// Returns the extents of `parts` parts of `extent`. All parts are equal, except the last ones, which may be smaller.
///
/// Units: if `parts` is 0, the list is empty.
///
/// # Errors
///
/// [`Error::Overflow`] if the arithmetic overflows.
///
/// Source: ONNX `Split`, opset 18, `num_outputs`.
pub fn split_evenly<E: Extent>(extent: &E, parts: usize) -> Result<Extents<E>, Error> {
    let count = i64::try_from(parts).unwrap_or(i64::MAX).max(1);
    let size = extent.ceil_div(count);
    let overflow = || Error::Overflow {
        op: "split",
        shape: current(std::slice::from_ref(extent)).unwrap_or_default().into_boxed_slice(),
    };
    let part = |part| {
        let size = size.as_ref()?;
        extent.beyond(&size.times(&E::of(part)?)?)?.min(size)
    };
    (0..i64::try_from(parts).unwrap_or(i64::MAX)).map(|i| E::or_unknown(part(i), overflow)).collect()
}

/// Returns the resolved axis and the shape of the result of gathering entries of `data` along `axis` by indices of shape
/// `indices`.
///
/// # Errors
///
/// [`Error::Axis`] if the axis is out of range; [`Error::Overflow`] if the result has more elements
/// than memory can hold.
pub fn gather<E: Extent>(data: &[E], indices: &[E], axis: i64) -> Result<Joined<E>, Error> {
    let axis = Axis::new(axis, data.len())?;
    let (before, rest) = data.split_at(axis.get());
    let after = rest.split_first().map_or(rest, |(_, after)| after);
    let shape = before.iter().chain(indices).chain(after).cloned().collect();
    Ok(Joined { axis, shape: countable("gather", shape)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(shapes: &[&[usize]], axis: i64) -> Result<Joined, Error> {
        concat(shapes.iter().copied(), axis)
    }

    #[test]
    fn concat_adds_the_extents_of_the_axis() {
        let sum = joined(&[&[2, 3], &[2, 0], &[2, 1]], -1).expect("shapes fit");
        assert_eq!((sum.axis.get(), &sum.shape[..]), (1, &[2, 4][..]));
        assert!(matches!(joined(&[&[2, 3], &[3, 3]], 1), Err(Error::Shapes { .. })));
        assert!(matches!(joined(&[&[2], &[2, 3]], 0), Err(Error::Shapes { .. })));
        assert!(matches!(joined(&[&[]], 0), Err(Error::Axis { .. })));
        assert!(matches!(joined(&[], 0), Err(Error::Arity { .. })));
        let half = usize::MAX / 2 + 1;
        assert!(matches!(joined(&[&[half], &[half]], 0), Err(Error::Overflow { .. })));
    }

    #[test]
    fn split_sizes_sum_to_the_extent() {
        assert_eq!(split::<usize>(&[2, 5], -1, &[2, 3, 0]).map(Axis::get).ok(), Some(1));
        assert!(matches!(split::<usize>(&[4], 0, &[3, 3]), Err(Error::Param { .. })));
        assert!(matches!(split(&[4], 0, &[usize::MAX, 5]), Err(Error::Param { .. })));
    }

    #[test]
    fn even_splits_leave_the_rest_to_the_last() {
        assert_eq!(split_evenly(&7usize, 4).expect("small")[..], [2, 2, 2, 1]);
        assert_eq!(split_evenly(&5usize, 4).expect("small")[..], [2, 2, 1, 0]);
        assert_eq!(split_evenly(&6usize, 3).expect("small")[..], [2, 2, 2]);
        assert_eq!(split_evenly(&6usize, 0).expect("small")[..], []);
    }

    #[test]
    fn gather_puts_the_indices_extents_at_the_axis() {
        assert_eq!(gather::<usize>(&[5, 4, 3], &[2, 2], 1).expect("valid").shape[..], [5, 2, 2, 3]);
        assert_eq!(gather::<usize>(&[5], &[], 0).expect("valid").shape[..], []);
        assert!(matches!(gather::<usize>(&[], &[1], 0), Err(Error::Axis { .. })));
    }
}
