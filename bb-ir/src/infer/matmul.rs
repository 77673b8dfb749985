//! The shape rule of matrix products.

use super::extent::{Extent, Extents, mismatch, same};
use super::{broadcast, countable};
use crate::Error;

/// The extents of a matrix product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatMul<E = usize> {
    /// The leading extents, after broadcasting both operands.
    pub batch: Extents<E>,
    /// The number of rows of `a`; 1 if `a` has rank 1.
    pub m: E,
    /// The number of columns of `a`, which is the number of rows of `b`.
    pub k: E,
    /// The number of columns of `b`; 1 if `b` has rank 1.
    pub n: E,
    /// The shape of the result, without the dimensions that operands of rank 1 do not have.
    pub shape: Extents<E>,
}

/// Returns the extents of the matrix product of tensors with shapes `a` and `b`.
///
/// Shapes: `[.., m, k]` and `[.., k, n]`; the leading extents broadcast. An operand of rank 1 is
/// treated as a row (`a`) or as a column (`b`).
///
/// # Errors
///
/// [`Error::InnerExtents`] if the inner extents differ; [`Error::Shapes`] or [`Error::Dims`] if an
/// operand has rank 0, or if the leading extents cannot be broadcast; [`Error::Overflow`] if the
/// result has more elements than memory can hold.
pub fn matmul<E: Extent>(a: &[E], b: &[E]) -> Result<MatMul<E>, Error> {
    let op = "matmul";
    let wrong = || mismatch(op, &[a, b]);
    let (batch_a, m, k): (&[E], _, _) = match a {
        [] => return Err(wrong()),
        [k] => (&[], None, k),
        [batch @ .., m, k] => (batch, Some(m), k),
    };
    let (batch_b, rows, n): (&[E], _, _) = match b {
        [] => return Err(wrong()),
        [k] => (&[], k, None),
        [batch @ .., k, n] => (batch, k, Some(n)),
    };
    let unequal =
        || Error::InnerExtents { shapes: Box::new(wrong()), columns: k.to_string(), rows: rows.to_string() };
    let inner = k.agreed(rows).ok_or_else(unequal)?;
    let batch = if same(batch_a, batch_b) {
        Extents::from(batch_a)
    } else {
        broadcast(op, &[batch_a, batch_b]).map_err(|_| wrong())?
    };
    let mut shape = batch.clone();
    shape.extend(m.cloned());
    shape.extend(n.cloned());
    let shape = countable(op, shape)?;
    let or_one = |extent: Option<&E>| extent.cloned().or_else(|| E::of(1)).ok_or_else(wrong);
    Ok(MatMul { batch, m: or_one(m)?, k: inner, n: or_one(n)?, shape })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dim;

    #[test]
    fn leading_extents_broadcast_and_vectors_lose_their_one() {
        let cases: [(&[usize], &[usize], &[usize]); 7] = [
            (&[2, 3], &[3, 4], &[2, 4]),
            (&[3], &[3], &[]),
            (&[3], &[5, 3, 4], &[5, 4]),
            (&[5, 2, 3], &[3], &[5, 2]),
            (&[7, 1, 2, 3], &[5, 3, 4], &[7, 5, 2, 4]),
            (&[2, 0], &[0, 4], &[2, 4]),
            (&[0, 2, 3], &[1, 3, 4], &[0, 2, 4]),
        ];
        for (a, b, want) in cases {
            assert_eq!(matmul(a, b).expect("shapes fit").shape[..], *want, "{a:?} {b:?}");
        }
    }

    #[test]
    fn inner_extents_must_agree() {
        let refused = |a: &[usize], b: &[usize]| matmul(a, b).expect_err("the shapes do not fit");
        assert_eq!(
            refused(&[2, 3], &[2, 3]).to_string(),
            "`matmul` cannot combine shapes [2, 3] and [2, 3]: the first has 3 columns and the second has 2 rows, expected equal \
             numbers"
        );
        assert!(matches!(refused(&[2, 3], &[4, 2]), Error::InnerExtents { .. }));
        assert!(matches!(refused(&[3], &[4]), Error::InnerExtents { .. }));
        assert!(matches!(refused(&[], &[2]), Error::Shapes { .. }));
        assert!(matches!(refused(&[2, 1, 2], &[3, 2, 2]), Error::Shapes { .. }));
    }

    #[test]
    fn symbolic_shapes_report_the_inner_extents() {
        let n = || Dim::Symbol("n".to_owned());
        let error = matmul(&[n(), Dim::Known(3)], &[Dim::Known(2), n()]).expect_err("3 is not 2");
        assert_eq!(
            error.to_string(),
            "`matmul` cannot combine shapes [n, 3], [2, n]: the first has 3 columns and the second has 2 rows, expected equal numbers"
        );
        assert_eq!(error.operation(), Some("matmul"));
    }
}
