//! Cuts a graph into parts by the target of each node. A target is a backend or a component.
//!
//! A part is convex: no path leaves it and comes back. It can therefore be dispatched as a whole. If parts are merged,
//! they are as large as possible. Without merging, parts of different targets that could run at the same time stay
//! separate. The list of parts is in a valid order of execution.
#![expect(
    clippy::indexing_slicing,
    reason = "nodes and values of a checked graph are numbered in range, groups by us"
)]

use bb_ir::graph::{Graph, Node, ValueId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

/// A set of nodes that run together, in the graph's order, with the values that they exchange with other parts.
#[derive(Debug, Clone)]
pub struct Part<T> {
    pub target: T,
    pub nodes: Vec<usize>,
    /// The values that the nodes read from outside, except constants of the graph that are not its inputs.
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
}

impl<T> Part<T> {
    /// Returns the nodes as a graph of their own.
    pub fn graph(&self, whole: &Graph) -> Graph {
        whole.part(&self.nodes, &self.inputs, &self.outputs)
    }
}

/// The maximum number of groups that are merged, because merging compares all pairs of groups.
const MERGED: usize = 128;

/// Groups of nodes, and the edges between groups.
struct Groups<T> {
    target: Vec<T>,
    /// Whether each group stays a part of its own.
    alone: Vec<bool>,
    nodes: Vec<Vec<usize>>,
    next: Vec<BTreeSet<usize>>,
}

/// Cuts a graph into parts, and merges parts where possible. `targets` has the target of each node. If the predicate
/// holds for a target, each of its nodes is a part of its own.
pub fn cut<T: Copy + Eq + Hash>(graph: &Graph, targets: &[T], alone: impl Fn(&T) -> bool) -> Vec<Part<T>> {
    cut_by(graph, targets, alone, true)
}

/// Cuts a graph into parts and does not merge them.
pub fn cut_apart<T: Copy + Eq + Hash>(graph: &Graph, targets: &[T]) -> Vec<Part<T>> {
    cut_by(graph, targets, |_| false, false)
}

fn cut_by<T: Copy + Eq + Hash>(
    graph: &Graph,
    targets: &[T],
    alone: impl Fn(&T) -> bool,
    merges: bool,
) -> Vec<Part<T>> {
    let mut producer: HashMap<ValueId, usize> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        producer.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
    }
    let copied = copied(graph, targets, &alone);
    let mut groups = by_depth(graph, targets, &alone, &producer, &copied);
    if merges && groups.nodes.len() <= MERGED {
        groups.merge();
    }
    let mut group_of = vec![usize::MAX; graph.nodes.len()];
    for (group, nodes) in groups.nodes.iter().enumerate() {
        nodes.iter().for_each(|&at| group_of[at] = group);
    }
    let order = groups.order();
    for group in &order {
        let nodes = &groups.nodes[*group];
        let reads = nodes.iter().flat_map(|&at| graph.nodes[at].reads());
        let own: BTreeSet<usize> =
            reads.filter_map(|value| producer.get(&value).copied()).filter(|&at| copied[at]).collect();
        groups.nodes[*group] = nodes.iter().copied().chain(own).collect();
        groups.nodes[*group].sort_unstable();
    }
    order.into_iter().map(|group| part(graph, &groups, group, &group_of, &producer)).collect()
}

/// Returns whether a node is a `Constant`. A constant costs nothing on any target.
pub fn is_constant(node: &Node) -> bool {
    node.domain.is_empty() && node.op_type == "Constant"
}

/// Returns, for each node, whether each part that reads its result gets a copy of the node. This is the case for a
/// constant whose target may have larger parts, unless its result is an output of the graph or is read by a node that
/// must be a part of its own.
fn copied<T>(graph: &Graph, targets: &[T], alone: &impl Fn(&T) -> bool) -> Vec<bool> {
    let mut kept: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    for (node, target) in graph.nodes.iter().zip(targets) {
        if alone(target) {
            kept.extend(node.reads());
        }
    }
    let is_copied = |(node, target): (&Node, &T)| {
        is_constant(node)
            && !alone(target)
            && !node.outputs.iter().flatten().any(|value| kept.contains(value))
    };
    graph.nodes.iter().zip(targets).map(is_copied).collect()
}

