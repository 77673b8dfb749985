//! Facts about operators for checking and inference, which do not know operators by name.

use super::rule::{NodeFacts, Types};
use crate::graph::Node;
use crate::op::Primitive;
use crate::{DataType, Error};
use std::fmt;

/// An operator whose subgraphs a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlFlow {
    /// One of two subgraphs, selected by a condition.
    If,
    /// A repeated subgraph, until a condition or a count ends the loop.
    Loop,
    /// A subgraph for each slice of its operands.
    Scan,
    /// A subgraph for each item of a sequence.
    SequenceMap,
}

/// The rule of an operator whose subgraphs run in an order that only the operator's crate knows.
#[derive(Debug, Clone, Copy)]
pub struct SubgraphRule {
    /// Checks that the node has the subgraphs, with the inputs and outputs that the operator requires.
    pub check: fn(&Node) -> Result<(), Error>,
    /// Infers the types of the results; results that it omits are unknown.
    pub types: fn(NodeFacts<'_>) -> Option<Types>,
}

/// The rule that determines the types of an operator's results.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// The rule of the primitive that has the operator's name.
    Primitive,
    /// The first result has the type of the first operand.
    Same,
    /// The extents of the first operand, and another element type.
    As(DataType),
    /// The extents that all operands broadcast to, and the type of the first.
    Broadcast,
    /// The extents that all operands broadcast to, and truth values.
    Truth,
    /// A function; results that it omits are unknown.
    By(fn(NodeFacts<'_>) -> Option<Types>),
    /// The subgraphs.
    ControlFlow(ControlFlow),
    /// A function; the types inside the subgraphs are inferred without the operands.
    Subgraphs(SubgraphRule),
}

/// The table of operators for a check and for inference.
///
/// Without a table only the primitives are known: nothing is known about the results of other operators, and the subgraphs
/// of control flow are not compared with their nodes.
#[derive(Clone, Copy)]
pub struct Operators(fn(&str, &str, i64) -> Option<Rule>);

impl Operators {
    /// Makes a table from a function that maps domain, operator and opset to the operator's rule.
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
