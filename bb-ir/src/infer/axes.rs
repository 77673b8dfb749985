//! Shape rules of operations on axes: reductions, and removing and inserting dimensions.

use super::extent::{Extent, Extents, current};
use crate::{Axis, Error};
use smallvec::SmallVec;

/// The effect of a reduction on a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction<E = usize> {
    /// For each dimension of the operand, whether it is reduced.
    pub reduced: SmallVec<[bool; 6]>,
    /// The shape of the result if each reduced extent is kept as 1, independent of `keepdims`.
    pub kept: Extents<E>,
    /// The shape of the result.
    pub shape: Extents<E>,
}

impl<E> Reduction<E> {
    /// Returns the number of operand elements for each result element, if the operand has the shape `shape`; 1 for rank 0.
    pub fn count(&self, shape: &[usize]) -> usize {
        // The number of all elements fits in `usize`, but if an extent is 0, the product of the other extents may overflow.
        let gone = shape.iter().zip(&self.reduced).filter(|(_, gone)| **gone);
        gone.fold(1, |count: usize, (&extent, _)| count.saturating_mul(extent))
    }
}

/// Returns the effect of reducing `axes` on `shape`. If `axes` is empty, every axis is reduced.
///
/// # Errors
///
/// [`Error::Axis`] if an axis is out of range; [`Error::Param`] if an axis is repeated.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// let shape = [2usize, 3, 4];
/// let r = bb_ir::infer::reduce("reduce_sum", &shape, &[-1, 0], false)?;
/// assert_eq!((r.count(&shape), &r.shape[..]), (8, &[3][..]));
/// # Ok(())
/// # }
/// ```
pub fn reduce<E: Extent>(
    op: &'static str,
    shape: &[E],
    axes: &[i64],
    keepdims: bool,
) -> Result<Reduction<E>, Error> {
    let reduced = if axes.is_empty() {
        SmallVec::from_elem(true, shape.len())
    } else {
        marked(op, axes, shape.len(), shape)?
    };
    let one = || E::or_unknown(E::of(1), || param(op, "reduces to no extent", shape));
    let (mut kept, mut out) = (Extents::new(), Extents::new());
    for (extent, &gone) in shape.iter().zip(&reduced) {
        let left = if gone { one()? } else { extent.clone() };
        if !gone || keepdims {
            out.push(left.clone());
        }
        kept.push(left);
    }
    Ok(Reduction { reduced, kept, shape: out })
}

/// Returns whether it is known which dimensions [`squeeze`] removes: `axes` if it is not empty, otherwise all dimensions of
/// extent 1, which requires known extents.
pub fn squeezes<E: Extent>(shape: &[E], axes: &[i64]) -> bool {
    !axes.is_empty() || shape.iter().all(|e| is_one(e).is_some())
}

/// Returns whether an extent is 1; `None` if this is unknown.
fn is_one<E: Extent>(extent: &E) -> Option<bool> {
    match extent.number() {
        Some(number) => Some(number == 1),
        None if extent.surely_at_least(2) => Some(false),
        None => extent.equals(&E::of(1)?),
    }
}

/// Returns `shape` without the dimensions `axes`, or without all extents of 1 if `axes` is empty.
///
/// # Errors
///
/// [`Error::Axis`] if an axis is out of range; [`Error::Param`] if an axis is repeated, or its extent is not 1.
pub fn squeeze<E: Extent>(shape: &[E], axes: &[i64]) -> Result<Extents<E>, Error> {
    if axes.is_empty() {
        return Ok(shape.iter().filter(|e| is_one(*e) != Some(true)).cloned().collect());
    }
    let gone = marked("squeeze", axes, shape.len(), shape)?;
    let mut out = Extents::new();
    for (extent, &gone) in shape.iter().zip(&gone) {
        match (gone, extent.current()) {
            (false, _) => out.push(extent.clone()),
            // An unknown extent is assumed to be 1, because the axis is named.
            (true, Some(1) | None) => {}
            (true, _) => return Err(param("squeeze", "names an extent that is not 1", shape)),
        }
    }
    Ok(out)
}

