//! Converts a part of a graph to the serialized model that an engine loads.

use crate::engine::{PortType, Signature};
use crate::error::Refusal;
use bb_ir::graph::{Graph, ValueId};
use bb_ir::opset;
use bb_ir::proto::{ModelProto, OperatorSetIdProto, TypeProto, type_proto};
use prost::Message;
use std::collections::BTreeMap;

/// The version of ONNX's file format: the oldest version with all element types that engines support.
const IR_VERSION: i64 = 10;

/// Serializes a graph as a model.
///
/// # Errors
///
/// [`Refusal::Opset`] if no opset up to `newest` defines all nodes as their own opsets do; [`Refusal::Weight`] for a damaged
/// weight.
pub(crate) fn message(graph: &Graph, newest: i64) -> Result<Vec<u8>, Refusal> {
    let opsets = opsets(graph, newest)?;
    let mut proto = graph.to_proto().map_err(|error| Refusal::Weight(Box::new(error)))?;
    // The caller passes a value for every input, so remove the default values of inputs.
    let inputs: Vec<String> = proto.input.iter().map(|input| input.name().to_owned()).collect();
    proto.initializer.retain(|constant| !inputs.iter().any(|input| input == constant.name()));
    // The shapes that a model declares for its results may be wrong, and engines would refuse the model, so remove them.
    proto.output.iter_mut().for_each(|output| forget_shapes(output.r#type.as_mut()));
    if proto.name().is_empty() {
        proto.name = Some("graph".to_owned());
    }
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("bb".to_owned()),
        opset_import: opsets,
        graph: Some(proto),
        ..ModelProto::default()
    };
    Ok(model.encode_to_vec())
}

/// The opset of `ai.onnx` for a graph that uses no operators of that domain.
const PLAIN: i64 = 21;

/// The operators that a graph uses and the opsets that they are written for, by domain.
type Used<'a> = BTreeMap<&'a str, Vec<(&'a str, i64)>>;

/// Finds, for each domain, an opset that defines all nodes of a graph as their own opsets do.
fn opsets(graph: &Graph, newest: i64) -> Result<Vec<OperatorSetIdProto>, Refusal> {
    let mut used = Used::from([("", Vec::new())]);
    collect(graph, &mut used);
    let mut opsets = Vec::with_capacity(used.len());
    for (domain, nodes) in used {
        // If an operator of a domain is not in the opset tables, its version is taken to be the opset itself.
        let since = |op: &str, opset: i64| opset::since(domain, op, opset).unwrap_or(opset);
        let needed = nodes.iter().map(|(op, opset)| since(op, *opset)).max();
        let version = needed.unwrap_or(if domain.is_empty() { PLAIN } else { 1 });
        // Engines support old opsets less well, so prefer a newer opset if it defines all nodes in the same way.
        let asked = nodes.iter().map(|(_, opset)| *opset).max().unwrap_or(version);
        let limit = if domain.is_empty() { newest } else { i64::MAX };
        let fits = |at: i64| at <= limit && nodes.iter().all(|(op, own)| since(op, at) == since(op, *own));
        let found = [asked, asked.min(limit), version].into_iter().find(|at| fits(*at));
        let refused = || {
            let newest_op = nodes.iter().max_by_key(|(op, opset)| since(op, *opset));
            let op = newest_op.map(|(op, _)| (*op).to_owned()).unwrap_or_default();
            let domain = if domain.is_empty() { "ai.onnx" } else { domain }.to_owned();
            Refusal::Opset { domain, op, newest: limit }
        };
        let version = found.ok_or_else(refused)?;
        opsets.push(OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) });
    }
    Ok(opsets)
}

fn collect<'a>(graph: &'a Graph, used: &mut Used<'a>) {
    for node in &graph.nodes {
        used.entry(&node.domain).or_default().push((&node.op_type, node.opset));
        node.subgraphs().for_each(|inner| collect(inner, used));
    }
}

/// Removes the shapes of the tensors of a type.
fn forget_shapes(ty: Option<&mut TypeProto>) {
    match ty.and_then(|ty| ty.value.as_mut()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor.shape = None,
        Some(type_proto::Value::SequenceType(of)) => forget_shapes(of.elem_type.as_deref_mut()),
        Some(type_proto::Value::OptionalType(of)) => forget_shapes(of.elem_type.as_deref_mut()),
        _ => {}
    }
}

/// Returns the names and types of a graph's inputs and outputs.
///
/// # Errors
///
/// [`Refusal::Type`] if `passes` reports that the engine does not support an element type; [`Refusal::NotTensor`] if it does
/// not support the structure of a value, or the type is not known.
pub(crate) fn signature(graph: &Graph, passes: impl Fn(&PortType) -> bool) -> Result<Signature, Refusal> {
    let of = |values: &[ValueId]| {
        let one = |&value: &ValueId| {
            let name = graph.name_of(value).to_owned();
            let ty = graph.values.get(value.index()).and_then(|info| PortType::of(&info.claimed()));
            let Some(ty) = ty else { return Err(Refusal::NotTensor { value: name }) };
            let dtype = ty.dtype();
            match (passes(&ty), passes(&PortType::Tensor(dtype))) {
                (true, _) => Ok((name, ty)),
                (false, true) => Err(Refusal::NotTensor { value: name }),
                (false, false) => Err(Refusal::Type { value: name, dtype }),
            }
        };
        values.iter().map(one).collect::<Result<Vec<_>, _>>()
    };
    Ok(Signature { inputs: of(&graph.inputs)?, outputs: of(&graph.outputs)? })
}
