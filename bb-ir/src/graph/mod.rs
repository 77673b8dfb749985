//! Graphs after checking: values by number, decoded attributes, nodes in topological order.
//!
//! A [`Graph`] is made by `check` alone, which faces untrusted models. Whoever holds one
//! may rely on this: every [`ValueId`] is in range; every value is produced once, by an input, a constant
//! or a node before its first reader; names are unique; functions of the model are inlined; a subgraph's
//! outer values are its [`captures`](Graph::captures).

mod attribute;
mod claims;
mod dim_expr;
mod to_proto;

pub use attribute::{Attribute, Attributes};
pub use claims::Warning;
pub use dim_expr::DimExpr;
pub use to_proto::{entry, type_proto};

use crate::{DataType, TensorData};

/// The number of a value in a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Returns the number as an index into [`Graph::values`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An extent that may not be known before inputs arrive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known extent.
    Known(usize),
    /// An extent known by name only; equal names are equal extents.
    Symbol(String),
    /// An extent computed from named ones, and neither a number nor only a name.
    Computed(Box<DimExpr>),
    /// An unknown extent.
    Unknown,
}

impl Dim {
    /// Returns what is known of the extent as a formula.
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

/// What is known of a value's type before anything runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ValueType {
    /// Nothing.
    #[default]
    Unknown,
    /// A tensor; `shape` is `None` if not even the rank is known.
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

/// A value: an input, a constant, a capture, or what a node produces.
#[derive(Debug, Clone, Default)]
pub struct ValueInfo {
    /// The name in the model.
    pub name: String,
    /// What is known: what a graph's input must be, what a constant is, what inference found.
    pub ty: ValueType,
    /// What the model claims of it, which may be false; see [`Warning`].
    pub declared: Vec<ValueType>,
}

/// A node: one call of an operator.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The name in the model, possibly empty.
    pub name: String,
    /// The operator's domain; empty for `ai.onnx`.
    pub domain: String,
    /// The operator, as in `ReduceSum`.
    pub op_type: String,
    /// The opset of `domain` that the node was written for.
    pub opset: i64,
    /// The operands; `None` where an optional one is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// The results; `None` where one is not wanted.
    pub outputs: Vec<Option<ValueId>>,
    /// The attributes, decoded.
    pub attributes: Attributes,
    /// The metadata, in the model's order.
    pub metadata: Vec<(String, String)>,
}

/// A checked graph; see the [module](self) for what that promises.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The name in the model, possibly empty.
    pub name: String,
    /// Every value, by [`ValueId`].
    pub values: Vec<ValueInfo>,
    /// The inputs that a caller provides, in order; an initializer of the same name is a default.
    pub inputs: Vec<ValueId>,
    /// The outputs, in order.
    pub outputs: Vec<ValueId>,
    /// The values that are known before inputs arrive. One that is also an input may be overridden.
    pub constants: Vec<(ValueId, TensorData)>,
    /// For a subgraph: which value of the enclosing graph (first) each outer value (second) is.
    pub captures: Vec<(ValueId, ValueId)>,
    /// The nodes, each after all that it reads.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// Returns the value's name.
    pub fn name_of(&self, value: ValueId) -> &str {
        self.values.get(value.index()).map_or("", |v| &v.name)
    }
}
