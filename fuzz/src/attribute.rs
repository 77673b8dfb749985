//! Draws attributes, and changes them.

use crate::draw::Draw;
use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto, attribute_proto::AttributeType};

/// Makes a node.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        op_type: Some(op.to_owned()),
        input: names(inputs),
        output: names(outputs),
        ..NodeProto::default()
    }
}

/// Makes an attribute that is a graph, whose ports have no declared types.
pub fn body(name: &str, inputs: &[&str], nodes: Vec<NodeProto>, outputs: Vec<String>) -> AttributeProto {
    let port = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
    let graph = GraphProto {
        name: Some(name.to_owned()),
        node: nodes,
        input: inputs.iter().map(|name| port(name)).collect(),
        output: outputs.iter().map(|name| port(name)).collect(),
        ..GraphProto::default()
    };
    AttributeProto { g: Some(graph), ..of_kind(name, AttributeType::Graph) }
}

/// Makes an attribute that is an integer.
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..of_kind(name, AttributeType::Int) }
}

fn of_kind(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), r#type: Some(kind as i32), ..AttributeProto::default() }
}

/// Draws an attribute of a kind, in the words of the schemas; `None` for graphs.
pub fn draw(name: &str, kind: &str, draw: &mut Draw<'_>) -> Option<AttributeProto> {
    const TEXTS: [&str; 8] =
        ["linear", "nearest", "SAME_UPPER", "VALID", "add", "constant", "reflect", "ij,jk->ik"];
    let of = |kind| of_kind(name, kind);
    let count = draw.below(4);
    Some(match kind {
        "a float" => AttributeProto { f: Some(draw.float() as f32), ..of(AttributeType::Float) },
        "an integer" | "a type" => AttributeProto { i: Some(draw.int()), ..of(AttributeType::Int) },
        "a string" => {
            let text = draw.one(&TEXTS).copied().unwrap_or_default();
            AttributeProto { s: Some(text.as_bytes().to_vec()), ..of(AttributeType::String) }
        }
        "floats" => {
            let floats = (0..count).map(|_| draw.float() as f32).collect();
            AttributeProto { floats, ..of(AttributeType::Floats) }
        }
        "integers" => {
            AttributeProto { ints: (0..count).map(|_| draw.int()).collect(), ..of(AttributeType::Ints) }
        }
        "a tensor" => {
            let (dtype, shape) = (draw.dtype(), draw.shape(2));
            AttributeProto {
                t: Some(draw.tensor(dtype, &shape, true).to_proto("")),
                ..of(AttributeType::Tensor)
            }
        }
        _ => return None,
    })
}

/// Changes the value of an attribute.
pub fn change(attribute: &mut AttributeProto, draw: &mut Draw<'_>) {
    let (int, float) = (draw.int(), draw.float() as f32);
    if attribute.i.is_some() {
        attribute.i = Some(int);
    } else if attribute.f.is_some() {
        attribute.f = Some(float);
    } else if let Some(place) = draw.one_mut(&mut attribute.ints) {
        *place = int;
    } else if let Some(place) = draw.one_mut(&mut attribute.floats) {
        *place = float;
    } else if let Some(byte) = attribute.s.as_mut().and_then(|s| draw.one_mut(s)) {
        *byte ^= 1 << draw.below(7);
    } else if let Some(tensor) = &mut attribute.t {
        tensor.dims.push(int);
    }
}
