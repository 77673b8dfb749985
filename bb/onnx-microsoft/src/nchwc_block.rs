//! The block size of a graph with blocked channels (see `nchwc.rs`).
//!
//! ONNX Runtime does not store the block size: it is 16 or 8, depending on the processor that the graph was optimized on. Here
//! it is derived from the graph where possible. 8 follows from a number of channels that is no multiple of 16. 16 follows from
//! fewer than 16 channels that are not in blocks, or from 8 or more zero filters at the end, which pad a block of 16. If the
//! filters fit both sizes, the graph is assumed to be from a processor like this one, as ONNX Runtime assumes. A graph without
//! filters stores no data in blocks, so blocks of 8 are used on every processor.

use bb_core::Error;
use bb_core::operator::Call;
use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueId, ValueType};
use bb_ir::infer::Extent;
use bb_ir::{DataType, TensorData};

const DOMAIN: &str = "com.microsoft.nchwc";

/// The attribute that passes the block size to the operators.
pub(crate) const BLOCK: &str = "__block";

/// The possible block sizes.
const SMALL: usize = 8;
const LARGE: usize = 16;

/// Returns the size of a block.
pub(super) fn block<T>(call: &Call<'_, T>) -> Result<usize, Error> {
    match call.int_if_given(BLOCK)? {
        None => Ok(of_processor()),
        Some(8) => Ok(SMALL),
        Some(16) => Ok(LARGE),
        Some(other) => Err(call.wrong(BLOCK, format!("is {other}, expected 8 or 16"))),
    }
}

/// Returns the block size that ONNX Runtime uses on a processor like this one.
fn of_processor() -> usize {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return SMALL;
    }
    LARGE
}

/// Adds the graph's block size as an attribute to each operator of the domain, also in subgraphs.
pub(crate) fn prepare(graph: &mut Graph) {
    if has_any(graph) {
        let size = told(graph).unwrap_or_else(|| if has_filters(graph) { of_processor() } else { SMALL });
        tell(graph, size as i64);
    }
}

/// Returns the graphs that a node contains.
fn bodies(node: &Node) -> impl Iterator<Item = &Graph> {
    node.attributes.iter().flat_map(|(_, value)| match value {
        Attribute::Graph(graph) => std::slice::from_ref(&**graph),
        Attribute::Graphs(graphs) => graphs.as_slice(),
        _ => &[],
    })
}

fn has_any(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| node.domain == DOMAIN || bodies(node).any(has_any))
}

/// Returns whether the graph has filters, which are stored in blocks.
fn has_filters(graph: &Graph) -> bool {
    graph
        .nodes
        .iter()
        .any(|node| (node.domain == DOMAIN && node.op_type == "Conv") || bodies(node).any(has_filters))
}

fn tell(graph: &mut Graph, size: i64) {
    for node in &mut graph.nodes {
        let own = node.domain == DOMAIN;
        if !own && !bodies(node).any(has_any) {
            continue;
        }
        let told = |value: &Attribute| {
            let mut value = value.clone();
            match &mut value {
                Attribute::Graph(graph) => tell(graph, size),
                Attribute::Graphs(graphs) => graphs.iter_mut().for_each(|graph| tell(graph, size)),
                _ => {}
            }
            value
        };
        let others = node.attributes.iter().filter(|(name, _)| !own || *name != BLOCK);
        let mut all: Vec<_> = others.map(|(name, value)| (name.to_owned(), told(value))).collect();
        if own {
            all.push((BLOCK.to_owned(), Attribute::Int(size)));
        }
        node.attributes = Attributes::new(all);
    }
}

/// Returns the block size that follows from the graph; `None` if both sizes are possible.
fn told(graph: &Graph) -> Option<usize> {
    let facts = GraphFacts::of(graph);
    graph.nodes.iter().find_map(|node| match (node.domain.as_str(), node.op_type.as_str()) {
        (DOMAIN, "Conv") => facts.of_conv(node),
        (DOMAIN, "ReorderOutput") => facts.of_reorder(node),
        _ => bodies(node).find_map(told),
    })
}

/// Facts about the values of a graph.
struct GraphFacts<'g> {
    graph: &'g Graph,
    /// The node that computes each value.
    makers: Vec<Option<&'g Node>>,
    /// The elements of each constant value.
    constants: Vec<Option<&'g TensorData>>,
}

