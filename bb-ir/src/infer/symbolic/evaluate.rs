//! Follows the contents of small integer tensors, from which shapes are computed.

use super::operators::product;
use super::{Facts, shape_of};
use crate::graph::{Attribute, Dim, Node};
use crate::infer::slice;
use crate::op::Primitive;
use crate::{Axis, DataType, TensorData};

/// The most entries that are followed.
const MOST: usize = 256;

/// An integer of which something may be known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    Known(i64),
    /// The extent of that name.
    Symbol(String),
    Unknown,
}

/// The contents of an integer tensor of rank 0 or 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) entries: Vec<Entry>,
    pub(super) scalar: bool,
}

impl Known {
    /// The contents of a constant, if they are few integers.
    pub(super) fn of(data: &TensorData) -> Option<Known> {
        if data.len() > MOST || data.shape().len() > 1 {
            return None;
        }
        let entries = match data.dtype() {
            DataType::I64 => data.as_slice::<i64>().ok()?.iter().map(|&v| Entry::Known(v)).collect(),
            DataType::I32 => data.as_slice::<i32>().ok()?.iter().map(|&v| Entry::Known(v.into())).collect(),
            _ => return None,
        };
        Some(Known { entries, scalar: data.shape().is_empty() })
    }

    /// The integers, if all are known.
    pub(super) fn ints(&self) -> Option<Vec<i64>> {
        self.entries
            .iter()
            .map(|e| match e {
                Entry::Known(v) => Some(*v),
                Entry::Symbol(_) | Entry::Unknown => None,
            })
            .collect()
    }

    /// The bytes that a copy takes, roughly.
    pub(super) fn weight(&self) -> usize {
        let text = |e: &Entry| if let Entry::Symbol(name) = e { name.len() } else { 0 };
        self.entries.iter().map(|e| 32 + text(e)).sum()
    }

    fn list(entries: Vec<Entry>) -> Option<Known> {
        (entries.len() <= MOST).then_some(Known { entries, scalar: false })
    }
}

impl From<&Dim> for Entry {
    fn from(dim: &Dim) -> Entry {
        match dim {
            Dim::Known(n) => i64::try_from(*n).map_or(Entry::Unknown, Entry::Known),
            Dim::Symbol(s) => Entry::Symbol(s.clone()),
            Dim::Unknown => Entry::Unknown,
        }
    }
}

/// A list of integers that an operator takes as an attribute or as an operand.
pub(super) enum Given {
    Absent,
    Ints(Vec<i64>),
    Unknown,
}

/// Reads a list that older versions of an operator take as an attribute and newer ones as an operand.
pub(super) fn given(node: &Node, facts: &Facts, attribute: &str, input: usize) -> Given {
    if let Ok(Some(ints)) = node.attributes.ints(attribute) {
        return Given::Ints(ints.to_vec());
    }
    match (node.inputs.get(input), facts.contents(node, input).and_then(Known::ints)) {
        (None | Some(None), _) => Given::Absent,
        (_, Some(ints)) => Given::Ints(ints),
        _ => Given::Unknown,
    }
}

