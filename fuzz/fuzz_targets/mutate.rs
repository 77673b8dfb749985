//! Changes ONNX's own models where models can go wrong, and compiles and runs them like the target `run`.
//!
//! The bytes stay a valid encoding: only names, extents, element types, attributes and opsets change.
#![no_main]

use bb::ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, tensor_shape_proto::dimension, type_proto,
};
use bb_fuzz::{attribute, draw::Draw};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use prost::Message;

fuzz_target!(|data: &[u8]| bb_fuzz::compile_and_run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let seed = seed.to_le_bytes();
    let mut draw = Draw::new(&seed);
    if let Some(given) = data.get(..size)
        && let Ok(mut model) = ModelProto::decode(given)
        && draw.below(8) > 0
    {
        for _ in 0..=draw.below(3) {
            change(&mut model, &mut draw);
        }
        let changed = model.encode_to_vec();
        if let Some(place) = data.get_mut(..changed.len())
            && changed.len() <= max_size
        {
            place.copy_from_slice(&changed);
            return changed.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
});

/// Makes one change to a model.
fn change(model: &mut ModelProto, draw: &mut Draw<'_>) {
    if draw.below(12) == 0 {
        if let Some(opset) = draw.one_mut(&mut model.opset_import) {
            opset.version = Some(draw.below(30) as i64);
        }
        return;
    }
    if draw.below(8) == 0
        && let Some(function) = draw.one_mut(&mut model.functions)
    {
        return change_nodes(&mut function.node, draw);
    }
    if let Some(graph) = &mut model.graph {
        change_graph(graph, draw);
    }
}

fn change_graph(graph: &mut GraphProto, draw: &mut Draw<'_>) {
    match draw.below(6) {
        0 => {
            if let Some(ty) = draw.one_mut(&mut graph.input).and_then(|port| port.r#type.as_mut()) {
                change_type(ty, draw);
            }
        }
        1 => {
            if let Some(tensor) = draw.one_mut(&mut graph.initializer) {
                match draw.below(3) {
                    0 => tensor.data_type = Some(draw.below(28) as i32),
                    1 => tensor.dims.push(draw.int()),
                    _ => {
                        let to = draw.int();
                        if let Some(dim) = draw.one_mut(&mut tensor.dims) {
                            *dim = to;
                        }
                    }
                }
            }
        }
        _ => change_nodes(&mut graph.node, draw),
    }
}

fn change_type(ty: &mut TypeProto, draw: &mut Draw<'_>) {
    let Some(type_proto::Value::TensorType(tensor)) = &mut ty.value else { return };
    if draw.below(2) == 0 {
        tensor.elem_type = Some(draw.below(28) as i32);
        return;
    }
    let extent = draw.below(6) as i64;
    if let Some(dim) = tensor.shape.as_mut().and_then(|shape| draw.one_mut(&mut shape.dim)) {
        dim.value = Some(dimension::Value::DimValue(extent));
    }
}

fn change_nodes(nodes: &mut Vec<NodeProto>, draw: &mut Draw<'_>) {
    let names: Vec<String> = nodes.iter().flat_map(|n| n.input.iter().chain(&n.output)).cloned().collect();
    let other = names.get(draw.below(names.len().max(1))).cloned().unwrap_or_default();
    let Some(node) = draw.one_mut(nodes) else { return };
    match draw.below(8) {
        0 => {
            let operators: Vec<_> = bb::onnx::operators().collect();
            if let Some(operator) = operators.get(draw.below(operators.len())) {
                node.op_type = Some(operator.name.to_owned());
                node.domain = Some(operator.domain.to_owned());
            }
        }
        1 => {
            if let Some(input) = draw.one_mut(&mut node.input) {
                *input = if draw.below(3) == 0 { String::new() } else { other };
            }
        }
        2 => node.input.push(other),
        3 => {
            let at = draw.below(node.attribute.len().max(1));
            if at < node.attribute.len() {
                node.attribute.remove(at);
            }
        }
        _ => {
            if let Some(attribute) = draw.one_mut(&mut node.attribute) {
                change_attribute(attribute, draw);
            }
        }
    }
}

fn change_attribute(attribute: &mut AttributeProto, draw: &mut Draw<'_>) {
    match &mut attribute.g {
        Some(graph) => change_graph(graph, draw),
        None => attribute::change(attribute, draw),
    }
}
