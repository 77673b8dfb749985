//! Converts a model to ONNX as it was authored, with its functions inlined.

use super::options::least_ir_version;
use crate::{Error, Module};
use bb_ir::DataType;
use bb_ir::check::{CheckOptions, check};
use bb_ir::graph::{Attribute, Graph, ValueType};
use bb_ir::proto::{GraphProto, ModelProto};

/// Converts a checked model to ONNX with its functions inlined. Nodes, opsets and control flow stay as they are.
///
/// # Errors
///
/// [`Error::Ir`] if the functions were written for other opsets than the model, because a graph has only one opset for each
/// domain; [`ModelTrace::of_module`](super::ModelTrace::of_module) lowers these models.
pub fn inlined(module: &Module) -> Result<ModelProto, Error> {
    let graph = module.graph();
    let (mut proto, opset_import) = (graph.to_proto()?, graph.opsets()?);
    without_prepared(&mut proto);
    // ONNX's checker refuses a graph without a name.
    if proto.name().is_empty() {
        proto.name = Some("inlined".to_owned());
    }
    let mut dtypes = Vec::new();
    collect(graph, &mut dtypes);
    let model = ModelProto {
        // The graph may have optional types, which exist since version 8.
        ir_version: Some(least_ir_version(dtypes.into_iter()).max(8)),
        opset_import,
        producer_name: Some("bb".to_owned()),
        producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        graph: Some(proto),
        ..ModelProto::default()
    };
    check(&model, &CheckOptions { operators: crate::operator::OPERATORS, ..CheckOptions::default() })?;
    Ok(model)
}

/// Removes the attributes that [`Module::new`] added to nodes. The recursion is bounded, because the graph was checked.
fn without_prepared(graph: &mut GraphProto) {
    for node in &mut graph.node {
        node.attribute
            .retain(|attribute| !crate::operator::added_attributes().any(|added| added == attribute.name()));
        for attribute in &mut node.attribute {
            attribute.g.iter_mut().chain(&mut attribute.graphs).for_each(without_prepared);
        }
    }
}

/// Collects the element types of a graph. The recursion is bounded, because the graph was checked.
fn collect(graph: &Graph, dtypes: &mut Vec<DataType>) {
    let of = |ty: &ValueType| if let ValueType::Tensor { dtype, .. } = ty { Some(*dtype) } else { None };
    dtypes.extend(graph.values.iter().filter_map(|value| of(&value.ty)));
    dtypes.extend(graph.constants.iter().map(|(_, data)| data.dtype()));
    for (_, attribute) in graph.nodes.iter().flat_map(|node| node.attributes.iter()) {
        match attribute {
            Attribute::Graph(inner) => collect(inner, dtypes),
            Attribute::Graphs(inner) => inner.iter().for_each(|graph| collect(graph, dtypes)),
            Attribute::Tensor(data) => dtypes.push(data.dtype()),
            _ => {}
        }
    }
}
