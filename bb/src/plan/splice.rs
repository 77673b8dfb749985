//! Control flow, taken apart while tracing: once the condition of an `If` is known, the branch stands in its place.
//!
//! What results is an ordinary graph, so that a branch may itself be cut into segments. Values keep their numbers; those
//! of the branch come after them.

use crate::Error;
use crate::trace::{Table, TableIndex};
use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueId, ValueInfo};

/// Returns `graph` with the node at `at` replaced by the nodes of `branch`, one of its subgraphs.
///
/// # Errors
///
/// [`Error::Internal`] if there is no such node, or if the branch was not checked.
pub(super) fn splice(graph: &Graph, at: usize, branch: &Graph) -> Result<Graph, Error> {
    let node = graph.nodes.get(at).ok_or_else(|| Error::excluded("a node whose branch is taken"))?;
    let mut values = graph.values.clone();
    let prefix = crate::error::name(graph, node);
    let mut captured: Table<ValueId, Option<ValueId>> = Table::with(branch.values.len(), || None);
    for (outer, inner) in &branch.captures {
        captured.set(*inner, Some(*outer))?;
    }
    let mut number = |(captured, info): (&Option<ValueId>, &ValueInfo)| {
        captured.unwrap_or_else(|| {
            values.push(ValueInfo { name: format!("{prefix}/{}", info.name), ..info.clone() });
            ValueId::at(values.len() - 1)
        })
    };
    let numbers = Numbers(captured.entries().zip(&branch.values).map(&mut number).collect());
    let mut constants = graph.constants.clone();
    for (value, data) in &branch.constants {
        constants.push((numbers.of(*value)?, data.clone()));
    }
    let mut nodes = Vec::with_capacity(graph.nodes.len() + branch.nodes.len());
    nodes.extend(graph.nodes.iter().take(at).cloned());
    for node in &branch.nodes {
        nodes.push(numbers.node(node)?);
    }
    for (output, result) in node.outputs.iter().zip(&branch.outputs).filter(|(output, _)| output.is_some()) {
        nodes.push(Node {
            name: String::new(),
            domain: String::new(),
            op_type: "Identity".to_owned(),
            opset: bb_ir::opset::NEWEST,
            inputs: vec![Some(numbers.of(*result)?)],
            outputs: vec![*output],
            attributes: Attributes::default(),
            metadata: Vec::new(),
        });
    }
    nodes.extend(graph.nodes.iter().skip(at + 1).cloned());
    let (inputs, outputs, captures) = (graph.inputs.clone(), graph.outputs.clone(), graph.captures.clone());
    Ok(Graph { name: graph.name.clone(), values, inputs, outputs, constants, captures, nodes })
}

/// For each value of a branch, its number in the graph that it is put into.
struct Numbers(Table<ValueId, ValueId>);

impl Numbers {
    fn of(&self, value: ValueId) -> Result<ValueId, Error> {
        self.0.get(value).copied()
    }

    fn node(&self, node: &Node) -> Result<Node, Error> {
        let renumbered = |values: &[Option<ValueId>]| -> Result<Vec<Option<ValueId>>, Error> {
            values.iter().map(|value| value.map(|value| self.of(value)).transpose()).collect()
        };
        Ok(Node {
            inputs: renumbered(&node.inputs)?,
            outputs: renumbered(&node.outputs)?,
            attributes: self.attributes(&node.attributes)?,
            ..node.clone()
        })
    }

    /// Subgraphs capture from the graph around them, whose values have new numbers.
    fn attributes(&self, attributes: &Attributes) -> Result<Attributes, Error> {
        let mut renumbered = Vec::new();
        for (name, attribute) in attributes.iter() {
            let attribute = match attribute {
                Attribute::Graph(graph) => Attribute::Graph(Box::new(self.subgraph(graph)?)),
                Attribute::Graphs(graphs) => Attribute::Graphs(
                    graphs.iter().map(|graph| self.subgraph(graph)).collect::<Result<_, _>>()?,
                ),
                other => other.clone(),
            };
            renumbered.push((name.to_owned(), attribute));
        }
        Ok(Attributes::new(renumbered))
    }

    fn subgraph(&self, graph: &Graph) -> Result<Graph, Error> {
        let mut graph = graph.clone();
        for (outer, _) in &mut graph.captures {
            *outer = self.of(*outer)?;
        }
        Ok(graph)
    }
}
