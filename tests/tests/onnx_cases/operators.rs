//! Which operators a case needs.

use bb::Primitive;
use bb::ir::proto::{GraphProto, ModelProto, NodeProto, TypeProto, type_proto};
use prost::Message;
use std::collections::BTreeSet;
use std::path::Path;

/// What a case is made of.
pub(crate) struct Contents {
    /// Domain, name and opset of each operator, those of subgraphs and functions included.
    operators: BTreeSet<(String, String, i64)>,
    /// Whether the graph takes and returns tensors only.
    tensors: bool,
    /// Whether the model has functions or subgraphs.
    nested: bool,
}

impl Contents {
    pub(crate) fn read(case: &Path) -> Contents {
        let model = ModelProto::decode(&*std::fs::read(case.join("model.onnx")).unwrap()).unwrap();
        let mut contents =
            Contents { operators: BTreeSet::new(), tensors: true, nested: !model.functions.is_empty() };
        if let Some(graph) = &model.graph {
            contents.tensors =
                graph.input.iter().chain(&graph.output).all(|v| v.r#type.as_ref().is_none_or(is_tensor));
            contents.graph(&model, graph);
        }
        for function in &model.functions {
            contents.nodes(&model, &function.node);
        }
        contents
    }

    /// Tells whether the graph is one of primitives, from tensors to tensors.
    pub(crate) fn primitives_only(&self) -> bool {
        let primitive = |(domain, name, _): &(String, String, i64)| {
            domain.is_empty() && Primitive::from_name(name).is_some()
        };
        self.tensors && !self.nested && self.operators.iter().all(primitive)
    }

    fn graph(&mut self, model: &ModelProto, graph: &GraphProto) {
        self.nodes(model, &graph.node);
    }

    fn nodes(&mut self, model: &ModelProto, nodes: &[NodeProto]) {
        for node in nodes {
            let local =
                model.functions.iter().any(|f| f.domain() == node.domain() && f.name() == node.op_type());
            if !local {
                let named = |o: &&bb::ir::proto::OperatorSetIdProto| o.domain() == node.domain();
                let opset = model.opset_import.iter().find(named).map_or(0, |o| o.version());
                self.operators.insert((node.domain().to_owned(), node.op_type().to_owned(), opset));
            }
            for graph in node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs)) {
                self.nested = true;
                self.graph(model, graph);
            }
        }
    }
}

fn is_tensor(ty: &TypeProto) -> bool {
    matches!(ty.value, None | Some(type_proto::Value::TensorType(_)))
}