/// Groups nodes that have the same target and the same depth. The depth of a node is the number of target changes on
/// the path that leads to it.
///
/// An edge between two groups always leads to a greater depth, so no path comes back to a group.
fn by_depth<T: Copy + Eq + Hash>(
    graph: &Graph,
    targets: &[T],
    alone: &impl Fn(&T) -> bool,
    producer: &HashMap<ValueId, usize>,
    copied: &[bool],
) -> Groups<T> {
    let mut groups = Groups { target: Vec::new(), alone: Vec::new(), nodes: Vec::new(), next: Vec::new() };
    let mut known: HashMap<(T, usize), usize> = HashMap::new();
    let mut placed: Vec<(usize, usize)> = Vec::with_capacity(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        let target = targets[at];
        let alone = alone(&target);
        if copied[at] {
            placed.push((0, usize::MAX));
            continue;
        }
        let read = node.reads().filter_map(|value| producer.get(&value).copied());
        let before: Vec<usize> = read.filter(|&p| !copied[p]).collect();
        let step = |&p: &usize| placed[p].0 + usize::from(alone || targets[p] != target);
        let depth = before.iter().map(step).max().unwrap_or(0);
        let group = match known.get(&(target, depth)) {
            Some(&group) if !alone => group,
            _ => {
                groups.target.push(target);
                groups.alone.push(alone);
                groups.nodes.push(Vec::new());
                groups.next.push(BTreeSet::new());
                groups.nodes.len() - 1
            }
        };
        known.insert((target, depth), group);
        groups.nodes[group].push(at);
        placed.push((depth, group));
        for &p in &before {
            if placed[p].1 != group {
                groups.next[placed[p].1].insert(group);
            }
        }
    }
    groups
}

impl<T: Copy + Eq> Groups<T> {
    /// Merges pairs of groups of one target until every remaining pair is separated by a path through a third group.
    fn merge(&mut self) {
        let mut a = 0;
        while a < self.nodes.len() {
            let mergeable = |b: &usize| {
                self.target[*b] == self.target[a]
                    && !self.alone[a]
                    && !self.detour(a, *b)
                    && !self.detour(*b, a)
            };
            match (a + 1..self.nodes.len()).find(mergeable) {
                // A merge may make an earlier pair mergeable, but never the reverse.
                Some(b) => {
                    self.join(a, b);
                    a = 0;
                }
                None => a += 1,
            }
        }
    }

    /// Returns whether a path leads from the group `from` to the group `to` through a third group.
    fn detour(&self, from: usize, to: usize) -> bool {
        let mut open: Vec<usize> = self.next[from].iter().copied().filter(|&g| g != to).collect();
        let mut seen = HashSet::new();
        while let Some(group) = open.pop() {
            if group == to {
                return true;
            }
            if seen.insert(group) {
                open.extend(&self.next[group]);
            }
        }
        false
    }

    fn join(&mut self, a: usize, b: usize) {
        let nodes = self.nodes.remove(b);
        self.nodes[a].extend(nodes);
        self.nodes[a].sort_unstable();
        self.target.remove(b);
        self.alone.remove(b);
        let next = self.next.remove(b);
        self.next[a].extend(next);
        let renumber = |g: &usize| match *g {
            g if g == b => a,
            g => g - usize::from(g > b),
        };
        for (group, next) in self.next.iter_mut().enumerate() {
            *next = next.iter().map(renumber).filter(|&g| g != group).collect();
        }
    }

    /// Orders the groups so that each comes after the groups that it reads from. If several groups could come next, the
    /// group with the earliest node does.
    fn order(&self) -> Vec<usize> {
        let mut waits = vec![0usize; self.nodes.len()];
        self.next.iter().flatten().for_each(|&g| waits[g] += 1);
        let first = |g: usize| (self.nodes[g].first().copied(), g);
        let mut ready: BTreeSet<_> = (0..self.nodes.len()).filter(|&g| waits[g] == 0).map(first).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some((_, group)) = ready.pop_first() {
            order.push(group);
            for &next in &self.next[group] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.insert(first(next));
                }
            }
        }
        order
    }
}

/// Lists, for each part, the input values that no later part reads. Outputs of the graph are never listed.
pub fn last_reads<T>(graph: &Graph, parts: &[Part<T>]) -> Vec<Vec<ValueId>> {
    let mut kept: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut last = vec![Vec::new(); parts.len()];
    for (part, last) in parts.iter().zip(&mut last).rev() {
        last.extend(part.inputs.iter().filter(|value| kept.insert(**value)));
    }
    last
}

