//! Draws small models: calls of operators on each other's results, in branches and loops, and on sequences.
//!
//! Each step is kept if the model still passes the check, so that drawn models run.

use crate::attribute::{self, body, int, node};
use crate::draw::Draw;
use crate::fragment::{Fragment, is_number, opsets};
use bb::ir::graph::{Dim, ValueType};
use bb::ir::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::Dimension, tensor_shape_proto::dimension, type_proto,
};
use bb::{DataType, TensorData};
use bb_ir::check::{CheckOptions, check};
use std::collections::HashMap;

/// A model that passes the check, and elements for its inputs.
#[derive(Debug)]
pub struct Drawn {
    pub model: ModelProto,
    pub inputs: HashMap<String, TensorData>,
}

/// The state of a model that is being drawn.
struct Builder<'d, 'a> {
    draw: &'d mut Draw<'a>,
    options: CheckOptions<'static>,
    opsets: Vec<(String, i64)>,
    graph: GraphProto,
    inputs: HashMap<String, TensorData>,
    /// The values of the graph, with the types that were inferred.
    values: Vec<(String, ValueType)>,
    count: usize,
}

/// Draws a model.
pub fn draw(draw: &mut Draw<'_>) -> Drawn {
    let options =
        CheckOptions { limits: crate::limits(), operators: bb::onnx::OPERATORS, ..CheckOptions::default() };
    let graph = GraphProto { name: Some("drawn".to_owned()), ..GraphProto::default() };
    let mut builder = Builder {
        opsets: opsets(draw),
        draw,
        options,
        graph,
        inputs: HashMap::new(),
        values: Vec::new(),
        count: 0,
    };
    for _ in 0..1 + builder.draw.below(6) {
        builder.step();
    }
    builder.finish()
}

impl Builder<'_, '_> {
    fn model(&self) -> ModelProto {
        let opset = |(domain, version): &(String, i64)| OperatorSetIdProto {
            domain: Some(domain.clone()),
            version: Some(*version),
        };
        ModelProto {
            ir_version: Some(10),
            opset_import: self.opsets.iter().map(opset).collect(),
            graph: Some(self.graph.clone()),
            ..ModelProto::default()
        }
    }

