//! Follows the contents of small tensors, from which shapes are computed, through the operators that compute them.

use super::contents::{Contents, Entry, MOST};
use super::dims::product;
use super::operators::At;
use super::{movement, numbers};
use crate::graph::{Attribute, DimExpr, ValueType};
use crate::infer;
use crate::{Axis, DataType, Shape};

/// Returns the contents of a node's results, as far as they can be told; `types` are the results'.
pub(super) fn node(at: At<'_>, types: &[&ValueType]) -> Vec<Option<Contents>> {
    if !at.node.domain.is_empty() {
        return Vec::new();
    }
    if at.node.op_type == "Split" {
        return split(at, types).unwrap_or_default();
    }
    vec![first(at, types)]
}

fn first(at: At<'_>, types: &[&ValueType]) -> Option<Contents> {
    let (dtype, shape) = match types.first()? {
        ValueType::Tensor { dtype, shape } => (*dtype, shape.as_deref().and_then(infer::current)),
        _ => return None,
    };
    match at.node.op_type.as_str() {
        "Shape" => Contents::list(movement::listed(at)?.iter().map(Entry::from).collect()),
        "Size" => Some(Contents::scalar(Entry::from(&product(at.dims(0)?)))),
        "Constant" => constant(at),
        "ConstantOfShape" => {
            let value = match at.node.attributes.tensor("value").ok()? {
                Some(value) => Contents::of(value)?.entries.first()?.clone(),
                None => Entry::Real(0.0),
            };
            fill(shape?, |_| Some(value.clone()))
        }
        "Range" => range(at),
        "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" => {
            Contents::new(shape?, at.contents(0)?.entries.clone())
        }
        "Cast" | "CastLike" => {
            let x = at.contents(0)?;
            Contents::new(x.shape.clone(), x.entries.iter().map(|e| numbers::cast(e, dtype)).collect())
        }
        "Where" => {
            let (condition, a, b) = (at.contents(0)?, at.contents(1), at.contents(2));
            let shape = shape?;
            let pick = |i| {
                let chosen = match broadcast(condition, &shape, i)?.int() {
                    Some(0) => b,
                    Some(_) => a,
                    None => {
                        let both = (broadcast(a?, &shape, i)?, broadcast(b?, &shape, i)?);
                        return Some(if both.0 == both.1 { both.0.clone() } else { Entry::Unknown });
                    }
                };
                Some(chosen.and_then(|x| broadcast(x, &shape, i)).cloned().unwrap_or(Entry::Unknown))
            };
            fill(shape.clone(), pick)
        }
        "Expand" => {
            let (x, shape) = (at.contents(0)?, shape?);
            fill(shape.clone(), |i| broadcast(x, &shape, i).cloned())
        }
        "Concat" => concat(at, &shape?),
        "Gather" => gather(at, shape?),
        "Slice" => {
            let list = |name, input| at.list(name, input);
            let (starts, ends) = (list("starts", 1)?, list("ends", 2)?);
            let (axes, steps) = (list("axes", 3)?, list("steps", 4)?);
            let x = at.contents(0)?;
            let taken = infer::slice(&x.shape, &starts, &ends, &axes, &steps).ok()?;
            fill(taken.shape.clone(), |i| {
                let position = indices(&taken.shape, i);
                let at = position.iter().zip(&taken.dims);
                let at = at.map(|(&i, d)| d.start.checked_add_signed(d.step.checked_mul(i as isize)?));
                x.entries.get(offset(&x.shape, &at.collect::<Option<Shape>>()?)?).cloned()
            })
        }
        "Tile" => {
            let (x, shape) = (at.contents(0)?, shape?);
            fill(shape.clone(), |i| {
                let position = indices(&shape, i);
                let at: Shape = position.iter().zip(&x.shape).map(|(i, n)| i % (*n).max(1)).collect();
                x.entries.get(offset(&x.shape, &at)?).cloned()
            })
        }
        "Transpose" => {
            let x = at.contents(0)?;
            let moved = infer::transpose(&x.shape, at.ints("perm").unwrap_or_default()).ok()?;
            fill(moved.shape.clone(), |i| {
                let position = indices(&moved.shape, i);
                let mut from = Shape::from_elem(0, position.len());
                for (&axis, &i) in moved.perm.iter().zip(&position) {
                    *from.get_mut(axis)? = i;
                }
                x.entries.get(offset(&x.shape, &from)?).cloned()
            })
        }
        "ReduceSum" | "ReduceProd" | "ReduceMin" | "ReduceMax" => reduce(at, dtype, shape?),
        "NonZero" => {
            let x = at.contents(0)?;
            let set: Vec<usize> = match x.ints() {
                Some(ints) => ints.iter().enumerate().filter(|(_, v)| **v != 0).map(|(i, _)| i).collect(),
                None => return None,
            };
            let found = Shape::from_slice(&[x.shape.len(), set.len()]);
            let axis =
                |axis: usize, i: usize| Some(i64::try_from(*indices(&x.shape, i).get(axis)?).ok()?.into());
            let entries = (0..x.shape.len()).flat_map(|d| set.iter().map(move |&i| (d, i)));
            Contents::new(found, entries.map(|(d, i)| axis(d, i)).collect::<Option<_>>()?)
        }
        "Min" | "Max" | "Sum" => {
            let shape = shape?;
            let mut sum = at.contents(0)?.clone();
            if at.node.inputs.len() == 1 {
                return Some(sum);
            }
            for input in 1..at.node.inputs.len() {
                sum = join(at, dtype, &sum, at.contents(input)?, &shape)?;
            }
            Some(sum)
        }
        _ if at.node.inputs.len() == 1 => {
            let x = at.contents(0)?;
            let signless = |f: &DimExpr| at.facts.is_extent(f);
            let entries = x.entries.iter().map(|e| numbers::unary(&at.node.op_type, dtype, e, &signless));
            Contents::new(x.shape.clone(), entries.collect::<Option<_>>()?)
        }
        // Before version 7 attributes say how operands are broadcast.
        _ if at.node.inputs.len() == 2 && at.node.opset >= 7 => {
            let operand = at.dtype(0)?;
            let shape = shape?;
            match (at.contents(0), at.contents(1)) {
                (Some(a), Some(b)) => join(at, operand, a, b, &shape),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The entry of `x` that comes to the position `i` of what it is broadcast to.
fn broadcast<'x>(x: &'x Contents, to: &[usize], i: usize) -> Option<&'x Entry> {
    let position = indices(to, i);
    let skipped = position.len().checked_sub(x.shape.len())?;
    let own = position.get(skipped..)?.iter().zip(&x.shape);
    let own: Shape = own.map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
    x.entries.get(offset(&x.shape, &own)?)
}

/// Computes with two operands that are broadcast.
fn join(at: At<'_>, dtype: DataType, a: &Contents, b: &Contents, shape: &Shape) -> Option<Contents> {
    let signless = |f: &DimExpr| at.facts.is_extent(f);
    fill(shape.clone(), |i| {
        let (a, b) = (broadcast(a, shape, i)?, broadcast(b, shape, i)?);
        // Of two comparable types only the first is looked at.
        numbers::binary(&at.node.op_type, dtype, a, b, &signless)
    })
}

fn constant(at: At<'_>) -> Option<Contents> {
    let ints = |v: &[i64]| v.iter().map(|&v| v.into()).collect();
    match at.node.attributes.iter().find(|(name, _)| !name.starts_with("__"))? {
        ("value", Attribute::Tensor(data)) => Contents::of(data),
        ("value_ints", Attribute::Ints(v)) => Contents::list(ints(v)),
        ("value_int", Attribute::Int(v)) => Some(Contents::scalar((*v).into())),
        ("value_float", Attribute::Float(v)) => Some(Contents::scalar(Entry::real((*v).into()))),
        ("value_floats", Attribute::Floats(v)) => {
            Contents::list(v.iter().map(|&v| Entry::real(v.into())).collect())
        }
        _ => None,
    }
}

fn range(at: At<'_>) -> Option<Contents> {
    let start = at.contents(0)?.only()?.formula()?.clone();
    let (limit, delta) = (at.contents(1)?.only()?.formula()?, at.scalar(2)?);
    let distance = limit.minus(&start)?.constant()?;
    if delta == 0 {
        return None;
    }
    let inside = |v: &i64| if delta > 0 { *v < distance } else { *v > distance };
    let steps = std::iter::successors(Some(0i64), |v| v.checked_add(delta)).take_while(inside);
    // One more than is followed, so that what is too long is seen.
    let entries = steps.take(MOST + 1).map(|v| Some(Entry::Whole(start.plus(&v.into())?)));
    Contents::list(entries.collect::<Option<_>>()?)
}

fn concat(at: At<'_>, shape: &Shape) -> Option<Contents> {
    let axis = Axis::new(at.int("axis", 1)?, shape.len()).ok()?.get();
    if shape.contains(&0) {
        return Contents::new(shape.clone(), Vec::new());
    }
    let inner = crate::element_count(shape.get(axis + 1..)?)?;
    let outer = crate::element_count(shape.get(..axis)?).filter(|n| *n <= MOST)?;
    let parts: Vec<&Contents> = (0..at.node.inputs.len()).map(|i| at.contents(i)).collect::<Option<_>>()?;
    let mut entries = Vec::new();
    for row in 0..outer {
        for part in &parts {
            let length = part.shape.get(axis)?.checked_mul(inner)?;
            let from = row.checked_mul(length)?;
            entries.extend_from_slice(part.entries.get(from..from.checked_add(length)?)?);
        }
    }
    Contents::new(shape.clone(), entries)
}

fn gather(at: At<'_>, shape: Shape) -> Option<Contents> {
    let (x, picked) = (at.contents(0)?, at.contents(1)?);
    let axis = Axis::new(at.int("axis", 0)?, x.shape.len()).ok()?.get();
    let extent = *x.shape.get(axis)?;
    fill(shape.clone(), |i| {
        let position = indices(&shape, i);
        let (before, rest) = position.split_at_checked(axis)?;
        let (chosen, after) = rest.split_at_checked(picked.shape.len())?;
        let Some(chosen) = picked.entries.get(offset(&picked.shape, chosen)?)?.int() else {
            return Some(Entry::Unknown);
        };
        let chosen = Axis::new(chosen, extent).ok()?.get();
        let from: Shape = before.iter().chain(&[chosen]).chain(after).copied().collect();
        x.entries.get(offset(&x.shape, &from)?).cloned()
    })
}

fn split(at: At<'_>, types: &[&ValueType]) -> Option<Vec<Option<Contents>>> {
    let x = at.contents(0)?;
    let axis = Axis::new(at.int("axis", 0)?, x.shape.len()).ok()?.get();
    let mut start = 0usize;
    let mut parts = Vec::with_capacity(types.len());
    for ty in types {
        let shape = super::shape_of(ty).and_then(infer::current)?;
        let from = start;
        start = start.checked_add(*shape.get(axis)?)?;
        parts.push(fill(shape.clone(), |i| {
            let mut position = indices(&shape, i);
            *position.get_mut(axis)? += from;
            x.entries.get(offset(&x.shape, &position)?).cloned()
        }));
    }
    Some(parts)
}

fn reduce(at: At<'_>, dtype: DataType, shape: Shape) -> Option<Contents> {
    let x = at.contents(0)?;
    let axes = at.list("axes", 1)?;
    if axes.is_empty() && at.int("noop_with_empty_axes", 0)? == 1 {
        return Some(x.clone());
    }
    let reduced = infer::reduce("reduce", &x.shape, &axes, true).ok()?;
    let op = match at.node.op_type.as_str() {
        "ReduceSum" => "Add",
        "ReduceProd" => "Mul",
        "ReduceMin" => "Min",
        _ => "Max",
    };
    let signless = |f: &DimExpr| at.facts.is_extent(f);
    let count = crate::element_count(&reduced.kept).filter(|n| *n <= MOST)?;
    let mut sums: Vec<Option<Entry>> = vec![None; count];
    for (i, entry) in x.entries.iter().enumerate() {
        let position = indices(&x.shape, i);
        let kept: Shape =
            position.iter().zip(&reduced.kept).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
        let slot = sums.get_mut(offset(&reduced.kept, &kept)?)?;
        *slot = Some(match slot.take() {
            None => entry.clone(),
            Some(sum) => numbers::binary(op, dtype, &sum, entry, &signless)?,
        });
    }
    let nothing = match (op, matches!(dtype, DataType::I32 | DataType::I64)) {
        ("Add", true) => Entry::from(0),
        ("Mul", true) => Entry::from(1),
        _ => Entry::Unknown,
    };
    Contents::new(shape, sums.into_iter().map(|s| s.unwrap_or_else(|| nothing.clone())).collect())
}

/// Contents of that shape, made position by position.
fn fill(shape: Shape, entry: impl Fn(usize) -> Option<Entry>) -> Option<Contents> {
    let count = crate::element_count(&shape).filter(|n| *n <= MOST)?;
    let entries = (0..count).map(entry).collect::<Option<_>>()?;
    Contents::new(shape, entries)
}

/// The indices of the element at a position in row-major order.
fn indices(shape: &[usize], position: usize) -> Shape {
    let mut rest = position;
    let mut out = Shape::from_elem(0, shape.len());
    for (slot, &n) in out.iter_mut().zip(shape).rev() {
        *slot = rest % n.max(1);
        rest /= n.max(1);
    }
    out
}

/// The position of the element at these indices; none if there is no such element.
fn offset(shape: &[usize], indices: &[usize]) -> Option<usize> {
    let mut position = 0usize;
    for (&n, &i) in shape.iter().zip(indices) {
        position = position.checked_mul(n)?.checked_add(Some(i).filter(|i| *i < n)?)?;
    }
    (shape.len() == indices.len()).then_some(position)
}
