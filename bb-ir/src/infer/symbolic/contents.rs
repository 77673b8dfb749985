//! The contents of small tensors, as far as inference knows them, and lists that are attributes or
//! operands.

use super::Facts;
use crate::graph::{DimExpr, Node, ValueType};
use crate::infer::current;
use crate::infer::eval;

/// An element, which may be symbolic or unknown.
pub type Entry = eval::Entry<DimExpr>;
/// The contents of a tensor with known extents, in row-major order.
pub type Contents = eval::Contents<DimExpr>;

/// Returns the contents of a tensor whose type shows that it has no elements; `None` for other types.
pub(super) fn nothing(ty: &ValueType) -> Option<Contents> {
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    Contents::new(*dtype, current(shape.as_deref()?)?, Vec::new())
}

/// Estimates the size of a copy in bytes.
pub(super) fn weight(contents: &Contents) -> usize {
    contents.entries.iter().map(|e| 32 + e.formula().map_or(0, DimExpr::weight)).sum()
}

/// A list of integers that an operator has as an attribute or as an operand.
pub(super) enum Given {
    Absent,
    Ints(Vec<i64>),
    Unknown,
}

/// Returns a list that is an attribute in older versions of an operator, and an operand in newer
/// versions.
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
