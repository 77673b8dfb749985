//! The contents of small tensors while types are inferred, and the lists that operators take as one.

use super::Facts;
use crate::graph::{DimExpr, Node, ValueType};
use crate::infer::current;
use crate::infer::eval;

/// A number, which may be symbolic or unknown.
pub type Entry = eval::Entry<DimExpr>;
/// The contents of a tensor of known extents, in row-major order.
pub type Contents = eval::Contents<DimExpr>;

/// The contents of a tensor that has no elements according to its type.
pub(super) fn nothing(ty: &ValueType) -> Option<Contents> {
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    Contents::new(*dtype, current(shape.as_deref()?)?, Vec::new())
}

/// The bytes that a copy takes, roughly.
pub(super) fn weight(contents: &Contents) -> usize {
    contents.entries.iter().map(|e| 32 + e.formula().map_or(0, DimExpr::weight)).sum()
}

/// A list of integers that an operator takes as an attribute or as an operand.
pub(super) enum Given {
    Absent,
    Ints(Vec<i64>),
    Unknown,
}

/// Reads a list that older versions of an operator take as an attribute and newer ones as an operand.
pub(super) fn given(node: &Node, facts: &Facts, attribute: &str, input: usize) -> Given {
    if let Ok(Some(ints)) = node.attributes.ints(attribute) {
        return Given::Ints(ints.to_vec());
    }
    match (node.inputs.get(input), facts.contents(node, input).and_then(Contents::ints)) {
        (None | Some(None), _) => Given::Absent,
        (_, Some(ints)) => Given::Ints(ints),
        _ => Given::Unknown,
    }
}
