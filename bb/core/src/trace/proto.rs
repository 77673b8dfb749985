//! Builds parts of ONNX's messages: attributes, nodes and declared types.

use bb_ir::DataType;
use bb_ir::graph::{Dim, ValueType, type_proto};
use bb_ir::op::Param;
use bb_ir::proto::{AttributeProto, NodeProto, ValueInfoProto, attribute_proto};

/// Writes a parameter as an attribute; returns `None` if an absent attribute has the same meaning.
pub(crate) fn attribute(name: &str, param: &Param<'_>) -> Option<AttributeProto> {
    use attribute_proto::AttributeType as Type;
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let ty = match param {
        Param::Int(v) | Param::OptInt(Some(v)) => {
            proto.i = Some(*v);
            Type::Int
        }
        Param::Bool(v) => {
            proto.i = Some(i64::from(*v));
            Type::Int
        }
        Param::Type(v) | Param::OptType(Some(v)) => {
            proto.i = Some(i64::from(v.to_onnx()));
            Type::Int
        }
        Param::Float(v) | Param::OptFloat(Some(v)) => {
            proto.f = Some(*v as f32);
            Type::Float
        }
        Param::Ints(v) if v.is_empty() => return None,
        Param::Ints(v) => {
            proto.ints = v.to_vec();
            Type::Ints
        }
        Param::Extents(v) => {
            proto.ints = v.iter().map(|&d| d as i64).collect();
            Type::Ints
        }
        Param::Floats(v) => {
            proto.floats = v.iter().map(|&f| f as f32).collect();
            Type::Floats
        }
        Param::Round(v) => {
            proto.s = Some(v.name().as_bytes().to_vec());
            Type::String
        }
        Param::Text(v) => {
            proto.s = Some(v.as_bytes().to_vec());
            Type::String
        }
        Param::Data(v) => {
            proto.t = Some(v.to_proto(""));
            Type::Tensor
        }
        _ => return None,
    };
    proto.r#type = Some(ty as i32);
    Some(proto)
}

pub(crate) fn node(
    op: &str,
    input: Vec<String>,
    output: Vec<String>,
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto { op_type: Some(op.to_owned()), input, output, attribute, ..NodeProto::default() }
}

/// Declares the type of a tensor. If `shape` is `None`, the rank is unknown.
pub(crate) fn value_info(name: &str, dtype: DataType, shape: Option<Vec<Dim>>) -> ValueInfoProto {
    let ty = type_proto(&ValueType::Tensor { dtype, shape });
    ValueInfoProto { name: Some(name.to_owned()), r#type: ty, ..ValueInfoProto::default() }
}

/// Converts known extents to dimensions.
pub(crate) fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&d| Dim::Known(d)).collect()
}
