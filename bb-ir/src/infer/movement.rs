//! Shape rules of reshaping and transposing.

use super::countable;
use super::extent::{Extent, Extents, current, mismatch, quotient};
use crate::{Error, element_count};
use smallvec::SmallVec;

/// The effect of a transposition on a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transposed<E = usize> {
    /// For each dimension of the result, the index of the operand's dimension.
    pub perm: SmallVec<[usize; 6]>,
    /// The shape of the result.
    pub shape: Extents<E>,
}

/// Resolves a permutation of `shape`. An empty permutation reverses the dimensions.
///
/// # Errors
///
/// [`Error::Permutation`] if `perm` is not a permutation of `0..rank`.
pub fn transpose<E: Clone>(shape: &[E], perm: &[i64]) -> Result<Transposed<E>, Error> {
    if perm.is_empty() {
        return Ok(Transposed {
            perm: (0..shape.len()).rev().collect(),
            shape: shape.iter().rev().cloned().collect(),
        });
    }
    let wrong = || Error::Permutation { perm: perm.into(), rank: shape.len() };
    if perm.len() != shape.len() {
        return Err(wrong());
    }
    let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, shape.len());
    let mut resolved = SmallVec::new();
    let mut out = Extents::new();
    for &p in perm {
        let p = usize::try_from(p).map_err(|_| wrong())?;
        match (seen.get_mut(p), shape.get(p)) {
            (Some(seen), Some(extent)) if !*seen => {
                *seen = true;
                resolved.push(p);
                out.push(extent.clone());
            }
            _ => return Err(wrong()),
        }
    }
    Ok(Transposed { perm: resolved, shape: out })
}

/// Returns `to` if it has the same number of elements as `shape`, or if the numbers are unknown.
///
/// # Errors
///
/// [`Error::Shapes`] if the numbers differ.
pub fn reshape<E: Extent>(shape: &[E], to: &[E]) -> Result<Extents<E>, Error> {
    if let (Some(have), Some(want)) = (current(shape), current(to)) {
        match (element_count(&have), element_count(&want)) {
            (Some(have), Some(want)) if have == want => {}
            _ => return Err(mismatch("reshape", &[shape, to])),
        }
    }
    Ok(Extents::from(to))
}

/// An entry of the shape operand of ONNX's `Reshape`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<E> {
    /// An extent.
    Extent(E),
    /// The operand's extent at the same index.
    Kept,
    /// The remaining extent, which is computed from the number of elements.
    Rest,
}

impl<E: Extent> Target<E> {
    /// Parses a number: 0 means the operand's extent unless `allow_zero` is true, and -1 means the remaining extent. Returns
    /// `None` for other negative numbers.
    pub fn of(number: i64, allow_zero: bool) -> Option<Target<E>> {
        match number {
            0 if !allow_zero => Some(Target::Kept),
            -1 => Some(Target::Rest),
            _ => E::of(number).map(Target::Extent),
        }
    }
}

/// Resolves the shape operand of ONNX's `Reshape`: -1 means the remaining extent, and 0 means the operand's extent unless
/// `allow_zero` is true.
///
/// # Errors
///
/// [`Error::Param`] if an extent is below -1, if -1 occurs twice or together with a zero that makes it ambiguous, or if a 0 is at
/// an index that is not a dimension of the operand; [`Error::Overflow`], [`Error::Shapes`] or [`Error::Dims`] if the number of elements
/// differs.
///
/// Source: ONNX `Reshape`, opset 14 and newer (`allowzero`), 5 and newer otherwise.
pub fn resolve_reshape<E: Extent>(shape: &[E], to: &[i64], allow_zero: bool) -> Result<Extents<E>, Error> {
    let to: Option<SmallVec<[Target<E>; 6]>> = to.iter().map(|&n| Target::of(n, allow_zero)).collect();
    reshape_to(shape, &to.ok_or_else(|| wrong(shape, "has an extent below -1"))?)
}

/// Like [`resolve_reshape`], but with entries that are already parsed.
///
/// # Errors
///
/// As [`resolve_reshape`].
pub fn reshape_to<E: Extent>(shape: &[E], to: &[Target<E>]) -> Result<Extents<E>, Error> {
    let op = "reshape";
    let mut out: Extents<E> = Extents::new();
    let mut open = None;
    for (i, target) in to.iter().enumerate() {
        match target {
            Target::Extent(extent) => out.push(extent.clone()),
            Target::Kept => {
                let kept = shape.get(i);
                out.push(
                    kept.ok_or_else(|| wrong(shape, "has a 0 where the operand has no dimension"))?.clone(),
                );
            }
            Target::Rest if open.is_some() => return Err(wrong(shape, "has more than one -1")),
            Target::Rest => open = Some(i),
        }
    }
    if let Some(open) = open {
        // `at_least` makes a trace record the answer, which is necessary because no kernel checks the -1.
        if out.iter().any(|e| e.at_least(1) == Some(false)) {
            return Err(wrong(shape, "has a -1 beside a 0"));
        }
        let rest = match quotient(shape, &out) {
            // The division has a remainder.
            None if current(shape).is_some() && current(&out).is_some() => {
                return Err(indivisible(shape, &out, open));
            }
            rest => E::or_unknown(rest, || indivisible(shape, &out, open))?,
        };
        out.insert(open, rest);
    }
    reshape(shape, &countable(op, out)?)
}

