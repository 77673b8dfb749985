//! The table of gaps: calls that an engine cannot run.

use bb::DataType;
use bb_ir::graph::{Attribute, Dim, Graph, Node, ValueType};
use std::fmt;

/// A row of the table: calls of an operator that the engine lacks or does not compute as ONNX defines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// The operator's domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator's name.
    pub op: &'static str,
    /// The first opset that the row covers.
    pub since: i64,
    /// The last opset that the row covers.
    pub until: i64,
    /// The calls that the row covers.
    pub when: When,
    /// The reason why the engine does not run the calls.
    pub reason: Reason,
    /// A test case that the engine fails for this reason: the name of an ONNX test case, or `primitive/` and the method of a
    /// primitive. A test runs it, so that rows are removed when the engine is fixed.
    pub case: &'static str,
}

/// The calls of an operator that a gap covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// All calls.
    Always,
    /// Calls whose first operand has one of these element types.
    Takes(&'static [DataType]),
    /// Calls whose operand at this index has this rank or an unknown rank.
    Rank(usize, usize),
    /// Calls whose second operand has a higher rank than the first, and calls with an unknown rank.
    RankGrows,
    /// Reductions along axes if an axis has extent 0 or an unknown extent.
    ReducesNothing,
    /// Calls that match all of these conditions.
    All(&'static [When]),
    /// Calls whose attribute with this name is one of these integers.
    Ints(&'static str, &'static [i64]),
    /// Calls that have an attribute with this name.
    Has(&'static str),
    /// Calls whose attribute with this name is this string.
    Text(&'static str, &'static str),
    /// Calls that have an operand at this index.
    Operand(usize),
    /// Calls that use the result at this index.
    Result(usize),
}

/// The reason why an engine does not run a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The engine lacks the operator, or does not support these types.
    Missing,
    /// The engine computes results that differ from ONNX's definition.
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
    /// Returns whether the gap covers this node of a graph.
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
            When::Ints(name, ints) => node.attributes.iter().any(|(own, value)| {
                own == *name && matches!(value, Attribute::Int(own) if ints.contains(own))
            }),
            When::Rank(at, rank) => rank_of(graph, node, *at).is_none_or(|own| own == *rank),
            When::RankGrows => match (rank_of(graph, node, 0), rank_of(graph, node, 1)) {
                (Some(first), Some(second)) => second > first,
                _ => true,
            },
            When::ReducesNothing => !reduces_something(graph, node).unwrap_or(false),
            When::All(all) => all.iter().all(|when| when.holds(graph, node)),
            When::Operand(at) => node.inputs.get(*at).is_some_and(Option::is_some),
            When::Result(at) => node.outputs.get(*at).is_some_and(Option::is_some),
        }
    }
}

/// Returns whether all axes that a node reduces are known to have elements; `None` if the axes are not known.
fn reduces_something(graph: &Graph, node: &Node) -> Option<bool> {
    let value = node.inputs.first().copied().flatten()?;
    let ValueType::Tensor { shape: Some(dims), .. } = graph.values.get(value.index())?.claimed() else {
        return None;
    };
    let attribute = node.attributes.iter().find_map(|(name, value)| match value {
        Attribute::Ints(axes) if name == "axes" => Some(axes.clone()),
        _ => None,
    });
    let axes = match (attribute, node.inputs.get(1).copied().flatten()) {
        (Some(axes), _) => axes,
        (None, None) => Vec::new(),
        (None, Some(given)) => {
            let (_, data) = graph.constants.iter().find(|(value, _)| *value == given)?;
            data.as_slice::<i64>().ok()?.to_vec()
        }
    };
    let rank = i64::try_from(dims.len()).ok()?;
    let has = |dim: Option<&Dim>| matches!(dim, Some(Dim::Known(extent)) if *extent > 0);
    if axes.is_empty() {
        return Some(dims.iter().all(|dim| has(Some(dim))));
    }
    let at = |axis: &i64| usize::try_from(if *axis < 0 { axis + rank } else { *axis }).ok();
    Some(axes.iter().all(|axis| has(at(axis).and_then(|at| dims.get(at)))))
}

/// Returns the rank of an operand; `None` if it is not known.
fn rank_of(graph: &Graph, node: &Node, at: usize) -> Option<usize> {
    let value = node.inputs.get(at).copied().flatten()?;
    match graph.values.get(value.index())?.claimed() {
        ValueType::Tensor { shape, .. } => shape.map(|shape| shape.len()),
        _ => None,
    }
}

/// Returns the element type of a value; `None` if it is not known to be a tensor.
pub(crate) fn dtype_of(graph: &Graph, value: bb_ir::graph::ValueId) -> Option<DataType> {
    match graph.values.get(value.index())?.claimed() {
        ValueType::Tensor { dtype, .. } => Some(dtype),
        _ => None,
    }
}
