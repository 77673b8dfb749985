//! Converts graphs of ONNX Runtime to the protobuf messages that `bb` checks.

use crate::api::{Api, Elements, Extent, Result, TensorType};
use crate::error::PluginError;
use crate::raw::attribute_types::{FLOAT, FLOATS, INT, INTS, STRING, STRINGS, TENSOR};
use crate::raw::{OrtGraph, OrtNode, OrtOpAttr, OrtValueInfo};
use bb::DataType;
use bb_core::ir::proto::attribute_proto::AttributeType;
use bb_core::ir::proto::{
    AttributeProto, GraphProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto, type_proto,
};
use std::collections::{HashMap, HashSet};

/// The domain of placeholder nodes, which replace nodes that are not read.
const OUTSIDE: &str = "bb.outside";

/// The name, operator, domain and results of a node.
pub(crate) struct Label {
    pub(crate) name: String,
    /// The names of the results, which identify a node without a name.
    pub(crate) results: Vec<String>,
    pub(crate) operator: String,
    pub(crate) domain: String,
}

/// A graph or a part of a graph that was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Read {
    /// The graph. Nodes that are not read are placeholders, so that paths through them are considered.
    pub(crate) proto: GraphProto,
    pub(crate) opsets: Vec<OperatorSetIdProto>,
    /// The ONNX Runtime nodes, in the order of the nodes of `proto`.
    pub(crate) nodes: Vec<*const OrtNode>,
    /// For each node, the names of the outer values that its subgraphs read.
    pub(crate) captured: Vec<Vec<String>>,
    /// The element types of values that are tensors.
    pub(crate) tensors: HashMap<String, DataType>,
    /// The names of constants.
    pub(crate) constants: HashSet<String>,
    /// The names of results, and of values that were added.
    seen: HashSet<String>,
}

/// A reader of graphs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) api: &'a Api,
    /// Whether the elements of constants are copied or borrowed.
    pub(crate) elements: Elements<'a>,
}

