//! Cuts a graph into parts that the engine runs and parts that it does not.
//!
//! A part is convex, because its nodes have the same number of changes between the two on the longest path to them: no path
//! leaves a part and comes back.

use bb_ir::graph::{Graph, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Nodes that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Whether the engine runs them.
    pub(crate) own: bool,
    /// Their positions, ascending.
    pub(crate) nodes: Vec<usize>,
    /// The values that they read from outside, constants left out.
    pub(crate) inputs: Vec<ValueId>,
    /// Their results that others read, or that are outputs of the graph.
    pub(crate) outputs: Vec<ValueId>,
}

/// Cuts a graph; `own` says of each node whether the engine runs it. The pieces are in an order in which they can run.
pub(crate) fn cut(graph: &Graph, own: &[bool]) -> Vec<Piece> {
    let is_own = |at: usize| own.get(at).copied().unwrap_or(false);
    let mut depth_of: HashMap<ValueId, (usize, bool)> = HashMap::new();
    // The engine's nodes of a depth come first, so that the key orders the pieces.
    let mut pieces: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let mine = is_own(at);
        let step = |&(depth, of): &(usize, bool)| depth + usize::from(of != mine);
        let least = usize::from(!mine);
        let depth = node.reads().filter_map(|value| depth_of.get(&value)).map(step).max().unwrap_or(least);
        // Even depths are the engine's: a node without operands starts at its own parity.
        depth_of.extend(node.outputs.iter().flatten().map(|value| (*value, (depth, mine))));
        pieces.entry(depth).or_default().push(at);
    }
    pieces.into_values().map(|nodes| piece(graph, nodes, &is_own)).collect()
}

fn piece(graph: &Graph, nodes: Vec<usize>, is_own: &dyn Fn(usize) -> bool) -> Piece {
    let within: HashSet<usize> = nodes.iter().copied().collect();
    let here = || nodes.iter().filter_map(|&at| graph.nodes.get(at));
    let made: HashSet<ValueId> = here().flat_map(|node| node.outputs.iter().flatten().copied()).collect();
    let given: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    let constants: HashSet<ValueId> = graph.constants.iter().map(|(value, _)| *value).collect();
    let mut inputs: Vec<ValueId> = here().flat_map(|node| node.reads()).collect();
    inputs.retain(|value| !made.contains(value) && (given.contains(value) || !constants.contains(value)));
    inputs.sort_unstable();
    inputs.dedup();
    let outside = graph.nodes.iter().enumerate().filter(|(at, _)| !within.contains(at));
    let mut wanted: HashSet<ValueId> = outside.flat_map(|(_, node)| node.reads()).collect();
    wanted.extend(&graph.outputs);
    let mut outputs: Vec<ValueId> = made.into_iter().filter(|value| wanted.contains(value)).collect();
    outputs.sort_unstable();
    let own = nodes.first().is_some_and(|&at| is_own(at));
    Piece { own, nodes, inputs, outputs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bb_ir::graph::{Node, ValueInfo};

    /// A graph of nodes that are given by what they read and what they make.
    fn graph(nodes: &[(&[u32], u32)], inputs: &[u32], outputs: &[u32]) -> Graph {
        let ids = |of: &[u32]| of.iter().map(|&v| ValueId(v)).collect::<Vec<_>>();
        let node = |(reads, makes): &(&[u32], u32)| Node {
            inputs: ids(reads).into_iter().map(Some).collect(),
            outputs: vec![Some(ValueId(*makes))],
            ..Node::default()
        };
        let values = (0..10).map(|n| ValueInfo { name: format!("v{n}"), ..ValueInfo::default() }).collect();
        Graph {
            values,
            inputs: ids(inputs),
            outputs: ids(outputs),
            nodes: nodes.iter().map(node).collect(),
            ..Graph::default()
        }
    }

    #[test]
    fn a_graph_of_one_kind_is_one_piece() {
        let whole = graph(&[(&[0], 1), (&[1], 2)], &[0], &[2]);
        let pieces = cut(&whole, &[true, true]);
        let expected =
            Piece { own: true, nodes: vec![0, 1], inputs: vec![ValueId(0)], outputs: vec![ValueId(2)] };
        assert_eq!(pieces, [expected]);
    }

    /// A diamond: the engine's nodes before and after one that it does not run are two pieces, and the node beside it joins
    /// the first.
    #[test]
    fn no_path_leaves_a_piece_and_comes_back() {
        let diamond = graph(&[(&[0], 1), (&[1], 2), (&[1], 3), (&[2, 3], 4)], &[0], &[4]);
        let pieces = cut(&diamond, &[true, false, true, true]);
        let nodes: Vec<_> = pieces.iter().map(|piece| (piece.own, piece.nodes.clone())).collect();
        assert_eq!(nodes, [(true, vec![0, 2]), (false, vec![1]), (true, vec![3])]);
        let values: Vec<_> =
            pieces.iter().map(|piece| (piece.inputs.clone(), piece.outputs.clone())).collect();
        let ids = |of: &[u32]| of.iter().map(|&v| ValueId(v)).collect::<Vec<_>>();
        assert_eq!(values, [(ids(&[0]), ids(&[1, 3])), (ids(&[1]), ids(&[2])), (ids(&[2, 3]), ids(&[4]))]);
    }

    /// Two nodes without operands, of different kinds, have the same depth and are not one piece.
    #[test]
    fn kinds_are_not_mixed() {
        let two = graph(&[(&[], 1), (&[], 2), (&[1, 2], 3)], &[], &[3]);
        for own in [[true, false, true], [false, true, false], [false, true, true], [true, false, false]] {
            for piece in cut(&two, &own) {
                assert!(piece.nodes.iter().all(|&at| own.get(at) == Some(&piece.own)), "{piece:?}");
            }
        }
    }
}
