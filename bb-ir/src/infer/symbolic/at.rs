//! The input of a rule: a node, and the known facts about its operands.
//!
//! A rule returns only facts that are certain. Invalid attributes yield `None` and are reported at run time.

use super::contents::{Contents, Given, given};
use super::rules;
use super::{Facts, shape_of};
use crate::graph::{Dim, Node, ValueType};
use crate::infer::Rule;
use crate::infer::broadcast;
use crate::{Axis, DataType, Error};

/// A node and the known facts about its operands.
#[derive(Debug, Clone, Copy)]
pub struct NodeFacts<'a> {
    /// The node.
    pub node: &'a Node,
    pub(super) facts: &'a Facts,
}

/// The types of results, as far as they are known.
pub type Types = Vec<ValueType>;

/// Returns the types of a node's results as far as they are certain; fewer if some are not.
pub(super) fn results(rule: Rule, node: &Node, facts: &Facts) -> Result<Types, Error> {
    let at = NodeFacts { node, facts };
    let types = match rule {
        Rule::Primitive => return rules::results(node, facts),
        Rule::Same => Some(vec![facts.ty(node, 0).clone()]),
        Rule::As(dtype) => at.one(Some(dtype), at.same()),
        Rule::Broadcast => at.one(at.dtype(0), at.broadcast()),
        Rule::Truth => at.one(Some(DataType::Bool), at.broadcast()),
        Rule::By(rule) => rule(at),
        Rule::ControlFlow(_) => None,
        Rule::Subgraphs(rule) => (rule.types)(at),
    };
    Ok(types.unwrap_or_default())
}

