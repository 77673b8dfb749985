//! NumPy broadcasting.

use super::countable;
use crate::{Error, Shape};

/// Returns the shape to which `shapes` broadcast: aligned at the last dimension, extents equal or 1.
///
/// Shapes: any number of any ranks; none broadcast to rank 0. An extent of 1 beside 0 becomes 0.
///
/// # Errors
///
/// [`Error::Shapes`] naming the first two that do not fit; [`Error::Overflow`] if the result has more
/// elements than memory can hold.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// let shape = bb_ir::infer::broadcast("add", &[&[3, 1], &[4], &[]])?;
/// assert_eq!(shape[..], [3, 4]);
/// # Ok(())
/// # }
/// ```
pub fn broadcast(op: &'static str, shapes: &[&[usize]]) -> Result<Shape, Error> {
    let mut rest = shapes.iter();
    let Some(first) = rest.next() else {
        return Ok(Shape::new());
    };
    let mut out = Shape::from_slice(first);
    let mut grown = false;
    for &shape in rest {
        if out[..] != *shape {
            join(op, &mut out, shape)?;
            grown = true;
        }
    }
    if grown { countable(op, out) } else { Ok(out) }
}

/// Broadcasts `out` with `shape` in place.
fn join(op: &'static str, out: &mut Shape, shape: &[usize]) -> Result<(), Error> {
    if shape.len() > out.len() {
        let missing = shape.len() - out.len();
        out.insert_many(0, std::iter::repeat_n(1, missing));
    }
    for (i, &b) in shape.iter().rev().enumerate() {
        let at = out.len() - 1 - i;
        let Some(a) = out.get_mut(at) else { continue };
        match (*a, b) {
            (a, b) if a == b => {}
            (1, b) => *a = b,
            (_, 1) => {}
            _ => {
                return Err(Error::Shapes { op, left: out.as_slice().into(), right: shape.into() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(matches!(broadcast("add", &[&[2], &[3]]), Err(Error::Shapes { .. })));
        assert!(matches!(broadcast("add", &[&[2], &[0]]), Err(Error::Shapes { .. })));
    }

    #[test]
    fn a_result_that_no_memory_holds_is_refused() {
        let n = 1usize << 40;
        assert!(matches!(broadcast("add", &[&[n, 1], &[1, n]]), Err(Error::Overflow { .. })));
    }
}
