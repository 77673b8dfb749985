//! Builds a graph node by node.

use crate::Error;
use bb::ir::proto::{
    AttributeProto, GraphProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TypeProto, ValueInfoProto, attribute_proto, tensor_proto, tensor_shape_proto, type_proto,
};
use bb::ir::proto::{TensorShapeProto, tensor_shape_proto::Dimension};
use bb::{DataType, Module, TensorData};
use bb_ir::proto::ExternalData;
use std::collections::HashMap;

const MICROSOFT: &str = "com.microsoft";
/// The opset of the operators in the graph.
const OPSET: i64 = 24;

/// An extent of an input: a number, or the name of a symbolic dimension.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    Number(usize),
    Name(&'static str),
}

/// A graph that is being built.
#[derive(Debug, Default)]
pub(super) struct Builder {
    graph: GraphProto,
    /// The constants by name. The graph refers to them by name only, so that data that are computed on demand are not
    /// computed here.
    constants: HashMap<String, TensorData>,
    count: usize,
    /// The names of the small constants, by their value as text.
    small: HashMap<String, String>,
}

impl Builder {
    fn fresh(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}_{}", self.count)
    }

    /// Adds an input.
    pub(super) fn input(&mut self, name: &str, dtype: DataType, extents: &[Extent]) -> String {
        self.graph.input.push(value(name, dtype, extents));
        name.to_owned()
    }

    /// Makes a value an output with this name.
    pub(super) fn output(&mut self, name: &str, from: &str) {
        self.named("Identity", "", &[from], &[], vec![name.to_owned()]);
        self.graph.output.push(ValueInfoProto { name: Some(name.to_owned()), ..Default::default() });
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, name: &str, data: &TensorData) -> Result<String, Error> {
        let name = self.fresh(name);
        let location = StringStringEntryProto { key: Some("location".to_owned()), value: Some(name.clone()) };
        self.graph.initializer.push(TensorProto {
            name: Some(name.clone()),
            data_type: Some(data.dtype().to_onnx()),
            dims: data.shape().iter().map(|&extent| extent as i64).collect(),
            data_location: Some(tensor_proto::DataLocation::External as i32),
            external_data: vec![location],
            ..Default::default()
        });
        self.constants.insert(name.clone(), data.clone());
        Ok(name)
    }

    /// Adds a constant of floats.
    pub(super) fn floats(&mut self, shape: &[usize], numbers: Vec<f32>) -> Result<String, Error> {
        let data = TensorData::new(shape, &numbers)?;
        drop(numbers);
        self.constant("floats", &data)
    }

    /// Adds a constant vector of integers, or returns the name of an equal one.
    pub(super) fn numbers(&mut self, numbers: &[i64]) -> Result<String, Error> {
        self.once(format!("{numbers:?}"), &TensorData::new(&[numbers.len()], numbers)?)
    }

    /// Adds a constant float, or returns the name of an equal one.
    pub(super) fn float(&mut self, number: f32) -> Result<String, Error> {
        self.once(format!("{number:?}"), &TensorData::new(&[], &[number])?)
    }

    fn once(&mut self, key: String, data: &TensorData) -> Result<String, Error> {
        if let Some(name) = self.small.get(&key) {
            return Ok(name.clone());
        }
        let name = self.constant("numbers", data)?;
        self.small.insert(key, name.clone());
        Ok(name)
    }

    fn named(
        &mut self,
        op: &str,
        domain: &str,
        operands: &[&str],
        attributes: &[(&str, i64)],
        output: Vec<String>,
    ) {
        let attribute = |&(name, number): &(&str, i64)| AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(attribute_proto::AttributeType::Int as i32),
            i: Some(number),
            ..Default::default()
        };
        self.graph.node.push(NodeProto {
            name: output.first().cloned(),
            op_type: Some(op.to_owned()),
            domain: Some(domain.to_owned()),
            input: operands.iter().map(|&name| name.to_owned()).collect(),
            output,
            attribute: attributes.iter().map(attribute).collect(),
            ..Default::default()
        });
    }

    fn added(&mut self, op: &str, domain: &str, operands: &[&str], attributes: &[(&str, i64)]) -> String {
        let name = self.fresh(op);
        self.named(op, domain, operands, attributes, vec![name.clone()]);
        name
    }

    /// Adds a node of ONNX's domain with one result.
    pub(super) fn node(&mut self, op: &str, operands: &[&str], attributes: &[(&str, i64)]) -> String {
        self.added(op, "", operands, attributes)
    }

    /// Adds a node of ONNX Runtime's domain with one result.
    pub(super) fn microsoft(&mut self, op: &str, operands: &[&str], attributes: &[(&str, i64)]) -> String {
        self.added(op, MICROSOFT, operands, attributes)
    }

    /// Adds `RMSNormalization` over the last dimension.
    pub(super) fn rms_norm(&mut self, x: &str, scale: &str, epsilon: f32) -> String {
        let name = self.node("RMSNormalization", &[x, scale], &[("axis", -1)]);
        if let Some(node) = self.graph.node.last_mut() {
            node.attribute.push(AttributeProto {
                name: Some("epsilon".to_owned()),
                r#type: Some(attribute_proto::AttributeType::Float as i32),
                f: Some(epsilon),
                ..Default::default()
            });
        }
        name
    }

    /// Adds a string attribute to the last node.
    pub(super) fn with_text(&mut self, name: &str, text: &str) {
        if let Some(node) = self.graph.node.last_mut() {
            node.attribute.push(AttributeProto {
                name: Some(name.to_owned()),
                r#type: Some(attribute_proto::AttributeType::String as i32),
                s: Some(text.as_bytes().to_vec()),
                ..Default::default()
            });
        }
    }

    /// Slices the dimension `axis`.
    pub(super) fn slice(&mut self, x: &str, axis: i64, from: i64, to: i64) -> Result<String, Error> {
        let [from, to, axis] = [self.numbers(&[from])?, self.numbers(&[to])?, self.numbers(&[axis])?];
        Ok(self.node("Slice", &[x, &from, &to, &axis], &[]))
    }

    /// Reshapes a value. A 0 in `shape` keeps the extent of the input.
    pub(super) fn reshape(&mut self, x: &str, shape: &[i64]) -> Result<String, Error> {
        let shape = self.numbers(shape)?;
        Ok(self.node("Reshape", &[x, &shape], &[]))
    }

    /// Checks the graph and returns it as a module.
    pub(super) fn finish(mut self) -> Result<Module, Error> {
        self.graph.name = Some("decoder".to_owned());
        let opset = |domain: &str, version| OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        let constants = ExternalData::of_tensors(self.constants);
        let opsets = [opset("", OPSET), opset(MICROSOFT, 1)];
        Ok(Module::from_graph_with(&self.graph, &opsets, &[], Some(&constants))?)
    }
}

/// Returns the declaration of an input.
fn value(name: &str, dtype: DataType, extents: &[Extent]) -> ValueInfoProto {
    let dim = |extent: &Extent| Dimension {
        value: Some(match extent {
            Extent::Number(n) => tensor_shape_proto::dimension::Value::DimValue(*n as i64),
            Extent::Name(name) => tensor_shape_proto::dimension::Value::DimParam((*name).to_owned()),
        }),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(dtype.to_onnx()),
        shape: Some(TensorShapeProto { dim: extents.iter().map(dim).collect() }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() }),
        ..Default::default()
    }
}