/// Returns the error for a -1 at the index `open` of a shape, if the product of the other extents does not divide the number of elements.
#[cold]
fn indivisible<E: Extent>(shape: &[E], others: &[E], open: usize) -> Error {
    let listed = |extents: Vec<String>| format!("[{}]", extents.join(", "));
    let mut to: Vec<String> = others.iter().map(E::to_string).collect();
    to.insert(open.min(to.len()), "-1".to_owned());
    let from = listed(shape.iter().map(E::to_string).collect());
    Error::Dims { op: "reshape", shapes: format!("{from} and {}", listed(to)) }
}

#[cold]
fn wrong<E: Extent>(shape: &[E], problem: &'static str) -> Error {
    let shape = current(shape).unwrap_or_default().into_boxed_slice();
    Error::Param { op: "reshape", param: "shape", problem, shape }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dim;

    #[test]
    fn transpose_takes_permutations_only() {
        let t = transpose(&[2usize, 3, 4], &[1, 2, 0]).expect("a permutation");
        assert_eq!((&t.perm[..], &t.shape[..]), (&[1, 2, 0][..], &[3, 4, 2][..]));
        assert_eq!(transpose(&[2usize, 3, 4], &[]).expect("reversal").shape[..], [4, 3, 2]);
        for perm in [&[0, 0, 1][..], &[0, 1], &[0, 1, 3], &[0, 1, -1], &[i64::MAX, 0, 1]] {
            assert!(
                matches!(transpose(&[2usize, 3, 4], perm), Err(Error::Permutation { rank: 3, .. })),
                "{perm:?}"
            );
        }
    }

    #[test]
    fn reshape_keeps_the_number_of_elements() {
        assert_eq!(reshape::<usize>(&[2, 3], &[6]).expect("6")[..], [6]);
        assert_eq!(reshape::<usize>(&[0, 3], &[3, 0, 5]).expect("0")[..], [3, 0, 5]);
        assert!(reshape::<usize>(&[2, 3], &[5]).is_err());
        assert!(reshape::<usize>(&[4], &[usize::MAX / 2 + 1, 8]).is_err());
    }

    #[test]
    fn zero_and_minus_one_are_resolved() {
        assert_eq!(resolve_reshape::<usize>(&[2, 3, 4], &[0, -1], false).expect("valid")[..], [2, 12]);
        assert_eq!(resolve_reshape::<usize>(&[0, 3], &[3, 0], true).expect("valid")[..], [3, 0]);
        assert_eq!(resolve_reshape::<usize>(&[0, 3], &[0, -1], false).ok(), None);
        assert_eq!(resolve_reshape::<usize>(&[0, 3], &[-1, 3], false).expect("valid")[..], [0, 3]);
        assert_eq!(resolve_reshape::<usize>(&[], &[1, 1], false).expect("valid")[..], [1, 1]);
        assert_eq!(resolve_reshape::<usize>(&[1], &[], false).expect("valid")[..], []);
        for to in [&[-1, -1][..], &[-2, 3], &[5, -1], &[0, 0, 0, 0]] {
            assert!(resolve_reshape::<usize>(&[2, 3], to, false).is_err(), "{to:?}");
        }
        let indivisible = resolve_reshape::<usize>(&[2, 3], &[-1, 5], false).expect_err("a remainder");
        assert_eq!(indivisible.to_string(), "`reshape` cannot combine shapes [2, 3] and [-1, 5]");
        let huge = 1i64 << 33;
        assert!(resolve_reshape::<usize>(&[4], &[huge, huge, -1], false).is_err());
    }

    #[test]
    fn what_remains_of_symbols_is_told_where_it_is_whole() {
        let n = Dim::Symbol("n".to_owned());
        let shape = [n.clone(), Dim::Known(4), Dim::Known(6)];
        assert_eq!(resolve_reshape(&shape, &[0, -1], false).expect("valid")[..], [n.clone(), Dim::Known(24)]);
        let half = resolve_reshape(&shape, &[-1, 12], false).expect("valid");
        assert_eq!(half[..], [n.scaled(2).expect("a product"), Dim::Known(12)]);
        assert_eq!(
            resolve_reshape(&shape, &[-1, 5], false).expect("valid")[..],
            [Dim::Unknown, Dim::Known(5)]
        );
        let to = [Target::Extent(n), Target::Rest];
        assert_eq!(reshape_to(&shape, &to).expect("valid").last(), Some(&Dim::Known(24)));
    }
}
