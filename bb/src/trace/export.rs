//! From a trace to ONNX: graphs of primitives in normal form, at the newest opset.

use super::recorded::{Operation, Recorded, Source, Step, ValueNo};
use super::{Traced, Tracer};
use crate::{Error, GraphIdentity};
use bb_ir::op::{Family, Param, Primitive};
use bb_ir::proto::{
    AttributeProto, GraphProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto, attribute_proto,
    tensor_shape_proto, type_proto,
};
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Runs a function on graph values and returns the ONNX graph of the primitives that it called.
///
/// Shapes: tracing is concrete; the graph holds for the extents given.
///
/// # Errors
///
/// The function's own; [`Error::NotConstant`] if it reads an element that is not constant.
///
/// # Examples
///
/// ```
/// use bb::{Backend, DataType};
/// # fn main() -> Result<(), bb::Error> {
/// let graph = bb::trace(&[("x", DataType::F32, &[2, 3])], |on, inputs| match inputs {
///     [x] => Ok(vec![on.exp(&on.neg(x)?)?]),
///     _ => Ok(vec![]),
/// })?;
/// let ops: Vec<&str> = graph.node.iter().map(|n| n.op_type()).collect();
/// assert_eq!(ops, ["Neg", "Exp"]);
/// # Ok(())
/// # }
/// ```
pub fn trace(
    inputs: &[(&str, DataType, &[usize])],
    function: impl FnOnce(&Tracer, &[Traced]) -> Result<Vec<Traced>, Error>,
) -> Result<GraphProto, Error> {
    let tracer = Tracer::default();
    let traced: Vec<Traced> = inputs
        .iter()
        .enumerate()
        .map(|(i, (_, dtype, shape))| tracer.input(i as u32, *dtype, shape, false, None))
        .collect();
    let outputs: Vec<ValueNo> = function(&tracer, &traced)?.iter().map(Traced::no).collect();
    let names: Vec<String> = inputs.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let output_names: Vec<String> = (0..outputs.len()).map(|i| format!("output_{i}")).collect();
    to_graph(&tracer.finish(), &names, &output_names, &outputs, &|_| None)
}

/// Writes a trace of primitives as a graph.
///
/// # Errors
///
/// [`Error::NotPrimitive`] if a step is no primitive, and what [`TensorData::prepare`] finds wrong with a weight.
pub(crate) fn to_graph(
    recorded: &Recorded,
    inputs: &[String],
    outputs: &[String],
    results: &[ValueNo],
    weight: &dyn Fn(u32) -> Option<TensorData>,
) -> Result<GraphProto, Error> {
    let mut writer = Writer { names: vec![None; recorded.values.len()], ..Writer::default() };
    writer.graph.name = Some("traced".to_owned());
    let live = live_steps(recorded, results);
    let mut used = vec![false; recorded.values.len()];
    let reads = recorded
        .steps
        .iter()
        .zip(&live)
        .filter(|(_, live)| **live)
        .flat_map(|(s, _)| s.inputs.iter().flatten());
    for &v in reads.chain(results) {
        if let Some(place) = used.get_mut(v as usize) {
            *place = true;
        }
    }
    for (no, value) in recorded.values.iter().enumerate() {
        match value.source {
            Source::Input(i) => {
                let Some(name) = inputs.get(i as usize) else { continue };
                writer.graph.input.push(value_info(name, value.dtype, &value.shape));
                writer.name(no as ValueNo, name.clone());
            }
            Source::Constant(i) if used.get(no) == Some(&true) => {
                if let Some(data) = recorded.constants.get(i as usize) {
                    writer.initializer(no as ValueNo, data, format!("constant_{i}"));
                }
            }
            Source::Weight(i) if used.get(no) == Some(&true) => {
                if let Some(data) = weight(i) {
                    data.prepare()?;
                    writer.initializer(no as ValueNo, &data, format!("weight_{i}"));
                }
            }
            Source::Constant(_) | Source::Weight(_) | Source::Step => {}
        }
    }
    // A result of a step takes its output's name; what is an input, a constant or named already is copied.
    let mut copied = Vec::new();
    for (name, &no) in outputs.iter().zip(results) {
        let step = recorded.values.get(no as usize).is_some_and(|v| v.source == Source::Step);
        if step && writer.names.get(no as usize).is_some_and(Option::is_none) {
            writer.name(no, name.clone());
        } else {
            copied.push((name, no));
        }
        if let Some(value) = recorded.values.get(no as usize) {
            writer.graph.output.push(value_info(name, value.dtype, &value.shape));
        }
    }
    for (step, _) in recorded.steps.iter().zip(&live).filter(|(_, live)| **live) {
        writer.step(step)?;
    }
    for (name, no) in copied {
        let from = writer.name_of(no);
        writer.graph.node.push(node("Identity", vec![from], vec![name.clone()], Vec::new()));
    }
    Ok(writer.graph)
}

