//! Small valid models of every operator, the building blocks of larger models.

use crate::draw::Draw;
use bb::ir::opset;
use bb::ir::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use bb::{DataType, TensorData};
use prost::Message;
use std::sync::LazyLock;

/// The calls that `bb coverage` uses to try each version of each operator.
static CALLS: &[u8] = include_bytes!("../../bb/src/coverage/samples.bin");

/// Vectors of the tests: what ONNX has no schema of, control flow, strings and sequences.
static VECTORS: [&[u8]; 6] = [
    include_bytes!("../../tests/vectors/microsoft.pb"),
    include_bytes!("../../tests/vectors/control_flow.pb"),
    include_bytes!("../../tests/vectors/strings.pb"),
    include_bytes!("../../tests/vectors/exporters.pb"),
    include_bytes!("../../tests/vectors/models.pb"),
    include_bytes!("../../tests/vectors/recurrent.pb"),
];

/// A model whose inputs are tensors with given elements.
#[derive(Debug, Clone)]
pub struct Fragment {
    pub nodes: Vec<NodeProto>,
    /// The names and the elements of the inputs.
    pub inputs: Vec<(String, TensorData)>,
    pub constants: Vec<TensorProto>,
    /// The names of the results.
    pub outputs: Vec<String>,
    opsets: Vec<(String, i64)>,
}

static POOL: LazyLock<Vec<Fragment>> = LazyLock::new(|| {
    let mut pool = Vec::new();
    let mut rest = CALLS;
    while let Some((length, after)) = rest.split_first_chunk() {
        let (model, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        pool.extend(Fragment::of(&ModelProto::decode(model).expect("a model")));
        rest = after;
    }
    assert!(pool.len() > 500, "the pool has the calls of all operators");
    for mut vectors in VECTORS {
        while !vectors.is_empty() {
            pool.extend(Fragment::of(&ModelProto::decode_length_delimited(&mut vectors).expect("a model")));
        }
    }
    pool
});

impl Fragment {
    /// Takes a model apart; `None` if it is large, or has inputs that are no tensors.
    fn of(model: &ModelProto) -> Option<Fragment> {
        let graph = model.graph.as_ref()?;
        if model.encoded_len() > 1 << 14
            || !model.functions.is_empty()
            || !graph.sparse_initializer.is_empty()
        {
            return None;
        }
        let given = |name: &str| graph.initializer.iter().find(|x| x.name() == name);
        let tensor = |name: &str| TensorData::from_proto(given(name)?).ok();
        let inputs = graph.input.iter().map(|port| Some((port.name().to_owned(), tensor(port.name())?)));
        let inputs: Vec<_> = inputs.collect::<Option<_>>()?;
        let constant =
            |x: &&TensorProto| !x.name().contains(':') && inputs.iter().all(|(name, _)| name != x.name());
        Some(Fragment {
            nodes: graph.node.clone(),
            constants: graph.initializer.iter().filter(constant).cloned().collect(),
            outputs: graph.output.iter().map(|port| port.name().to_owned()).collect(),
            opsets: model.opset_import.iter().map(|o| (domain(o.domain()), o.version())).collect(),
            inputs,
        })
    }

    /// Draws a fragment that means the same in a model with these opsets, on an element type that its operator takes.
    pub fn draw(opsets: &[(String, i64)], draw: &mut Draw<'_>) -> Option<Fragment> {
        let fits = |fragment: &&Fragment| fragment.nodes.iter().all(|node| fragment.fits(node, opsets));
        let found = (0..12).find_map(|_| draw.one(&POOL).filter(fits));
        let mut fragment = found?.clone();
        if draw.below(2) == 0 {
            fragment.retype(draw);
        }
        Some(fragment)
    }

    fn fits(&self, node: &NodeProto, opsets: &[(String, i64)]) -> bool {
        let home = domain(node.domain());
        let version = |opsets: &[(String, i64)]| opsets.iter().find(|(name, _)| *name == home).map(|o| o.1);
        let (Some(own), Some(other)) = (version(&self.opsets), version(opsets)) else { return false };
        opset::since(&home, node.op_type(), own) == opset::since(&home, node.op_type(), other)
    }

    /// Changes the element type of the operands to another one that the operator takes.
    fn retype(&mut self, draw: &mut Draw<'_>) {
        let ([node], Some((_, first))) = (&*self.nodes, self.inputs.first()) else { return };
        let (home, before) = (domain(node.domain()), first.dtype());
        let opset = self.opsets.iter().find(|(name, _)| *name == home).map_or(0, |o| o.1);
        let since = opset::since(&home, node.op_type(), opset);
        let mut versions = opset::history(&home, node.op_type()).filter(|v| Some(v.since) == since);
        let types = versions.next().and_then(|version| version.types).unwrap_or_default();
        let Some(dtype) = draw.one(&types).copied() else { return };
        for (_, x) in self.inputs.iter_mut().filter(|(_, x)| x.dtype() == before) {
            if let Ok(cast) = bb::ir::convert::cast(x, dtype, Default::default()) {
                *x = cast;
            }
        }
    }

    /// Adds a prefix to all names, including names in subgraphs.
    pub fn rename(&mut self, prefix: &str) {
        let rename = |name: &mut String| {
            if !name.is_empty() {
                name.insert_str(0, prefix);
            }
        };
        self.nodes.iter_mut().for_each(|node| rename_node(node, &rename));
        self.inputs.iter_mut().for_each(|(name, _)| rename(name));
        self.outputs.iter_mut().for_each(rename);
        self.constants.iter_mut().filter_map(|x| x.name.as_mut()).for_each(rename);
    }

    /// Renames the value `from` to `to`.
    pub fn replace(&mut self, from: &str, to: &str) {
        let replace = |name: &mut String| {
            if name == from {
                to.clone_into(name);
            }
        };
        self.nodes.iter_mut().for_each(|node| rename_node(node, &replace));
        self.outputs.iter_mut().for_each(replace);
    }
}

fn domain(name: &str) -> String {
    opset::domain_name(name).to_owned()
}

fn rename_node(node: &mut NodeProto, rename: &impl Fn(&mut String)) {
    node.input.iter_mut().chain(&mut node.output).for_each(rename);
    for attribute in &mut node.attribute {
        attribute.g.iter_mut().chain(&mut attribute.graphs).for_each(|graph| rename_graph(graph, rename));
    }
}

fn rename_graph(graph: &mut GraphProto, rename: &impl Fn(&mut String)) {
    graph.node.iter_mut().for_each(|node| rename_node(node, rename));
    let ports = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
    ports.filter_map(|port| port.name.as_mut()).for_each(rename);
    graph.initializer.iter_mut().filter_map(|x| x.name.as_mut()).for_each(rename);
}

/// The opsets that a drawn model imports.
pub fn opsets(draw: &mut Draw<'_>) -> Vec<(String, i64)> {
    let onnx = match draw.below(4) {
        0 | 1 => opset::NEWEST - draw.below(8) as i64,
        2 => 13 + draw.below(9) as i64,
        _ => 7 + draw.below(20) as i64,
    };
    let others =
        [("ai.onnx.ml", 5 - draw.below(4) as i64), ("com.microsoft", 1), ("ai.onnx.preview.training", 1)];
    let all = others.into_iter().chain([("", onnx)]);
    all.map(|(domain, version)| (domain.to_owned(), version)).collect()
}

/// Returns whether a tensor may become a sequence's element or a state, whose type must stay.
pub fn is_number(dtype: DataType) -> bool {
    dtype.is_float() || dtype.is_integer()
}
