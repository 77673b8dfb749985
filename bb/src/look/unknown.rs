//! Facts about the operands of a node that are known only when the graph runs.

use bb_core::plan::Resolved;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::text::shown;
use std::fmt;

/// A fact about a value that is known only when the graph runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// The type.
    Type {
        /// The value.
        value: String,
    },
    /// The rank.
    Rank {
        /// The value.
        value: String,
    },
    /// An extent.
    Extent {
        /// The value.
        value: String,
        /// The axis of the extent.
        axis: usize,
    },
    /// The elements.
    Elements {
        /// The value.
        value: String,
    },
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Type { value } => write!(f, "the type of `{}`", shown(value)),
            Unknown::Rank { value } => write!(f, "the rank of `{}`", shown(value)),
            Unknown::Extent { value, axis } => write!(f, "dimension {axis} of `{}`", shown(value)),
            Unknown::Elements { value } => write!(f, "the elements of `{}`", shown(value)),
        }
    }
}

/// Facts that may determine the operations of a node and that are known only when the graph runs. Empty if the node could not be
/// analysed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnknownList(pub Vec<Unknown>);

impl fmt::Display for UnknownList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts: Vec<String> = self.0.iter().map(Unknown::to_string).collect();
        match facts.as_slice() {
            [] => f.write_str("its element types are known only when the model runs"),
            [one] => {
                write!(f, "how it is lowered may depend on {one}, which is known only when the model runs")
            }
            [all @ .., last] => {
                let all = all.join(", ");
                write!(
                    f,
                    "how it is lowered may depend on {all} and {last}, which are known only when the model runs"
                )
            }
        }
    }
}

/// Lists the facts about the operands of a node that are known only when the graph runs. If only the elements are unknown, lists the
/// elements of each operand.
pub(super) fn unknown(resolved: &Resolved, at: usize) -> UnknownList {
    let (mut facts, mut elements) = (Vec::new(), Vec::new());
    let graph = &resolved.graph;
    for &value in graph.nodes.get(at).into_iter().flat_map(|node| node.inputs.iter().flatten()) {
        if matches!(resolved.weight(value), Ok(Some(_))) {
            continue;
        }
        let name = || graph.name_of(value).to_owned();
        elements.push(Unknown::Elements { value: name() });
        match graph.values.get(value.index()).map(|info| &info.ty) {
            Some(ValueType::Tensor { shape: None, .. }) => facts.push(Unknown::Rank { value: name() }),
            Some(ValueType::Tensor { shape: Some(dims), .. }) => {
                let open = dims.iter().enumerate().filter(|(_, dim)| !matches!(dim, Dim::Known(_)));
                facts.extend(open.map(|(axis, _)| Unknown::Extent { value: name(), axis }));
            }
            Some(ValueType::Sequence(_) | ValueType::Optional(_)) => {}
            Some(ValueType::Map(..) | ValueType::Unknown) | None => {
                facts.push(Unknown::Type { value: name() });
            }
        }
    }
    UnknownList(if facts.is_empty() { elements } else { facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_every_fact() {
        let value = || "x".to_owned();
        let extent = Unknown::Extent { value: value(), axis: 1 };
        assert_eq!(
            UnknownList(vec![extent.clone()]).to_string(),
            "how it is lowered may depend on dimension 1 of `x`, which is known only when the model runs"
        );
        let list =
            UnknownList(vec![Unknown::Rank { value: value() }, extent, Unknown::Elements { value: value() }]);
        assert_eq!(
            list.to_string(),
            "how it is lowered may depend on the rank of `x`, dimension 1 of `x` and the elements of `x`, which are known only when the \
             model runs"
        );
        let none = UnknownList::default().to_string();
        assert_eq!(none, "its element types are known only when the model runs");
    }
}
