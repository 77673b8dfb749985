//! Decodes attributes.

use super::build::Builder;
use super::types;
use crate::Error;
use crate::graph::{Attribute, Graph};
use crate::proto::attribute_proto::AttributeType as Kind;
use crate::proto::{AttributeProto, NodeProto};
use std::collections::HashSet;

impl<'p> Builder<'p> {
    /// Decodes the attributes of a node. An attribute that refers to an attribute of the enclosing function
    /// is omitted if the function's caller did not pass it.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateAttribute`] if two attributes have the same name.
    pub(super) fn attributes(&mut self, node: &'p NodeProto) -> Result<Vec<(String, Attribute)>, Error> {
        let mut seen = HashSet::new();
        let mut decoded = Vec::with_capacity(node.attribute.len());
        for attribute in &node.attribute {
            let name = attribute.name();
            if !seen.insert(name) {
                return Err(Error::DuplicateAttribute { name: name.to_owned() });
            }
            self.meter.name(name)?;
            let value = match attribute.ref_attr_name() {
                "" => self.attribute(attribute)?,
                outer => self.referenced(attribute, outer)?,
            };
            decoded.extend(value.map(|v| (name.to_owned(), v)));
        }
        Ok(decoded)
    }

    /// Looks up an attribute of the function being inlined.
    fn referenced(&mut self, attribute: &AttributeProto, outer: &str) -> Result<Option<Attribute>, Error> {
        let Some(bound) = &self.frame.bound else {
            return Err(Error::OutsideFunction { name: outer.to_owned() });
        };
        let Some(value) = bound.get(outer).cloned() else {
            return Ok(None);
        };
        if attribute.r#type() != Kind::Undefined && words(attribute.r#type()) != value.kind() {
            return Err(Error::AttributeKind {
                name: outer.to_owned(),
                expected: words(attribute.r#type()),
                got: value.kind(),
            });
        }
        // The function's caller passed the subgraphs in `value`, and their captures are ids of values in the caller's
        // graph. A subgraph of the function is a separate graph with other ids, so it cannot contain the passed
        // subgraphs.
        if let (Attribute::Graph(_) | Attribute::Graphs(_), true) = (&value, self.in_subgraph()) {
            return Err(Error::AttributeKind {
                name: outer.to_owned(),
                expected: "anything but a graph, as it is used in a subgraph of the function",
                got: value.kind(),
            });
        }
        self.meter.text(size(&value))?;
        self.count_copies(&value)?;
        Ok(Some(value))
    }

    /// Counts the nodes of the subgraphs in an attribute that is copied.
    fn count_copies(&mut self, value: &Attribute) -> Result<(), Error> {
        let graphs: &[Graph] = match value {
            Attribute::Graph(g) => std::slice::from_ref(g),
            Attribute::Graphs(g) => g,
            _ => return Ok(()),
        };
        for graph in graphs {
            self.meter.text(64 * graph.values.len())?;
            for node in &graph.nodes {
                self.meter.node()?;
                for (_, attribute) in node.attributes.iter() {
                    self.count_copies(attribute)?;
                }
            }
        }
        Ok(())
    }