/// Marks the steps that the results need.
fn live_steps(recorded: &Recorded, results: &[ValueNo]) -> Vec<bool> {
    let mut needed = vec![false; recorded.values.len()];
    let need = |needed: &mut Vec<bool>, v: ValueNo| {
        if let Some(place) = needed.get_mut(v as usize) {
            *place = true;
        }
    };
    results.iter().for_each(|&v| need(&mut needed, v));
    let mut live = vec![false; recorded.steps.len()];
    for (step, live) in recorded.steps.iter().zip(&mut live).rev() {
        if step.outputs.iter().any(|&v| needed.get(v as usize) == Some(&true)) {
            *live = true;
            step.inputs.iter().flatten().for_each(|&v| need(&mut needed, v));
        }
    }
    live
}

#[derive(Default)]
struct Writer {
    /// The names given so far, by value.
    names: Vec<Option<String>>,
    graph: GraphProto,
    literals: usize,
}

impl Writer {
    fn name(&mut self, no: ValueNo, name: String) {
        if let Some(place) = self.names.get_mut(no as usize) {
            *place = Some(name);
        }
    }

    fn name_of(&self, no: ValueNo) -> String {
        self.names.get(no as usize).cloned().flatten().unwrap_or_else(|| format!("value_{no}"))
    }

    fn initializer(&mut self, no: ValueNo, data: &TensorData, name: String) {
        self.graph.initializer.push(data.to_proto(&name));
        self.name(no, name);
    }

    /// Adds a parameter that ONNX has as an input.
    fn literal(&mut self, values: &[i64]) -> Result<String, Error> {
        let name = format!("parameter_{}", self.literals);
        self.literals += 1;
        self.graph.initializer.push(TensorData::new(&[values.len()], values)?.to_proto(&name));
        Ok(name)
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        let primitive = match step.operation {
            Operation::Row(spec) if spec.family == Family::Primitive => Primitive::from_index(spec.index),
            Operation::Row(_) | Operation::Host(_) => None,
        };
        let op = primitive.ok_or(Error::NotPrimitive { op: step.operation.name() })?;
        let mut inputs: Vec<String> =
            step.inputs.iter().map(|v| v.map_or_else(String::new, |v| self.name_of(v))).collect();
        let attributes = self.params(op, &step.params, &mut inputs)?;
        let outputs: Vec<String> = step.outputs.iter().map(|v| self.name_of(*v)).collect();
        self.graph.node.push(node(op.spec().name, inputs, outputs, attributes));
        Ok(())
    }