/// # Safety
///
/// For all functions: ONNX Runtime passed the pointers to the running call. Borrowed elements are dropped before the call ends.
impl Reader<'_> {
    /// Reads nodes of a graph. Outer values that they read become inputs. Nodes that are not `readable` become placeholders.
    ///
    /// The outputs are the outputs of the graph, and the results that no node reads.
    pub(crate) unsafe fn read(
        &self,
        graph: *const OrtGraph,
        nodes: Vec<*const OrtNode>,
        readable: impl Fn(usize) -> bool,
    ) -> Result<Read> {
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let mut opsets = unsafe { self.opsets(graph)? };
        opsets.push(OperatorSetIdProto { domain: Some(OUTSIDE.to_owned()), version: Some(1) });
        let mut read = Read { opsets, ..Read::default() };
        for &node in &nodes {
            // SAFETY: see above.
            for value in unsafe { self.api.outputs(node)? } {
                // SAFETY: see above.
                read.seen.insert(unsafe { self.name(value)? });
            }
        }
        let made = read.seen.clone();
        for (at, &node) in nodes.iter().enumerate() {
            match readable(at) {
                // SAFETY: see above.
                true => unsafe { self.add(node, &mut read)? },
                // SAFETY: see above.
                false => unsafe { self.stand_in(node, &made, &mut read)? },
            }
        }
        read.nodes = nodes;
        let mut wanted: Vec<String> = Vec::new();
        // SAFETY: see above.
        for output in unsafe { self.api.graph_outputs(graph)? } {
            // SAFETY: see above.
            wanted.push(unsafe { self.api.value_name(output)? });
        }
        read.finish(&wanted);
        Ok(read)
    }

    /// Returns the opsets that a graph imports.
    pub(crate) unsafe fn opsets(&self, graph: *const OrtGraph) -> Result<Vec<OperatorSetIdProto>> {
        // SAFETY: the caller upholds the safety contract of this function.
        let opsets = unsafe { self.api.opsets(graph)? };
        let one = |(domain, version)| OperatorSetIdProto { domain: Some(domain), version: Some(version) };
        Ok(opsets.into_iter().map(one).collect())
    }

    /// Returns the name, operator and domain of a node.
    pub(crate) unsafe fn label(&self, node: *const OrtNode) -> Result<Label> {
        // SAFETY: the caller upholds the safety contract of this function.
        let (name, operator, domain, results) = unsafe {
            (
                self.api.node_name(node)?,
                self.api.operator(node)?,
                self.api.domain(node)?,
                self.output_names(node)?,
            )
        };
        Ok(Label { name, results, operator, domain })
    }

    /// Returns the names of the operands of a node, with an empty name for an omitted operand.
    pub(crate) unsafe fn input_names(&self, node: *const OrtNode) -> Result<Vec<String>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { self.api.inputs(node)?.into_iter().map(|value| self.name(value)).collect() }
    }

    /// Returns the names of the results of a node, with an empty name for an omitted result.
    pub(crate) unsafe fn output_names(&self, node: *const OrtNode) -> Result<Vec<String>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { self.api.outputs(node)?.into_iter().map(|value| self.name(value)).collect() }
    }

    /// Reads one node as a separate graph.
    pub(crate) unsafe fn alone(&self, node: *const OrtNode, opsets: &[OperatorSetIdProto]) -> Result<Read> {
        let mut read = Read { opsets: opsets.to_vec(), nodes: vec![node], ..Read::default() };
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { self.add(node, &mut read)? };
        read.finish(&[]);
        Ok(read)
    }

    /// Adds a node, and the outer values that it reads.
    unsafe fn add(&self, node: *const OrtNode, read: &mut Read) -> Result<()> {
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let (explicit, implicit) = unsafe { (self.api.inputs(node)?, self.api.implicit_inputs(node)?) };
        for &value in explicit.iter().chain(&implicit).filter(|value| !value.is_null()) {
            // SAFETY: see above.
            unsafe { self.need(value, read)? };
        }
        let mut captured = Vec::new();
        for &value in &implicit {
            // SAFETY: see above.
            captured.push(unsafe { self.name(value)? });
        }
        read.captured.push(captured);
        // SAFETY: see above.
        let proto = unsafe { self.node(node)? };
        // SAFETY: see above.
        for value in unsafe { self.api.outputs(node)? } {
            // SAFETY: see above.
            if let Some(info) = unsafe { self.declared(value, &mut read.tensors)? } {
                read.proto.value_info.push(info);
            }
        }
        read.proto.node.push(proto);
        Ok(())
    }

    /// Adds a placeholder for a node that cannot be read. The placeholder has the node's results, and the node's operands that are in
    /// `made`, the set of results of nodes.
    unsafe fn stand_in(&self, node: *const OrtNode, made: &HashSet<String>, read: &mut Read) -> Result<()> {
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let (operands, results) = unsafe {
            let mut operands = self.api.inputs(node)?;
            operands.extend(self.api.implicit_inputs(node)?);
            (operands, self.api.outputs(node)?)
        };
        // SAFETY: see above.
        let names = |values: &[*const OrtValueInfo]| {
            values.iter().map(|&value| unsafe { self.name(value) }).collect::<Result<Vec<_>>>()
        };
        read.proto.node.push(outside(names(&operands)?, names(&results)?, made));
        read.captured.push(Vec::new());
        for value in results {
            // SAFETY: see above.
            if let Ok(Some(info)) = unsafe { self.declared(value, &mut read.tensors) } {
                read.proto.value_info.push(info);
            }
        }
        Ok(())
    }

    /// Adds a value that a node reads, unless it is the result of a node.
    unsafe fn need(&self, value: *const OrtValueInfo, read: &mut Read) -> Result<()> {
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let name = unsafe { self.name(value)? };
        if name.is_empty() || !read.seen.insert(name.clone()) {
            return Ok(());
        }
        // SAFETY: see above.
        if let Some(data) = unsafe { self.api.constant(value, self.elements)? } {
            read.tensors.insert(name.clone(), data.dtype());
            read.proto.initializer.push(data.to_proto(&name));
            read.constants.insert(name);
            return Ok(());
        }
        // SAFETY: see above.
        if let Some(info) = unsafe { self.declared(value, &mut read.tensors)? } {
            read.proto.input.push(info);
        }
        Ok(())
    }

    unsafe fn name(&self, value: *const OrtValueInfo) -> Result<String> {
        // SAFETY: the caller upholds the safety contract of this function.
        if value.is_null() { Ok(String::new()) } else { unsafe { self.api.value_name(value) } }
    }

    /// Returns the declaration of a value, or `None` for an absent value.
    unsafe fn declared(
        &self,
        value: *const OrtValueInfo,
        tensors: &mut HashMap<String, DataType>,
    ) -> Result<Option<ValueInfoProto>> {
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let name = unsafe { self.name(value)? };
        if name.is_empty() {
            return Ok(None);
        }
        // SAFETY: see above.
        let ty = unsafe { self.api.value_type(value)? };
        if let TensorType::Tensor(dtype, _) = &ty {
            tensors.insert(name.clone(), *dtype);
        }
        Ok(Some(ValueInfoProto { name: Some(name), r#type: type_proto(ty), ..Default::default() }))
    }

    unsafe fn node(&self, node: *const OrtNode) -> Result<NodeProto> {
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let (name, op, domain) =
            unsafe { (self.api.node_name(node)?, self.api.operator(node)?, self.api.domain(node)?) };
        let mut proto =
            NodeProto { name: Some(name), op_type: Some(op), domain: Some(domain), ..Default::default() };
        // SAFETY: see above.
        for value in unsafe { self.api.inputs(node)? } {
            // SAFETY: see above.
            proto.input.push(unsafe { self.name(value)? });
        }
        // SAFETY: see above.
        for value in unsafe { self.api.outputs(node)? } {
            // SAFETY: see above.
            proto.output.push(unsafe { self.name(value)? });
        }
        // SAFETY: see above.
        let graphs = unsafe { self.api.subgraphs(node)? };
        // SAFETY: see above.
        for attribute in unsafe { self.api.attributes(node)? } {
            // SAFETY: see above.
            let name = unsafe { self.api.attribute_name(attribute)? };
            if graphs.iter().any(|(graph, _)| *graph == name) {
                continue;
            }
            // SAFETY: see above.
            proto.attribute.push(unsafe { self.attribute(attribute, name, proto.name())? });
        }
        trim_activations(&mut proto);
        for (name, graph) in graphs {
            // SAFETY: see above.
            let g = Some(unsafe { self.subgraph(graph)? });
            proto.attribute.push(AttributeProto { g, ..front(name, AttributeType::Graph) });
        }
        Ok(proto)
    }

    unsafe fn attribute(
        &self,
        attribute: *const OrtOpAttr,
        name: String,
        node: &str,
    ) -> Result<AttributeProto> {
        use AttributeType::{Float, Floats, Int, Ints, String, Strings, Tensor};
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        let kind = unsafe { self.api.attribute_type(attribute) };
        // SAFETY: see above.
        let bytes = || unsafe { self.api.attribute_elements::<u8>(attribute, kind) };
        // SAFETY: see above.
        let ints = || unsafe { self.api.attribute_elements::<i64>(attribute, kind) };
        // SAFETY: see above.
        let floats = || unsafe { self.api.attribute_elements::<f32>(attribute, kind) };
        Ok(match kind {
            INT => AttributeProto { i: ints()?.first().copied(), ..front(name, Int) },
            INTS => AttributeProto { ints: ints()?, ..front(name, Ints) },
            FLOAT => AttributeProto { f: floats()?.first().copied(), ..front(name, Float) },
            FLOATS => AttributeProto { floats: floats()?, ..front(name, Floats) },
            STRING => AttributeProto { s: Some(bytes()?), ..front(name, String) },
            STRINGS => AttributeProto { strings: texts(&bytes()?), ..front(name, Strings) },
            TENSOR => {
                // SAFETY: see above.
                let tensor = unsafe { self.api.attribute_tensor(attribute)? };
                AttributeProto { t: Some(tensor.to_proto("")), ..front(name, Tensor) }
            }
            _ => return Err(PluginError::Attribute { node: node.to_owned(), name }),
        })
    }

    /// Reads a subgraph in an attribute. The outer values that it reads do not become inputs.
    unsafe fn subgraph(&self, graph: *const OrtGraph) -> Result<GraphProto> {
        let mut proto = GraphProto::default();
        let mut tensors = HashMap::new();
        // SAFETY: here and below, the caller upholds the safety contract of this function.
        for value in unsafe { self.api.graph_inputs(graph)? } {
            // SAFETY: see above.
            proto.input.extend(unsafe { self.declared(value, &mut tensors)? });
        }
        // SAFETY: see above.
        for value in unsafe { self.api.graph_outputs(graph)? } {
            // SAFETY: see above.
            proto.output.extend(unsafe { self.declared(value, &mut tensors)? });
        }
        // SAFETY: see above.
        for value in unsafe { self.api.initializers(graph)? } {
            // SAFETY: see above.
            if let Some(data) = unsafe { self.api.initializer(value, self.elements)? } {
                // SAFETY: see above.
                proto.initializer.push(data.to_proto(&unsafe { self.name(value)? }));
            }
        }
        // SAFETY: see above.
        for node in unsafe { self.api.nodes(graph)? } {
            // SAFETY: see above.
            proto.node.push(unsafe { self.node(node)? });
        }
        Ok(proto)
    }
}

impl Read {
    /// Sets the outputs: the requested results, and the results that no node reads.
    fn finish(&mut self, wanted: &[String]) {
        let read = read_by(&self.proto.node, &self.captured);
        let wanted: HashSet<&str> = wanted.iter().map(String::as_str).collect();
        let is_output = |info: &&ValueInfoProto| wanted.contains(info.name()) || !read.contains(info.name());
        self.proto.output = self.proto.value_info.iter().filter(is_output).cloned().collect();
    }

    /// Sets the outputs in the order of `names`.
    pub(crate) fn set_outputs(&mut self, names: &[String]) -> Result<()> {
        let find = |name: &String| {
            let info = self.proto.value_info.iter().find(|info| info.name() == name);
            info.cloned().ok_or_else(|| PluginError::Missing { name: name.clone() })
        };
        self.proto.output = names.iter().map(find).collect::<Result<_>>()?;
        Ok(())
    }

    /// Replaces a node by a placeholder.
    pub(crate) fn set_outside(&mut self, at: usize) {
        let made: HashSet<String> = self.proto.node.iter().flat_map(|node| &node.output).cloned().collect();
        let captured = self.captured.get_mut(at).map(std::mem::take).unwrap_or_default();
        if let Some(node) = self.proto.node.get_mut(at) {
            let operands = std::mem::take(&mut node.input).into_iter().chain(captured).collect();
            *node = outside(operands, std::mem::take(&mut node.output), &made);
        }
    }

    /// Returns whether a node is a placeholder.
    pub(crate) fn is_outside(&self, at: usize) -> bool {
        self.proto.node.get(at).is_some_and(|node| node.domain() == OUTSIDE)
    }

    /// Keeps the nodes that `keep` selects. Results of removed nodes become inputs if they are read.
    pub(crate) fn keep(&mut self, keep: impl Fn(usize) -> bool) {
        retain(&mut self.proto.node, &keep);
        retain(&mut self.nodes, &keep);
        retain(&mut self.captured, &keep);
        let made: HashSet<&str> =
            self.proto.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        let infos = std::mem::take(&mut self.proto.value_info);
        let (inside, outside): (Vec<_>, Vec<_>) =
            infos.into_iter().partition(|info| made.contains(info.name()));
        self.proto.value_info = inside;
        self.proto.output.retain(|info| made.contains(info.name()));
        let read = read_by(&self.proto.node, &self.captured);
        self.proto.input.extend(outside.into_iter().filter(|info| read.contains(info.name())));
        let wanted: Vec<String> = self.proto.output.iter().map(|info| info.name().to_owned()).collect();
        self.finish(&wanted);
    }
}

/// Returns a placeholder with these results, and with those operands that are results of nodes.
fn outside(operands: Vec<String>, results: Vec<String>, made: &HashSet<String>) -> NodeProto {
    NodeProto {
        op_type: Some("Outside".to_owned()),
        domain: Some(OUTSIDE.to_owned()),
        input: operands.into_iter().filter(|name| made.contains(name)).collect(),
        output: results,
        ..Default::default()
    }
}

/// Returns the names of the values that nodes and their subgraphs read.
fn read_by<'a>(nodes: &'a [NodeProto], captured: &'a [Vec<String>]) -> HashSet<&'a str> {
    nodes.iter().flat_map(|node| &node.input).chain(captured.iter().flatten()).map(String::as_str).collect()
}

/// Removes surplus activations of an `RNN` with one direction. If a model has no activations, ONNX Runtime adds the default of the schema,
/// which is for two directions.
fn trim_activations(node: &mut NodeProto) {
    let bidirectional =
        node.attribute.iter().any(|a| a.name() == "direction" && a.s.as_deref() == Some(b"bidirectional"));
    if node.op_type() == "RNN" && !bidirectional {
        node.attribute.retain(|a| a.name() != "activations" || a.strings.len() != 2);
    }
}

/// Keeps the elements whose index `keep` selects.
fn retain<T>(list: &mut Vec<T>, keep: impl Fn(usize) -> bool) {
    let mut at = 0;
    list.retain(|_| {
        at += 1;
        keep(at - 1)
    });
}

/// Returns an attribute without a value.
fn front(name: String, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name), r#type: Some(kind.into()), ..Default::default() }
}

/// Splits a list of zero-terminated strings.
fn texts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let ended = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { ended.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect() }
}

