//! `Einsum`: parses the equation, and computes the shape of the result.

use super::broadcast;
use super::extent::{Extent, Extents};
use crate::Error;
use std::collections::BTreeMap;

/// The label of a dimension in an equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// A dimension that `...` represents, as an index from the right among these dimensions.
    Unnamed(usize),
    /// A dimension that is labelled by a letter.
    Letter(char),
}

/// The reason why an equation does not fit its operands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EquationError {
    /// A term has characters other than letters.
    #[error("has the term `{term}`, expected letters and one `...`")]
    Term {
        /// The term.
        term: String,
    },
    /// The number of terms differs from the number of operands.
    #[error("has {terms} terms for {operands} operands")]
    Operands {
        /// The number of terms.
        terms: usize,
        /// The number of operands.
        operands: usize,
    },
    /// An operand has dimensions that its term does not label.
    #[error("does not name the dimensions of operand {operand}, which has rank {rank}")]
    Rank {
        /// The index of the operand.
        operand: usize,
        /// The rank of the operand.
        rank: usize,
    },
    /// A letter of the result occurs in no operand, or occurs twice in the result.
    #[error("results in `{letter}`, which no operand has, or twice")]
    Result {
        /// The letter.
        letter: char,
    },
}

/// A term of an equation: letters, and the index of `...` among them.
#[derive(Debug)]
struct Term {
    letters: Vec<char>,
    ellipsis: Option<usize>,
}

impl Term {
    fn parse(text: &str) -> Result<Term, EquationError> {
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let letters: Vec<char> = before.chars().chain(after.unwrap_or_default().chars()).collect();
        if !letters.iter().all(char::is_ascii_alphabetic) {
            return Err(EquationError::Term { term: text.to_owned() });
        }
        Ok(Term { letters, ellipsis: after.map(|_| before.len()) })
    }

    /// Returns the labels of the term's dimensions, if `...` represents `unnamed` dimensions.
    fn labels(&self, unnamed: usize) -> Vec<Label> {
        let (before, after) = self.letters.split_at(self.ellipsis.unwrap_or(0).min(self.letters.len()));
        let unnamed = if self.ellipsis.is_some() { unnamed } else { 0 };
        let before = before.iter().map(|&c| Label::Letter(c));
        let after = after.iter().map(|&c| Label::Letter(c));
        before.chain((0..unnamed).rev().map(Label::Unnamed)).chain(after).collect()
    }
}

/// An equation for operands of known ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equation {
    /// The labels of each operand's dimensions.
    pub operands: Vec<Vec<Label>>,
    /// The labels of the result's dimensions, without duplicates.
    pub result: Vec<Label>,
}

impl Equation {
    /// Parses an equation for operands of these ranks.
    ///
    /// # Errors
    ///
    /// An [`EquationError`] if the equation does not fit the ranks.
    ///
    /// Source: ONNX `Einsum`, opset 12.
    pub fn parse(text: &str, ranks: &[usize]) -> Result<Equation, EquationError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms = left.split(',').map(Term::parse).collect::<Result<Vec<_>, _>>()?;
        if terms.len() != ranks.len() {
            return Err(EquationError::Operands { terms: terms.len(), operands: ranks.len() });
        }
        let mut operands = Vec::with_capacity(terms.len());
        let mut most = 0;
        for (operand, (term, &rank)) in terms.iter().zip(ranks).enumerate() {
            let unnamed = rank.checked_sub(term.letters.len());
            let unnamed = unnamed.filter(|&n| n == 0 || term.ellipsis.is_some());
            let unnamed = unnamed.ok_or(EquationError::Rank { operand, rank })?;
            most = most.max(unnamed);
            operands.push(term.labels(unnamed));
        }
        Ok(Equation { operands, result: result(&terms, right, most)? })
    }

    /// Returns the extents of the result.
    ///
    /// # Errors
    ///
    /// [`Error::Shapes`] if two extents with the same label differ, and both are not 1.
    pub fn shape<E: Extent>(&self, shapes: &[&[E]]) -> Result<Extents<E>, Error> {
        let mut extents: BTreeMap<Label, E> = BTreeMap::new();
        for (labels, shape) in self.operands.iter().zip(shapes) {
            for (label, extent) in labels.iter().zip(*shape) {
                let both = match extents.get(label) {
                    // An extent of 1 is broadcast.
                    Some(known) => {
                        let both = [known, extent].map(std::slice::from_ref);
                        broadcast("einsum", &both)?.pop()
                    }
                    None => None,
                };
                extents.insert(*label, both.unwrap_or_else(|| extent.clone()));
            }
        }
        Ok(self.result.iter().filter_map(|label| extents.get(label).cloned()).collect())
    }
}

