//! The fields of the exception for a failed run: the node, its operator, and the types of its operands.

use bb::ir::graph::{Dim, Graph, Node, ValueId, ValueType};
use bb::{DataType, Module};
use std::collections::HashMap;

/// The known element type and shape of an operand.
pub(crate) struct OperandInfo {
    pub(crate) dtype: Option<DataType>,
    /// The extents, with `None` for unknown ones. The whole value is `None` if the rank is unknown.
    pub(crate) shape: Option<Vec<Option<usize>>>,
}

/// The inputs of a run.
pub(crate) struct RunInputs<'a> {
    pub(crate) module: &'a Module,
    /// The names and shapes of the inputs that are tensors.
    pub(crate) shapes: Vec<(String, Vec<usize>)>,
}

/// A node of a model, and the known facts about its operands.
pub(crate) struct FoundNode {
    pub(crate) domain: String,
    pub(crate) operands: Vec<OperandInfo>,
}

impl RunInputs<'_> {
    /// Finds a node by its label, in the graph or in a subgraph, and describes its operands in this run.
    pub(crate) fn node(&self, label: &str, op: &str) -> Option<FoundNode> {
        let symbols = self.symbols();
        let mut graphs: Vec<&Graph> = vec![self.module.graph()];
        while let Some(graph) = graphs.pop() {
            let named = |node: &&Node| node.op_type == op && graph.label_of(node) == label;
            if let Some(node) = graph.nodes.iter().find(named) {
                let operands =
                    node.inputs.iter().flatten().map(|value| self.operand(graph, *value, &symbols));
                return Some(FoundNode { domain: node.domain.clone(), operands: operands.collect() });
            }
            graphs.extend(graph.nodes.iter().flat_map(Node::subgraphs));
        }
        None
    }

    /// Collects the extents of the inputs' symbolic dimensions in this run.
    fn symbols(&self) -> HashMap<&str, i64> {
        let graph = self.module.graph();
        let mut symbols = HashMap::new();
        for (name, shape) in &self.shapes {
            let value = graph.inputs.iter().find(|value| graph.name_of(**value) == name);
            let ty = value.and_then(|value| graph.values.get(value.index())).map(|value| &value.ty);
            let Some(ValueType::Tensor { shape: Some(dims), .. }) = ty else { continue };
            for (dim, extent) in dims.iter().zip(shape) {
                if let (Dim::Symbol(name), Ok(extent)) = (dim, i64::try_from(*extent)) {
                    symbols.insert(name.as_str(), extent);
                }
            }
        }
        symbols
    }

    fn operand(&self, graph: &Graph, value: ValueId, symbols: &HashMap<&str, i64>) -> OperandInfo {
        let name = graph.name_of(value);
        let (mut dtype, mut shape) = (None, None);
        if let Some(ValueType::Tensor { dtype: of, shape: dims }) =
            graph.values.get(value.index()).map(|value| &value.ty)
        {
            let extent = |dim: &Dim| -> Option<usize> {
                let extent = dim.formula()?.value(&|name: &str| symbols.get(name).copied())?;
                usize::try_from(extent).ok()
            };
            dtype = Some(*of);
            shape = dims.as_ref().map(|dims| dims.iter().map(extent).collect());
        }
        // The actual shape of an input is more precise than its declared shape.
        if let Some((_, given)) = self.shapes.iter().find(|(input, _)| input == name) {
            shape = Some(given.iter().map(|extent| Some(*extent)).collect());
        }
        OperandInfo { dtype, shape }
    }
}
