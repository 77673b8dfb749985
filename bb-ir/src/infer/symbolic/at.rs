//! The input of a rule: a node, and the facts that are known about its operands.
//!
//! A rule returns only facts that are certain. For invalid attributes, it returns `None`; they are reported
//! at run time.

use super::contents::{Contents, Given, given};
use super::rules;
use super::{Facts, shape_of};
use crate::graph::{Dim, Node, ValueType};
use crate::infer::Rule;
use crate::infer::broadcast;
use crate::{Axis, DataType, Error};

/// A node, and the facts that are known about its operands.
#[derive(Debug, Clone, Copy)]
pub struct NodeFacts<'a> {
    /// The node.
    pub node: &'a Node,
    pub(super) facts: &'a Facts,
}

/// The types of results, as far as they are known.
pub type Types = Vec<ValueType>;

/// Returns the types of a node's results as far as they are certain. Results without a certain type may be
/// omitted.
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
    /// Returns the type of an operand; `Unknown` if the operand is absent.
    pub fn ty(self, input: usize) -> &'a ValueType {
        self.facts.ty(self.node, input)
    }

    /// Returns the extents that a `Shape` node returns, from its attribute `start` to `end`.
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

    /// Returns the shape after a reduction, according to the node's attributes and operands.
    pub fn reduced(self, op: &'static str, x: &[Dim]) -> Option<Vec<Dim>> {
        rules::reduce(op, self.node, self.facts, x).ok()?
    }

    /// Returns the extents of an operand; `None` if even the rank is unknown.
    pub fn dims(self, input: usize) -> Option<&'a [Dim]> {
        shape_of(self.facts.ty(self.node, input))
    }

    /// Returns the element type of an operand.
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

    /// Returns an integer attribute, or `default` if it is absent; `None` if it is of another kind.
    pub fn int(self, name: &str, default: i64) -> Option<i64> {
        Some(self.node.attributes.int(name).ok()?.unwrap_or(default))
    }

    /// Returns the integers of an attribute.
    pub fn ints(self, name: &str) -> Option<&'a [i64]> {
        self.node.attributes.ints(name).ok()?
    }

    /// Returns a string attribute, or `default` if it is absent.
    pub fn text(self, name: &str, default: &'a str) -> Option<&'a str> {
        Some(self.node.attributes.text(name).ok()?.unwrap_or(default))
    }

    /// Returns the element type whose ONNX number an attribute contains, or `default` if the attribute is
    /// absent.
    pub fn type_attribute(self, name: &str, default: Option<DataType>) -> Option<DataType> {
        match self.node.attributes.int(name).ok()? {
            Some(number) => DataType::from_onnx(i32::try_from(number).ok()?),
            None => default,
        }
    }

    /// Returns a list of integers that is an attribute in older versions and an operand in newer versions;
    /// empty if it is absent.
    pub fn list(self, attribute: &str, input: usize) -> Option<Vec<i64>> {
        match given(self.node, self.facts, attribute, input) {
            Given::Ints(ints) => Some(ints),
            Given::Absent => Some(Vec::new()),
            Given::Unknown => None,
        }
    }

    /// Returns the integer in an operand of one element.
    pub fn scalar(self, input: usize) -> Option<i64> {
        self.contents(input)?.only()?.int()
    }

    /// Returns the extent in an operand of one element.
    pub fn extent(self, input: usize) -> Dim {
        let entry = self.contents(input).and_then(Contents::only);
        entry.and_then(|e| e.formula().cloned()).map_or(Dim::Unknown, Dim::from)
    }

    /// Returns the integer in an operand of one element. A negative integer becomes 0.
    pub fn extent_or_less(self, input: usize) -> Dim {
        let entry = self.contents(input).and_then(Contents::only);
        entry.and_then(|e| e.formula()?.greater(&0.into())).map_or(Dim::Unknown, Dim::from)
    }

    /// Returns the contents of an operand, as far as they are known.
    pub fn contents(self, input: usize) -> Option<&'a Contents> {
        self.facts.contents(self.node, input)
    }

    /// Returns the extents in an operand; `None` if the contents are not known.
    pub fn extents(self, input: usize) -> Option<Vec<Dim>> {
        let entries = self.contents(input)?.entries.iter();
        Some(entries.map(|e| e.formula().map_or(Dim::Unknown, |f| Dim::from(f.clone()))).collect())
    }

    /// Returns unknown extents, one for each element of an operand that is a list of extents. Returns `None` if the length
    /// of the list is not known or is above 64.
    pub fn open_extents(self, input: usize) -> Option<Vec<Dim>> {
        match self.dims(input)? {
            [Dim::Known(rank)] if *rank <= 64 => Some(vec![Dim::Unknown; *rank]),
            _ => None,
        }
    }

    /// Returns `x` with another extent at the axis `axis`; `None` if the axis does not exist.
    pub fn with_axis(self, x: &[Dim], axis: i64, to: Dim) -> Option<Vec<Dim>> {
        self.with_axes(x, &[axis], &[to])
    }

    /// Returns `x` with other extents at the axes `axes`; `None` if an axis does not exist, or the lists
    /// differ in length.
    pub fn with_axes(self, x: &[Dim], axes: &[i64], to: &[Dim]) -> Option<Vec<Dim>> {
        let mut out = x.to_vec();
        for (&named, dim) in axes.iter().zip(to) {
            *out.get_mut(axis(named, x.len())?)? = dim.clone();
        }
        (axes.len() == to.len()).then_some(out)
    }

    /// Returns the types of a node whose only result has this type.
    pub fn one(self, dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> Option<Types> {
        Some(vec![tensor(dtype, shape)])
    }

    /// Returns the extents of the first operand.
    pub fn same(self) -> Option<Vec<Dim>> {
        self.dims(0).map(<[Dim]>::to_vec)
    }

    /// Returns the extents that all operands broadcast to.
    fn broadcast(self) -> Option<Vec<Dim>> {
        // In older versions, attributes define the broadcasting, and the result has the shape of the first
        // operand.
        if self.node.opset < 7 && self.node.domain.is_empty() {
            return self.same();
        }
        let given: Vec<usize> = (0..self.node.inputs.len()).filter(|i| self.has(*i)).collect();
        self.broadcast_of(&given)
    }

    /// Returns the extents that these operands broadcast to.
    pub fn broadcast_of(self, inputs: &[usize]) -> Option<Vec<Dim>> {
        let shapes = inputs.iter().map(|i| self.dims(*i)).collect::<Option<Vec<_>>>()?;
        Some(broadcast("broadcast", &shapes).ok()?.into_vec())
    }
}

/// Returns a tensor type; `Unknown` if the element type is unknown.
pub fn tensor(dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> ValueType {
    dtype.map_or(ValueType::Unknown, |dtype| ValueType::Tensor { dtype, shape })
}

/// Returns the index of the dimension that `axis` refers to, if there are `rank` dimensions.
pub fn axis(axis: i64, rank: usize) -> Option<usize> {
    Axis::new(axis, rank).ok().map(Axis::get)
}

/// Returns the facts that are true for both types.
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
