//! Checked graphs: values are numbered, attributes are decoded, and nodes are in topological order.
//!
//! Only `check` creates a [`Graph`] from an untrusted model. Code may rely on these guarantees: every
//! [`ValueId`] is in range; every value is produced once, by an input, a constant or a node, before it is
//! read; names are unique; the model's functions are inlined; the [`captures`](Graph::captures) of a subgraph
//! list all values that it uses from the enclosing graph.

mod attribute;
mod claims;
mod dim_expr;
mod merge;
mod part;
mod to_proto;

pub use attribute::{Attribute, Attributes};
pub use claims::Warning;
pub use dim_expr::{DimExpr, Postfix};
pub(crate) use merge::{merge, weight};
pub use to_proto::{entry, type_proto};

use crate::{DataType, TensorData};

/// The identifier of a value in a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Returns the index of the value in [`Graph::values`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An extent, which may be unknown until the inputs are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known extent.
    Known(usize),
    /// A symbolic dimension; dimensions of the same name have the same extent.
    Symbol(String),
    /// An expression of symbolic dimensions that is neither a number nor a single name.
    Computed(Box<DimExpr>),
    /// An unknown extent.
    Unknown,
}

impl Dim {
    /// Returns the extent as a dim expression; `None` if it is unknown.
    pub fn formula(&self) -> Option<DimExpr> {
        match self {
            Dim::Known(n) => i64::try_from(*n).ok().map(DimExpr::from),
            Dim::Symbol(name) => Some(DimExpr::name(name)),
            Dim::Computed(formula) => Some((**formula).clone()),
            Dim::Unknown => None,
        }
    }
}

impl From<DimExpr> for Dim {
    fn from(formula: DimExpr) -> Dim {
        match (formula.constant(), formula.only_name()) {
            (Some(n), _) => usize::try_from(n).map_or(Dim::Unknown, Dim::Known),
            (None, Some(name)) => Dim::Symbol(name.to_owned()),
            (None, None) => Dim::Computed(Box::new(formula)),
        }
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Known(n) => n.fmt(f),
            Dim::Symbol(name) => f.write_str(name),
            Dim::Computed(formula) => formula.fmt(f),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// The facts that are known about a value's type before a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ValueType {
    /// Nothing is known.
    #[default]
    Unknown,
    /// A tensor; `shape` is `None` if even the rank is unknown.
    Tensor {
        /// The element type.
        dtype: DataType,
        /// The extents.
        shape: Option<Vec<Dim>>,
    },
    /// A sequence of values of one type.
    Sequence(Box<ValueType>),
    /// A value that may be absent.
    Optional(Box<ValueType>),
    /// A map from keys to values.
    Map(DataType, Box<ValueType>),
}

/// A value: an input, a constant, a capture, or the result of a node.
#[derive(Debug, Clone, Default)]
pub struct ValueInfo {
    /// The name in the model.
    pub name: String,
    /// The known type: the required type of an input, the type of a constant, or the inferred type.
    pub ty: ValueType,
    /// The types that the model claims for the value. Claims may be false; see [`Warning`].
    pub declared: Vec<ValueType>,
}

/// A node: one call of an operator.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The name in the model; may be empty.
    pub name: String,
    /// The operator's domain; empty for `ai.onnx`.
    pub domain: String,
    /// The operator, as in `ReduceSum`.
    pub op_type: String,
    /// The version of the operators of `domain` that the node uses.
    pub opset: i64,
    /// The operands; `None` for an optional operand that is absent.
    pub inputs: Vec<Option<ValueId>>,
    /// The results; `None` for a result that is not used.
    pub outputs: Vec<Option<ValueId>>,
    /// The attributes, decoded.
    pub attributes: Attributes,
    /// The metadata, in the order of the model.
    pub metadata: Vec<(String, String)>,
}

/// A checked graph; the [module](self) lists its guarantees.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The name in the model; may be empty.
    pub name: String,
    /// Every value, indexed by [`ValueId`].
    pub values: Vec<ValueInfo>,
    /// The inputs, in order. If an initializer is also an input, it is the default value of the input.
    pub inputs: Vec<ValueId>,
    /// The outputs, in order.
    pub outputs: Vec<ValueId>,
    /// The initializers. If an initializer is also an input, callers may override it.
    pub constants: Vec<(ValueId, TensorData)>,
    /// In a subgraph, the values that it uses from the enclosing graph: first the value of the enclosing
    /// graph, then the value of the subgraph that represents it.
    pub captures: Vec<(ValueId, ValueId)>,
    /// The nodes, each after all nodes whose results it reads.
    pub nodes: Vec<Node>,
    /// In the graph of a model, the faults of its imports of operator sets; see [`Graph::warnings`].
    pub imports: Vec<Warning>,
}

impl Graph {
    /// Returns the label of a node for errors and reports: its name, or the name of its first result if it
    /// has no name.
    pub fn label_of<'a>(&'a self, node: &'a Node) -> &'a str {
        label(&node.name, node.outputs.iter().flatten().map(|value| self.name_of(*value)))
    }

    /// Returns the value's name.
    pub fn name_of(&self, value: ValueId) -> &str {
        self.values.get(value.index()).map_or("", |v| &v.name)
    }
}

/// Returns the label of a node with this name and these results.
pub(crate) fn label<'a>(name: &'a str, results: impl IntoIterator<Item = &'a str>) -> &'a str {
    match name {
        "" => results.into_iter().find(|result| !result.is_empty()).unwrap_or_default(),
        name => name,
    }
}