/// Finds the values that a group reads from outside, and its values that other groups read.
fn part<T: Copy>(
    graph: &Graph,
    groups: &Groups<T>,
    group: usize,
    group_of: &[usize],
    producer: &HashMap<ValueId, usize>,
) -> Part<T> {
    let fixed: HashSet<ValueId> = graph.constants.iter().map(|(value, _)| *value).collect();
    let given: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    let mut inputs = Vec::new();
    let mut seen = HashSet::new();
    for value in groups.nodes[group].iter().flat_map(|&at| graph.nodes[at].reads()) {
        // A copied constant has no group.
        let inside = producer.get(&value).is_some_and(|&p| [group, usize::MAX].contains(&group_of[p]));
        let constant = fixed.contains(&value) && !given.contains(&value);
        if !inside && !constant && seen.insert(value) {
            inputs.push(value);
        }
    }
    let mut wanted: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    for (at, node) in graph.nodes.iter().enumerate() {
        if group_of[at] != group {
            wanted.extend(node.reads());
        }
    }
    let own = groups.nodes[group].iter().filter(|&&at| group_of[at] == group);
    let made = own.flat_map(|&at| graph.nodes[at].outputs.iter().flatten());
    let outputs = made.copied().filter(|value| wanted.contains(value)).collect();
    Part { target: groups.target[group], nodes: groups.nodes[group].clone(), inputs, outputs }
}

#[cfg(test)]
mod tests {
    use self::CutTarget::{Backend, Component};
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    enum CutTarget {
        Backend(usize),
        Component(usize),
    }

    fn alone(target: &CutTarget) -> bool {
        matches!(target, Component(_))
    }

    /// Builds a graph of nodes. `reads` lists the earlier nodes whose results each node reads; a node without any reads
    /// the graph's input.
    fn graph(reads: &[&[u32]]) -> Graph {
        let node = |(at, reads): (usize, &&[u32])| Node {
            inputs: if reads.is_empty() {
                vec![Some(ValueId(0))]
            } else {
                reads.iter().map(|r| Some(ValueId(r + 1))).collect()
            },
            outputs: vec![Some(ValueId(at as u32 + 1))],
            ..Node::default()
        };
        Graph {
            inputs: vec![ValueId(0)],
            outputs: vec![ValueId(reads.len() as u32)],
            nodes: reads.iter().enumerate().map(node).collect(),
            ..Graph::default()
        }
    }

    fn nodes(graph: &Graph, targets: &[CutTarget]) -> Vec<Vec<usize>> {
        cut(graph, targets, alone).into_iter().map(|part| part.nodes).collect()
    }

    #[test]
    fn one_backend_is_one_part() {
        let g = graph(&[&[], &[0], &[0], &[1, 2]]);
        assert_eq!(nodes(&g, &[Backend(0); 4]), [vec![0, 1, 2, 3]]);
    }

    #[test]
    fn a_path_through_another_backend_splits() {
        let g = graph(&[&[], &[0], &[0, 1]]);
        assert_eq!(nodes(&g, &[Backend(0), Backend(1), Backend(0)]), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn what_no_path_separates_is_one_part() {
        // Nodes 0 and 2 are on one backend. Node 1 is on another, and must run before node 2 only.
        let g = graph(&[&[], &[], &[1], &[0, 2]]);
        assert_eq!(nodes(&g, &[Backend(0), Backend(1), Backend(0), Backend(0)]), [vec![1], vec![0, 2, 3]]);
    }

    #[test]
    fn a_component_runs_one_node_at_a_time() {
        let g = graph(&[&[], &[], &[0, 1]]);
        assert_eq!(nodes(&g, &[Component(0); 3]), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn constants_are_made_where_they_are_read() {
        let mut g = graph(&[&[], &[], &[0, 1], &[1, 2]]);
        for at in [0, 1] {
            g.nodes[at].op_type = "Constant".to_owned();
            g.nodes[at].inputs = Vec::new();
        }
        let parts = cut(&g, &[Backend(0), Backend(0), Backend(0), Backend(1)], alone);
        let all: Vec<_> = parts.iter().map(|p| (p.nodes.clone(), p.inputs.clone())).collect();
        assert_eq!(all, [(vec![0, 1, 2], vec![]), (vec![1, 3], vec![ValueId(3)])]);
        // A component cannot compute the constant, because each of its nodes is a part of its own.
        let parts = cut(&g, &[Backend(0), Backend(0), Backend(0), Component(1)], alone);
        let all: Vec<_> = parts.iter().map(|p| (p.nodes.clone(), p.outputs.clone())).collect();
        assert_eq!(all, [(vec![0, 1, 2], vec![ValueId(2), ValueId(3)]), (vec![3], vec![ValueId(4)])]);
    }

    #[test]
    fn inputs_and_outputs_are_what_crosses() {
        let g = graph(&[&[], &[0], &[0, 1]]);
        let parts = cut(&g, &[Backend(0), Backend(1), Backend(1)], alone);
        let crossing: Vec<_> = parts.iter().map(|p| (p.inputs.clone(), p.outputs.clone())).collect();
        assert_eq!(crossing, [(vec![ValueId(0)], vec![ValueId(1)]), (vec![ValueId(1)], vec![ValueId(3)]),]);
    }
}