/// Returns the labels of the result: the right side of the equation. Without a right side, these are the labels that occur once, in
/// alphabetical order.
fn result(terms: &[Term], right: Option<&str>, unnamed: usize) -> Result<Vec<Label>, EquationError> {
    let count = |letter: char| terms.iter().flat_map(|t| &t.letters).filter(|&&c| c == letter).count();
    let Some(right) = right else {
        let mut once: Vec<char> = terms.iter().flat_map(|t| t.letters.iter().copied()).collect();
        once.retain(|&c| count(c) == 1);
        once.sort_unstable();
        let once = once.into_iter().map(Label::Letter);
        return Ok((0..unnamed).rev().map(Label::Unnamed).chain(once).collect());
    };
    let term = Term::parse(right)?;
    for (at, &letter) in term.letters.iter().enumerate() {
        if count(letter) == 0 || term.letters.iter().take(at).any(|&c| c == letter) {
            return Err(EquationError::Result { letter });
        }
    }
    Ok(term.labels(unnamed))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::graph::Dim;

    fn shape(text: &str, shapes: &[&[usize]]) -> Vec<usize> {
        let ranks: Vec<usize> = shapes.iter().map(|s| s.len()).collect();
        Equation::parse(text, &ranks).unwrap().shape(shapes).unwrap().into_vec()
    }

    /// Expected: the results of `numpy.einsum`.
    #[test]
    fn letters_name_extents() {
        assert_eq!(shape("ij, jk -> ik", &[&[2, 3], &[3, 4]]), [2, 4]);
        assert_eq!(shape("...ij,...jk->...ik", &[&[5, 1, 2, 3], &[6, 3, 4]]), [5, 6, 2, 4]);
        assert_eq!(shape("ba", &[&[2, 3]]), [3, 2]);
        assert_eq!(shape("ii", &[&[3, 3]]), []);
        assert_eq!(shape("i...->...", &[&[2, 3, 4]]), [3, 4]);
        let n = Dim::Symbol("n".to_owned());
        let equation = Equation::parse("bi,ij->bj", &[2, 2]).unwrap();
        let shapes = [&[n.clone(), Dim::Known(3)][..], &[Dim::Unknown, Dim::Known(4)]];
        assert_eq!(equation.shape(&shapes).unwrap()[..], [n, Dim::Known(4)]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let wrong = |text, ranks: &[usize]| Equation::parse(text, ranks).unwrap_err();
        assert_eq!(wrong("i1->i", &[2]), EquationError::Term { term: "i1".to_owned() });
        assert_eq!(wrong("ij,jk", &[2]), EquationError::Operands { terms: 2, operands: 1 });
        assert_eq!(wrong("ij", &[3]), EquationError::Rank { operand: 0, rank: 3 });
        assert_eq!(wrong("ij->ii", &[2]), EquationError::Result { letter: 'i' });
        let equation = Equation::parse("ij,jk", &[2, 2]).unwrap();
        assert!(matches!(equation.shape::<usize>(&[&[2, 3], &[4, 5]]), Err(Error::Shapes { .. })));
    }
}
