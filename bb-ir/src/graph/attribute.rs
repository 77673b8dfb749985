//! The attributes of nodes, decoded from protobuf.

use super::{Graph, ValueType};
use crate::{Error, TensorData};

/// The value of an attribute.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Attribute {
    /// One float.
    Float(f32),
    /// One integer.
    Int(i64),
    /// A string of bytes; usually UTF-8 text.
    Text(Vec<u8>),
    /// A tensor.
    Tensor(TensorData),
    /// A subgraph.
    Graph(Box<Graph>),
    /// A type.
    Type(ValueType),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings of bytes.
    Texts(Vec<Vec<u8>>),
    /// Tensors.
    Tensors(Vec<TensorData>),
    /// Subgraphs.
    Graphs(Vec<Graph>),
    /// Types.
    Types(Vec<ValueType>),
}

impl Attribute {
    /// Returns a description of the kind for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Attribute::Float(_) => "a float",
            Attribute::Int(_) => "an integer",
            Attribute::Text(_) => "a string",
            Attribute::Tensor(_) => "a tensor",
            Attribute::Graph(_) => "a graph",
            Attribute::Type(_) => "a type",
            Attribute::Floats(_) => "floats",
            Attribute::Ints(_) => "integers",
            Attribute::Texts(_) => "strings",
            Attribute::Tensors(_) => "tensors",
            Attribute::Graphs(_) => "graphs",
            Attribute::Types(_) => "types",
        }
    }
}

/// The attributes of a node, sorted by name.
#[derive(Debug, Clone, Default)]
pub struct Attributes(Vec<(String, Attribute)>);

/// Declares typed access to attributes, with a method for each kind.
macro_rules! access {
    ($( $(#[$doc:meta])* $method:ident -> $ty:ty, $variant:ident($v:ident) => $give:expr, $expected:literal; )*) => {
        impl Attributes { $(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// [`Error::AttributeKind`] if the attribute has another kind.
            pub fn $method(&self, name: &str) -> Result<Option<$ty>, Error> {
                match self.get(name) {
                    None => Ok(None),
                    Some(Attribute::$variant($v)) => Ok(Some($give)),
                    Some(other) => Err(Error::AttributeKind {
                        name: name.to_owned(), expected: $expected, got: other.kind(),
                    }),
                }
            }
        )* }
    };
}

access! {
    /// Returns a float attribute.
    float -> f32, Float(v) => *v, "a float";
    /// Returns an integer attribute.
    int -> i64, Int(v) => *v, "an integer";
    /// Returns the bytes of a string attribute.
    bytes -> &[u8], Text(v) => v, "a string";
    /// Returns a tensor attribute.
    tensor -> &TensorData, Tensor(v) => v, "a tensor";
    /// Returns a subgraph.
    graph -> &Graph, Graph(v) => v, "a graph";
    /// Returns a type attribute.
    ty -> &ValueType, Type(v) => v, "a type";
    /// Returns a list of floats.
    floats -> &[f32], Floats(v) => v, "floats";
    /// Returns a list of integers.
    ints -> &[i64], Ints(v) => v, "integers";
    /// Returns a list of strings as bytes.
    texts -> &[Vec<u8>], Texts(v) => v, "strings";
    /// Returns a list of tensors.
    tensors -> &[TensorData], Tensors(v) => v, "tensors";
}

impl Attributes {
    /// Creates the attributes of a node. Names must be unique, which `check` ensures.
    pub fn new(mut entries: Vec<(String, Attribute)>) -> Attributes {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Attributes(entries)
    }

    /// Returns the attribute called `name`.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        let at = self.0.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        self.0.get(at).map(|(_, a)| a)
    }

    /// Returns a string attribute as UTF-8 text.
    ///
    /// # Errors
    ///
    /// [`Error::AttributeKind`] if the attribute has another kind or is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        self.bytes(name)?
            .map(|b| {
                std::str::from_utf8(b).map_err(|_| Error::AttributeKind {
                    name: name.to_owned(),
                    expected: "UTF-8 text",
                    got: "other bytes",
                })
            })
            .transpose()
    }

    /// Returns the attribute called `name` for modification.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Attribute> {
        let at = self.0.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        self.0.get_mut(at).map(|(_, a)| a)
    }

    /// Iterates over the values for modification, in the order of their names.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Attribute> {
        self.0.iter_mut().map(|(_, a)| a)
    }

    /// Iterates over names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(n, a)| (n.as_str(), a))
    }
}
