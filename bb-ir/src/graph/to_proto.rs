//! Converts checked graphs to ONNX's protobuf messages.
//!
//! Each node keeps the opset that it was written for, so the opsets of the protobuf message follow from the nodes.

use super::{Attribute, Attributes, Dim, Graph, Node, ValueId, ValueType};
use crate::Error;
use crate::proto::{
    AttributeProto, GraphProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto::AttributeType, tensor_shape_proto, type_proto,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The version of the operators that a graph uses, for each domain.
type Opsets = BTreeMap<String, i64>;

impl Graph {
    /// Converts the graph to protobuf; [`opsets`](Self::opsets) returns the opsets that the nodes use.
    ///
    /// Constants become initializers. If a constant is also an input, the initializer is its default.
    ///
    /// # Errors
    ///
    /// As [`TensorData::unaligned_bytes`](crate::TensorData::unaligned_bytes), if a tensor is damaged.
    pub fn to_proto(&self) -> Result<GraphProto, Error> {
        write(self, &HashMap::new())
    }

    /// Returns the opset of each domain that the nodes were written for, including nodes in subgraphs.
    ///
    /// # Errors
    ///
    /// [`Error::OpsetTwice`] if two nodes were written for different versions of a domain.
    pub fn opsets(&self) -> Result<Vec<OperatorSetIdProto>, Error> {
        let mut opsets = Opsets::new();
        self.import(&mut opsets)?;
        let import = |(domain, version)| OperatorSetIdProto { domain: Some(domain), version: Some(version) };
        Ok(opsets.into_iter().map(import).collect())
    }

    fn import(&self, opsets: &mut Opsets) -> Result<(), Error> {
        for node in &self.nodes {
            match opsets.insert(node.domain.clone(), node.opset) {
                Some(first) if first != node.opset => {
                    return Err(Error::OpsetTwice { domain: node.domain.clone(), first, second: node.opset });
                }
                _ => {}
            }
            node.subgraphs().try_for_each(|graph| graph.import(opsets))?;
        }
        Ok(())
    }
}

impl Node {
    /// Iterates over the values that the node reads: its operands and the captures of its subgraphs.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        let captured = self.subgraphs().flat_map(|graph| graph.captures.iter().map(|(outer, _)| *outer));
        self.inputs.iter().flatten().copied().chain(captured)
    }

    /// Iterates over the subgraphs among the attributes.
    pub fn subgraphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.iter().flat_map(|(_, attribute)| match attribute {
            Attribute::Graph(graph) => std::slice::from_ref(&**graph),
            Attribute::Graphs(graphs) => graphs,
            _ => &[],
        })
    }
}

impl Attributes {
    /// Converts the attributes to protobuf. `name` returns the names of the enclosing graph's values, which
    /// subgraphs capture.
    ///
    /// # Errors
    ///
    /// As [`Graph::to_proto`].
    pub fn to_proto(&self, name: &dyn Fn(ValueId) -> String) -> Result<Vec<AttributeProto>, Error> {
        attributes(self, name)
    }
}

/// Converts a graph. `outer` contains the names of values that are captured from an enclosing graph.
fn write(graph: &Graph, outer: &HashMap<ValueId, String>) -> Result<GraphProto, Error> {
    let name = |value: ValueId| outer.get(&value).cloned().unwrap_or_else(|| graph.name_of(value).to_owned());
    let info = |value: &ValueId, ty: Option<TypeProto>| ValueInfoProto {
        name: Some(name(*value)),
        r#type: ty,
        ..ValueInfoProto::default()
    };
    // For inputs, only the known types are written, because runs compare inputs with them. For outputs, claims are
    // written too, because readers treat the types of outputs as claims.
    let input =
        |value: &ValueId| info(value, graph.values.get(value.index()).and_then(|v| type_proto(&v.ty)));
    let output =
        |value: &ValueId| info(value, graph.values.get(value.index()).and_then(|v| type_proto(&v.claimed())));
    let mut read: HashSet<ValueId> = graph.nodes.iter().flat_map(Node::reads).collect();
    read.extend(&graph.outputs);
    let constants = graph.constants.iter().filter(|(value, _)| read.contains(value));
    let mut proto = GraphProto {
        name: Some(graph.name.clone()),
        initializer: constants
            .map(|(value, data)| data.try_to_proto(&name(*value)))
            .collect::<Result<_, _>>()?,
        input: graph.inputs.iter().map(input).collect(),
        output: graph.outputs.iter().map(output).collect(),
        ..GraphProto::default()
    };
    for node in &graph.nodes {
        let named =
            |values: &[Option<ValueId>]| values.iter().map(|v| v.map_or_else(String::new, name)).collect();
        proto.node.push(NodeProto {
            name: Some(node.name.clone()),
            domain: Some(node.domain.clone()),
            op_type: Some(node.op_type.clone()),
            input: named(&node.inputs),
            output: named(&node.outputs),
            attribute: attributes(&node.attributes, &name)?,
            metadata_props: node.metadata.iter().map(|(key, value)| entry(key, value)).collect(),
            ..NodeProto::default()
        });
    }
    Ok(proto)
}

