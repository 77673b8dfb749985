//! Traces a single node, with stand-ins for everything about its operands that is known only when the graph runs: ranks, extents and
//! elements.
//!
//! The element types of a node's operations rarely depend on these, but a trace needs operands that fit each other, the constants and the
//! attributes of the node. So several stand-ins are tried until a trace succeeds.

use bb_core::contract::OnnxValue;
use bb_core::plan::{Explored, Resolved, SegmentInput, SegmentTrace, Settings, Start, Stop, explore};
use bb_core::runtime::ones;
use bb_core::trace::Varies;
use bb_ir::graph::{Attribute, Dim, Node, ValueId, ValueType};
use bb_ir::{DataType, Limits, Shape, TensorData};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of lists of extents that are tried for one node, for each assumed rank.
const LISTS: usize = 512;

/// The maximum number of traces with stand-ins of one graph.
pub(super) const TRACES: usize = 1 << 14;

/// The maximum number of different extents that are tried for one operand.
const MOST: usize = 12;

/// The maximum number of integers in an attribute that may be extents. Longer lists are tables, for example of trees.
const FEW: usize = 8;

/// The ranks that are assumed for operands of unknown rank, after the ranks of the other operands.
const RANKS: [usize; 6] = [2, 3, 4, 1, 5, 0];

/// The extents that are assumed, after the numbers that occur in the node.
const EXTENTS: [usize; 3] = [64, 1, 2];

/// The greatest attribute that may be an extent.
const GREATEST: i64 = 1 << 16;

/// The elements that are assumed for operands with at most one axis, from an operand on: whether they are ones instead of zeros. An axis or
/// a padding of 0 is valid for most operators, and so is a count or a scale of 1.
const ELEMENTS: [Option<(usize, bool)>; 5] =
    [None, Some((1, false)), Some((1, true)), Some((0, false)), Some((0, true))];

/// A trace of a single node: the graph without its other nodes, the trace, and the results.
pub(super) type Alone = (Arc<Resolved>, SegmentTrace, Vec<ValueId>);

/// An operand that is computed when the graph runs.
struct Operand {
    value: ValueId,
    /// Its index among the operands of the node.
    index: usize,
    dtype: DataType,
    /// The extents; `None` if even the rank is unknown.
    shape: Option<Vec<Dim>>,
}

/// An extent of an operand: a number, or the index of its stand-in.
enum Extent {
    Known(usize),
    StandIn(usize),
}

/// A node, and the facts about its operands that determine the stand-ins.
pub(super) struct StandIns {
    alone: Arc<Resolved>,
    operands: Vec<Operand>,
    known: Vec<(ValueId, TensorData)>,
    ranks: Vec<usize>,
    extents: Vec<usize>,
}

