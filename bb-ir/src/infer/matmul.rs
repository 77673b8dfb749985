//! Matrix products.

use super::{broadcast, countable};
use crate::{Error, Shape};

/// The extents of a matrix product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatMul {
    /// The leading extents, broadcast over both operands.
    pub batch: Shape,
    /// The rows of `a`; 1 if `a` has rank 1.
    pub m: usize,
    /// The columns of `a`, which are the rows of `b`.
    pub k: usize,
    /// The columns of `b`; 1 if `b` has rank 1.
    pub n: usize,
    /// The extents of the result, without those that an operand of rank 1 leaves out.
    pub shape: Shape,
}

/// Returns the extents of the matrix product of tensors with shapes `a` and `b`.
///
/// Shapes: `[.., m, k]` and `[.., k, n]`, the leading extents broadcasting; rank 1 is a row (`a`) or
/// a column (`b`).
///
/// # Errors
///
/// [`Error::Shapes`] if an operand has rank 0, the inner extents differ or the leading ones do not
/// broadcast; [`Error::Overflow`] if the result has more elements than memory can hold.
pub fn matmul(a: &[usize], b: &[usize]) -> Result<MatMul, Error> {
    let op = "matmul";
    let mismatch = || Error::Shapes { op, left: a.into(), right: b.into() };
    let (batch_a, m, k): (&[usize], _, _) = match a {
        [] => return Err(mismatch()),
        [k] => (&[], None, *k),
        [batch @ .., m, k] => (batch, Some(*m), *k),
    };
    let (batch_b, rows, n): (&[usize], _, _) = match b {
        [] => return Err(mismatch()),
        [k] => (&[], *k, None),
        [batch @ .., k, n] => (batch, *k, Some(*n)),
    };
    if k != rows {
        return Err(mismatch());
    }
    let batch = if batch_a == batch_b {
        Shape::from_slice(batch_a)
    } else {
        broadcast(op, &[batch_a, batch_b]).map_err(|_| mismatch())?
    };
    let mut shape = batch.clone();
    shape.extend(m);
    shape.extend(n);
    let shape = countable(op, shape)?;
    Ok(MatMul { batch, m: m.unwrap_or(1), k, n: n.unwrap_or(1), shape })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(matches!(matmul(&[2, 3], &[4, 2]), Err(Error::Shapes { .. })));
        assert!(matches!(matmul(&[], &[2]), Err(Error::Shapes { .. })));
        assert!(matches!(matmul(&[2, 1, 2], &[3, 2, 2]), Err(Error::Shapes { .. })));
    }
}
