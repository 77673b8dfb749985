//! Carriers: nodes of the operator `BackendSubgraph`, whose attribute `body` is a part of the model as a graph.
//!
//! A deployment sends the body to its backend as a whole. A plan runs the nodes of the body instead of the carrier.

use super::splice::Unfolded;
use crate::Error;
use bb_ir::graph::{Attribute, Attributes, Graph, Node};
use std::sync::Arc;

/// The operator of carriers, in every domain.
pub(crate) const CARRIER: &str = "BackendSubgraph";

/// The attribute that contains the body.
pub const BODY: &str = "body";

/// The attribute that names the backend that receives the body in a deployment.
pub(crate) const BACKEND: &str = "backend";

/// Returns the body of a carrier; `None` if the node is not a carrier.
pub fn body(node: &Node) -> Option<&Graph> {
    if node.op_type != CARRIER {
        return None;
    }
    node.attributes.iter().find_map(|(name, attribute)| match attribute {
        Attribute::Graph(graph) if name == BODY => Some(&**graph),
        _ => None,
    })
}

/// Returns the name of the backend in a carrier's attribute.
pub fn backend(node: &Node) -> Option<&str> {
    node.attributes.iter().find_map(|(name, attribute)| match attribute {
        Attribute::Text(text) if name == BACKEND => std::str::from_utf8(text).ok(),
        _ => None,
    })
}

/// Compares the operands and results of a carrier with its body.
///
/// # Errors
///
/// [`Error::Operator`] if the node has more operands or results than the body has inputs or outputs, or if an input without a
/// default has no operand.
pub fn check(node: &Node, body: &Graph) -> Result<(), Error> {
    let wrong =
        |part: &'static str, problem| Error::Operator { op: CARRIER.to_owned(), part: part.into(), problem };
    let [inputs, outputs] = [body.inputs.len(), body.outputs.len()];
    if node.inputs.len() > inputs {
        return Err(wrong("inputs", format!("are {}, and the body has {inputs}", node.inputs.len())));
    }
    if node.outputs.len() > outputs {
        return Err(wrong("outputs", format!("are {}, and the body has {outputs}", node.outputs.len())));
    }
    for (at, input) in body.inputs.iter().enumerate() {
        let given = node.inputs.get(at).copied().flatten().is_some();
        if !given && !body.constants.iter().any(|(value, _)| value == input) {
            let problem = format!("lack the input {at} of the body, `{}`", body.name_of(*input));
            return Err(wrong("inputs", problem));
        }
    }
    Ok(())
}

/// Returns whether a graph or one of its subgraphs has a carrier.
fn has_carriers(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| node.op_type == CARRIER || node.subgraphs().any(has_carriers))
}

/// Returns the graph with each carrier replaced by the nodes of its body.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn inlined(graph: Arc<Graph>) -> Result<Arc<Graph>, Error> {
    if has_carriers(&graph) { Ok(Arc::new(without(&graph)?)) } else { Ok(graph) }
}

fn without(graph: &Graph) -> Result<Graph, Error> {
    let mut into = Unfolded::of(graph, 0);
    for node in &graph.nodes {
        match body(node) {
            Some(body) => {
                check(node, body).map_err(|source| Error::Node {
                    node: crate::error::name(graph, node),
                    op: node.op_type.clone(),
                    source: source.into(),
                })?;
                into.put(&crate::error::name(graph, node), node, &without(body)?)?;
            }
            None if node.subgraphs().any(has_carriers) => {
                into.nodes.push(Node { attributes: without_inside(&node.attributes)?, ..node.clone() });
            }
            None => into.nodes.push(node.clone()),
        }
    }
    Ok(into.finish(graph))
}

fn without_inside(attributes: &Attributes) -> Result<Attributes, Error> {
    let mut kept = Vec::new();
    for (name, attribute) in attributes.iter() {
        kept.push((
            name.to_owned(),
            match attribute {
                Attribute::Graph(graph) => Attribute::Graph(Box::new(without(graph)?)),
                Attribute::Graphs(graphs) => {
                    Attribute::Graphs(graphs.iter().map(without).collect::<Result<_, _>>()?)
                }
                other => other.clone(),
            },
        ));
    }
    Ok(Attributes::new(kept))
}

/// Returns the body of a carrier as a standalone graph. Its inputs are the inputs of the body, then the captured values.
pub fn standalone(body: &Graph) -> Graph {
    let captured = body.captures.iter().map(|(_, inner)| *inner);
    let inputs = body.inputs.iter().copied().chain(captured).collect();
    Graph { inputs, captures: Vec::new(), ..body.clone() }
}
