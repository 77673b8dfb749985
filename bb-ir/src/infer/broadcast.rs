//! The shape rule of NumPy broadcasting.

use super::countable;
use super::extent::{Extent, Extents, mismatch, same};
use crate::Error;

/// Returns the shape that `shapes` broadcast to. Shapes are aligned at the last dimension; extents must be equal or 1.
///
/// Shapes: any number of shapes of any rank; an empty list broadcasts to rank 0. The extents 1 and 0 broadcast to 0. An
/// extent of the result is unknown if the known extents do not determine it.
///
/// # Errors
///
/// [`Error::Shapes`] with the first two shapes that cannot be broadcast; [`Error::Overflow`] if the result has more elements
/// than memory can hold.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// let shape = bb_ir::infer::broadcast::<usize>("add", &[&[3, 1], &[4], &[]])?;
/// assert_eq!(shape[..], [3, 4]);
/// # Ok(())
/// # }
/// ```
pub fn broadcast<E: Extent>(op: &'static str, shapes: &[&[E]]) -> Result<Extents<E>, Error> {
    let mut rest = shapes.iter();
    let Some(first) = rest.next() else {
        return Ok(Extents::new());
    };
    let mut out = Extents::from(*first);
    let mut grown = false;
    for &shape in rest {
        if !same(&out, shape) {
            join(op, &mut out, shape)?;
            grown = true;
        }
    }
    if grown { countable(op, out) } else { Ok(out) }
}

/// Broadcasts `out` with `shape` in place.
fn join<E: Extent>(op: &'static str, out: &mut Extents<E>, shape: &[E]) -> Result<(), Error> {
    let fits = |(a, b): (&E, &E)| match (a.current(), b.current()) {
        (Some(a), Some(b)) => a == b || a == 1 || b == 1,
        _ => true,
    };
    if !out.iter().rev().zip(shape.iter().rev()).all(fits) {
        return Err(mismatch(op, &[out.as_slice(), shape]));
    }
    if shape.len() > out.len() {
        let missing = shape.len() - out.len();
        out.insert_many(0, shape.iter().take(missing).cloned());
    }
    for (a, b) in out.iter_mut().rev().zip(shape.iter().rev()) {
        *a = E::or_unknown(stretched(a, b), || {
            mismatch(op, &[std::slice::from_ref(a), std::slice::from_ref(b)])
        })?;
    }
    Ok(())
}

/// Returns the extent that two extents broadcast to; `None` if it is unknown.
#[inline]
fn stretched<E: Extent>(a: &E, b: &E) -> Option<E> {
    if a.same(b) || b.number() == Some(1) {
        return Some(a.clone());
    }
    if a.number() == Some(1) {
        return Some(b.clone());
    }
    // An extent other than 1 is always the result, because it is not stretched.
    for (one, other) in [(a, b), (b, a)] {
        if one.number().is_some() || one.surely_at_least(2) || other.is_cut_of(one) {
            return Some(one.clone());
        }
    }
    if a.equals(b)? {
        return Some(a.clone());
    }
    Some(if a.equals(&E::of(1)?)? { b.clone() } else { a.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dim;

    #[test]
    fn extents_of_one_stretch_and_ranks_are_padded_in_front() {
        let cases: [(&[&[usize]], &[usize]); 6] = [
            (&[&[2, 3], &[2, 3]], &[2, 3]),
            (&[&[3], &[2, 1]], &[2, 3]),
            (&[&[], &[2, 0]], &[2, 0]),
            (&[&[1], &[0]], &[0]),
            (&[&[8, 1, 6, 1], &[7, 1, 5]], &[8, 7, 6, 5]),
            (&[&[1], &[1, 1], &[2, 1, 1]], &[2, 1, 1]),
        ];
        for (shapes, want) in cases {
            assert_eq!(broadcast("add", shapes).expect("shapes fit")[..], *want);
        }
    }

    #[test]
    fn other_extents_do_not_fit() {
        assert!(matches!(broadcast::<usize>("add", &[&[2], &[3]]), Err(Error::Shapes { .. })));
        assert!(matches!(broadcast::<usize>("add", &[&[2], &[0]]), Err(Error::Shapes { .. })));
    }

    #[test]
    fn a_result_that_no_memory_holds_is_refused() {
        let n = 1usize << 40;
        assert!(matches!(broadcast("add", &[&[n, 1], &[1, n]]), Err(Error::Overflow { .. })));
    }

    #[test]
    fn what_is_known_of_symbols_is_kept() {
        let n = Dim::Symbol("n".to_owned());
        let grown = n.shifted(2).expect("a sum");
        let cut = Extent::min(&n, &Dim::Known(512)).expect("a minimum");
        let cases: [(&Dim, &Dim, Dim); 7] = [
            (&n, &n, n.clone()),
            (&n, &Dim::Known(1), n.clone()),
            (&n, &Dim::Known(3), Dim::Known(3)),
            (&Dim::Unknown, &Dim::Unknown, Dim::Unknown),
            (&Dim::Unknown, &grown, grown.clone()),
            (&n, &cut, n.clone()),
            (&n, &n.shifted(1).expect("a sum"), Dim::Unknown),
        ];
        for (a, b, want) in cases {
            for pair in [[a, b], [b, a]] {
                let [a, b] = pair.map(std::slice::from_ref);
                assert_eq!(
                    broadcast("add", &[a, b]).ok().as_deref(),
                    Some(&[want.clone()][..]),
                    "{a:?} {b:?}"
                );
            }
        }
        let wrong = broadcast("add", &[&[Dim::Known(2)], &[n, Dim::Known(3)]]);
        assert!(matches!(wrong, Err(Error::Dims { .. })));
    }
}