/// Returns the type of a value as a protobuf message.
fn type_proto(ty: TensorType) -> Option<TypeProto> {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let TensorType::Tensor(dtype, extents) = ty else { return None };
    let dim = |extent: Extent| Dimension {
        value: match extent {
            Extent::Known(n) => Some(Value::DimValue(n)),
            Extent::Symbol(name) if name.is_empty() => None,
            Extent::Symbol(name) => Some(Value::DimParam(name)),
        },
        ..Default::default()
    };
    let shape =
        (!extents.is_empty()).then(|| TensorShapeProto { dim: extents.into_iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape };
    Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_zero_each() {
        assert_eq!(texts(b""), Vec::<Vec<u8>>::new());
        assert_eq!(texts(b"\0"), [b""]);
        assert_eq!(texts(b"one\0\0two\0"), [b"one".to_vec(), Vec::new(), b"two".to_vec()]);
    }

    #[test]
    fn what_a_left_out_node_made_becomes_an_input() {
        let info = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..Default::default() };
        let node = |from: &str, to: &str| NodeProto {
            input: vec![from.to_owned()],
            output: vec![to.to_owned()],
            ..Default::default()
        };
        let proto = GraphProto {
            node: vec![node("x", "a"), node("a", "b"), node("b", "c")],
            input: vec![info("x")],
            value_info: ["a", "b", "c"].map(info).to_vec(),
            ..Default::default()
        };
        let mut read = Read {
            proto,
            nodes: vec![std::ptr::null(); 3],
            captured: vec![Vec::new(); 3],
            ..Read::default()
        };
        read.finish(&[]);
        read.keep(|at| at != 1);
        let names =
            |infos: &[ValueInfoProto]| infos.iter().map(|info| info.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&read.proto.input), ["x", "b"]);
        assert_eq!(names(&read.proto.output), ["a", "c"]);
    }
}