/// Creates an entry of metadata.
pub fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}

fn attributes(
    attributes: &Attributes,
    name: &dyn Fn(ValueId) -> String,
) -> Result<Vec<AttributeProto>, Error> {
    let write = |(key, attribute)| {
        let mut proto = AttributeProto { name: Some(String::from(key)), ..AttributeProto::default() };
        let kind = fill(&mut proto, attribute, name)?;
        proto.r#type = Some(kind as i32);
        Ok(proto)
    };
    attributes.iter().map(write).collect()
}

fn fill(
    proto: &mut AttributeProto,
    attribute: &Attribute,
    name: &dyn Fn(ValueId) -> String,
) -> Result<AttributeType, Error> {
    Ok(match attribute {
        Attribute::Float(v) => {
            proto.f = Some(*v);
            AttributeType::Float
        }
        Attribute::Int(v) => {
            proto.i = Some(*v);
            AttributeType::Int
        }
        Attribute::Text(v) => {
            proto.s = Some(v.clone());
            AttributeType::String
        }
        Attribute::Tensor(v) => {
            proto.t = Some(v.try_to_proto("")?);
            AttributeType::Tensor
        }
        Attribute::Graph(v) => {
            proto.g = Some(subgraph(v, name)?);
            AttributeType::Graph
        }
        Attribute::Type(v) => {
            proto.tp = type_proto(v);
            AttributeType::TypeProto
        }
        Attribute::Floats(v) => {
            proto.floats = v.clone();
            AttributeType::Floats
        }
        Attribute::Ints(v) => {
            proto.ints = v.clone();
            AttributeType::Ints
        }
        Attribute::Texts(v) => {
            proto.strings = v.clone();
            AttributeType::Strings
        }
        Attribute::Tensors(v) => {
            proto.tensors = v.iter().map(|t| t.try_to_proto("")).collect::<Result<_, _>>()?;
            AttributeType::Tensors
        }
        Attribute::Graphs(v) => {
            proto.graphs = v.iter().map(|g| subgraph(g, name)).collect::<Result<_, _>>()?;
            AttributeType::Graphs
        }
        Attribute::Types(v) => {
            proto.type_protos = v.iter().map(|t| type_proto(t).unwrap_or_default()).collect();
            AttributeType::TypeProtos
        }
    })
}

fn subgraph(graph: &Graph, name: &dyn Fn(ValueId) -> String) -> Result<GraphProto, Error> {
    write(graph, &graph.captures.iter().map(|(outer, inner)| (*inner, name(*outer))).collect())
}

/// Converts a type to protobuf; returns `None` if the type is unknown.
pub fn type_proto(ty: &ValueType) -> Option<TypeProto> {
    let boxed = |ty: &ValueType| type_proto(ty).map(Box::new);
    let value = match ty {
        ValueType::Unknown => return None,
        ValueType::Tensor { dtype, shape } => type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: Some(dtype.to_onnx()),
            shape: shape.as_ref().map(|dims| TensorShapeProto { dim: dims.iter().map(dimension).collect() }),
        }),
        ValueType::Sequence(of) => {
            type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: boxed(of) }))
        }
        ValueType::Optional(of) => {
            type_proto::Value::OptionalType(Box::new(type_proto::Optional { elem_type: boxed(of) }))
        }
        ValueType::Map(key, of) => type_proto::Value::MapType(Box::new(type_proto::Map {
            key_type: Some(key.to_onnx()),
            value_type: boxed(of),
        })),
    };
    Some(TypeProto { value: Some(value), ..TypeProto::default() })
}

fn dimension(dim: &Dim) -> tensor_shape_proto::Dimension {
    use tensor_shape_proto::dimension::Value;
    let value = match dim {
        Dim::Known(extent) => Some(Value::DimValue(*extent as i64)),
        Dim::Symbol(_) | Dim::Computed(_) => Some(Value::DimParam(dim.to_string())),
        Dim::Unknown => None,
    };
    tensor_shape_proto::Dimension { value, ..Default::default() }
}
