//! Converts the nodes of a graph to calls of primitives.

use bb::{Primitive, TensorData};
use bb_ir::graph::{Attribute, Graph, Node, ValueId};
use bb_ir::op::{Arity, OpSpec, Param, ParamKind, ParamSpec, RoundMode};
use std::borrow::Cow;

/// A call of a primitive.
pub(super) struct PrimitiveCall {
    pub(super) op: Primitive,
    pub(super) inputs: Vec<ValueId>,
    pub(super) params: Vec<Param<'static>>,
    pub(super) outputs: Vec<ValueId>,
}

/// Returns the internal error for a case that the callers of this module exclude.
#[cold]
pub(super) fn excluded(expected: &'static str) -> bb::Error {
    bb::Error::excluded(expected)
}

/// Returns the steps of a graph, or `None` if a node is not a primitive.
///
/// # Errors
///
/// An internal error if a parameter of a primitive is missing, or its kind differs from the op table.
pub(super) fn of(graph: &Graph) -> Result<Option<Vec<PrimitiveCall>>, bb::Error> {
    let primitive = |node: &Node| Primitive::from_name(&node.op_type).filter(|_| node.domain.is_empty());
    let mut steps = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let Some(op) = primitive(node) else { return Ok(None) };
        steps.push(step(graph, node, op)?);
    }
    Ok(Some(steps))
}

fn step(graph: &Graph, node: &Node, op: Primitive) -> Result<PrimitiveCall, bb::Error> {
    let spec = op.spec();
    let operands = match spec.inputs {
        [(_, Arity::Tensors)] => node.inputs.len(),
        operands => operands.len(),
    };
    // The inputs after the operands are parameters, because ONNX passes some parameters as inputs.
    let (operands, mut rest) = node.inputs.split_at_checked(operands).ok_or_else(|| missing(spec))?;
    let mut params = Vec::with_capacity(spec.params.len());
    for param in spec.params {
        let found = match node.attributes.get(param.name) {
            Some(attribute) => Some(of_attribute(param, attribute)),
            None if matches!(param.kind, ParamKind::Ints | ParamKind::Extents) => {
                let given = rest.split_off_first().copied().flatten();
                given.map(|value| of_constant(graph, param, value))
            }
            None if param.kind == ParamKind::Data => {
                node.attributes.get("value").map(|a| of_attribute(param, a))
            }
            None => None,
        };
        let made = match found {
            Some(found) => found,
            None => param.default.map(|default| default()),
        };
        params.push(made.ok_or_else(|| missing(spec))?);
    }
    let all = |values: &[Option<ValueId>]| values.iter().copied().collect::<Option<Vec<ValueId>>>();
    Ok(PrimitiveCall {
        op,
        inputs: all(operands).ok_or_else(|| missing(spec))?,
        params,
        outputs: all(&node.outputs).ok_or_else(|| missing(spec))?,
    })
}

#[cold]
fn missing(spec: &OpSpec) -> bb::Error {
    bb::Error::Operand { op: spec.method, index: spec.inputs.len(), expected: "what its row says" }
}

fn of_attribute(param: &ParamSpec, attribute: &Attribute) -> Option<Param<'static>> {
    Some(match (param.kind, attribute) {
        (ParamKind::Int, Attribute::Int(n)) => Param::Int(*n),
        (ParamKind::Bool, Attribute::Int(n)) => Param::Bool(*n != 0),
        (ParamKind::Ints, Attribute::Ints(list)) => Param::Ints(Cow::Owned(list.clone())),
        (ParamKind::Type, Attribute::Int(n)) => {
            Param::Type(bb::DataType::from_onnx(i32::try_from(*n).ok()?)?)
        }
        (ParamKind::Round, Attribute::Text(word)) => {
            Param::Round(RoundMode::from_name(std::str::from_utf8(word).ok()?)?)
        }
        (ParamKind::Data, Attribute::Tensor(data)) => Param::Data(Cow::Owned(data.clone())),
        _ => return None,
    })
}

/// Reads a parameter that ONNX passes as an input. The input is an initializer.
fn of_constant(graph: &Graph, param: &ParamSpec, value: ValueId) -> Option<Param<'static>> {
    let (_, data): &(ValueId, TensorData) =
        graph.constants.iter().find(|(constant, _)| *constant == value)?;
    let list = data.as_slice::<i64>().ok()?;
    Some(match param.kind {
        ParamKind::Extents => {
            let extents = list.iter().map(|n| usize::try_from(*n));
            Param::Extents(Cow::Owned(extents.collect::<Result<_, _>>().ok()?))
        }
        _ => Param::Ints(Cow::Owned(list.to_vec())),
    })
}
