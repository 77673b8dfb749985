//! Joining, cutting and selecting along one axis.

use super::countable;
use crate::{Axis, Error, Shape};
use smallvec::SmallVec;

/// What an operation along one axis yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The axis, resolved.
    pub axis: Axis,
    /// The extents of the result.
    pub shape: Shape,
}

/// Returns what joining tensors of `shapes` along `axis` yields.
///
/// # Errors
///
/// [`Error::Arity`] without a tensor; [`Error::Axis`] if the axis is out of range (always for rank
/// 0); [`Error::Shapes`] if another extent differs; [`Error::Overflow`] if the result has more
/// elements than memory can hold.
pub fn concat(shapes: &[&[usize]], axis: i64) -> Result<Joined, Error> {
    concat_by(shapes.iter().copied(), axis)
}

/// [`concat`] over any iterator, so that [`primitive`](super::primitive) needs no list.
pub(super) fn concat_by<'a>(shapes: impl Iterator<Item = &'a [usize]>, axis: i64) -> Result<Joined, Error> {
    let op = "concat";
    let mut shapes = shapes;
    let Some(first) = shapes.next() else {
        return Err(Error::Arity { op, expected: "at least one tensor", got: 0 });
    };
    let axis = Axis::new(axis, first.len())?;
    let mut shape = Shape::from_slice(first);
    for other in shapes {
        let fits = other.len() == first.len()
            && other.iter().zip(first).enumerate().all(|(i, (a, b))| i == axis.get() || a == b);
        if !fits {
            return Err(Error::Shapes { op, left: first.into(), right: other.into() });
        }
        if let (Some(sum), Some(&more)) = (shape.get_mut(axis.get()), other.get(axis.get())) {
            *sum = sum.saturating_add(more);
        }
    }
    Ok(Joined { axis, shape: countable(op, shape)? })
}

/// Checks that `sizes` cuts the extent of `axis` without remainder and returns the axis.
///
/// Part `i` has the operand's extents with `sizes[i]` at the axis.
///
/// # Errors
///
/// [`Error::Axis`] if the axis is out of range; [`Error::Param`] if the sizes do not sum to the
/// extent.
pub fn split(shape: &[usize], axis: i64, sizes: &[usize]) -> Result<Axis, Error> {
    let axis = Axis::new(axis, shape.len())?;
    let sum = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    if sum != shape.get(axis.get()).copied() {
        return Err(Error::Param {
            op: "split",
            param: "sizes",
            problem: "does not sum to the extent of the axis",
            shape: shape.into(),
        });
    }
    Ok(axis)
}

/// Returns the extents of `parts` parts of `extent`, equal but for the last ones, which are smaller.
///
/// Units: `parts` is clamped to at least 1 by the caller; 0 yields nothing.
///
/// Source: ONNX `Split`, opset 18, `num_outputs`.
pub fn split_evenly(extent: usize, parts: usize) -> SmallVec<[usize; 6]> {
    let chunk = extent.div_ceil(parts.max(1));
    let mut left = extent;
    (0..parts)
        .map(|_| {
            let size = chunk.min(left);
            left -= size;
            size
        })
        .collect()
}

/// Returns what selecting entries of `data` along `axis` by indices of shape `indices` yields.
///
/// # Errors
///
/// [`Error::Axis`] if the axis is out of range; [`Error::Overflow`] if the result has more elements
/// than memory can hold.
pub fn gather(data: &[usize], indices: &[usize], axis: i64) -> Result<Joined, Error> {
    let axis = Axis::new(axis, data.len())?;
    let mut shape = Shape::new();
    for (i, &extent) in data.iter().enumerate() {
        if i == axis.get() {
            shape.extend_from_slice(indices);
        } else {
            shape.push(extent);
        }
    }
    Ok(Joined { axis, shape: countable("gather", shape)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concat_adds_the_extents_of_the_axis() {
        let joined = concat(&[&[2, 3], &[2, 0], &[2, 1]], -1).expect("shapes fit");
        assert_eq!((joined.axis.get(), &joined.shape[..]), (1, &[2, 4][..]));
        assert!(matches!(concat(&[&[2, 3], &[3, 3]], 1), Err(Error::Shapes { .. })));
        assert!(matches!(concat(&[&[2], &[2, 3]], 0), Err(Error::Shapes { .. })));
        assert!(matches!(concat(&[&[]], 0), Err(Error::Axis { .. })));
        assert!(matches!(concat(&[], 0), Err(Error::Arity { .. })));
        let half = usize::MAX / 2 + 1;
        assert!(matches!(concat(&[&[half], &[half]], 0), Err(Error::Overflow { .. })));
    }

    #[test]
    fn split_sizes_sum_to_the_extent() {
        assert_eq!(split(&[2, 5], -1, &[2, 3, 0]).map(Axis::get).ok(), Some(1));
        assert!(matches!(split(&[4], 0, &[3, 3]), Err(Error::Param { .. })));
        assert!(matches!(split(&[4], 0, &[usize::MAX, 5]), Err(Error::Param { .. })));
    }

    #[test]
    fn even_splits_leave_the_rest_to_the_last() {
        assert_eq!(split_evenly(7, 4)[..], [2, 2, 2, 1]);
        assert_eq!(split_evenly(5, 4)[..], [2, 2, 1, 0]);
        assert_eq!(split_evenly(6, 3)[..], [2, 2, 2]);
        assert_eq!(split_evenly(6, 0)[..], []);
    }

    #[test]
    fn gather_puts_the_indices_extents_at_the_axis() {
        assert_eq!(gather(&[5, 4, 3], &[2, 2], 1).expect("valid").shape[..], [5, 2, 2, 3]);
        assert_eq!(gather(&[5], &[], 0).expect("valid").shape[..], []);
        assert!(matches!(gather(&[], &[1], 0), Err(Error::Axis { .. })));
    }
}