    /// Adds something, and takes it back if the model does not pass the check with it.
    fn step(&mut self) {
        let before = (self.graph.clone(), self.inputs.clone());
        match self.draw.below(8) {
            0 => self.sequence(),
            1 => self.growth(),
            2 => self.optional(),
            _ => self.call(),
        }
        match check(&self.model(), &self.options) {
            Ok(checked) => {
                let graph = checked.graph;
                let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
                let all = graph.inputs.iter().chain(graph.constants.iter().map(|c| &c.0)).chain(made);
                let infos = all.filter_map(|value| graph.values.get(value.index()));
                self.values = infos.map(|info| (info.name.clone(), info.ty.clone())).collect();
            }
            Err(_) => (self.graph, self.inputs) = before,
        }
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    /// Draws a value of a type that passes the test.
    fn value(&mut self, fits: impl Fn(&ValueType) -> bool) -> Option<String> {
        let list: Vec<&String> =
            self.values.iter().filter(|(_, ty)| fits(ty)).map(|(name, _)| name).collect();
        self.draw.one(&list).map(|name| (*name).clone())
    }

    /// Adds a call of an operator, in the graph or in a body.
    fn call(&mut self) {
        let Some(mut fragment) = Fragment::draw(&self.opsets, self.draw) else { return };
        self.count += 1;
        fragment.rename(&format!("f{}_", self.count));
        for (name, data) in fragment.inputs.clone() {
            self.bind(&name, data, &mut fragment);
        }
        if self.draw.below(3) == 0 {
            self.spoil(&mut fragment.nodes);
        }
        for constant in std::mem::take(&mut fragment.constants) {
            let data = TensorData::from_proto(&constant);
            match data {
                // Shapes and counts that are known only at run time.
                Ok(data) if self.draw.below(6) == 0 => self.input(constant.name(), data),
                _ => self.graph.initializer.push(constant),
            }
        }
        match self.draw.below(8) {
            0 => self.branch(fragment),
            1 => self.repeat(fragment),
            2 => self.scan(fragment),
            _ => self.graph.node.extend(fragment.nodes),
        }
    }

    /// Assigns a value to a fragment's input: a result of another operator, an input of the graph, or a constant.
    fn bind(&mut self, name: &str, data: TensorData, fragment: &mut Fragment) {
        let like = |ty: &ValueType| match ty {
            ValueType::Tensor { dtype, shape: Some(shape) } => {
                *dtype == data.dtype() && shape.len() == data.shape().len()
            }
            _ => false,
        };
        if self.draw.below(3) > 0
            && let Some(value) = self.value(like)
        {
            fragment.replace(name, &value);
        } else if self.draw.below(3) > 0 {
            self.input(name, data);
        } else {
            self.graph.initializer.push(data.to_proto(name));
        }
    }

    /// Adds an input of the graph. Some of its extents are symbolic, the same for the same number.
    fn input(&mut self, name: &str, data: TensorData) {
        let dim = |extent: &usize, draw: &mut Draw<'_>| {
            let value = match draw.below(2) {
                0 => dimension::Value::DimValue(*extent as i64),
                _ => dimension::Value::DimParam(format!("d{extent}")),
            };
            Dimension { value: Some(value), ..Dimension::default() }
        };
        let shape = TensorShapeProto { dim: data.shape().iter().map(|d| dim(d, self.draw)).collect() };
        let tensor = type_proto::Tensor { elem_type: Some(data.dtype().to_onnx()), shape: Some(shape) };
        let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
        let info =
            ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() };
        self.graph.input.push(info);
        self.inputs.insert(name.to_owned(), data);
    }

    /// Adds a constant, or an input whose elements are known only at run time.
    fn given(&mut self, data: TensorData) -> String {
        let name = self.name();
        match self.draw.below(2) {
            0 => self.graph.initializer.push(data.to_proto(&name)),
            _ => self.input(&name, data),
        }
        name
    }

    /// Changes attributes, operands and operators.
    fn spoil(&mut self, nodes: &mut [NodeProto]) {
        let other = self.value(|_| true);
        let Some(node) = self.draw.one_mut(nodes) else { return };
        match self.draw.below(8) {
            0 => {
                let operators: Vec<_> = bb::onnx::operators().collect();
                if let Some(operator) = self.draw.one(&operators) {
                    node.op_type = Some(operator.name.to_owned());
                    node.domain = Some(operator.domain.to_owned());
                    node.attribute.clear();
                }
            }
            1 => {
                let drop = self.draw.below(3) == 0;
                if let Some(input) = self.draw.one_mut(&mut node.input) {
                    *input = other.filter(|_| !drop).unwrap_or_default();
                }
            }
            2 => {
                let schemas: Vec<_> =
                    bb_ir::opset::attributes(node.domain(), node.op_type(), i64::MAX).collect();
                if let Some(schema) = self.draw.one(&schemas) {
                    node.attribute.retain(|attribute| attribute.name() != schema.name);
                    node.attribute.extend(attribute::draw(schema.name, schema.kind, self.draw));
                }
            }
            _ => {
                if let Some(attribute) = self.draw.one_mut(&mut node.attribute) {
                    attribute::change(attribute, self.draw);
                }
            }
        }
    }

    /// Adds an `If` with a fragment in one branch.
    fn branch(&mut self, fragment: Fragment) {
        let condition = TensorData::bools(&[], &[self.draw.below(2) == 0]).expect("one element");
        let condition = self.given(condition);
        let mut other = fragment.clone();
        other.rename("else_");
        if self.draw.below(2) == 0 {
            self.spoil(&mut other.nodes);
        }
        // Renaming must not change the values that the branch captures.
        for (name, _) in &self.values {
            other.replace(&format!("else_{name}"), name);
        }
        for name in
            self.graph.initializer.iter().map(|x| x.name()).chain(self.graph.input.iter().map(|x| x.name()))
        {
            other.replace(&format!("else_{name}"), name);
        }
        let outputs: Vec<String> = fragment.outputs.iter().map(|name| format!("{name}_if")).collect();
        let mut node = node("If", &[&condition], &[]);
        node.output = outputs;
        node.attribute = vec![
            body("then_branch", &[], fragment.nodes, fragment.outputs),
            body("else_branch", &[], other.nodes, other.outputs),
        ];
        self.graph.node.push(node);
    }

    /// Adds a `Loop` around a fragment, whose results are stacked.
    fn repeat(&mut self, fragment: Fragment) {
        let count = self.draw.below(5) as i64;
        let count = if self.draw.below(12) == 0 { self.draw.int() } else { count };
        let count = self.given(TensorData::scalar(count));
        let [step, going, go_on] = [(); 3].map(|()| self.name());
        let mut nodes = fragment.nodes;
        nodes.push(node("Identity", &[&going], &[&go_on]));
        let mut node = node("Loop", &[&count, ""], &[]);
        node.output = fragment.outputs.iter().map(|name| format!("{name}_loop")).collect();
        let outputs = std::iter::once(go_on).chain(fragment.outputs).collect();
        node.attribute = vec![body("body", &[&step, &going], nodes, outputs)];
        self.graph.node.push(node);
    }

    /// Adds a `Scan` over a value, with a fragment in its body.
    fn scan(&mut self, fragment: Fragment) {
        let row =
            |ty: &ValueType| matches!(ty, ValueType::Tensor { shape: Some(shape), .. } if !shape.is_empty());
        let Some(over) = self.value(row) else { return };
        let [slice, kept] = [(); 2].map(|()| self.name());
        let mut nodes = fragment.nodes;
        nodes.push(node("Identity", &[&slice], &[&kept]));
        let mut node = node("Scan", &[&over], &[]);
        let outputs: Vec<String> = std::iter::once(kept).chain(fragment.outputs).collect();
        node.output = outputs.iter().map(|name| format!("{name}_scan")).collect();
        node.attribute = vec![body("body", &[&slice], nodes, outputs), int("num_scan_inputs", 1)];
        self.graph.node.push(node);
    }

    /// Adds operators on sequences.
    fn sequence(&mut self) {
        let Some(x) = self.value(|ty| matches!(ty, ValueType::Tensor { .. })) else { return };
        let known = self.value(|ty| matches!(ty, ValueType::Sequence(_)));
        let at = if self.draw.below(3) == 0 { self.draw.int() } else { self.draw.below(3) as i64 - 1 };
        let at = self.given(TensorData::scalar(at));
        let y = self.name();
        let made = match (self.draw.below(8), known) {
            (0, _) => node("SplitToSequence", &[&x], &[&y]),
            (1, Some(of)) => node("SequenceInsert", &[&of, &x, &at], &[&y]),
            (2, Some(of)) => node("SequenceErase", &[&of, &at], &[&y]),
            (3, Some(of)) => node("SequenceAt", &[&of, &at], &[&y]),
            (4, Some(of)) => node("SequenceLength", &[&of], &[&y]),
            (5, Some(of)) => {
                let axis = if self.draw.below(4) == 0 { self.draw.int() } else { 0 };
                let mut node = node("ConcatFromSequence", &[&of], &[&y]);
                node.attribute = vec![int("axis", axis), int("new_axis", self.draw.below(2) as i64)];
                node
            }
            (6, Some(of)) => {
                let [item, result] = [(); 2].map(|()| self.name());
                let op = ["Identity", "Neg", "Shape", "Abs"][self.draw.below(4)];
                let mut made = node("SequenceMap", &[&of], &[&y]);
                made.attribute =
                    vec![body("body", &[&item], vec![node(op, &[&item], &[&result])], vec![result])];
                made
            }
            _ => node("SequenceConstruct", &[&x, &x], &[&y]),
        };
        self.graph.node.push(made);
    }

    /// Adds a loop whose state doubles in each iteration: a tensor, a string or a sequence.
    fn growth(&mut self) {
        let Some(x) = self.value(|ty| matches!(ty, ValueType::Tensor { .. } | ValueType::Sequence(_))) else {
            return;
        };
        let count = [3, 40, 1000][self.draw.below(3)];
        let count = self.given(TensorData::scalar(count as i64));
        let [step, going, go_on, state, next, y] = [(); 6].map(|()| self.name());
        let ty =
            self.values.iter().find(|(name, _)| *name == x).map(|(_, ty)| ty.clone()).unwrap_or_default();
        let grown = match ty {
            ValueType::Sequence(_) => {
                let [first, zero] = [(); 2].map(|()| self.name());
                self.graph.initializer.push(TensorData::scalar(0i64).to_proto(&zero));
                vec![
                    node("SequenceAt", &[&state, &zero], &[&first]),
                    node("SequenceInsert", &[&state, &first], &[&next]),
                ]
            }
            ValueType::Tensor { dtype: DataType::String, .. } => {
                vec![node("StringConcat", &[&state, &state], &[&next])]
            }
            ValueType::Tensor { dtype, .. } if is_number(dtype) && self.draw.below(2) == 0 => {
                vec![node("Add", &[&state, &state], &[&next])]
            }
            _ => {
                let mut concat = node("Concat", &[&state, &state], &[&next]);
                concat.attribute = vec![int("axis", 0)];
                vec![concat]
            }
        };
        let mut nodes = grown;
        nodes.push(node("Identity", &[&going], &[&go_on]));
        let mut made = node("Loop", &[&count, "", &x], &[&y]);
        made.attribute = vec![body("body", &[&step, &going, &state], nodes, vec![go_on, next])];
        self.graph.node.push(made);
    }

    /// Adds operators on optionals.
    fn optional(&mut self) {
        let Some(x) = self.value(|_| true) else { return };
        let known = self.value(|ty| matches!(ty, ValueType::Optional(_)));
        let y = self.name();
        let made = match (self.draw.below(3), known) {
            (0, Some(of)) => node("OptionalGetElement", &[&of], &[&y]),
            (1, Some(of)) => node("OptionalHasElement", &[&of], &[&y]),
            _ => node("Optional", &[&x], &[&y]),
        };
        self.graph.node.push(made);
    }

    /// Declares outputs.
    fn finish(self) -> Drawn {
        let made: Vec<&String> =
            self.graph.node.iter().flat_map(|node| &node.output).filter(|o| !o.is_empty()).collect();
        let mut outputs: Vec<String> = made.iter().rev().take(3).map(|name| (*name).clone()).collect();
        if let Some(other) = self.draw.one(&made)
            && !outputs.contains(other)
        {
            outputs.push((*other).clone());
        }
        let port = |name: String| ValueInfoProto { name: Some(name), ..ValueInfoProto::default() };
        let output = outputs.into_iter().map(port).collect();
        let graph = GraphProto { output, ..self.graph.clone() };
        Drawn { model: ModelProto { graph: Some(graph), ..self.model() }, inputs: self.inputs }
    }
}

/// Returns an extent of an input: the present extent if it is known, otherwise a changed one.
pub fn extent(dim: &Dim, present: usize, changed: impl Fn(usize) -> usize) -> usize {
    match dim {
        Dim::Known(extent) => *extent,
        Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => changed(present),
    }
}
