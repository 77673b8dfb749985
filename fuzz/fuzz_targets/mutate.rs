//! Changes ONNX's own models where models can go wrong, and compiles and runs them like the target `run`.
//!
//! The bytes stay a valid encoding: only names, extents, element types, attributes and opsets change.
#![no_main]

use bb::ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, tensor_shape_proto::dimension, type_proto,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use prost::Message;

fuzz_target!(|data: &[u8]| bb_fuzz::compile_and_run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw(u64::from(seed));
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

/// The generator SplitMix64 (Steele, Lea, Flood 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `n`, which is positive.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a mut [T]) -> Option<&'a mut T> {
        if of.is_empty() {
            return None;
        }
        let at = self.below(of.len());
        of.get_mut(at)
    }

    /// Draws an integer, often near values that cause errors.
    fn int(&mut self) -> i64 {
        const EDGES: [i64; 14] =
            [0, 1, -1, 2, -2, 3, 7, 16, 255, -129, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
        match self.below(4) {
            0 => self.below(9) as i64 - 4,
            _ => EDGES.get(self.below(EDGES.len())).copied().unwrap_or(0),
        }
    }

    fn float(&mut self) -> f32 {
        const EDGES: [f32; 10] =
            [0.0, -0.0, 1.0, -1.0, 0.5, 1e-38, 3e38, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        EDGES.get(self.below(EDGES.len())).copied().unwrap_or(0.0)
    }
}

/// Makes one change to a model.
fn change(model: &mut ModelProto, draw: &mut Draw) {
    if draw.below(12) == 0 {
        if let Some(opset) = draw.one(&mut model.opset_import) {
            opset.version = Some(draw.below(30) as i64);
        }
        return;
    }
    if draw.below(8) == 0
        && let Some(function) = draw.one(&mut model.functions)
    {
        return change_nodes(&mut function.node, draw);
    }
    if let Some(graph) = &mut model.graph {
        change_graph(graph, draw);
    }
}

fn change_graph(graph: &mut GraphProto, draw: &mut Draw) {
    match draw.below(6) {
        0 => {
            if let Some(ty) = draw.one(&mut graph.input).and_then(|port| port.r#type.as_mut()) {
                change_type(ty, draw);
            }
        }
        1 => {
            if let Some(tensor) = draw.one(&mut graph.initializer) {
                match draw.below(3) {
                    0 => tensor.data_type = Some(draw.below(28) as i32),
                    1 => tensor.dims.push(draw.int()),
                    _ => {
                        let to = draw.int();
                        if let Some(dim) = draw.one(&mut tensor.dims) {
                            *dim = to;
                        }
                    }
                }
            }
        }
        _ => change_nodes(&mut graph.node, draw),
    }
}

fn change_type(ty: &mut TypeProto, draw: &mut Draw) {
    let Some(type_proto::Value::TensorType(tensor)) = &mut ty.value else { return };
    if draw.below(2) == 0 {
        tensor.elem_type = Some(draw.below(28) as i32);
        return;
    }
    let extent = draw.below(6) as i64;
    if let Some(dim) = tensor.shape.as_mut().and_then(|shape| draw.one(&mut shape.dim)) {
        dim.value = Some(dimension::Value::DimValue(extent));
    }
}

fn change_nodes(nodes: &mut Vec<NodeProto>, draw: &mut Draw) {
    let names: Vec<String> = nodes.iter().flat_map(|n| n.input.iter().chain(&n.output)).cloned().collect();
    let other = names.get(draw.below(names.len().max(1))).cloned().unwrap_or_default();
    let Some(node) = draw.one(nodes) else { return };
    match draw.below(8) {
        0 => {
            let operators: Vec<_> = bb::onnx::operators().collect();
            if let Some(operator) = operators.get(draw.below(operators.len())) {
                node.op_type = Some(operator.name.to_owned());
                node.domain = Some(operator.domain.to_owned());
            }
        }
        1 => {
            if let Some(input) = draw.one(&mut node.input) {
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
            if let Some(attribute) = draw.one(&mut node.attribute) {
                change_attribute(attribute, draw);
            }
        }
    }
}

fn change_attribute(attribute: &mut AttributeProto, draw: &mut Draw) {
    if let Some(graph) = &mut attribute.g {
        return change_graph(graph, draw);
    }
    let (int, float) = (draw.int(), draw.float());
    if attribute.i.is_some() {
        attribute.i = Some(int);
    } else if attribute.f.is_some() {
        attribute.f = Some(float);
    } else if let Some(place) = draw.one(&mut attribute.ints) {
        *place = int;
    } else if let Some(place) = draw.one(&mut attribute.floats) {
        *place = float;
    } else if let Some(byte) = attribute.s.as_mut().and_then(|s| draw.one(s)) {
        *byte ^= 1 << draw.below(7);
    } else if let Some(tensor) = &mut attribute.t {
        tensor.dims.push(int);
    }
}
