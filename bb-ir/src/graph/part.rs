//! Extracts some nodes of a checked graph as a checked graph of their own.

use super::{Attribute, Attributes, Graph, Node, ValueId, ValueInfo};
use std::collections::{HashMap, HashSet};

impl Graph {
    /// Returns a graph that consists of the nodes at the indices `nodes`, with these inputs and outputs.
    ///
    /// The caller ensures the guarantees of [`Graph`]: the indices ascend, and each value that the nodes read is an
    /// input of the part, a constant, or a result of an earlier node of the part. Values keep their names and types.
    /// Constants that the nodes read are shared, not copied.
    #[must_use]
    pub fn part(&self, nodes: &[usize], inputs: &[ValueId], outputs: &[ValueId]) -> Graph {
        let nodes: Vec<&Node> = nodes.iter().filter_map(|&at| self.nodes.get(at)).collect();
        let mut read: HashSet<ValueId> = nodes.iter().flat_map(|node| node.reads()).collect();
        read.extend(outputs);
        let mut values = Values { of: self, numbers: HashMap::new(), kept: Vec::new() };
        let inputs: Vec<ValueId> = inputs.iter().map(|value| values.keep(*value)).collect();
        // The model's claims about a value do not apply to the values that a caller passes as inputs of the part.
        values.kept.iter_mut().for_each(|input| input.declared.clear());
        let constants = self.constants.iter().filter(|(value, _)| read.contains(value));
        let constants = constants.map(|(value, data)| (values.keep(*value), data.clone())).collect();
        let nodes = nodes.into_iter().map(|node| values.node(node)).collect();
        let outputs = outputs.iter().map(|value| values.keep(*value)).collect();
        let name = self.name.clone();
        Graph {
            name,
            values: values.kept,
            inputs,
            outputs,
            constants,
            captures: Vec::new(),
            nodes,
            imports: Vec::new(),
        }
    }
}

/// The values of a part. Their identifiers are assigned in the order of their first occurrence.
struct Values<'a> {
    of: &'a Graph,
    numbers: HashMap<ValueId, ValueId>,
    kept: Vec<ValueInfo>,
}

impl Values<'_> {
    /// Returns the identifier that a value of the whole graph has in the part.
    fn keep(&mut self, value: ValueId) -> ValueId {
        *self.numbers.entry(value).or_insert_with(|| {
            self.kept.push(self.of.values.get(value.index()).cloned().unwrap_or_default());
            ValueId(self.kept.len() as u32 - 1)
        })
    }

    fn node(&mut self, node: &Node) -> Node {
        let mut keep = |values: &[Option<ValueId>]| values.iter().map(|v| v.map(|v| self.keep(v))).collect();
        let (inputs, outputs) = (keep(&node.inputs), keep(&node.outputs));
        Node {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: node.op_type.clone(),
            opset: node.opset,
            inputs,
            outputs,
            attributes: self.attributes(&node.attributes),
            metadata: node.metadata.clone(),
        }
    }

    /// Replaces the identifiers in the captures of subgraphs; values inside a subgraph keep their identifiers.
    fn attributes(&mut self, attributes: &Attributes) -> Attributes {
        let renumbered = attributes.iter().map(|(name, attribute)| {
            let attribute = match attribute {
                Attribute::Graph(graph) => Attribute::Graph(Box::new(self.subgraph(graph))),
                Attribute::Graphs(graphs) => {
                    Attribute::Graphs(graphs.iter().map(|graph| self.subgraph(graph)).collect())
                }
                other => other.clone(),
            };
            (name.to_owned(), attribute)
        });
        Attributes::new(renumbered.collect())
    }

    fn subgraph(&mut self, graph: &Graph) -> Graph {
        let captures = graph.captures.iter().map(|(outer, inner)| (self.keep(*outer), *inner)).collect();
        Graph { captures, ..graph.clone() }
    }
}