impl<'a> NodeFacts<'a> {
    /// The type of an operand; `Unknown` if it is absent.
    pub fn ty(self, input: usize) -> &'a ValueType {
        self.facts.ty(self.node, input)
    }

    /// The extents that `Shape` returns, from `start` to `end`.
    pub fn listed(self) -> Option<&'a [Dim]> {
        let dims = self.dims(0)?;
        let rank = dims.len() as i64;
        let bound = |name, default| {
            let bound = self.int(name, default)?;
            usize::try_from((if bound < 0 { bound.saturating_add(rank) } else { bound }).clamp(0, rank)).ok()
        };
        let (start, end) = (bound("start", 0)?, bound("end", rank)?);
        dims.get(start..end.max(start))
    }

    /// The extents after a reduction, by the node's attributes and operands.
    pub fn reduced(self, op: &'static str, x: &[Dim]) -> Option<Vec<Dim>> {
        rules::reduce(op, self.node, self.facts, x).ok()?
    }

    /// The extents of an operand.
    pub fn dims(self, input: usize) -> Option<&'a [Dim]> {
        shape_of(self.facts.ty(self.node, input))
    }

    /// The element type of an operand.
    pub fn dtype(self, input: usize) -> Option<DataType> {
        match self.facts.ty(self.node, input) {
            ValueType::Tensor { dtype, .. } => Some(*dtype),
            _ => None,
        }
    }

    /// Returns whether an operand is present.
    pub fn has(self, input: usize) -> bool {
        self.node.inputs.get(input).is_some_and(Option::is_some)
    }

    /// An integer attribute, or `default` if it is absent; none if it is of another kind.
    pub fn int(self, name: &str, default: i64) -> Option<i64> {
        Some(self.node.attributes.int(name).ok()?.unwrap_or(default))
    }

    /// Integers of an attribute.
    pub fn ints(self, name: &str) -> Option<&'a [i64]> {
        self.node.attributes.ints(name).ok()?
    }

    /// A word of an attribute, or `default` if it is absent.
    pub fn text(self, name: &str, default: &'a str) -> Option<&'a str> {
        Some(self.node.attributes.text(name).ok()?.unwrap_or(default))
    }

    /// The element type that an attribute numbers, or `default` if it is absent.
    pub fn type_attribute(self, name: &str, default: Option<DataType>) -> Option<DataType> {
        match self.node.attributes.int(name).ok()? {
            Some(number) => DataType::from_onnx(i32::try_from(number).ok()?),
            None => default,
        }
    }

    /// Integers that are an attribute in old versions and an operand in new ones; empty if they are absent.
    pub fn list(self, attribute: &str, input: usize) -> Option<Vec<i64>> {
        match given(self.node, self.facts, attribute, input) {
            Given::Ints(ints) => Some(ints),
            Given::Absent => Some(Vec::new()),
            Given::Unknown => None,
        }
    }

    /// The integer in an operand of one element.
    pub fn scalar(self, input: usize) -> Option<i64> {
        self.contents(input)?.only()?.int()
    }

    /// The extent in an operand of one element.
    pub fn extent(self, input: usize) -> Dim {
        let entry = self.contents(input).and_then(Contents::only);
        entry.and_then(|e| e.formula().cloned()).map_or(Dim::Unknown, Dim::from)
    }

    /// The integer in an operand of one element; a negative integer becomes 0.
    pub fn extent_or_less(self, input: usize) -> Dim {
        let entry = self.contents(input).and_then(Contents::only);
        entry.and_then(|e| e.formula()?.greater(&0.into())).map_or(Dim::Unknown, Dim::from)
    }

    /// The contents of an operand, as far as they are known.
    pub fn contents(self, input: usize) -> Option<&'a Contents> {
        self.facts.contents(self.node, input)
    }

    /// The extents in an operand, unless there are too many to follow.
    pub fn extents(self, input: usize) -> Option<Vec<Dim>> {
        let entries = self.contents(input)?.entries.iter();
        Some(entries.map(|e| e.formula().map_or(Dim::Unknown, |f| Dim::from(f.clone()))).collect())
    }

    /// One unknown extent for each element of an operand that lists extents.
    pub fn open_extents(self, input: usize) -> Option<Vec<Dim>> {
        match self.dims(input)? {
            [Dim::Known(rank)] if *rank <= 64 => Some(vec![Dim::Unknown; *rank]),
            _ => None,
        }
    }

    /// `x` with another extent for the named axis; none if the axis does not exist.
    pub fn with_axis(self, x: &[Dim], axis: i64, to: Dim) -> Option<Vec<Dim>> {
        self.with_axes(x, &[axis], &[to])
    }

    /// `x` with other extents for the named axes; none if the lists do not fit.
    pub fn with_axes(self, x: &[Dim], axes: &[i64], to: &[Dim]) -> Option<Vec<Dim>> {
        let mut out = x.to_vec();
        for (&named, dim) in axes.iter().zip(to) {
            *out.get_mut(axis(named, x.len())?)? = dim.clone();
        }
        (axes.len() == to.len()).then_some(out)
    }

    /// The only result, of this type.
    pub fn one(self, dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> Option<Types> {
        Some(vec![tensor(dtype, shape)])
    }

    /// The extents of the first operand.
    pub fn same(self) -> Option<Vec<Dim>> {
        self.dims(0).map(<[Dim]>::to_vec)
    }

    /// The extents that all operands broadcast to.
    fn broadcast(self) -> Option<Vec<Dim>> {
        // In older versions attributes define broadcasting, and the first operand keeps its shape.
        if self.node.opset < 7 && self.node.domain.is_empty() {
            return self.same();
        }
        let given: Vec<usize> = (0..self.node.inputs.len()).filter(|i| self.has(*i)).collect();
        self.broadcast_of(&given)
    }

    /// The extents that these operands broadcast to.
    pub fn broadcast_of(self, inputs: &[usize]) -> Option<Vec<Dim>> {
        let shapes = inputs.iter().map(|i| self.dims(*i)).collect::<Option<Vec<_>>>()?;
        Some(broadcast("broadcast", &shapes).ok()?.into_vec())
    }
}

/// A tensor type; `Unknown` if the element type is unknown.
pub fn tensor(dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> ValueType {
    dtype.map_or(ValueType::Unknown, |dtype| ValueType::Tensor { dtype, shape })
}

/// The axis that `axis` names in `rank` dimensions.
pub fn axis(axis: i64, rank: usize) -> Option<usize> {
    Axis::new(axis, rank).ok().map(Axis::get)
}

/// The facts that hold for both types.
pub fn either(a: &ValueType, b: &ValueType) -> ValueType {
    match (a, b) {
        (ValueType::Tensor { dtype, shape: left }, ValueType::Tensor { dtype: other, shape: right })
            if dtype == other =>
        {
            let shape = match (left, right) {
                (Some(left), Some(right)) if left.len() == right.len() => {
                    let dim = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
                    Some(left.iter().zip(right).map(dim).collect())
                }
                _ => None,
            };
            tensor(Some(*dtype), shape)
        }
        (ValueType::Sequence(a), ValueType::Sequence(b)) => ValueType::Sequence(Box::new(either(a, b))),
        (ValueType::Optional(a), ValueType::Optional(b)) => ValueType::Optional(Box::new(either(a, b))),
        (ValueType::Map(k, a), ValueType::Map(l, b)) if k == l => ValueType::Map(*k, Box::new(either(a, b))),
        (a, b) if a == b => a.clone(),
        _ => ValueType::Unknown,
    }
}
