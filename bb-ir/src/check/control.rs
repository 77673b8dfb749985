//! Checks the subgraphs of control-flow operators.

use crate::Error;
use crate::graph::{Graph, Node};
use crate::infer::{ControlFlow, Operators, Rule};

/// Checks the subgraphs of `If`, `Loop`, `Scan` and of other operators that have a rule for their subgraphs.
///
/// # Errors
///
/// [`Error::MissingAttribute`] if a subgraph is missing; [`Error::Subgraph`] if a subgraph has a wrong number
/// of inputs or outputs; the errors of the operator's rule.
pub(super) fn check(node: &Node, operators: Operators) -> Result<(), Error> {
    let kind = match operators.rule(node) {
        Some(Rule::ControlFlow(kind)) => kind,
        Some(Rule::Subgraphs(rule)) => return (rule.check)(node),
        _ => return Ok(()),
    };
    match kind {
        ControlFlow::If => {
            for name in ["then_branch", "else_branch"] {
                let branch = subgraph(node, name)?;
                count(name, "inputs", branch.inputs.len(), 0)?;
                count(name, "outputs", branch.outputs.len(), node.outputs.len())?;
            }
            Ok(())
        }
        ControlFlow::Loop => {
            let body = subgraph(node, "body")?;
            // The first two operands are the trip count and the condition; the others are loop-carried
            // values.
            let carried = node.inputs.len().saturating_sub(2);
            count("body", "inputs", body.inputs.len(), 2 + carried)?;
            at_least("body", "outputs", body.outputs.len(), 1 + carried)?;
            at_least("body", "outputs", body.outputs.len(), 1 + node.outputs.len())
        }
        ControlFlow::Scan => {
            let body = subgraph(node, "body")?;
            at_least("body", "outputs", body.outputs.len(), node.outputs.len())?;
            match node.attributes.int("num_scan_inputs")? {
                Some(1..) => Ok(()),
                Some(_) => {
                    Err(Error::Subgraph { attribute: "body", what: "scanned inputs", expected: 1, got: 0 })
                }
                None => Err(Error::MissingAttribute { name: "num_scan_inputs", expected: "an integer" }),
            }
        }
        ControlFlow::SequenceMap => subgraph(node, "body").map(drop),
    }
}

fn subgraph<'n>(node: &'n Node, name: &'static str) -> Result<&'n Graph, Error> {
    node.attributes.graph(name)?.ok_or(Error::MissingAttribute { name, expected: "a graph" })
}

fn count(attribute: &'static str, what: &'static str, got: usize, expected: usize) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Subgraph { attribute, what, expected, got }) }
}

fn at_least(attribute: &'static str, what: &'static str, got: usize, expected: usize) -> Result<(), Error> {
    if got >= expected { Ok(()) } else { Err(Error::Subgraph { attribute, what, expected, got }) }
}