/// Returns the contents of a node's first result, if they can be told.
pub(super) fn node(node: &Node, facts: &Facts) -> Option<Known> {
    if !node.domain.is_empty() {
        return None;
    }
    match node.op_type.as_str() {
        "Shape" => {
            let dims = shape_of(facts.ty(node, 0))?;
            let rank = dims.len() as i64;
            let bound = |name, default: i64| {
                let at = node.attributes.int(name).ok().flatten().unwrap_or(default);
                (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize
            };
            let (start, end) = (bound("start", 0), bound("end", rank));
            Known::list(dims.get(start..end.max(start))?.iter().map(Entry::from).collect())
        }
        "Constant" => match node.attributes.iter().next()? {
            ("value", Attribute::Tensor(data)) => Known::of(data),
            ("value_ints", Attribute::Ints(v)) => Known::list(v.iter().map(|&v| Entry::Known(v)).collect()),
            ("value_int", Attribute::Int(v)) => Some(Known { entries: vec![Entry::Known(*v)], scalar: true }),
            _ => None,
        },
        "Size" => {
            let dims = shape_of(facts.ty(node, 0))?;
            Some(Known { entries: vec![Entry::from(&product(dims))], scalar: true })
        }
        "Range" => {
            let int = |input| facts.contents(node, input)?.ints()?.first().copied();
            let (start, limit, delta) = (int(0)?, int(1)?, int(2)?);
            if delta == 0 {
                return None;
            }
            let inside = |v: &i64| if delta > 0 { *v < limit } else { *v > limit };
            let entries = std::iter::successors(Some(start), |v| v.checked_add(delta)).take_while(inside);
            // One more than is followed, so that what is too long is seen.
            Known::list(entries.take(MOST + 1).map(Entry::Known).collect())
        }
        "ConstantOfShape" => {
            let length = match facts.contents(node, 0)?.ints()?.as_slice() {
                [] => 1,
                [length] => usize::try_from(*length).ok().filter(|n| *n <= MOST)?,
                _ => return None,
            };
            // The default is a float.
            let value = Known::of(node.attributes.tensor("value").ok()??)?;
            let scalar = facts.contents(node, 0)?.entries.is_empty();
            Some(Known { entries: vec![value.entries.first()?.clone(); length], scalar })
        }
        name => primitive(Primitive::from_name(name)?, node, facts),
    }
}

fn primitive(op: Primitive, node: &Node, facts: &Facts) -> Option<Known> {
    use Primitive as P;
    let x = facts.contents(node, 0)?;
    match op {
        P::Identity => Some(x.clone()),
        P::Cast => {
            let to = node.attributes.int("to").ok()??;
            matches!(DataType::from_onnx(to as i32)?, DataType::I64 | DataType::I32).then(|| x.clone())
        }
        P::Unsqueeze if x.scalar => Known::list(x.entries.clone()),
        P::Squeeze if x.entries.len() == 1 => Some(Known { entries: x.entries.clone(), scalar: true }),
        P::Reshape => match facts.contents(node, 1)?.ints()?.len() {
            0 => Some(Known { entries: x.entries.clone(), scalar: true }),
            1 => Known::list(x.entries.clone()),
            _ => None,
        },
        P::Concat => {
            let parts = (0..node.inputs.len()).map(|i| {
                let part = facts.contents(node, i)?;
                (!part.scalar).then_some(&part.entries)
            });
            Known::list(parts.collect::<Option<Vec<_>>>()?.into_iter().flatten().cloned().collect())
        }
        P::Gather if !x.scalar => {
            let indices = facts.contents(node, 1)?;
            let entries = indices.ints()?.into_iter().map(|i| {
                let at = Axis::new(i, x.entries.len()).ok()?.get();
                x.entries.get(at).cloned()
            });
            Some(Known { entries: entries.collect::<Option<_>>()?, scalar: indices.scalar })
        }
        P::Slice if !x.scalar => {
            let list = |name, at| match given(node, facts, name, at) {
                Given::Ints(v) => Some(v),
                Given::Absent => Some(Vec::new()),
                Given::Unknown => None,
            };
            let (starts, ends) = (list("starts", 1)?, list("ends", 2)?);
            let (axes, steps) = (list("axes", 3)?, list("steps", 4)?);
            let taken = slice(&[x.entries.len()], &starts, &ends, &axes, &steps).ok()?;
            let dim = taken.dims.first()?;
            let at = |i: usize| dim.start.checked_add_signed(dim.step * i as isize);
            let entries = (0..dim.count).map(|i| x.entries.get(at(i)?).cloned());
            Known::list(entries.collect::<Option<_>>()?)
        }
        P::Add | P::Sub | P::Mul | P::Div => {
            let y = facts.contents(node, 1)?;
            let len = match (x.entries.len(), y.entries.len()) {
                (a, b) if a == b => a,
                (1, n) | (n, 1) => n,
                _ => return None,
            };
            let pick = |k: &Known, i| k.entries.get(if k.entries.len() == 1 { 0 } else { i }).cloned();
            let entries = (0..len).map(|i| Some(arithmetic(op, &pick(x, i)?, &pick(y, i)?)));
            let entries = entries.collect::<Option<_>>()?;
            Some(Known { entries, scalar: x.scalar && y.scalar })
        }
        _ => None,
    }
}

/// Computes with two entries; in 64 bits, so that what wraps in 32 is not told.
fn arithmetic(op: Primitive, a: &Entry, b: &Entry) -> Entry {
    use Primitive as P;
    let result = match (op, a, b) {
        (P::Add, Entry::Known(0), other) | (P::Add | P::Sub, other, Entry::Known(0)) => {
            return other.clone();
        }
        (P::Mul, Entry::Known(1), other) | (P::Mul | P::Div, other, Entry::Known(1)) => {
            return other.clone();
        }
        (P::Add, Entry::Known(a), Entry::Known(b)) => a.checked_add(*b),
        (P::Sub, Entry::Known(a), Entry::Known(b)) => a.checked_sub(*b),
        (P::Mul, Entry::Known(a), Entry::Known(b)) => a.checked_mul(*b),
        (P::Div, Entry::Known(a), Entry::Known(b)) => a.checked_div(*b),
        _ => None,
    };
    let narrow = |v: &i64| i32::try_from(*v).is_ok();
    result.filter(narrow).map_or(Entry::Unknown, Entry::Known)
}
