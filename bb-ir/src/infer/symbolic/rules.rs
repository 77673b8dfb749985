//! Applies the rule of each primitive to extents that may be unknown.

use super::contents::{Entry, Given, given};
use super::dims::known;
use super::parts::{concat, gather, slice, split};
use super::{Facts, shape_of};
use crate::graph::{Attribute, Dim, Node, ValueType};
use crate::infer::{self, Extent, Target, broadcast, current};
use crate::op::{Param, Primitive};
use crate::{DataType, Error};

/// The extents of a result; `None` if the rule does not determine them.
pub(super) type Shaped = Option<Vec<Dim>>;

/// Returns the types of a node's results, as far as the rules determine them; an empty list if they do
/// not.
pub(super) fn results(node: &Node, facts: &Facts) -> Result<Vec<ValueType>, Error> {
    let Some(op) = Primitive::from_name(&node.op_type) else { return Ok(Vec::new()) };
    if let (Primitive::Identity, other) = (op, facts.ty(node, 0)) {
        return Ok(vec![other.clone()]);
    }
    let dtype = dtype(op, node, facts)?;
    let tensor = |shape| dtype.map_or(ValueType::Unknown, |dtype| ValueType::Tensor { dtype, shape });
    if op == Primitive::Split {
        return Ok(split(node, facts)?.into_iter().map(tensor).collect());
    }
    Ok(vec![tensor(shape(op, node, facts)?)])
}

/// Returns the element type of a primitive's results.
fn dtype(op: Primitive, node: &Node, facts: &Facts) -> Result<Option<DataType>, Error> {
    // In newer versions, the inputs after the operands are parameters.
    let operands = match op {
        Primitive::Concat => node.inputs.len(),
        _ => op.spec().inputs.len(),
    };
    let mut types = Vec::with_capacity(operands);
    for input in 0..operands {
        match facts.ty(node, input) {
            ValueType::Tensor { dtype, .. } => types.push(*dtype),
            _ => return Ok(None),
        }
    }
    let params = match op {
        Primitive::Cast => {
            // In the first version, the attribute is the name of the type.
            let Ok(Some(to)) = node.attributes.int("to") else {
                return Ok(None);
            };
            let number = i32::try_from(to).unwrap_or(-1);
            vec![Param::Type(DataType::from_onnx(number).ok_or(Error::UnknownDataType { number })?)]
        }
        Primitive::Constant => return Ok(constant(node).map(|c| c.0)),
        _ => Vec::new(),
    };
    infer::dtype(op, &types, &params).map(Some)
}

/// Returns the element type and the extents of a `Constant` node.
fn constant(node: &Node) -> Option<(DataType, Vec<Dim>)> {
    Some(match node.attributes.iter().find(|(name, _)| !name.starts_with("__"))?.1 {
        Attribute::Tensor(t) => (t.dtype(), known(t.shape())),
        Attribute::Float(_) => (DataType::F32, vec![]),
        Attribute::Floats(v) => (DataType::F32, known(&[v.len()])),
        Attribute::Int(_) => (DataType::I64, vec![]),
        Attribute::Ints(v) => (DataType::I64, known(&[v.len()])),
        Attribute::Text(_) => (DataType::String, vec![]),
        Attribute::Texts(v) => (DataType::String, known(&[v.len()])),
        _ => return None,
    })
}

