//! Writes checked graphs, or some of their nodes, as ONNX.
//!
//! Each node keeps the opset that it was written for, so the opsets are returned together with the graph.

use super::{Attribute, Attributes, Dim, Graph, Node, ValueId, ValueType};
use crate::Error;
use crate::proto::{
    AttributeProto, GraphProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto::AttributeType, tensor_shape_proto, type_proto,
};
use std::collections::{BTreeMap, HashMap};

/// For each domain, the version of the operators that a graph uses.
type Opsets = BTreeMap<String, i64>;

impl Graph {
    /// Writes the nodes at the given positions as a graph with the given inputs and outputs.
    ///
    /// Constants that the nodes read become initializers. If such a constant is also an input, the
    /// initializer is its default.
    ///
    /// # Errors
    ///
    /// [`Error::OpsetTwice`] if two nodes were written for different versions of a domain.
    pub fn part_to_proto(
        &self,
        nodes: &[usize],
        inputs: &[ValueId],
        outputs: &[ValueId],
    ) -> Result<(GraphProto, Vec<OperatorSetIdProto>), Error> {
        let mut opsets = Opsets::new();
        let nodes: Vec<&Node> = nodes.iter().filter_map(|&at| self.nodes.get(at)).collect();
        let graph = write(self, &nodes, inputs, outputs, &HashMap::new(), &mut opsets)?;
        let import = |(domain, version)| OperatorSetIdProto { domain: Some(domain), version: Some(version) };
        Ok((graph, opsets.into_iter().map(import).collect()))
    }
}

impl Node {
    /// Iterates over the values that the node reads: its operands and the captures of its subgraphs.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        let captured = self.attributes.iter().flat_map(|(_, attribute)| match attribute {
            Attribute::Graph(graph) => std::slice::from_ref(&**graph),
            Attribute::Graphs(graphs) => graphs,
            _ => &[],
        });
        let captured = captured.flat_map(|graph| graph.captures.iter().map(|(outer, _)| *outer));
        self.inputs.iter().flatten().copied().chain(captured)
    }
}

/// Writes nodes; `outer` names the values that come from an enclosing graph.
fn write(
    graph: &Graph,
    nodes: &[&Node],
    inputs: &[ValueId],
    outputs: &[ValueId],
    outer: &HashMap<ValueId, String>,
    opsets: &mut Opsets,
) -> Result<GraphProto, Error> {
    let name = |value: ValueId| outer.get(&value).cloned().unwrap_or_else(|| graph.name_of(value).to_owned());
    let info = |value: &ValueId, ty: Option<TypeProto>| ValueInfoProto {
        name: Some(name(*value)),
        r#type: ty,
        ..ValueInfoProto::default()
    };
    // Only the known types of inputs are written, because runs compare inputs with them. Types of outputs
    // include claims, because a reader treats them as claims again.
    let input =
        |value: &ValueId| info(value, graph.values.get(value.index()).and_then(|v| type_proto(&v.ty)));
    let output =
        |value: &ValueId| info(value, graph.values.get(value.index()).and_then(|v| type_proto(&v.claimed())));
    let mut read: std::collections::HashSet<ValueId> = nodes.iter().flat_map(|node| node.reads()).collect();
    read.extend(outputs);
    let constants = graph.constants.iter().filter(|(value, _)| read.contains(value));
    let mut proto = GraphProto {
        name: Some(graph.name.clone()),
        initializer: constants.map(|(value, data)| data.to_proto(&name(*value))).collect(),
        input: inputs.iter().map(input).collect(),
        output: outputs.iter().map(output).collect(),
        ..GraphProto::default()
    };
    for node in nodes {
        match opsets.insert(node.domain.clone(), node.opset) {
            Some(first) if first != node.opset => {
                return Err(Error::OpsetTwice { domain: node.domain.clone(), first, second: node.opset });
            }
            _ => {}
        }
        let named =
            |values: &[Option<ValueId>]| values.iter().map(|v| v.map_or_else(String::new, name)).collect();
        proto.node.push(NodeProto {
            name: Some(node.name.clone()),
            domain: Some(node.domain.clone()),
            op_type: Some(node.op_type.clone()),
            input: named(&node.inputs),
            output: named(&node.outputs),
            attribute: attributes(&node.attributes, &name, opsets)?,
            metadata_props: node.metadata.iter().map(|(key, value)| entry(key, value)).collect(),
            ..NodeProto::default()
        });
    }
    Ok(proto)
}

/// Writes an entry of metadata.
pub fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}

fn attributes(
    attributes: &Attributes,
    name: &dyn Fn(ValueId) -> String,
    opsets: &mut Opsets,
) -> Result<Vec<AttributeProto>, Error> {
    let write = |(key, attribute)| {
        let mut proto = AttributeProto { name: Some(String::from(key)), ..AttributeProto::default() };
        let kind = fill(&mut proto, attribute, name, opsets)?;
        proto.r#type = Some(kind as i32);
        Ok(proto)
    };
    attributes.iter().map(write).collect()
}

fn fill(
    proto: &mut AttributeProto,
    attribute: &Attribute,
    name: &dyn Fn(ValueId) -> String,
    opsets: &mut Opsets,
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
            proto.t = Some(v.to_proto(""));
            AttributeType::Tensor
        }
        Attribute::Graph(v) => {
            proto.g = Some(subgraph(v, name, opsets)?);
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
            proto.tensors = v.iter().map(|t| t.to_proto("")).collect();
            AttributeType::Tensors
        }
        Attribute::Graphs(v) => {
            proto.graphs = v.iter().map(|g| subgraph(g, name, opsets)).collect::<Result<_, Error>>()?;
            AttributeType::Graphs
        }
        Attribute::Types(v) => {
            proto.type_protos = v.iter().map(|t| type_proto(t).unwrap_or_default()).collect();
            AttributeType::TypeProtos
        }
    })
}

fn subgraph(
    graph: &Graph,
    name: &dyn Fn(ValueId) -> String,
    opsets: &mut Opsets,
) -> Result<GraphProto, Error> {
    let outer = graph.captures.iter().map(|(outer, inner)| (*inner, name(*outer))).collect();
    let nodes: Vec<&Node> = graph.nodes.iter().collect();
    write(graph, &nodes, &graph.inputs, &graph.outputs, &outer, opsets)
}

/// Writes a type; returns `None` if it is unknown.
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
