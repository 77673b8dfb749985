//! The contents of a test case.

use super::Failure;
use bb_core::Error;
use bb_ir::opset;
use bb_ir::proto::{ModelProto, NodeProto, OperatorSetIdProto, TypeProto, type_proto};
use bb_ir::{DataType, Limits};
use prost::Message;
use std::collections::BTreeSet;
use std::path::Path;

/// An operator version in a case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaseOperator {
    /// The domain; empty for `ai.onnx`.
    pub domain: String,
    /// The operator, as in `ReduceSum`.
    pub name: String,
    /// The opset that introduced the version; if ONNX has no schema, the opset that the model imports.
    pub since: i64,
}

impl std::fmt::Display for CaseOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.domain.is_empty() {
            write!(f, "{} ", self.domain)?;
        }
        write!(f, "{} {}", self.name, self.since)
    }
}

/// The contents of a case's model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The operators, including those in subgraphs and functions.
    pub operators: BTreeSet<CaseOperator>,
    /// The distinct element types of the graph's inputs, in the order of the inputs. Tensors in sequences and optionals
    /// count, too.
    pub types: Vec<DataType>,
    /// Whether all inputs and outputs of the graph are tensors.
    pub tensors: bool,
    /// Whether the model has functions or subgraphs.
    pub nested: bool,
}

impl Contents {
    /// Reads the model of a case.
    ///
    /// # Errors
    ///
    /// [`Failure::Read`] and [`Failure::Content`].
    pub fn read(case: &Path) -> Result<Contents, Failure> {
        let path = case.join("model.onnx");
        let bytes = bb_ir::file::load(&path, &Limits::default()).map_err(Error::from)?;
        let model = ModelProto::decode(bytes).map_err(|source| Failure::Content {
            path,
            expected: "model",
            source: source.into(),
        })?;
        let ports = model.graph.iter().flat_map(|graph| graph.input.iter().chain(&graph.output));
        let mut types = Vec::new();
        for port in model.graph.iter().flat_map(|graph| &graph.input) {
            let elements = port.r#type.as_ref().and_then(elements).and_then(DataType::from_onnx);
            types.extend(elements.filter(|dtype| !types.contains(dtype)));
        }
        let mut contents = Contents {
            operators: BTreeSet::new(),
            types,
            tensors: ports.into_iter().all(|port| port.r#type.as_ref().is_none_or(is_tensor)),
            nested: !model.functions.is_empty(),
        };
        let mut open: Vec<&[NodeProto]> = model.functions.iter().map(|f| &*f.node).collect();
        open.extend(model.graph.iter().map(|graph| &*graph.node));
        while let Some(nodes) = open.pop() {
            contents.nodes(&model, nodes, &mut open);
        }
        Ok(contents)
    }

    /// Records the operators of nodes. Appends the nodes of their subgraphs to `open`.
    fn nodes<'a>(&mut self, model: &ModelProto, nodes: &'a [NodeProto], open: &mut Vec<&'a [NodeProto]>) {
        for node in nodes {
            let domain = opset::domain_name(node.domain());
            let mut functions = model.functions.iter();
            if !functions.any(|f| opset::domain_name(f.domain()) == domain && f.name() == node.op_type()) {
                let named = |o: &&OperatorSetIdProto| opset::domain_name(o.domain()) == domain;
                let imported = model.opset_import.iter().find(named).map_or(0, |o| o.version());
                self.operators.insert(CaseOperator {
                    domain: domain.to_owned(),
                    name: node.op_type().to_owned(),
                    since: opset::since(domain, node.op_type(), imported).unwrap_or(imported),
                });
            }
            let before = open.len();
            open.extend(node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs)).map(|g| &*g.node));
            self.nested |= open.len() > before;
        }
    }
}

fn is_tensor(ty: &TypeProto) -> bool {
    matches!(ty.value, None | Some(type_proto::Value::TensorType(_)))
}

/// Returns the ONNX number of the element type of tensors, also of tensors in sequences and optionals; `None` for maps and
/// values without a type.
fn elements(mut ty: &TypeProto) -> Option<i32> {
    loop {
        ty = match ty.value.as_ref()? {
            type_proto::Value::TensorType(tensor) => return Some(tensor.elem_type()),
            type_proto::Value::SparseTensorType(tensor) => return Some(tensor.elem_type()),
            type_proto::Value::SequenceType(of) => of.elem_type.as_deref()?,
            type_proto::Value::OptionalType(of) => of.elem_type.as_deref()?,
            _ => return None,
        };
    }
}