/// Returns the extents of a primitive's only result.
fn shape(op: Primitive, node: &Node, facts: &Facts) -> Result<Shaped, Error> {
    use Primitive as P;
    let method = op.spec().method;
    let x = shape_of(facts.ty(node, 0));
    let y = shape_of(facts.ty(node, 1));
    match op {
        P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Cast | P::Identity => Ok(x.map(<[Dim]>::to_vec)),
        // Before version 7, attributes define how the second operand is broadcast to the first.
        P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less if node.opset < 7 => {
            Ok(x.map(<[Dim]>::to_vec))
        }
        P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less => {
            let (Some(x), Some(y)) = (x, y) else {
                return Ok(None);
            };
            if op == P::Div {
                division(node, facts, x)?;
            }
            broadcast(method, &[x, y]).map(shaped)
        }
        P::Where => match (x, y, shape_of(facts.ty(node, 2))) {
            (Some(c), Some(x), Some(y)) => broadcast(method, &[c, x, y]).map(shaped),
            _ => Ok(None),
        },
        P::MatMul => match (x, y) {
            (Some(x), Some(y)) => infer::matmul(x, y).map(|m| shaped(m.shape)),
            _ => Ok(None),
        },
        P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
            x.map_or(Ok(None), |x| reduce(method, node, facts, x))
        }
        P::Reshape => reshape(node, facts, x),
        P::Transpose => {
            let Some(x) = x else { return Ok(None) };
            let perm = node.attributes.ints("perm")?.unwrap_or_default();
            infer::transpose(x, perm).map(|t| shaped(t.shape))
        }
        P::Concat => concat(node, facts),
        P::Slice => x.map_or(Ok(None), |x| slice(node, facts, x)),
        P::Squeeze => match (x, given(node, facts, "axes", 1)) {
            // If the axes are an empty operand, no dimension is removed; if they are an empty or absent
            // attribute, all dimensions of extent 1 are removed.
            (Some(x), Given::Ints(axes)) if axes.is_empty() && node.opset >= 13 => Ok(Some(x.to_vec())),
            (Some(x), Given::Ints(axes)) if infer::squeezes(x, &axes) => infer::squeeze(x, &axes).map(shaped),
            (Some(x), Given::Absent) if infer::squeezes(x, &[]) => infer::squeeze(x, &[]).map(shaped),
            _ => Ok(None),
        },
        P::Unsqueeze => match (x, given(node, facts, "axes", 1)) {
            (Some(x), Given::Ints(axes)) => infer::unsqueeze(x, &axes).map(shaped),
            _ => Ok(None),
        },
        P::Constant => Ok(constant(node).map(|c| c.1)),
        P::Gather => gather(node, facts, x, y),
        P::Split => Ok(None),
    }
}

/// Returns an error if integers are divided by a constant that contains a zero.
fn division(node: &Node, facts: &Facts, x: &[Dim]) -> Result<(), Error> {
    let nothing = x.iter().any(|d| d.number() == Some(0));
    match facts.contents(node, 1) {
        Some(y) if !nothing && y.entries.contains(&Entry::from(0)) => {
            Err(Error::DivisionByZero { op: "div" })
        }
        _ => Ok(()),
    }
}

/// Converts extents to the result of a rule.
fn shaped(extents: infer::Extents<Dim>) -> Shaped {
    Some(extents.into_vec())
}

pub(super) fn reduce(op: &'static str, node: &Node, facts: &Facts, x: &[Dim]) -> Result<Shaped, Error> {
    let keep = node.attributes.int("keepdims")?.unwrap_or(1) != 0;
    let axes = match given(node, facts, "axes", 1) {
        Given::Ints(axes) => axes,
        Given::Absent => Vec::new(),
        Given::Unknown if keep => return Ok(Some(vec![Dim::Unknown; x.len()])),
        Given::Unknown => return Ok(None),
    };
    if axes.is_empty() && node.attributes.int("noop_with_empty_axes")? == Some(1) {
        return Ok(Some(x.to_vec()));
    }
    infer::reduce(op, x, &axes, keep).map(|r| shaped(r.shape))
}

fn reshape(node: &Node, facts: &Facts, x: Option<&[Dim]>) -> Result<Shaped, Error> {
    let zero = node.attributes.int("allowzero")?.unwrap_or(0) != 0;
    let entries: Vec<Entry> = match given(node, facts, "shape", 1) {
        Given::Ints(to) => to.into_iter().map(Entry::from).collect(),
        Given::Absent | Given::Unknown => match facts.contents(node, 1) {
            Some(contents) => contents.entries.clone(),
            None => {
                // The number of elements of the shape operand is the result's rank.
                let rank = shape_of(facts.ty(node, 1)).and_then(current);
                let rank = rank.and_then(|r| r.first().copied()).filter(|r| *r <= 64);
                return Ok(rank.map(|r| vec![Dim::Unknown; r]));
            }
        },
    };
    let target = |entry: &Entry| match (entry.int(), entry.formula()) {
        (Some(n), _) => Target::of(n, zero).ok_or(Error::Extent { extent: n }),
        (None, Some(formula)) => Ok(Target::Extent(Dim::from(formula.clone()))),
        (None, None) => Ok(Target::Extent(Dim::Unknown)),
    };
    let to = entries.iter().map(target).collect::<Result<Vec<_>, Error>>()?;
    let Some(x) = x else {
        let alone = |target: &Target<Dim>| match target {
            Target::Extent(extent) => extent.clone(),
            Target::Kept | Target::Rest => Dim::Unknown,
        };
        return Ok(Some(to.iter().map(alone).collect()));
    };
    infer::reshape_to(x, &to).map(shaped)
}
