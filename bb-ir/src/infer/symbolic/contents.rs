//! The contents of small tensors, as far as they are known before inputs arrive.

use super::Facts;
use crate::graph::{Dim, DimExpr, Node, ValueType};
use crate::{DataType, Shape, TensorData, element_count};

/// The most entries that are followed.
pub(super) const MOST: usize = 256;

/// The most entries of floats that are followed; extents are computed from few.
const MOST_REALS: usize = 16;

/// A number of which something may be known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    /// An integer; truth values are 0 and 1.
    Whole(DimExpr),
    /// A float.
    Real(f64),
    Unknown,
}

impl Entry {
    /// A float; what is no number is not followed.
    pub(super) fn real(value: f64) -> Entry {
        if value.is_nan() { Entry::Unknown } else { Entry::Real(value) }
    }

    /// The integer, if it depends on no name.
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Entry::Whole(formula) => formula.constant(),
            Entry::Real(_) | Entry::Unknown => None,
        }
    }

    /// What is known of it as an integer.
    pub(super) fn formula(&self) -> Option<&DimExpr> {
        match self {
            Entry::Whole(formula) => Some(formula),
            Entry::Real(_) | Entry::Unknown => None,
        }
    }
}

impl From<i64> for Entry {
    fn from(value: i64) -> Entry {
        Entry::Whole(value.into())
    }
}

impl From<bool> for Entry {
    fn from(value: bool) -> Entry {
        Entry::from(i64::from(value))
    }
}

impl From<Option<DimExpr>> for Entry {
    fn from(formula: Option<DimExpr>) -> Entry {
        formula.map_or(Entry::Unknown, Entry::Whole)
    }
}

impl From<&Dim> for Entry {
    fn from(dim: &Dim) -> Entry {
        dim.formula().into()
    }
}

/// The contents of a tensor of known extents, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Contents {
    pub(super) shape: Shape,
    pub(super) entries: Vec<Entry>,
}

impl Contents {
    /// The entries of a tensor of that shape; none if they are not as many, or too many to follow.
    pub(super) fn new(shape: Shape, entries: Vec<Entry>) -> Option<Contents> {
        let fits = entries.len() <= MOST && element_count(&shape) == Some(entries.len());
        fits.then_some(Contents { shape, entries })
    }

    /// The contents of a tensor without elements, which its type tells.
    pub(super) fn nothing(ty: &ValueType) -> Option<Contents> {
        let shape = super::shape_of(ty).and_then(crate::infer::current)?;
        Contents::new(shape, Vec::new())
    }

    pub(super) fn list(entries: Vec<Entry>) -> Option<Contents> {
        Contents::new(Shape::from_slice(&[entries.len()]), entries)
    }

    pub(super) fn scalar(entry: Entry) -> Contents {
        Contents { shape: Shape::new(), entries: vec![entry] }
    }

    /// The contents of a constant, if they are few numbers.
    pub(super) fn of(data: &TensorData) -> Option<Contents> {
        let most = match data.dtype() {
            DataType::I64 | DataType::I32 | DataType::Bool => MOST,
            DataType::F32 | DataType::F64 => MOST_REALS,
            _ => return None,
        };
        if data.len() > most {
            return None;
        }
        let entries = match data.dtype() {
            DataType::I64 => data.as_slice::<i64>().ok()?.iter().map(|&v| v.into()).collect(),
            DataType::I32 => data.as_slice::<i32>().ok()?.iter().map(|&v| i64::from(v).into()).collect(),
            DataType::F32 => data.as_slice::<f32>().ok()?.iter().map(|&v| Entry::real(v.into())).collect(),
            DataType::F64 => data.as_slice::<f64>().ok()?.iter().map(|&v| Entry::real(v)).collect(),
            _ => data.to_bools().ok()?.into_iter().map(Entry::from).collect(),
        };
        Contents::new(Shape::from_slice(data.shape()), entries)
    }

    /// The integers, if all are known.
    pub(super) fn ints(&self) -> Option<Vec<i64>> {
        self.entries.iter().map(Entry::int).collect()
    }

    /// The only entry.
    pub(super) fn only(&self) -> Option<&Entry> {
        match self.entries.as_slice() {
            [entry] => Some(entry),
            _ => None,
        }
    }

    /// The bytes that a copy takes, roughly.
    pub(super) fn weight(&self) -> usize {
        let weight = |e: &Entry| 32 + e.formula().map_or(0, DimExpr::weight);
        self.entries.iter().map(weight).sum()
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
    match (node.inputs.get(input), facts.contents(node, input).and_then(Contents::ints)) {
        (None | Some(None), _) => Given::Absent,
        (_, Some(ints)) => Given::Ints(ints),
        _ => Given::Unknown,
    }
}