    /// Writes parameters as the newest schema has them: attributes, or inputs after the operands.
    fn params(
        &mut self,
        op: Primitive,
        params: &[Param<'_>],
        inputs: &mut Vec<String>,
    ) -> Result<Vec<AttributeProto>, Error> {
        let mut attributes = Vec::new();
        for (spec, param) in op.spec().params.iter().zip(params) {
            if is_input(op, spec.name) {
                let values: SmallVec<[i64; 8]> = match param {
                    Param::Ints(v) => v.iter().copied().collect(),
                    Param::Extents(v) => {
                        let values: Result<_, _> = v.iter().map(|&d| i64::try_from(d)).collect();
                        // An extent that wrapped to -1 would ask for whatever remains.
                        values.map_err(|_| bb_ir::Error::Overflow {
                            op: op.spec().method,
                            shape: v.as_ref().into(),
                        })?
                    }
                    _ => continue,
                };
                // Empty axes and steps mean what leaving them out means.
                let absent = values.is_empty() && matches!(spec.name, "axes" | "steps");
                let name = if absent { String::new() } else { self.literal(&values)? };
                inputs.push(name);
            } else if let Some(attribute) = attribute(spec.name, param) {
                attributes.push(attribute);
            }
        }
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        if op == Primitive::Reshape {
            // `shape` is final: 0 means zero.
            attributes.extend(attribute("allowzero", &Param::Int(1)));
        }
        Ok(attributes)
    }
}

/// Tells whether ONNX's newest schema has a parameter as an input.
fn is_input(op: Primitive, param: &str) -> bool {
    use Primitive::*;
    match op {
        ReduceSum | ReduceMean | ReduceMax | ReduceMin => param == "axes",
        Reshape | Squeeze | Unsqueeze | Slice => true,
        Split => param == "sizes",
        Add | Sub | Mul | Div | Neg | Abs | Sqrt | Pow | Exp | Log | MatMul | Transpose | Concat
        | Identity | Cast | Equal | Greater | Less | Where | Constant | Gather => false,
    }
}

/// Writes a parameter as an attribute; `None` where leaving it out says the same.
fn attribute(name: &str, param: &Param<'_>) -> Option<AttributeProto> {
    use attribute_proto::AttributeType as Type;
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let ty = match param {
        Param::Int(v) | Param::OptInt(Some(v)) => {
            proto.i = Some(*v);
            Type::Int
        }
        Param::Bool(v) => {
            proto.i = Some(i64::from(*v));
            Type::Int
        }
        Param::Type(v) | Param::OptType(Some(v)) => {
            proto.i = Some(i64::from(v.to_onnx()));
            Type::Int
        }
        Param::Float(v) | Param::OptFloat(Some(v)) => {
            proto.f = Some(*v as f32);
            Type::Float
        }
        Param::Ints(v) if v.is_empty() => return None,
        Param::Ints(v) => {
            proto.ints = v.to_vec();
            Type::Ints
        }
        Param::Extents(v) => {
            proto.ints = v.iter().map(|&d| d as i64).collect();
            Type::Ints
        }
        Param::Floats(v) => {
            proto.floats = v.iter().map(|&f| f as f32).collect();
            Type::Floats
        }
        Param::Round(v) => {
            proto.s = Some(v.name().as_bytes().to_vec());
            Type::String
        }
        Param::Text(v) => {
            proto.s = Some(v.as_bytes().to_vec());
            Type::String
        }
        Param::Data(v) => {
            proto.t = Some(v.to_proto(""));
            Type::Tensor
        }
        _ => return None,
    };
    proto.r#type = Some(ty as i32);
    Some(proto)
}

fn node(op: &str, input: Vec<String>, output: Vec<String>, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto { op_type: Some(op.to_owned()), input, output, attribute, ..NodeProto::default() }
}

fn value_info(name: &str, dtype: DataType, shape: &[usize]) -> ValueInfoProto {
    let dim = shape
        .iter()
        .map(|&d| tensor_shape_proto::Dimension {
            value: Some(tensor_shape_proto::dimension::Value::DimValue(d as i64)),
            ..Default::default()
        })
        .collect();
    typed(name, dtype, Some(TensorShapeProto { dim }))
}

fn typed(name: &str, dtype: DataType, shape: Option<TensorShapeProto>) -> ValueInfoProto {
    let tensor = type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

/// A graph of one node, with the names of what goes in and comes out.
#[derive(Debug)]
pub(crate) struct OneNode {
    pub(crate) graph: GraphProto,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// Set for a graph that is kept, which any but a constant's is.
    pub(crate) identity: Option<GraphIdentity>,
}

/// The element types and ranks that a one-node graph is for.
type Operands = SmallVec<[(DataType, usize); 3]>;
type Kept = HashMap<(Primitive, Operands), Vec<(Box<[Param<'static>]>, Arc<OneNode>)>>;

/// The most operand lists for which one-node graphs are kept.
const KEPT: usize = 4096;

/// Returns the graph of one primitive on operands of these element types and ranks.
///
/// The graph is made once for the same operation, operands and parameters.
///
/// # Errors
///
/// [`Error::Ir`] if the parameters are not those of the row.
pub(crate) fn one_node_graph(
    op: Primitive,
    operands: Operands,
    params: &[Param<'_>],
) -> Result<Arc<OneNode>, Error> {
    static GRAPHS: OnceLock<Mutex<Kept>> = OnceLock::new();
    if op == Primitive::Constant {
        return Ok(Arc::new(make(op, &operands, params, None)?));
    }
    let mut graphs = GRAPHS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if graphs.len() > KEPT {
        graphs.clear();
    }
    let same = graphs.entry((op, operands.clone())).or_default();
    if let Some((_, graph)) = same.iter().find(|(p, _)| p.as_ref() == params) {
        return Ok(graph.clone());
    }
    if same.len() > KEPT {
        same.clear();
    }
    let graph = Arc::new(make(op, &operands, params, Some(GraphIdentity::fresh()))?);
    same.push((params.iter().map(|p| p.clone().into_owned()).collect(), graph.clone()));
    Ok(graph)
}

fn make(
    op: Primitive,
    operands: &Operands,
    params: &[Param<'_>],
    identity: Option<GraphIdentity>,
) -> Result<OneNode, Error> {
    let mut writer = Writer::default();
    writer.graph.name = Some(op.spec().method.to_owned());
    let inputs: Vec<String> = (0..operands.len()).map(|i| format!("input_{i}")).collect();
    for (name, (dtype, rank)) in inputs.iter().zip(operands) {
        let dim = vec![tensor_shape_proto::Dimension::default(); *rank];
        writer.graph.input.push(typed(name, *dtype, Some(TensorShapeProto { dim })));
    }
    let parts = match (op, params) {
        (Primitive::Split, [_, Param::Extents(sizes)]) => sizes.len(),
        _ => 1,
    };
    let outputs: Vec<String> = (0..parts).map(|i| format!("output_{i}")).collect();
    let mut node_inputs = inputs.clone();
    let attributes = writer.params(op, params, &mut node_inputs)?;
    writer.graph.node.push(node(op.spec().name, node_inputs, outputs.clone(), attributes));
    writer.graph.output = outputs
        .iter()
        .map(|name| ValueInfoProto { name: Some(name.clone()), ..ValueInfoProto::default() })
        .collect();
    Ok(OneNode { graph: writer.graph, inputs, outputs, identity })
}
