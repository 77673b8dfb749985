//! Checks a graph that was saved after the check, but may be untrusted.
//!
//! Models are checked while they are decoded from protobuf, which also infers types. A saved graph already contains the types,
//! so only the guarantees of [`Graph`] are checked.

use crate::graph::{Attribute, Graph, Node, ValueId, ValueType};
use crate::infer::Operators;
use crate::{Error, TensorData, memory};
use std::collections::{HashMap, HashSet};

/// Checks the guarantees of [`Graph`].
///
/// # Errors
///
/// [`Error::SavedGraph`] with the first violated guarantee; [`Error::SavedNode`] with the first node whose operands, results
/// or attributes do not match its operator.
pub fn loaded(graph: &Graph, operators: Operators) -> Result<(), Error> {
    if !graph.captures.is_empty() {
        return Err(fault(graph, "captures values, but is in no other graph"));
    }
    // Names of inner values may occur twice, because equal branches may have replaced several nodes.
    for ports in [&graph.inputs, &graph.outputs] {
        let mut names: HashMap<&str, ValueId> = HashMap::with_capacity(ports.len());
        if ports.iter().any(|value| *names.entry(graph.name_of(*value)).or_insert(*value) != *value) {
            return Err(fault(graph, "has two inputs or outputs of one name"));
        }
    }
    check(graph, &[], operators)
}

fn fault(graph: &Graph, problem: &'static str) -> Error {
    Error::SavedGraph { graph: graph.name.clone(), problem }
}

/// Checks a graph. `outer` is true for each value of the enclosing graph that is produced before this graph.
fn check(graph: &Graph, outer: &[bool], operators: Operators) -> Result<(), Error> {
    let made = memory::filled("loading a compiled model", false, graph.values.len())?;
    let mut made = ProducedValues { graph, made, operators };
    for &input in &graph.inputs {
        made.make(input)?;
    }
    let given = made.made.clone();
    for &(from, to) in &graph.captures {
        if outer.get(from.index()) != Some(&true) {
            return Err(fault(graph, "captures a value that is not made before it"));
        }
        made.make(to)?;
    }
    let mut constants = HashSet::with_capacity(graph.constants.len());
    for (value, data) in &graph.constants {
        // If the constant is the default value of an input, the input has already produced the value.
        if given.get(value.index()) != Some(&true) {
            made.make(*value)?;
        }
        made.constant(*value, data)?;
        if !constants.insert(*value) {
            return Err(fault(graph, "has two constants for one value"));
        }
    }
    for node in &graph.nodes {
        made.node(node)?;
    }
    graph.outputs.iter().try_for_each(|output| made.read(*output))
}

/// The values that have been produced so far.
struct ProducedValues<'a> {
    graph: &'a Graph,
    made: Vec<bool>,
    operators: Operators,
}

impl ProducedValues<'_> {
    fn make(&mut self, value: ValueId) -> Result<(), Error> {
        match self.made.get_mut(value.index()) {
            Some(made @ false) => {
                *made = true;
                Ok(())
            }
            Some(true) => Err(fault(self.graph, "makes a value twice")),
            None => Err(fault(self.graph, "makes a value that does not exist")),
        }
    }

    fn read(&self, value: ValueId) -> Result<(), Error> {
        match self.made.get(value.index()) {
            Some(true) => Ok(()),
            Some(false) => Err(fault(self.graph, "reads a value that nothing before makes")),
            None => Err(fault(self.graph, "reads a value that does not exist")),
        }
    }

    /// Checks that a constant has the type of its value.
    fn constant(&self, value: ValueId, data: &TensorData) -> Result<(), Error> {
        match self.graph.values.get(value.index()).map(|info| &info.ty) {
            Some(ValueType::Tensor { dtype, .. }) if *dtype == data.dtype() => Ok(()),
            _ => Err(fault(self.graph, "has a constant of another type than its value")),
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), Error> {
        let is_graph =
            |attribute: &Attribute| matches!(attribute, Attribute::Graph(_) | Attribute::Graphs(_));
        let mut checked = super::schema::check(node);
        // Only the subgraphs that a node has are checked: the schema reports control flow without its required subgraphs.
        if node.attributes.iter().any(|(_, attribute)| is_graph(attribute)) {
            checked = checked.and_then(|()| super::control::check(node, self.operators));
        }
        checked.map_err(|source| Error::SavedNode {
            node: node.name.clone(),
            op: node.op_type.clone(),
            source: Box::new(source),
        })?;
        node.inputs.iter().flatten().try_for_each(|input| self.read(*input))?;
        for (_, attribute) in node.attributes.iter() {
            match attribute {
                Attribute::Graph(inner) => check(inner, &self.made, self.operators)?,
                Attribute::Graphs(inner) => {
                    inner.iter().try_for_each(|inner| check(inner, &self.made, self.operators))?
                }
                _ => {}
            }
        }
        node.outputs.iter().flatten().try_for_each(|output| self.make(*output))
    }
}
