//! Control flow, taken apart while tracing: once the condition of an `If` is known, the branch stands in its place.
//!
//! What results is an ordinary graph, so that a branch may itself be cut into segments. Values keep their numbers; those
//! of the branch come after them.

use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueId, ValueInfo};

/// Returns `graph` with the node at `at` replaced by the nodes of `branch`, one of its subgraphs.
pub(super) fn splice(graph: &Graph, at: usize, branch: &Graph) -> Graph {
    let mut spliced = Graph {
        name: graph.name.clone(),
        values: graph.values.clone(),
        inputs: graph.inputs.clone(),
        outputs: graph.outputs.clone(),
        constants: graph.constants.clone(),
        captures: graph.captures.clone(),
        nodes: Vec::with_capacity(graph.nodes.len() + branch.nodes.len()),
    };
    let Some(node) = graph.nodes.get(at) else { return spliced };
    let prefix = crate::error::name(graph, node);
    let mut numbers: Vec<Option<ValueId>> = vec![None; branch.values.len()];
    for (outer, inner) in &branch.captures {
        if let Some(place) = numbers.get_mut(inner.index()) {
            *place = Some(*outer);
        }
    }
    for (info, number) in branch.values.iter().zip(&mut numbers).filter(|(_, number)| number.is_none()) {
        *number = Some(ValueId(spliced.values.len() as u32));
        spliced.values.push(ValueInfo { name: format!("{prefix}/{}", info.name), ..info.clone() });
    }
    let numbers = Numbers(numbers);
    spliced.constants.extend(branch.constants.iter().map(|(v, data)| (numbers.of(*v), data.clone())));
    spliced.nodes.extend(graph.nodes.iter().take(at).cloned());
    spliced.nodes.extend(branch.nodes.iter().map(|n| numbers.node(n)));
    for (output, result) in node.outputs.iter().zip(&branch.outputs).filter(|(output, _)| output.is_some()) {
        spliced.nodes.push(Node {
            name: String::new(),
            domain: String::new(),
            op_type: "Identity".to_owned(),
            opset: bb_ir::opset::NEWEST,
            inputs: vec![Some(numbers.of(*result))],
            outputs: vec![*output],
            attributes: Attributes::default(),
            metadata: Vec::new(),
        });
    }
    spliced.nodes.extend(graph.nodes.iter().skip(at + 1).cloned());
    spliced
}

/// For each value of a branch, its number in the graph that it is put into.
struct Numbers(Vec<Option<ValueId>>);

impl Numbers {
    fn of(&self, value: ValueId) -> ValueId {
        // Every value of a checked graph has been numbered.
        self.0.get(value.index()).copied().flatten().unwrap_or(value)
    }

    fn node(&self, node: &Node) -> Node {
        let renumber = |values: &[Option<ValueId>]| values.iter().map(|v| v.map(|v| self.of(v))).collect();
        Node {
            inputs: renumber(&node.inputs),
            outputs: renumber(&node.outputs),
            attributes: self.attributes(&node.attributes),
            ..node.clone()
        }
    }

    /// Subgraphs capture from the graph around them, whose values have new numbers.
    fn attributes(&self, attributes: &Attributes) -> Attributes {
        let renumbered = |graph: &Graph| {
            let mut graph = graph.clone();
            graph.captures.iter_mut().for_each(|(outer, _)| *outer = self.of(*outer));
            graph
        };
        Attributes::new(
            attributes
                .iter()
                .map(|(name, attribute)| {
                    let attribute = match attribute {
                        Attribute::Graph(graph) => Attribute::Graph(Box::new(renumbered(graph))),
                        Attribute::Graphs(graphs) => {
                            Attribute::Graphs(graphs.iter().map(renumbered).collect())
                        }
                        other => other.clone(),
                    };
                    (name.to_owned(), attribute)
                })
                .collect(),
        )
    }
}

/// Iterates over a node's subgraphs.
pub(crate) fn subgraphs(node: &Node) -> impl Iterator<Item = &Graph> {
    node.attributes.iter().flat_map(|(_, attribute)| match attribute {
        Attribute::Graph(graph) => std::slice::from_ref(&**graph),
        Attribute::Graphs(graphs) => graphs.as_slice(),
        _ => &[],
    })
}