impl StandIns {
    /// Prepares a node that ended a segment; `live` are the values at the end of the segment. Returns `None` if the element type of an
    /// operand is unknown.
    pub(super) fn of(
        resolved: &Arc<Resolved>,
        ended: &Start,
        live: &[(ValueId, OnnxValue<()>, Vec<SegmentInput>)],
    ) -> Option<StandIns> {
        let (graph, at) = (&resolved.graph, ended.node);
        let node = graph.nodes.get(at)?;
        let read = |value: &ValueId| resolved.is_read_from(*value, at + 1).unwrap_or(true);
        let results: Vec<ValueId> = node.outputs.iter().flatten().copied().filter(read).collect();
        let alone = Resolved::part(graph.clone(), &results, &|other| other == at, &mut Vec::new()).ok()?;
        let mut found = StandIns {
            alone: Arc::new(alone),
            operands: vec![],
            known: vec![],
            ranks: vec![],
            extents: vec![],
        };
        let mut numbers = Vec::new();
        for (index, value) in node.inputs.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
            let weight = resolved.weight(value).ok()?.and_then(|at| graph.constants.get(at));
            let known = ended.known.iter().find(|(known, _)| *known == value);
            if let Some((_, data)) = known.or(weight) {
                found.ranks.push(data.shape().len());
                numbers.extend_from_slice(data.shape());
                found.known.extend(known.cloned());
                continue;
            }
            let (dtype, shape) = tensor(&graph.values.get(value.index())?.ty, value, live)?;
            found.ranks.extend(shape.as_ref().map(Vec::len));
            numbers.extend(shape.iter().flatten().filter_map(|dim| match dim {
                Dim::Known(extent) => Some(*extent),
                _ => None,
            }));
            if found.operands.iter().all(|other| other.value != value) {
                found.operands.push(Operand { value, index, dtype, shape });
            }
        }
        numbers.extend(attributes(node));
        numbers.extend(found.ranks.iter().flat_map(|rank| [*rank, 2 * rank]));
        found.ranks.extend(RANKS);
        found.extents = distinct(numbers.into_iter().filter(|n| *n > 0));
        found.extents.truncate(MOST - EXTENTS.len());
        found.extents = distinct(found.extents.into_iter().chain(EXTENTS));
        found.ranks = match found.operands.iter().any(|operand| operand.shape.is_none()) {
            true => distinct(found.ranks),
            false => vec![0],
        };
        Some(found)
    }

    /// Traces the node with one stand-in after another. Returns the first trace that succeeds. `left` is the number of traces that are
    /// still allowed.
    pub(super) fn trace(&self, settings: &Settings, left: &mut usize) -> Option<Alone> {
        self.ranks.iter().find_map(|rank| {
            let (shapes, count) = self.extents_of(*rank);
            assignments(&self.extents, count)
                .take(LISTS)
                .find_map(|extents| self.with_extents(&shapes, &extents, settings, left))
        })
    }

    /// Returns the extents of the operands if unknown ranks are `rank`, and the number of stand-ins in them. Symbolic dimensions of one name
    /// have one stand-in.
    fn extents_of(&self, rank: usize) -> (Vec<Vec<Extent>>, usize) {
        let (mut count, mut symbols) = (0, HashMap::new());
        let mut next = || {
            count += 1;
            count - 1
        };
        let shapes = self.operands.iter().map(|operand| match &operand.shape {
            None => (0..rank).map(|_| Extent::StandIn(next())).collect(),
            Some(dims) => dims
                .iter()
                .map(|dim| match dim {
                    Dim::Known(extent) => Extent::Known(*extent),
                    Dim::Unknown => Extent::StandIn(next()),
                    Dim::Symbol(_) | Dim::Computed(_) => {
                        Extent::StandIn(*symbols.entry(dim).or_insert_with(&mut next))
                    }
                })
                .collect(),
        });
        let shapes = shapes.collect();
        (shapes, count)
    }

    fn with_extents(
        &self,
        shapes: &[Vec<Extent>],
        extents: &[usize],
        settings: &Settings,
        left: &mut usize,
    ) -> Option<Alone> {
        let extent = |extent: &Extent| match extent {
            Extent::Known(extent) => Some(*extent),
            Extent::StandIn(index) => extents.get(*index).copied(),
        };
        let shapes: Vec<Shape> =
            shapes.iter().map(|shape| shape.iter().map(extent).collect()).collect::<Option<_>>()?;
        for elements in ELEMENTS {
            *left = left.checked_sub(1)?;
            match self.attempt(&shapes, elements, settings)? {
                (traced, Explored::Returned(values)) => return Some((self.alone.clone(), traced, values)),
                // The node needs elements of an operand.
                (_, Explored::Stopped(_, Stop::Boundary)) => {}
                // Other elements may be valid.
                (_, Explored::Stopped(_, Stop::Failed(_))) if elements.is_some() => {}
                (_, Explored::Stopped(..)) => return None,
            }
        }
        None
    }

    fn attempt(
        &self,
        shapes: &[Shape],
        elements: Option<(usize, bool)>,
        settings: &Settings,
    ) -> Option<(SegmentTrace, Explored)> {
        let mut start = Start { known: self.known.clone(), ..Start::default() };
        let mut inputs = Vec::with_capacity(self.operands.len());
        for (operand, shape) in self.operands.iter().zip(shapes) {
            let known = elements.filter(|(from, _)| operand.index >= *from && shape.len() <= 1);
            let known = match known {
                None => None,
                Some((_, true)) => Some(ones(operand.dtype, shape)?),
                Some((_, false)) => {
                    Some(TensorData::zeros(operand.dtype, shape, Limits::default().tensor_bytes).ok()?)
                }
            };
            start.live.push(operand.value);
            inputs.push(SegmentInput {
                dtype: operand.dtype,
                shape: shape.clone(),
                varies: Varies::Nothing,
                known,
            });
        }
        explore(&self.alone, &start, &inputs, &None, settings).ok()
    }
}