impl<'g> GraphFacts<'g> {
    fn of(graph: &'g Graph) -> GraphFacts<'g> {
        let (mut makers, mut constants) = (vec![None; graph.values.len()], vec![None; graph.values.len()]);
        for node in &graph.nodes {
            for value in node.outputs.iter().flatten() {
                if let Some(slot) = makers.get_mut(value.index()) {
                    *slot = Some(node);
                }
            }
        }
        for (value, data) in &graph.constants {
            if let Some(slot) = constants.get_mut(value.index()) {
                *slot = Some(data);
            }
        }
        GraphFacts { graph, makers, constants }
    }

    fn constant(&self, node: &Node, input: usize) -> Option<&'g TensorData> {
        self.constants.get(node.inputs.get(input)?.as_ref()?.index()).copied().flatten()
    }

    /// Returns the number of channels of a value, if it is known.
    fn channels(&self, value: Option<ValueId>) -> Option<usize> {
        match &self.graph.values.get(value?.index())?.ty {
            ValueType::Tensor { shape: Some(shape), .. } => {
                shape.get(1)?.number().and_then(|n| usize::try_from(n).ok())
            }
            _ => None,
        }
    }

    fn of_conv(&self, node: &Node) -> Option<usize> {
        let w = self.constant(node, 1)?;
        let &[filters, of_each, ..] = w.shape() else { return None };
        let groups = node.attributes.int("group").ok()?.unwrap_or(1);
        // The input channels of a filter are in whole blocks, unless there are fewer than one block.
        if filters % LARGE != 0 || (groups == 1 && of_each > LARGE && of_each % LARGE != 0) {
            return Some(SMALL);
        }
        let is_open = groups == 1 && (SMALL..LARGE).contains(&of_each);
        if is_open && (of_each > SMALL || self.is_plain(node)) {
            return Some(LARGE);
        }
        ends_in_zeros(w).then_some(LARGE)
    }

    /// Returns whether the first operand is certainly not in blocks.
    fn is_plain(&self, node: &Node) -> bool {
        let Some(Some(x)) = node.inputs.first() else { return false };
        match self.makers.get(x.index()).copied().flatten() {
            Some(maker) => maker.domain == DOMAIN && maker.op_type == "ReorderOutput",
            None => true,
        }
    }

    /// Derives the block size from `ReorderOutput`, which removes less than a block of channels.
    fn of_reorder(&self, node: &Node) -> Option<usize> {
        let all = self.channels(node.inputs.first().copied().flatten())?;
        let left = usize::try_from(node.attributes.int("channels").ok()??).ok()?;
        if all % LARGE != 0 {
            return Some(SMALL);
        }
        (all.checked_sub(left)? >= SMALL).then_some(LARGE)
    }
}

/// Returns whether the filters fit blocks of 16 whose last 8 or more filters are zeros, and the filters before these are not all
/// zeros.
fn ends_in_zeros(w: &TensorData) -> bool {
    if w.dtype() != DataType::F32 {
        return false;
    }
    let Ok(elements) = w.as_slice::<f32>() else { return false };
    let count = w.shape().first().map_or(0, |filters| elements.len() / (filters / LARGE).max(1));
    let last = elements.get(elements.len().saturating_sub(count)..).unwrap_or_default();
    let (blocks, _) = last.as_chunks::<LARGE>();
    let zero = |half: &[f32]| half.iter().all(|&x| x == 0.0);
    let halves = || blocks.iter().map(|block| block.split_at(SMALL));
    halves().all(|(_, end)| zero(end)) && !halves().all(|(start, _)| zero(start))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Creates filters of one channel and one element, which are the same in blocks and in plain order.
    fn filters(elements: &[f32]) -> TensorData {
        TensorData::new(&[elements.len(), 1, 1, 1], elements).unwrap()
    }

    #[test]
    fn zeros_at_the_end_tell_blocks_of_16() {
        let of = |own: usize, all: usize| {
            let elements: Vec<f32> = (0..all).map(|at| if at < own { 1.0 } else { 0.0 }).collect();
            ends_in_zeros(&filters(&elements))
        };
        // 24 filters fill whole blocks of 8. 28 filters need padding with either block size, so they show nothing.
        assert!(of(24, 32) && of(17, 32) && of(3, 16));
        assert!(!of(32, 32) && !of(28, 32) && !of(0, 16) && !of(16, 32));
    }

    #[test]
    fn numbers_of_other_types_tell_nothing() {
        assert!(!ends_in_zeros(&TensorData::new(&[16, 1, 1, 1], &[0i32; 16]).unwrap()));
    }
}
