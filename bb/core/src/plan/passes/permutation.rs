//! Permutations of dimensions, and the steps of a trace that permute them.

use crate::trace::{Step, Trace, TraceValue};
use crate::{Error, Primitive};
use bb_ir::infer;
use bb_ir::op::{Param, take};
use smallvec::SmallVec;

/// A permutation: for each dimension of the result, the dimension of the operand that it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Permutation(SmallVec<[usize; 6]>);

impl Permutation {
    pub(super) fn is_identity(&self) -> bool {
        self.0.is_sorted()
    }

    /// Returns the inverse permutation.
    pub(super) fn inverse(&self) -> Permutation {
        let mut inverse: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.0.len());
        for (to, &from) in self.0.iter().enumerate() {
            if let Some(entry) = inverse.get_mut(from) {
                *entry = to;
            }
        }
        Permutation(inverse)
    }

    /// Returns the composition of this permutation, which is applied first, and `next`.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the ranks differ.
    pub(super) fn then(&self, next: &Permutation) -> Result<Permutation, Error> {
        next.permuted(&self.0)
    }

    /// Returns the entries of a list, one per dimension, in the order of the result's dimensions.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the list has no entry for a dimension.
    pub(super) fn permuted<T: Clone, L: FromIterator<T>>(&self, list: &[T]) -> Result<L, Error> {
        let entries: Option<L> = self.0.iter().map(|&from| list.get(from).cloned()).collect();
        entries.ok_or_else(|| Error::excluded("a permutation to have the rank of its operand"))
    }

    /// Returns, for each dimension of the result, the dimension of the operand that it comes from.
    pub(super) fn entries(&self) -> &[usize] {
        &self.0
    }

    /// Returns the parameters of a transpose.
    pub(super) fn params(&self) -> Box<[Param<'static>]> {
        Box::new([Param::Ints(self.0.iter().map(|&from| from as i64).collect())])
    }
}

impl FromIterator<usize> for Permutation {
    fn from_iter<I: IntoIterator<Item = usize>>(entries: I) -> Permutation {
        Permutation(entries.into_iter().collect())
    }
}

/// A step of a trace that permutes dimensions.
#[derive(Debug, Clone)]
pub(super) struct Transpose {
    pub(super) operand: TraceValue,
    pub(super) result: TraceValue,
    pub(super) perm: Permutation,
}

impl Transpose {
    /// Reads the transpose of a step; `None` if the step is not a transpose.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the step refers to a value that does not exist; the operation's own errors if its parameter is
    /// not a permutation.
    pub(super) fn of(trace: &Trace, step: &Step) -> Result<Option<Transpose>, Error> {
        if step.operation.primitive() != Some(Primitive::Transpose) {
            return Ok(None);
        }
        let ([Some(operand)], [result]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(None);
        };
        let perm = take::Ints(step.operation.name(), step.params.first())?;
        let perm = infer::transpose(&trace.values.get(*operand)?.shape, perm)?.perm;
        Ok(Some(Transpose { operand: *operand, result: *result, perm: Permutation(perm) }))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(entries: &[usize]) -> Permutation {
        entries.iter().copied().collect()
    }

    #[test]
    fn permutations_follow_each_other_as_transposes_do() {
        // Dimension `i` of a transpose is dimension `perm[i]` of its operand.
        let extents = ["n", "c", "h", "w"];
        let last: Vec<&str> = of(&[0, 2, 3, 1]).permuted(&extents).unwrap();
        assert_eq!(last, ["n", "h", "w", "c"]);
        let turned: Vec<&str> = of(&[3, 0, 1, 2]).permuted(&last).unwrap();
        assert_eq!(turned, ["c", "n", "h", "w"]);
        let both = of(&[0, 2, 3, 1]).then(&of(&[3, 0, 1, 2])).unwrap();
        assert_eq!(both.permuted::<_, Vec<&str>>(&extents).unwrap(), turned);
    }

    #[test]
    fn an_inverse_undoes_a_permutation_on_either_side() {
        for perm in [of(&[0, 2, 3, 1]), of(&[2, 0, 1]), of(&[1, 0]), of(&[])] {
            assert!(perm.then(&perm.inverse()).unwrap().is_identity());
            assert!(perm.inverse().then(&perm).unwrap().is_identity());
        }
        assert!(!of(&[0, 2, 3, 1]).is_identity());
        assert!(of(&[0, 1]).then(&of(&[0, 1, 2])).is_err());
    }
}
