//! Sorts nodes topologically: each node follows all nodes whose results it reads.

use crate::Error;
use crate::pace::ask;
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Returns a node's label for messages, as [`Graph::label_of`](crate::graph::Graph::label_of) does. If a node has no name
/// and no results, the label consists of its operator and its index.
pub(super) fn label(node: &NodeProto, index: usize) -> String {
    match crate::graph::label(node.name(), node.output.iter().map(String::as_str)) {
        "" => format!("{} #{index}", node.op_type()),
        label => label.to_owned(),
    }
}

/// Returns the subgraphs in a node's attributes.
pub(super) fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|a: &AttributeProto| a.g.iter().chain(&a.graphs))
}

/// Returns the indices of `nodes` in topological order: each node after all nodes whose results it reads.
///
/// If the nodes are already in a topological order, the order does not change. Names that no node produces are ignored. A
/// subgraph reads the names that occur in it but are not produced in it.
///
/// # Errors
///
/// [`Error::DuplicateValue`] if two nodes produce the same name; [`Error::Cycle`] if no topological order exists;
/// [`Error::Limit`] if subgraphs nest deeper than `nesting`.
pub(super) fn order(nodes: &[NodeProto], nesting: usize) -> Result<Vec<usize>, Error> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        ask();
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            if producers.insert(output, i).is_some() {
                return Err(Error::DuplicateValue { node: label(node, i), value: output.clone() });
            }
        }
    }
    // For each node, the number of producers that are not sorted yet, and the nodes that read its results.
    let mut waits = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut valid = true;
    for (i, node) in nodes.iter().enumerate() {
        ask();
        for name in reads(node, nesting)? {
            let Some(&producer) = producers.get(name) else {
                continue;
            };
            valid &= producer < i;
            if let (Some(wait), Some(list)) = (waits.get_mut(i), readers.get_mut(producer)) {
                *wait += 1;
                list.push(i);
            }
        }
    }
    if valid {
        return Ok((0..nodes.len()).collect());
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        waits.iter().enumerate().filter(|(_, w)| **w == 0).map(|(i, _)| Reverse(i)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i);
        for &reader in readers.get(i).map_or(&[][..], |r| r) {
            if let Some(wait) = waits.get_mut(reader) {
                *wait -= 1;
                if *wait == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    Err(cycle(nodes, &producers, &waits, nesting))
}

/// Finds a cycle: starting from an unsorted node, it repeatedly visits an unsorted producer of the node's operands.
fn cycle(nodes: &[NodeProto], producers: &HashMap<&str, usize>, waits: &[usize], nesting: usize) -> Error {
    let waiting = |i: &usize| waits.get(*i).is_some_and(|w| *w > 0);
    let mut at = (0..nodes.len()).find(|i| waiting(i)).unwrap_or(0);
    let mut value = String::new();
    let mut seen = HashSet::new();
    while seen.insert(at) {
        let Some(names) = nodes.get(at).and_then(|n| reads(n, nesting).ok()) else {
            break;
        };
        let next = names
            .into_iter()
            .find_map(|name| producers.get(name).filter(|p| waiting(p)).map(|&p| (p, name.to_owned())));
        let Some((next, name)) = next else { break };
        (at, value) = (next, name);
    }
    // The walk returned to the node `at`, which produces `value` and also reads it, possibly through other nodes.
    Error::Cycle { node: nodes.get(at).map_or_else(String::new, |n| label(n, at)), value }
}

/// Returns the names that a node reads, including the names that its subgraphs read from outside.
fn reads(node: &NodeProto, nesting: usize) -> Result<Vec<&str>, Error> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
    for graph in subgraphs(node) {
        free(graph, nesting, nesting, &mut names)?;
    }
    Ok(names)
}

/// Adds the names that `graph` reads but does not produce.
fn free<'p>(graph: &'p GraphProto, left: usize, limit: usize, names: &mut Vec<&'p str>) -> Result<(), Error> {
    let Some(left) = left.checked_sub(1) else {
        return Err(Error::Limit { what: "levels of nesting", name: Some("nesting"), limit, got: limit + 1 });
    };
    let mut local: HashSet<&str> = HashSet::new();
    local.extend(graph.input.iter().map(|v| v.name()));
    local.extend(graph.initializer.iter().map(|t| t.name()));
    local.extend(graph.sparse_initializer.iter().filter_map(|t| Some(t.values.as_ref()?.name())));
    for node in &graph.node {
        local.extend(node.output.iter().map(String::as_str));
    }
    let mut inner: Vec<&str> = Vec::new();
    for node in &graph.node {
        inner.extend(node.input.iter().map(String::as_str));
        for graph in subgraphs(node) {
            free(graph, left, limit, &mut inner)?;
        }
    }
    inner.extend(graph.output.iter().map(|v| v.name()));
    inner.retain(|n| !n.is_empty() && !local.contains(n));
    inner.sort_unstable();
    inner.dedup();
    names.append(&mut inner);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
        NodeProto {
            name: Some(name.to_owned()),
            input: inputs.iter().map(|s| (*s).to_owned()).collect(),
            output: outputs.iter().map(|s| (*s).to_owned()).collect(),
            ..NodeProto::default()
        }
    }

    fn with_subgraph(mut outer: NodeProto, inner: Vec<NodeProto>) -> NodeProto {
        let g = GraphProto { node: inner, ..GraphProto::default() };
        outer.attribute.push(AttributeProto { g: Some(g), ..AttributeProto::default() });
        outer
    }

    #[test]
    fn a_valid_order_is_kept() {
        let nodes = [node("a", &["x"], &["1"]), node("b", &["x"], &["2"]), node("c", &["1"], &["3"])];
        assert_eq!(order(&nodes, 8).expect("acyclic"), [0, 1, 2]);
    }

    #[test]
    fn readers_move_behind_producers_and_no_further() {
        let nodes = [node("a", &["3"], &["1"]), node("b", &["x"], &["2"]), node("c", &["2"], &["3"])];
        assert_eq!(order(&nodes, 8).expect("acyclic"), [1, 2, 0]);
    }

    #[test]
    fn a_cycle_names_a_node_on_it() {
        let nodes = [node("before", &["2"], &["0"]), node("a", &["2"], &["1"]), node("b", &["1"], &["2"])];
        match order(&nodes, 8) {
            Err(Error::Cycle { node, value }) => {
                assert!(["a", "b"].contains(&node.as_str()), "{node}");
                assert!(["1", "2"].contains(&value.as_str()), "{value}");
            }
            other => panic!("expected a cycle, got {other:?}"),
        }
        assert!(matches!(order(&[node("self", &["1"], &["1"])], 8), Err(Error::Cycle { .. })));
    }

    #[test]
    fn subgraphs_read_outer_values_but_not_their_own() {
        let reader = with_subgraph(node("if", &[], &["y"]), vec![node("n", &["v"], &["w"])]);
        let nodes = [reader, node("late", &[], &["v"])];
        assert_eq!(order(&nodes, 8).expect("acyclic"), [1, 0]);
        let shadow =
            with_subgraph(node("if", &[], &["y"]), vec![node("m", &[], &["v"]), node("n", &["v"], &["w"])]);
        let nodes = [shadow, node("late", &["y"], &["v"])];
        assert_eq!(order(&nodes, 8).expect("acyclic"), [0, 1]);
    }

    #[test]
    fn nesting_is_bounded() {
        let mut inner = node("n", &["x"], &["y"]);
        for _ in 0..9 {
            inner = with_subgraph(node("if", &[], &["y"]), vec![inner]);
        }
        assert!(matches!(order(&[inner], 8), Err(Error::Limit { .. })));
    }
}
