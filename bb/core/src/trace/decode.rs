//! Decodes a node of a graph of primitives into the operation and its parameters. This is the inverse of
//! [`write`](super::write).

use super::write::is_input;
use crate::Error;
use bb_ir::op::{Arity, Param, ParamKind, ParamSpec, Primitive, RoundMode};
use bb_ir::opset::NEWEST;
use bb_ir::proto::{AttributeProto, GraphProto, NodeProto};
use bb_ir::{DataType, TensorData};
use std::borrow::Cow;

/// A decoded node of a graph of primitives: its operation, the names of its values, and its parameters.
///
/// [`decode`] creates it. A compiler may store it with the graph. [`call_primitive`](crate::call_primitive) accepts the
/// operation and the parameters unchanged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PrimitiveNode<'a> {
    /// The operation.
    pub op: Primitive,
    /// The names of the operands, in the order of the method's arguments.
    pub operands: Vec<&'a str>,
    /// The parameters, in the order of the method's arguments. A parameter that the node omits has ONNX's default.
    pub params: Vec<Param<'static>>,
    /// The names of the results.
    pub results: Vec<&'a str>,
}

/// Decodes a node of a graph of primitives. Backends for whole graphs get these graphs from `bb`.
///
/// ONNX writes some parameters as attributes and others as inputs that are initializers of the graph. Here all
/// parameters are [`Param`]s in the order of the method's arguments, and the operands are the remaining inputs.
///
/// # Errors
///
/// [`Error::Decode`] if the node is not a primitive, or is not in the form that `bb` writes.
///
/// # Examples
///
/// ```
/// use bb::Primitive;
/// use bb::ir::op::Param;
/// use bb::ir::proto::NodeProto;
/// use bb::{GraphProto, TensorData};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = GraphProto {
///     node: vec![NodeProto {
///         op_type: Some("ReduceSum".into()),
///         input: vec!["x".into(), "axes".into()],
///         output: vec!["y".into()],
///         ..NodeProto::default()
///     }],
///     initializer: vec![TensorData::new(&[1], &[-1i64])?.to_proto("axes")],
///     ..GraphProto::default()
/// };
/// let node = bb::decode(&graph.node[0], &graph)?;
/// assert_eq!((node.op, &node.operands[..]), (Primitive::ReduceSum, &["x"][..]));
/// // `keepdims` is left out, so that it has ONNX's default.
/// assert_eq!(node.params, [Param::Ints(vec![-1].into()), Param::Bool(true)]);
/// # Ok(())
/// # }
/// ```
pub fn decode<'a>(node: &'a NodeProto, graph: &GraphProto) -> Result<PrimitiveNode<'a>, Error> {
    let wrong = |part: &str, expected: &'static str| {
        let op = node.op_type.clone().unwrap_or_default();
        Error::Decode { op, part: part.to_owned(), expected }
    };
    let found = Primitive::from_name(node.op_type()).filter(|_| node.domain().is_empty());
    let op = found.ok_or_else(|| wrong("operator", "a primitive"))?;
    let spec = op.spec();
    let count = match spec.inputs {
        [(_, Arity::Tensors)] => node.input.len(),
        inputs => inputs.len(),
    };
    let split = node.input.split_at_checked(count);
    let (operands, inputs) = split.ok_or_else(|| wrong("inputs", "each operand"))?;
    if operands.iter().any(String::is_empty) {
        return Err(wrong("inputs", "each operand"));
    }
    let mut inputs = inputs.iter();
    let mut params = Vec::with_capacity(spec.params.len());
    for param in spec.params {
        let given = if is_input(op, param.name, NEWEST) {
            let name = inputs.next().filter(|name| !name.is_empty());
            name.map(|name| of_initializer(param, name, graph))
        } else {
            let named = node.attribute.iter().find(|attribute| attribute.name() == param.name);
            named.map(|attribute| of_attribute(param, attribute))
        };
        let value = given.unwrap_or_else(|| param.default.map(|default| default()));
        params.push(value.ok_or_else(|| wrong(param.name, param.kind.name()))?);
    }
    if inputs.next().is_some() {
        return Err(wrong("inputs", "no more than operands and parameters"));
    }
    for attribute in &node.attribute {
        // `bb` writes `allowzero=1`, because 0 in `shape` means an extent of 0. It is no parameter of the primitive, so
        // it is accepted here.
        let final_shape = op == Primitive::Reshape && attribute.name() == "allowzero" && attribute.i() == 1;
        let known = spec.params.iter().any(|p| p.name == attribute.name() && !is_input(op, p.name, NEWEST));
        if !known && !final_shape {
            return Err(wrong(attribute.name(), "no such attribute"));
        }
    }
    Ok(PrimitiveNode {
        op,
        operands: operands.iter().map(String::as_str).collect(),
        params,
        results: node.output.iter().map(String::as_str).collect(),
    })
}

fn of_attribute(param: &ParamSpec, attribute: &AttributeProto) -> Option<Param<'static>> {
    Some(match param.kind {
        ParamKind::Int => Param::Int(attribute.i?),
        ParamKind::Bool => Param::Bool(attribute.i? != 0),
        ParamKind::Ints => Param::Ints(Cow::Owned(attribute.ints.clone())),
        ParamKind::Type => Param::Type(DataType::from_onnx(i32::try_from(attribute.i?).ok()?)?),
        ParamKind::Round => {
            Param::Round(RoundMode::from_name(std::str::from_utf8(attribute.s.as_deref()?).ok()?)?)
        }
        ParamKind::Data => Param::Data(Cow::Owned(TensorData::from_proto(attribute.t.as_ref()?).ok()?)),
        _ => return None,
    })
}

