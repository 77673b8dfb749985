//! The difference between an input of a graph and its declaration.

use bb_ir::DataType;
use bb_ir::graph::ValueType;
use bb_ir::text::{sentence, shown};

/// An input that differs from its declaration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("input `{name}` is declared as {declared}, got {got}: {problem}", name = shown(.name), declared = sentence(.declared), got = sentence(.got))]
#[non_exhaustive]
pub struct InputMismatch {
    /// The name of the input.
    pub name: String,
    /// The declared type.
    pub declared: ValueType,
    /// The type of the value that was passed.
    pub got: ValueType,
    /// The difference.
    pub problem: InputProblem,
}

/// The difference between an input and its declaration.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputProblem {
    /// The declared and the passed value are of different kinds: tensor, sequence, map or absent value.
    Kind,
    /// The element types differ.
    DataType {
        /// The declared element type.
        expected: DataType,
        /// The element type of the passed value.
        got: DataType,
    },
    /// The ranks differ.
    Rank {
        /// The declared rank.
        expected: usize,
        /// The rank of the passed value.
        got: usize,
    },
    /// An extent differs from the declared number.
    Extent {
        /// The axis.
        axis: usize,
        /// The declared extent.
        expected: usize,
        /// The extent of the passed value.
        got: usize,
    },
    /// A symbolic dimension has two different extents.
    Symbol {
        /// The axis.
        axis: usize,
        /// The name of the symbolic dimension.
        symbol: String,
        /// The extent at its first occurrence.
        expected: usize,
        /// The extent of the passed value.
        got: usize,
        /// The input with its first occurrence.
        bound_by: String,
        /// The axis of its first occurrence.
        bound_axis: usize,
    },
    /// An element of a sequence differs.
    Element {
        /// The index of the element.
        index: usize,
        /// The difference.
        problem: Box<InputProblem>,
    },
}

impl std::fmt::Display for InputProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InputProblem::Kind => f.write_str("it is a value of another kind"),
            InputProblem::DataType { expected, got } => {
                write!(f, "element type {got} must be {expected}")
            }
            InputProblem::Rank { expected, got } => write!(f, "rank {got} must be {expected}"),
            InputProblem::Extent { axis, expected, got } => {
                write!(f, "extent {got} of axis {axis} must be {expected}")
            }
            InputProblem::Symbol { axis, symbol, expected, got, bound_by, bound_axis } => write!(
                f,
                "extent {got} of axis {axis} must be {expected}, because `{}` is {expected} at axis {bound_axis} of input `{}`",
                shown(symbol),
                shown(bound_by)
            ),
            InputProblem::Element { index, problem } => write!(f, "element {index}: {problem}"),
        }
    }
}

impl InputMismatch {
    /// Returns whether the only difference is the rank or an extent of a tensor.
    pub fn is_shape(&self) -> bool {
        use InputProblem::{Extent, Rank, Symbol};
        matches!(self.problem, Rank { .. } | Extent { .. } | Symbol { .. })
    }
}
