//! Evaluates the contents of small tensors that shapes are computed from, through the operators that compute
//! them.

use super::at::NodeFacts;
use super::contents::{Contents, Entry};
use super::dims::product;
use crate::convert::Rounding;
use crate::graph::{Attribute, DimExpr, ValueType};
use crate::infer::eval::{self, Constant, MOST};
use crate::infer::{self, current};
use crate::op::{Param, Primitive};
use crate::{Axis, DataType, Shape, element_count};
use std::borrow::Cow;

/// Returns the contents of a node's results, as far as they can be determined. `types` contains the results'
/// types.
pub(super) fn node(at: NodeFacts<'_>, types: &[&ValueType]) -> Vec<Option<Contents>> {
    if !at.node.domain.is_empty() {
        return Vec::new();
    }
    let result = |ty: &&ValueType| match ty {
        ValueType::Tensor { dtype, shape } => Some((*dtype, current(shape.as_deref()?)?)),
        _ => None,
    };
    let Some(results) = types.iter().map(result).collect::<Option<Vec<_>>>() else {
        return vec![untyped(at, types)];
    };
    match Primitive::from_name(&at.node.op_type) {
        Some(op) => {
            let parts = primitive(at, op, &results).unwrap_or_default();
            parts.into_iter().map(Some).collect()
        }
        None => vec![results.first().and_then(|(dtype, shape)| first(at, *dtype, shape))],
    }
}

/// Returns the contents of a result with unknown extents, for operators whose operands determine the number of
/// elements.
fn untyped(at: NodeFacts<'_>, types: &[&ValueType]) -> Option<Contents> {
    let ValueType::Tensor { dtype, .. } = types.first()? else { return None };
    first(at, *dtype, &Shape::from_slice(&[MOST + 1]))
}

/// Evaluates a primitive.
fn primitive(at: NodeFacts<'_>, op: Primitive, results: &[(DataType, Shape)]) -> Option<Vec<Contents>> {
    use Primitive as P;
    let axis = |default| Some(Param::Int(at.int("axis", default)?));
    let list = |name, input| Some(Param::Ints(Cow::Owned(at.list(name, input)?)));
    let mut operands = 1;
    let params = match op {
        P::Constant => return Some(vec![constant(at)?]),
        P::Cast => {
            let (dtype, _) = results.first()?;
            return Some(vec![at.contents(0)?.cast(*dtype, Rounding::default()).ok()?]);
        }
        P::Transpose => vec![Param::Ints(Cow::Borrowed(at.ints("perm").unwrap_or_default()))],
        P::Slice => vec![list("starts", 1)?, list("ends", 2)?, list("axes", 3)?, list("steps", 4)?],
        P::Split => {
            let along = Axis::new(at.int("axis", 0)?, results.first()?.1.len()).ok()?.get();
            let sizes = results.iter().map(|(_, shape)| shape.get(along).copied()).collect::<Option<_>>()?;
            vec![axis(0)?, Param::Extents(Cow::Owned(sizes))]
        }
        P::Concat => {
            operands = at.node.inputs.len();
            vec![axis(1)?]
        }
        P::Gather => {
            operands = 2;
            vec![axis(0)?]
        }
        P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
            let axes = at.list("axes", 1)?;
            if axes.is_empty() && at.int("noop_with_empty_axes", 0)? == 1 {
                return Some(vec![at.contents(0)?.clone()]);
            }
            vec![Param::Ints(Cow::Owned(axes)), Param::Bool(at.int("keepdims", 1)? != 0)]
        }
        P::Where => {
            // Elements that the condition does not select may be unknown.
            let unknown = Contents::scalar(results.first()?.0, Entry::Unknown);
            let operand = |input| at.contents(input).unwrap_or(&unknown);
            return computed(at, op, &[at.contents(0)?, operand(1), operand(2)], results, &[]);
        }
        // Before version 7, attributes define the broadcasting, which is not evaluated.
        _ if op.spec().inputs.len() == 2 && at.node.opset < 7 => return None,
        _ => {
            operands = op.spec().inputs.len();
            Vec::new()
        }
    };
    let inputs = (0..operands).map(|i| at.contents(i)).collect::<Option<Vec<_>>>()?;
    computed(at, op, &inputs, results, &params)
}

