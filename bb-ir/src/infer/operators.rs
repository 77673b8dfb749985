//! Facts about operators, for the check and for inference, which do not contain any operators' names themselves.

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
    /// A subgraph that is repeated until a condition or a count ends the loop.
    Loop,
    /// A subgraph that runs for each slice of the operands.
    Scan,
    /// A subgraph that runs for each item of a sequence.
    SequenceMap,
}

/// The rule of an operator whose subgraphs run in an order that only the operator's own crate determines.
#[derive(Debug, Clone, Copy)]
pub struct SubgraphRule {
    /// Checks that the node has the required subgraphs, with the required inputs and outputs.
    pub check: fn(&Node) -> Result<(), Error>,
    /// Infers the types of the results. The types of omitted results are unknown.
    pub types: fn(NodeFacts<'_>) -> Option<Types>,
}

/// The rule that determines the types of an operator's results.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// The rule of the primitive that has the operator's name.
    Primitive,
    /// The first result has the type of the first operand.
    Same,
    /// The shape of the first operand, with another element type.
    As(DataType),
    /// The shape that all operands broadcast to, with the element type of the first operand.
    Broadcast,
    /// The shape that all operands broadcast to, with booleans as elements.
    Truth,
    /// A function that infers the types. The types of omitted results are unknown.
    By(fn(NodeFacts<'_>) -> Option<Types>),
    /// Control flow: the types follow from the subgraphs.
    ControlFlow(ControlFlow),
    /// A function that infers the types. The types inside the subgraphs are inferred without facts about the operands.
    Subgraphs(SubgraphRule),
}

/// The table of operators that the check and inference use.
///
/// Without a table, only the primitives are known: the results of other operators have unknown types, and the subgraphs of
/// control flow are not compared with their nodes.
#[derive(Clone, Copy)]
pub struct Operators(fn(&str, &str, i64) -> Option<Rule>);

impl Operators {
    /// Creates a table from a function that maps a domain, an operator and an opset to the operator's rule.
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