    /// Decodes one attribute; returns `None` if it refers to an attribute of the function.
    pub(super) fn attribute(&mut self, a: &'p AttributeProto) -> Result<Option<Attribute>, Error> {
        if !a.ref_attr_name().is_empty() {
            return Ok(None);
        }
        let missing = |expected| Error::AttributeKind { name: a.name().to_owned(), expected, got: "nothing" };
        let kind = kind(a)?;
        let value = match kind {
            // Writers for protobuf 3 omit zeros and empty strings.
            Kind::Float => Attribute::Float(a.f.unwrap_or_default()),
            Kind::Int => Attribute::Int(a.i.unwrap_or_default()),
            Kind::String => Attribute::Text(a.s.clone().unwrap_or_default()),
            Kind::Tensor => Attribute::Tensor(self.tensor(a.t.as_ref().ok_or_else(|| missing("a tensor"))?)?),
            Kind::SparseTensor => {
                let t = a.sparse_tensor.as_ref().ok_or_else(|| missing("a sparse tensor"))?;
                Attribute::Tensor(self.sparse(t)?)
            }
            Kind::Graph => {
                let g = a.g.as_ref().ok_or_else(|| missing("a graph"))?;
                Attribute::Graph(Box::new(self.subgraph(g)?))
            }
            Kind::TypeProto => {
                let t = a.tp.as_ref().ok_or_else(|| missing("a type"))?;
                Attribute::Type(types::decode(t, self.meter.deepest())?)
            }
            Kind::Floats => Attribute::Floats(a.floats.clone()),
            Kind::Ints => Attribute::Ints(a.ints.clone()),
            Kind::Strings => Attribute::Texts(a.strings.clone()),
            Kind::Tensors => {
                Attribute::Tensors(a.tensors.iter().map(|t| self.tensor(t)).collect::<Result<_, _>>()?)
            }
            Kind::SparseTensors => {
                Attribute::Tensors(a.sparse_tensors.iter().map(|t| self.sparse(t)).collect::<Result<_, _>>()?)
            }
            Kind::Graphs => {
                Attribute::Graphs(a.graphs.iter().map(|g| self.subgraph(g)).collect::<Result<_, _>>()?)
            }
            Kind::TypeProtos => {
                let deepest = self.meter.deepest();
                let types = a.type_protos.iter().map(|t| types::decode(t, deepest));
                Attribute::Types(types.collect::<Result<_, _>>()?)
            }
            Kind::Undefined => return Err(missing("a value")),
        };
        self.meter.text(size(&value))?;
        Ok(Some(value))
    }
}

/// Returns the declared kind of an attribute. If no kind is declared, the value determines it.
///
/// # Errors
///
/// [`Error::AttributeKind`] if the value does not have the declared kind.
fn kind(a: &AttributeProto) -> Result<Kind, Error> {
    let number = a.r#type.unwrap_or_default();
    let Ok(declared) = Kind::try_from(number) else {
        return Err(Error::AttributeKind {
            name: a.name().to_owned(),
            expected: "one of ONNX's kinds",
            got: "another number",
        });
    };
    let present = [
        (a.f.is_some(), Kind::Float),
        (a.i.is_some(), Kind::Int),
        (a.s.is_some(), Kind::String),
        (a.t.is_some(), Kind::Tensor),
        (a.g.is_some(), Kind::Graph),
        (a.sparse_tensor.is_some(), Kind::SparseTensor),
        (a.tp.is_some(), Kind::TypeProto),
        (!a.floats.is_empty(), Kind::Floats),
        (!a.ints.is_empty(), Kind::Ints),
        (!a.strings.is_empty(), Kind::Strings),
        (!a.tensors.is_empty(), Kind::Tensors),
        (!a.graphs.is_empty(), Kind::Graphs),
        (!a.sparse_tensors.is_empty(), Kind::SparseTensors),
        (!a.type_protos.is_empty(), Kind::TypeProtos),
    ];
    let mut kind = declared;
    for (_, found) in present.into_iter().filter(|(present, _)| *present) {
        if kind == Kind::Undefined {
            kind = found;
        }
        if kind != found {
            return Err(Error::AttributeKind {
                name: a.name().to_owned(),
                expected: words(kind),
                got: words(found),
            });
        }
    }
    Ok(kind)
}

/// Returns the description of a kind that [`Attribute::kind`] returns for its values.
fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Float => "a float",
        Kind::Int => "an integer",
        Kind::String => "a string",
        Kind::Tensor | Kind::SparseTensor => "a tensor",
        Kind::Graph => "a graph",
        Kind::TypeProto => "a type",
        Kind::Floats => "floats",
        Kind::Ints => "integers",
        Kind::Strings => "strings",
        Kind::Tensors | Kind::SparseTensors => "tensors",
        Kind::Graphs => "graphs",
        Kind::TypeProtos => "types",
        Kind::Undefined => "a value",
    }
}

/// Returns the number of bytes in an attribute, except tensors and graphs, which are counted elsewhere.
fn size(value: &Attribute) -> usize {
    match value {
        Attribute::Text(s) => s.len(),
        Attribute::Floats(v) => 4 * v.len(),
        Attribute::Ints(v) => 8 * v.len(),
        Attribute::Texts(v) => v.iter().map(|s| s.len() + 24).sum(),
        Attribute::Tensors(v) => 64 * v.len(),
        Attribute::Types(v) => 64 * v.len(),
        _ => 8,
    }
}