/// Returns `shape` with extents of 1 inserted at the dimensions `axes` of the result.
///
/// # Errors
///
/// [`Error::Axis`] if an axis is out of the result's range; [`Error::Param`] if an axis is repeated.
pub fn unsqueeze<E: Extent>(shape: &[E], axes: &[i64]) -> Result<Extents<E>, Error> {
    let rank = shape.len() + axes.len();
    let new = marked("unsqueeze", axes, rank, shape)?;
    // No axis is repeated, so the number of old dimensions in the result is the rank of `shape`.
    let mut old = shape.iter();
    let extents: Option<Extents<E>> =
        new.iter().map(|&new| if new { E::of(1) } else { old.next().cloned() }).collect();
    extents.ok_or_else(|| param("unsqueeze", "repeats an axis", shape))
}

/// Returns for each of `rank` dimensions whether `axes` contains it.
fn marked<E: Extent>(
    op: &'static str,
    axes: &[i64],
    rank: usize,
    shape: &[E],
) -> Result<SmallVec<[bool; 6]>, Error> {
    let mut marks: SmallVec<[bool; 6]> = SmallVec::from_elem(false, rank);
    for &axis in axes {
        let at = Axis::new(axis, rank)?.get();
        match marks.get_mut(at) {
            Some(mark) if !*mark => *mark = true,
            _ => return Err(param(op, "repeats an axis", shape)),
        }
    }
    Ok(marks)
}

#[cold]
fn param<E: Extent>(op: &'static str, problem: &'static str, shape: &[E]) -> Error {
    let shape = current(shape).unwrap_or_default().into_boxed_slice();
    Error::Param { op, param: "axes", problem, shape }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dim;

    #[test]
    fn empty_axes_reduce_all() {
        let r = reduce::<usize>("reduce_sum", &[2, 0, 3], &[], true).expect("valid");
        assert_eq!((r.count(&[2, 0, 3]), &r.shape[..]), (0, &[1, 1, 1][..]));
        let r = reduce::<usize>("reduce_sum", &[], &[], false).expect("valid");
        assert_eq!((r.count(&[]), r.shape.len()), (1, 0));
    }

    #[test]
    fn repeated_axes_are_refused_however_written() {
        assert!(matches!(reduce::<usize>("reduce_sum", &[2, 3], &[1, -1], true), Err(Error::Param { .. })));
        assert!(matches!(squeeze::<usize>(&[1, 1], &[0, 0]), Err(Error::Param { .. })));
        assert!(matches!(unsqueeze::<usize>(&[2], &[0, -3]), Err(Error::Param { .. })));
        assert!(matches!(reduce::<usize>("reduce_sum", &[2], &[1], true), Err(Error::Axis { .. })));
    }

    #[test]
    fn squeeze_removes_ones_only() {
        assert_eq!(squeeze::<usize>(&[1, 2, 1], &[]).expect("valid")[..], [2]);
        assert_eq!(squeeze::<usize>(&[1, 2, 1], &[-1]).expect("valid")[..], [1, 2]);
        assert!(matches!(squeeze::<usize>(&[1, 2], &[1]), Err(Error::Param { .. })));
    }

    #[test]
    fn unsqueeze_counts_axes_in_the_result() {
        assert_eq!(unsqueeze::<usize>(&[3, 4], &[0, -1]).expect("valid")[..], [1, 3, 4, 1]);
        assert_eq!(unsqueeze::<usize>(&[3, 4], &[3, 1]).expect("valid")[..], [3, 1, 4, 1]);
        assert_eq!(unsqueeze::<usize>(&[], &[0]).expect("valid")[..], [1]);
        assert!(matches!(unsqueeze::<usize>(&[3], &[2]), Err(Error::Axis { .. })));
    }

    #[test]
    fn extents_of_1_go_where_they_are_known() {
        let (n, one) = (Dim::Symbol("n".to_owned()), Dim::Known(1));
        let grown = n.shifted(2).expect("a sum");
        assert!(squeezes(&[grown.clone(), one.clone()], &[]) && !squeezes(std::slice::from_ref(&n), &[]));
        assert_eq!(squeeze(&[grown.clone(), one.clone()], &[]).expect("valid")[..], [grown]);
        assert_eq!(squeeze(&[n.clone(), Dim::Unknown], &[1]).expect("valid")[..], *std::slice::from_ref(&n));
        assert_eq!(unsqueeze(std::slice::from_ref(&n), &[0]).expect("valid")[..], [one.clone(), n.clone()]);
        assert_eq!(
            reduce("reduce_max", &[n, Dim::Unknown], &[0], true).expect("valid").shape[..],
            [one, Dim::Unknown]
        );
    }
}
