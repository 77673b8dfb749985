//! What checking and inference are told of operators, which they do not know by name.

use super::rule::{At, Types};
use crate::DataType;
use crate::graph::Node;
use crate::op::Primitive;
use std::fmt;

/// An operator whose subgraphs a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlFlow {
    /// One of two subgraphs, which a condition chooses.
    If,
    /// A subgraph again and again, until a condition or a count ends it.
    Loop,
    /// A subgraph for each slice of its operands.
    Scan,
    /// A subgraph for each item of a sequence.
    SequenceMap,
    /// Subgraphs that say which tokens may follow sequences, until the sequences are long enough.
    Search(Search),
}

/// How a search chooses the tokens that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// It follows the most probable sequences.
    Beams,
    /// It takes the most probable token.
    Greedy,
    /// It draws a token.
    Sampling,
    /// It follows the most probable sequences of what is spoken.
    Speech,
}

impl Search {
    /// Returns whether the most probable sequences are followed.
    pub const fn follows_beams(self) -> bool {
        matches!(self, Search::Beams | Search::Speech)
    }
}

/// What tells the types of an operator's results.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// The rule of the primitive that has the operator's name.
    Primitive,
    /// The first result is as the first operand.
    Same,
    /// The extents of the first operand, and another element type.
    As(DataType),
    /// The extents that all operands broadcast to, and the type of the first.
    Broadcast,
    /// The extents that all operands broadcast to, and truth values.
    Truth,
    /// A function; what it leaves out is not known.
    By(fn(At<'_>) -> Option<Types>),
    /// The subgraphs.
    ControlFlow(ControlFlow),
}

/// The table of operators that a check and inference are given.
///
/// Without one they know the primitives alone; of the results of other operators nothing is known then, and the subgraphs
/// of control flow are not compared with their nodes.
#[derive(Clone, Copy)]
pub struct Operators(fn(&str, &str, i64) -> Option<Rule>);

impl Operators {
    /// Makes a table of a function from domain, operator and opset to the operator's rule.
    pub const fn new(find: fn(&str, &str, i64) -> Option<Rule>) -> Operators {
        Operators(find)
    }

    /// Returns the rule of a node's operator; `None` if the table does not have the operator.
    pub fn rule(&self, node: &Node) -> Option<Rule> {
        (self.0)(&node.domain, &node.op_type, node.opset)
    }
}

impl Default for Operators {
    fn default() -> Operators {
        Operators::new(|domain, op_type, _| {
            Primitive::from_name(op_type).filter(|_| domain.is_empty()).map(|_| Rule::Primitive)
        })
    }
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Operators")
    }
}
