//! Reshaping and permuting.

use super::countable;
use crate::{Error, Shape, element_count};
use smallvec::SmallVec;

/// What a transposition does to a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transposed {
    /// For each dimension of the result, which dimension of the operand it is.
    pub perm: SmallVec<[usize; 6]>,
    /// The extents of the result.
    pub shape: Shape,
}

/// Resolves a permutation of `shape`; an empty one reverses the dimensions.
///
/// # Errors
///
/// [`Error::Permutation`] if `perm` is not a permutation of `0..rank`.
pub fn transpose(shape: &[usize], perm: &[i64]) -> Result<Transposed, Error> {
    if perm.is_empty() {
        return Ok(Transposed {
            perm: (0..shape.len()).rev().collect(),
            shape: shape.iter().rev().copied().collect(),
        });
    }
    let wrong = || Error::Permutation { perm: perm.into(), rank: shape.len() };
    if perm.len() != shape.len() {
        return Err(wrong());
    }
    let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, shape.len());
    let mut resolved = SmallVec::new();
    let mut out = Shape::new();
    for &p in perm {
        let p = usize::try_from(p).map_err(|_| wrong())?;
        match (seen.get_mut(p), shape.get(p)) {
            (Some(seen), Some(&extent)) if !*seen => {
                *seen = true;
                resolved.push(p);
                out.push(extent);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(Transposed { perm: resolved, shape: out })
}

/// Returns `to` if it has as many elements as `shape`.
///
/// # Errors
///
/// [`Error::Shapes`] if it has not.
pub fn reshape(shape: &[usize], to: &[usize]) -> Result<Shape, Error> {
    let to = Shape::from_slice(to);
    match (element_count(shape), element_count(&to)) {
        (Some(have), Some(want)) if have == want => Ok(to),
        _ => Err(Error::Shapes { op: "reshape", left: shape.into(), right: to.into_boxed_slice() }),
    }
}

/// Resolves the shape operand of ONNX's `Reshape`: -1 is what remains, and 0 keeps the operand's
/// extent unless `allow_zero`.
///
/// # Errors
///
/// [`Error::Param`] if an extent is below -1, -1 occurs twice or beside a zero that makes it any
/// number, or 0 stands where the operand has no dimension; [`Error::Overflow`] or [`Error::Shapes`]
/// if the number of elements differs.
///
/// Source: ONNX `Reshape`, opset 14 and newer (`allowzero`), 5 and newer otherwise.
pub fn resolve_reshape(shape: &[usize], to: &[i64], allow_zero: bool) -> Result<Shape, Error> {
    let op = "reshape";
    let wrong = |problem| Error::Param { op, param: "shape", problem, shape: shape.into() };
    let mut out = Shape::new();
    let mut open = None;
    for (i, &extent) in to.iter().enumerate() {
        out.push(match extent {
            0 if !allow_zero => {
                *shape.get(i).ok_or_else(|| wrong("has a 0 where the operand has no dimension"))?
            }
            -1 if open.is_some() => return Err(wrong("has more than one -1")),
            -1 => {
                open = Some(i);
                1
            }
            _ => usize::try_from(extent).map_err(|_| wrong("has an extent below -1"))?,
        });
    }
    if let Some(slot) = open.and_then(|i| out.get_mut(i)) {
        *slot = 1;
        let known = element_count(&out).unwrap_or(usize::MAX);
        let have = element_count(shape).unwrap_or(usize::MAX);
        let rest = match (have, known) {
            (_, 0) => return Err(wrong("has a -1 beside a 0")),
            (have, known) if have.is_multiple_of(known) => have / known,
            _ => {
                return Err(Error::Shapes { op, left: shape.into(), right: out.into_boxed_slice() });
            }
        };
        if let Some(slot) = open.and_then(|i| out.get_mut(i)) {
            *slot = rest;
        }
    }
    reshape(shape, &countable(op, out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transpose_takes_permutations_only() {
        let t = transpose(&[2, 3, 4], &[1, 2, 0]).expect("a permutation");
        assert_eq!((&t.perm[..], &t.shape[..]), (&[1, 2, 0][..], &[3, 4, 2][..]));
        assert_eq!(transpose(&[2, 3, 4], &[]).expect("reversal").shape[..], [4, 3, 2]);
        for perm in [&[0, 0, 1][..], &[0, 1], &[0, 1, 3], &[0, 1, -1], &[i64::MAX, 0, 1]] {
            assert!(
                matches!(transpose(&[2, 3, 4], perm), Err(Error::Permutation { rank: 3, .. })),
                "{perm:?}"
            );
        }
    }

    #[test]
    fn reshape_keeps_the_number_of_elements() {
        assert_eq!(reshape(&[2, 3], &[6]).expect("6")[..], [6]);
        assert_eq!(reshape(&[0, 3], &[3, 0, 5]).expect("0")[..], [3, 0, 5]);
        assert!(reshape(&[2, 3], &[5]).is_err());
        assert!(reshape(&[4], &[usize::MAX / 2 + 1, 8]).is_err());
    }

    #[test]
    fn zero_and_minus_one_are_resolved() {
        assert_eq!(resolve_reshape(&[2, 3, 4], &[0, -1], false).expect("valid")[..], [2, 12]);
        assert_eq!(resolve_reshape(&[0, 3], &[3, 0], true).expect("valid")[..], [3, 0]);
        assert_eq!(resolve_reshape(&[0, 3], &[0, -1], false).ok(), None);
        assert_eq!(resolve_reshape(&[0, 3], &[-1, 3], false).expect("valid")[..], [0, 3]);
        assert_eq!(resolve_reshape(&[], &[1, 1], false).expect("valid")[..], [1, 1]);
        assert_eq!(resolve_reshape(&[1], &[], false).expect("valid")[..], []);
        for to in [&[-1, -1][..], &[-2, 3], &[5, -1], &[0, 0, 0, 0]] {
            assert!(resolve_reshape(&[2, 3], to, false).is_err(), "{to:?}");
        }
        let huge = 1i64 << 33;
        assert!(resolve_reshape(&[4], &[huge, huge, -1], false).is_err());
    }
}
