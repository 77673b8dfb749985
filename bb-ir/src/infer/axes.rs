//! Operations on named axes: reductions, removing and inserting dimensions.

use crate::{Axis, Error, Shape};
use smallvec::SmallVec;

/// What a reduction does to a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction {
    /// For each dimension of the operand, whether it is reduced.
    pub reduced: SmallVec<[bool; 6]>,
    /// How many elements each result is made of; 1 for rank 0.
    pub count: usize,
    /// The extents of the result with reduced extents as 1, whatever `keepdims` says.
    pub kept: Shape,
    /// The extents of the result.
    pub shape: Shape,
}

/// Returns what reducing `axes` does to `shape`; empty `axes` reduce every axis.
///
/// # Errors
///
/// [`Error::Axis`] if an axis is out of range, [`Error::Param`] if one is repeated.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// let r = bb_ir::infer::reduce("reduce_sum", &[2, 3, 4], &[-1, 0], false)?;
/// assert_eq!((r.count, &r.shape[..]), (8, &[3][..]));
/// # Ok(())
/// # }
/// ```
pub fn reduce(op: &'static str, shape: &[usize], axes: &[i64], keepdims: bool) -> Result<Reduction, Error> {
    let reduced = if axes.is_empty() {
        SmallVec::from_elem(true, shape.len())
    } else {
        marked(op, axes, shape.len(), shape)?
    };
    let mut count = 1usize;
    let mut kept = Shape::new();
    let mut out = Shape::new();
    for (&extent, &gone) in shape.iter().zip(&reduced) {
        if gone {
            // The operand's own number of elements fits, but a zero extent may hide an overflow.
            count = count.saturating_mul(extent);
            kept.push(1);
            if keepdims {
                out.push(1);
            }
        } else {
            kept.push(extent);
            out.push(extent);
        }
    }
    Ok(Reduction { reduced, count, kept, shape: out })
}

/// Returns `shape` without the dimensions `axes`, or without every extent of 1 when `axes` is empty.
///
/// # Errors
///
/// [`Error::Axis`] if an axis is out of range; [`Error::Param`] if one is repeated or its extent is
/// not 1.
pub fn squeeze(shape: &[usize], axes: &[i64]) -> Result<Shape, Error> {
    if axes.is_empty() {
        return Ok(shape.iter().copied().filter(|&d| d != 1).collect());
    }
    let gone = marked("squeeze", axes, shape.len(), shape)?;
    let mut out = Shape::new();
    for (&extent, &gone) in shape.iter().zip(&gone) {
        match (gone, extent) {
            (false, _) => out.push(extent),
            (true, 1) => {}
            (true, _) => return Err(param("squeeze", "names an extent that is not 1", shape)),
        }
    }
    Ok(out)
}

/// Returns `shape` with extents of 1 inserted such that they are dimensions `axes` of the result.
///
/// # Errors
///
/// [`Error::Axis`] if an axis is out of the result's range; [`Error::Param`] if one is repeated.
pub fn unsqueeze(shape: &[usize], axes: &[i64]) -> Result<Shape, Error> {
    let rank = shape.len() + axes.len();
    let new = marked("unsqueeze", axes, rank, shape)?;
    let mut old = shape.iter();
    // As many dimensions are not new as `shape` has, since no axis is repeated.
    Ok(new.iter().map(|&new| if new { 1 } else { old.next().copied().unwrap_or(1) }).collect())
}

/// Marks the axes among `rank` dimensions.
fn marked(
    op: &'static str,
    axes: &[i64],
    rank: usize,
    shape: &[usize],
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

fn param(op: &'static str, problem: &'static str, shape: &[usize]) -> Error {
    Error::Param { op, param: "axes", problem, shape: shape.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_axes_reduce_all() {
        let r = reduce("reduce_sum", &[2, 0, 3], &[], true).expect("valid");
        assert_eq!((r.count, &r.shape[..]), (0, &[1, 1, 1][..]));
        let r = reduce("reduce_sum", &[], &[], false).expect("valid");
        assert_eq!((r.count, r.shape.len()), (1, 0));
    }

    #[test]
    fn repeated_axes_are_refused_however_written() {
        assert!(matches!(reduce("reduce_sum", &[2, 3], &[1, -1], true), Err(Error::Param { .. })));
        assert!(matches!(squeeze(&[1, 1], &[0, 0]), Err(Error::Param { .. })));
        assert!(matches!(unsqueeze(&[2], &[0, -3]), Err(Error::Param { .. })));
        assert!(matches!(reduce("reduce_sum", &[2], &[1], true), Err(Error::Axis { .. })));
    }

    #[test]
    fn squeeze_removes_ones_only() {
        assert_eq!(squeeze(&[1, 2, 1], &[]).expect("valid")[..], [2]);
        assert_eq!(squeeze(&[1, 2, 1], &[-1]).expect("valid")[..], [1, 2]);
        assert!(matches!(squeeze(&[1, 2], &[1]), Err(Error::Param { .. })));
    }

    #[test]
    fn unsqueeze_counts_axes_in_the_result() {
        assert_eq!(unsqueeze(&[3, 4], &[0, -1]).expect("valid")[..], [1, 3, 4, 1]);
        assert_eq!(unsqueeze(&[3, 4], &[3, 1]).expect("valid")[..], [3, 1, 4, 1]);
        assert_eq!(unsqueeze(&[], &[0]).expect("valid")[..], [1]);
        assert!(matches!(unsqueeze(&[3], &[2]), Err(Error::Axis { .. })));
    }
}
