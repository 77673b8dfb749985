//! Splices branches into graphs while tracing: when the condition of an `If` is known, its branch replaces the node.
//!
//! The result is an ordinary graph, so a spliced branch may be split into segments too. Values keep their ids; the values of
//! the branch get ids after the existing ones.

use crate::Error;
use crate::trace::{Table, TableIndex};
use bb_ir::TensorData;
use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueId, ValueInfo};

/// Returns `graph` with the node at index `at` replaced by the nodes of `branch`, which is one of the node's subgraphs.
///
/// # Errors
///
/// [`Error::Internal`] if the node does not exist, or if the branch was not checked.
pub(super) fn splice(graph: &Graph, at: usize, branch: &Graph) -> Result<Graph, Error> {
    let node = graph.nodes.get(at).ok_or_else(|| Error::excluded("a node whose branch is taken"))?;
    let mut into = Unfolded::of(graph, branch.nodes.len());
    into.nodes.extend(graph.nodes.iter().take(at).cloned());
    into.put(&crate::error::name(graph, node), node, branch)?;
    into.nodes.extend(graph.nodes.iter().skip(at + 1).cloned());
    Ok(into.finish(graph))
}

/// A graph that is built from the nodes of another graph and of its subgraphs.
pub(super) struct Unfolded {
    values: Vec<ValueInfo>,
    constants: Vec<(ValueId, TensorData)>,
    pub(super) nodes: Vec<Node>,
}

impl Unfolded {
    /// Starts with the values and constants of a graph, but without its nodes. `more` is the expected number of additional
    /// nodes.
    pub(super) fn of(graph: &Graph, more: usize) -> Unfolded {
        Unfolded {
            values: graph.values.clone(),
            constants: graph.constants.clone(),
            nodes: Vec::with_capacity(graph.nodes.len() + more),
        }
    }

    /// Adds the nodes of a subgraph instead of the node that contains it. The operands of the node become the inputs of the
    /// subgraph, in order; an input without an operand has its default.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the subgraph was not checked.
    pub(super) fn put(&mut self, prefix: &str, node: &Node, branch: &Graph) -> Result<(), Error> {
        let mut bound: Table<ValueId, Option<ValueId>> = Table::with(branch.values.len(), || None);
        for (outer, inner) in &branch.captures {
            bound.set(*inner, Some(*outer))?;
        }
        for (inner, outer) in branch.inputs.iter().zip(&node.inputs) {
            bound.set(*inner, *outer)?;
        }
        let mut number = |(bound, info): (&Option<ValueId>, &ValueInfo)| {
            bound.unwrap_or_else(|| {
                self.values.push(ValueInfo { name: format!("{prefix}/{}", info.name), ..info.clone() });
                ValueId::at(self.values.len() - 1)
            })
        };
        let numbers = Numbers(bound.entries().zip(&branch.values).map(&mut number).collect());
        for (value, data) in &branch.constants {
            // The default of an input is dropped if the input has an operand.
            if bound.get(*value)?.is_none() {
                self.constants.push((numbers.of(*value)?, data.clone()));
            }
        }
        for node in &branch.nodes {
            self.nodes.push(numbers.node(node)?);
        }
        for (output, result) in
            node.outputs.iter().zip(&branch.outputs).filter(|(output, _)| output.is_some())
        {
            self.nodes.push(Node {
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
        Ok(())
    }

    /// Returns the graph, with the inputs and outputs of the original graph.
    pub(super) fn finish(self, of: &Graph) -> Graph {
        let Unfolded { values, constants, nodes } = self;
        let (inputs, outputs, captures) = (of.inputs.clone(), of.outputs.clone(), of.captures.clone());
        Graph {
            name: of.name.clone(),
            values,
            inputs,
            outputs,
            constants,
            captures,
            nodes,
            imports: of.imports.clone(),
        }
    }
}

/// For each value of a branch, its id in the combined graph.
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

    /// Renumbers the values that subgraphs capture from the branch.
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