fn computed(
    at: NodeFacts<'_>,
    op: Primitive,
    inputs: &[&Contents],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Option<Vec<Contents>> {
    let signless = |f: &DimExpr| at.facts.is_extent(f);
    eval::primitive(op, inputs, results, params, &signless).ok()?
}

/// Evaluates an operator that is not a primitive and has one result of this type.
fn first(at: NodeFacts<'_>, dtype: DataType, shape: &Shape) -> Option<Contents> {
    let signless = |f: &DimExpr| at.facts.is_extent(f);
    match at.node.op_type.as_str() {
        "Shape" => Contents::list(dtype, at.listed()?.iter().map(Entry::from).collect()),
        "Size" => Some(Contents::scalar(dtype, Entry::from(&product(at.dims(0)?)))),
        "ConstantOfShape" => {
            let value = match at.node.attributes.tensor("value").ok()? {
                Some(value) => Contents::of(value)?.entries.first()?.clone(),
                None => Entry::Real(0.0),
            };
            eval::expand(&Contents::scalar(dtype, value), shape).ok()?
        }
        "Range" => {
            let number = |input| at.contents(input)?.only()?.formula();
            Contents::range(dtype, number(0)?, number(1)?, at.scalar(2)?)
        }
        "Flatten" => at.contents(0)?.reshaped(shape).ok(),
        "CastLike" => at.contents(0)?.cast(dtype, Rounding::default()).ok(),
        "Expand" => eval::expand(at.contents(0)?, shape).ok()?,
        "Tile" => tile(at.contents(0)?, shape),
        "ReduceProd" => {
            let x = at.contents(0)?;
            let axes = at.list("axes", 1)?;
            if axes.is_empty() && at.int("noop_with_empty_axes", 0)? == 1 {
                return Some(x.clone());
            }
            let reduction = infer::reduce("reduce", &x.shape, &axes, at.int("keepdims", 1)? != 0).ok()?;
            let one = if dtype.is_float() { Entry::Real(1.0) } else { Entry::from(1) };
            x.reduced("Mul", one, &reduction, &signless)
        }
        "NonZero" => {
            let x = at.contents(0)?;
            let set = x.ints()?.into_iter().enumerate().filter(|(_, v)| *v != 0).map(|(i, _)| i);
            let set: Vec<usize> = set.collect();
            let found = Shape::from_slice(&[x.shape.len(), set.len()]);
            let strides = eval::strides(&x.shape);
            let along = |(&extent, &stride): (&usize, &isize)| {
                let stride = usize::try_from(stride).ok()?;
                let index =
                    |i: &usize| i64::try_from(i / stride.max(1) % extent.max(1)).ok().map(Entry::from);
                set.iter().map(index).collect::<Option<Vec<_>>>()
            };
            let entries = x.shape.iter().zip(&strides).map(along).collect::<Option<Vec<_>>>()?;
            Contents::new(dtype, found, entries.concat())
        }
        op @ ("Min" | "Max" | "Sum") => {
            let all = (0..at.node.inputs.len()).map(|i| at.contents(i)).collect::<Option<Vec<_>>>()?;
            let (first, rest) = all.split_first()?;
            rest.iter().try_fold((*first).clone(), |sum, x| {
                let to = infer::broadcast("broadcast", &[sum.shape.as_slice(), &x.shape]).ok()?;
                Contents::joined(op, [&sum, x], dtype, &to, &signless)
            })
        }
        op if at.node.inputs.len() == 1 => {
            let x = at.contents(0)?;
            let entries = x.entries.iter().map(|e| eval::unary(op, dtype, e, &signless));
            Contents::new(dtype, x.shape.clone(), entries.collect::<Option<_>>()?)
        }
        // Before version 7, attributes define the broadcasting, which is not evaluated.
        op if at.node.inputs.len() == 2 && at.node.opset >= 7 => {
            Contents::joined(op, [at.contents(0)?, at.contents(1)?], dtype, shape, &signless)
        }
        _ => None,
    }
}

fn constant(at: NodeFacts<'_>) -> Option<Contents> {
    let reals = |v: &[f32]| v.iter().map(|&v| Entry::real(v.into())).collect();
    let ints = |v: &[i64]| v.iter().map(|&v| v.into()).collect();
    match at.node.attributes.iter().find(|(name, _)| !name.starts_with("__"))? {
        ("value", Attribute::Tensor(data)) => Contents::of(data),
        ("value_ints", Attribute::Ints(v)) => Contents::list(DataType::I64, ints(v)),
        ("value_int", Attribute::Int(v)) => Some(Contents::scalar(DataType::I64, (*v).into())),
        ("value_float", Attribute::Float(v)) => {
            Some(Contents::scalar(DataType::F32, Entry::real((*v).into())))
        }
        ("value_floats", Attribute::Floats(v)) => Contents::list(DataType::F32, reals(v)),
        _ => None,
    }
}

/// Repeats all elements along each dimension, up to the extents in `shape`.
fn tile(x: &Contents, shape: &Shape) -> Option<Contents> {
    element_count(shape).filter(|n| *n <= MOST)?;
    let ones = x.shape.len() == shape.len() && !x.shape.contains(&0);
    let beside: Shape = x.shape.iter().flat_map(|&d| [1, d]).collect();
    let counts = shape.iter().zip(&x.shape).map(|(to, from)| to.checked_div(*from));
    let grown = counts.zip(&x.shape).map(|(n, &d)| Some([n?, d])).collect::<Option<Vec<_>>>()?;
    let grown = eval::expand(&x.reshaped(&beside).ok().filter(|_| ones)?, &grown.concat()).ok()??;
    grown.reshaped(shape).ok()
}
