//! What an engine cannot run, as a table.

use bb::DataType;
use bb_ir::graph::{Attribute, Graph, Node, ValueType};
use std::fmt;

/// A row of the table: calls of an operator that the engine lacks or computes otherwise than ONNX says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// The operator's domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator.
    pub op: &'static str,
    /// The first opset that the row speaks of.
    pub since: i64,
    /// The last opset that the row speaks of.
    pub until: i64,
    /// The calls that it speaks of.
    pub when: When,
    /// Why the engine does not run them.
    pub reason: Reason,
    /// One of ONNX's cases that the engine fails for this reason. A test runs it, so that no row outlives its reason.
    pub case: &'static str,
}

/// The calls of an operator that a gap speaks of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// All.
    Always,
    /// Those whose first operand has one of these element types.
    Takes(&'static [DataType]),
    /// Those that have this attribute.
    Has(&'static str),
    /// Those whose attribute has this text.
    Text(&'static str, &'static str),
    /// Those whose attribute is this integer.
    Int(&'static str, i64),
    /// Those that give an operand at this position.
    Operand(usize),
    /// Those that ask for a result at this position.
    Result(usize),
}

/// Why an engine does not run a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The engine has no such operator, or not for these types.
    Missing,
    /// The engine computes something else than ONNX says.
    Differs,
    /// The engine panics or ends the process.
    Crashes,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Missing => "the engine has no such operator",
            Reason::Differs => "the engine's results differ from ONNX",
            Reason::Crashes => "the engine crashes",
        })
    }
}

impl Gap {
    /// Tells whether the gap speaks of this node of a graph.
    pub fn is_of(&self, graph: &Graph, node: &Node) -> bool {
        self.op == node.op_type
            && self.domain == node.domain
            && (self.since..=self.until).contains(&node.opset)
            && self.when.holds(graph, node)
    }
}

impl When {
    fn holds(&self, graph: &Graph, node: &Node) -> bool {
        match self {
            When::Always => true,
            When::Takes(dtypes) => {
                let first = node.inputs.first().copied().flatten();
                first.and_then(|value| dtype_of(graph, value)).is_none_or(|dtype| dtypes.contains(&dtype))
            }
            When::Has(name) => node.attributes.iter().any(|(own, _)| own == *name),
            When::Text(name, text) => node.attributes.iter().any(|(own, value)| {
                own == *name && matches!(value, Attribute::Text(own) if own.as_slice() == text.as_bytes())
            }),
            When::Int(name, int) => node
                .attributes
                .iter()
                .any(|(own, value)| own == *name && matches!(value, Attribute::Int(own) if own == int)),
            When::Operand(at) => node.inputs.get(*at).is_some_and(Option::is_some),
            When::Result(at) => node.outputs.get(*at).is_some_and(Option::is_some),
        }
    }
}

/// Returns the element type of a value, if it is known to be a tensor.
pub(crate) fn dtype_of(graph: &Graph, value: bb_ir::graph::ValueId) -> Option<DataType> {
    match graph.values.get(value.index())?.claimed() {
        ValueType::Tensor { dtype, .. } => Some(dtype),
        _ => None,
    }
}
