//! Checks the subgraphs of control flow.

use crate::Error;
use crate::graph::{Attribute, Graph, Node};
use crate::infer::{ControlFlow, Operators, Rule, Search};

/// Checks the subgraphs of `If`, `Loop`, `Scan` and searches.
///
/// # Errors
///
/// [`Error::MissingAttribute`] if a subgraph is missing; [`Error::Subgraph`] if a subgraph has a wrong number
/// of inputs or outputs.
pub(super) fn check(node: &Node, operators: Operators) -> Result<(), Error> {
    let Some(Rule::ControlFlow(kind)) = operators.rule(node) else { return Ok(()) };
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
        ControlFlow::Search(kind) => {
            let decoder = subgraph(node, "decoder")?;
            at_least("decoder", "inputs", decoder.inputs.len(), 2)?;
            at_least("decoder", "outputs", decoder.outputs.len(), 1)?;
            let speech = kind == Search::Speech;
            if node.attributes.int("model_type")?.unwrap_or(i64::from(speech)) != 0 {
                at_least("encoder", "inputs", subgraph(node, "encoder")?.inputs.len(), 2)?;
            }
            let results = match kind {
                Search::Speech => 5,
                Search::Beams => 3,
                Search::Greedy | Search::Sampling => 2,
            };
            at_most(node, results)
        }
    }
}

fn subgraph<'n>(node: &'n Node, name: &'static str) -> Result<&'n Graph, Error> {
    match node.attributes.get(name) {
        Some(Attribute::Graph(g)) => Ok(g),
        Some(other) => {
            Err(Error::AttributeKind { name: name.to_owned(), expected: "a graph", got: other.kind() })
        }
        None => Err(Error::MissingAttribute { name, expected: "a graph" }),
    }
}

fn count(attribute: &'static str, what: &'static str, got: usize, expected: usize) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Subgraph { attribute, what, expected, got }) }
}

/// Refuses a node that names more results than its operator gives.
fn at_most(node: &Node, most: usize) -> Result<(), Error> {
    let got = node.outputs.len();
    if got <= most { Ok(()) } else { Err(Error::Count { what: "outputs", least: 1, most, got }) }
}

fn at_least(attribute: &'static str, what: &'static str, got: usize, expected: usize) -> Result<(), Error> {
    if got >= expected { Ok(()) } else { Err(Error::Subgraph { attribute, what, expected, got }) }
}