/// Reads a parameter that ONNX passes as an input, from its initializer.
fn of_initializer(param: &ParamSpec, name: &str, graph: &GraphProto) -> Option<Param<'static>> {
    let proto = graph.initializer.iter().find(|proto| proto.name() == name)?;
    let data = TensorData::from_proto(proto).ok()?;
    let list = data.as_slice::<i64>().ok()?;
    Some(match param.kind {
        ParamKind::Ints => Param::Ints(Cow::Owned(list.to_vec())),
        ParamKind::Extents => {
            let extents: Result<_, _> = list.iter().map(|n| usize::try_from(*n)).collect();
            Param::Extents(Cow::Owned(extents.ok()?))
        }
        _ => return None,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::super::one_node_graph;
    use super::*;

    /// Returns calls of every primitive, with default and with other parameters.
    fn calls() -> Vec<(Primitive, usize, Vec<Param<'static>>)> {
        let ints = |values: &[i64]| Param::Ints(Cow::Owned(values.to_vec()));
        let extents = |values: &[usize]| Param::Extents(Cow::Owned(values.to_vec()));
        let data = TensorData::new(&[2], &[1.5f32, f32::INFINITY]).unwrap();
        let mut calls = Vec::new();
        for &op in Primitive::ALL {
            let operands = match op.spec().inputs {
                [(_, Arity::Tensors)] => 3,
                inputs => inputs.len(),
            };
            let lists: Vec<Vec<Param<'static>>> = match op {
                Primitive::ReduceSum
                | Primitive::ReduceMean
                | Primitive::ReduceMax
                | Primitive::ReduceMin => {
                    vec![vec![ints(&[]), Param::Bool(true)], vec![ints(&[-1, 0]), Param::Bool(false)]]
                }
                Primitive::Reshape => vec![vec![extents(&[])], vec![extents(&[0, 3])]],
                Primitive::Transpose => vec![vec![ints(&[])], vec![ints(&[1, 0])]],
                Primitive::Squeeze => vec![vec![ints(&[])], vec![ints(&[-2])]],
                Primitive::Unsqueeze => vec![vec![ints(&[])], vec![ints(&[0, 2])]],
                Primitive::Concat | Primitive::Gather => vec![vec![Param::Int(0)], vec![Param::Int(-1)]],
                Primitive::Slice => vec![
                    vec![ints(&[1]), ints(&[i64::MAX]), ints(&[]), ints(&[])],
                    vec![ints(&[1]), ints(&[0]), ints(&[]), ints(&[-1])],
                    vec![ints(&[1]), ints(&[2]), ints(&[-1]), ints(&[])],
                ],
                Primitive::Split => vec![vec![Param::Int(1), extents(&[2, 0, 1])]],
                Primitive::Cast => vec![vec![
                    Param::Type(DataType::F8E8M0),
                    Param::Bool(false),
                    Param::Round(RoundMode::Nearest),
                ]],
                Primitive::Constant => vec![vec![Param::Data(Cow::Owned(data.clone()))]],
                _ => vec![Vec::new()],
            };
            calls.extend(lists.into_iter().map(|params| (op, operands, params)));
        }
        calls
    }

    #[test]
    fn what_is_written_is_decoded() {
        for (op, operands, params) in calls() {
            let types = (0..operands).map(|_| (DataType::F32, 2)).collect();
            let written = one_node_graph(op, types, &params).unwrap();
            let node = decode(&written.graph.node[0], &written.graph).unwrap();
            assert_eq!((node.op, &node.params), (op, &params));
            assert_eq!(node.operands, written.inputs, "{op:?}");
            assert_eq!(node.results, written.outputs, "{op:?}");
        }
    }

    #[test]
    fn other_forms_are_errors() {
        let axes = TensorData::new(&[1], &[-1i64]).unwrap().to_proto("shape");
        let graph = GraphProto { initializer: vec![axes], ..GraphProto::default() };
        let node = |op: &str, inputs: &[&str]| NodeProto {
            op_type: Some(op.into()),
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            ..NodeProto::default()
        };
        let other = NodeProto { domain: Some("com.acme".into()), ..node("Add", &["a", "b"]) };
        let attribute = AttributeProto { name: Some("axis".into()), i: Some(1), ..AttributeProto::default() };
        let surplus = NodeProto { attribute: vec![attribute], ..node("Neg", &["x"]) };
        for (node, message) in [
            (node("Relu", &["x"]), "cannot decode `Relu`: expected a primitive as its operator"),
            (other, "cannot decode `Add`: expected a primitive as its operator"),
            (node("Add", &["a"]), "cannot decode `Add`: expected each operand as its inputs"),
            (
                node("Neg", &["x", "y"]),
                "cannot decode `Neg`: expected no more than operands and parameters as its inputs",
            ),
            (node("Concat", &["x", "y"]), "cannot decode `Concat`: expected an integer as its axis"),
            (node("Reshape", &["x", "shape"]), "cannot decode `Reshape`: expected extents as its shape"),
            (node("Reshape", &["x", "y"]), "cannot decode `Reshape`: expected extents as its shape"),
            (surplus, "cannot decode `Neg`: expected no such attribute as its axis"),
        ] {
            assert_eq!(decode(&node, &graph).unwrap_err().to_string(), message);
        }
    }
}