/// Returns the element type and the extents of an operand. The trace may know a rank that is not inferred, with extents that it assumed.
fn tensor(
    ty: &ValueType,
    value: ValueId,
    live: &[(ValueId, OnnxValue<()>, Vec<SegmentInput>)],
) -> Option<(DataType, Option<Vec<Dim>>)> {
    if let ValueType::Tensor { dtype, shape: Some(dims) } = ty {
        return Some((*dtype, Some(dims.clone())));
    }
    let traced =
        live.iter().find(|(other, item, _)| *other == value && matches!(item, OnnxValue::Tensor(())));
    match (traced.and_then(|(_, _, tensors)| tensors.first()), ty) {
        (Some(traced), _) => Some((traced.dtype, Some(vec![Dim::Unknown; traced.shape.len()]))),
        (None, ValueType::Tensor { dtype, .. }) => Some((*dtype, None)),
        _ => None,
    }
}

/// Returns the numbers among the attributes of a node that may be extents.
fn attributes(node: &Node) -> Vec<usize> {
    let mut numbers = Vec::new();
    for (_, attribute) in node.attributes.iter() {
        let ints = match attribute {
            Attribute::Int(n) => std::slice::from_ref(n),
            Attribute::Ints(ints) if ints.len() <= FEW => ints,
            _ => &[],
        };
        let usable = ints.iter().filter(|n| (1..=GREATEST).contains(*n));
        numbers.extend(usable.filter_map(|n| usize::try_from(*n).ok()));
    }
    numbers
}

/// Returns lists of `count` stand-ins, likely ones first: all equal, then all equal except one, then all combinations.
fn assignments(extents: &[usize], count: usize) -> impl Iterator<Item = Vec<usize>> {
    let uniform = extents.iter().map(move |extent| vec![*extent; count]);
    let one_other = extents.iter().flat_map(move |base| {
        (0..count).flat_map(move |at| {
            let others = extents.iter().filter(move |other| *other != base);
            others
                .map(move |other| (0..count).map(|index| if index == at { *other } else { *base }).collect())
        })
    });
    let combinations =
        (0..extents.len().saturating_pow(u32::try_from(count).unwrap_or(u32::MAX))).map(move |number| {
            let mut rest = number;
            let digit = |_| {
                let digit = rest % extents.len();
                rest /= extents.len();
                extents.get(digit).copied().unwrap_or(1)
            };
            (0..count).map(digit).collect()
        });
    uniform.chain(one_other).chain(combinations)
}

fn distinct(numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut all = Vec::new();
    for number in numbers {
        if !all.contains(&number) {
            all.push(number);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_stand_ins_come_first() {
        let all: Vec<Vec<usize>> = assignments(&[3, 5], 2).collect();
        let likely = [[3, 3], [5, 5], [5, 3], [3, 5], [3, 5], [5, 3]];
        let every = [[3, 3], [5, 3], [3, 5], [5, 5]];
        assert_eq!(all, [&likely[..], &every[..]].concat());
    }
}
