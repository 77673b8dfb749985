//! Chooses the backend that runs each node of a graph.
//!
//! Each node begins on the first backend that runs it at the least cost. Then parts move to another backend as a whole for as long as the
//! saved transfers cost more than the slower execution: neighbours stay together.

use super::FirstOf;
use super::weigh::Weights;
use crate::look::Looked;
use crate::placement::{PassedOver, WhyNot};
use crate::{Module, look};
use bb_core::cut::{self, Part};
use bb_ir::graph::{Graph, ValueId};
use std::collections::{HashMap, HashSet};

/// How often parts are tried on other backends.
const ROUNDS: usize = 8;

/// A part gets its own thread, parallel to the part after it, if both run at least this long.
///
/// Units: seconds.
const OWN_THREAD: f64 = 2e-4;

/// The known facts of the nodes of a module on each backend.
pub(super) struct Candidates {
    /// For each backend, the analysis of each node.
    pub(super) looked: Vec<Vec<Looked>>,
    weights: Weights,
    /// Whether costs do not count.
    by_order: bool,
    /// For each node, the backend that it is pinned to.
    pinned: Vec<Option<usize>>,
    /// For each value, the node that makes it, and the nodes that read it.
    producer: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
}

impl Candidates {
    /// Looks at a module for each backend.
    pub(super) fn of(module: &Module, on: &FirstOf) -> Candidates {
        let graph = module.graph();
        let whole = look::Part { has: &|_| true, inputs: &graph.inputs, outputs: &graph.outputs };
        let looked: Vec<Vec<Looked>> =
            on.backends().iter().map(|backend| look::look(module, &whole, backend.runtime())).collect();
        let mut producer = HashMap::new();
        let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            // A constant is made wherever it is read.
            if !cut::is_constant(node) {
                producer.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
            }
            for value in node.reads() {
                readers.entry(value).or_default().push(at);
            }
        }
        let pinned = graph.nodes.iter().map(|node| on.pin_of(graph, node)).collect();
        let (weights, by_order) = (Weights::of(module, on, &looked), on.is_by_order());
        Candidates { weights, by_order, looked, pinned, producer, readers }
    }

    /// Lists the backends before `chosen`, which runs a node, and why each of them does not run the node. Empty if `chosen` cannot run it.
    pub(super) fn passed_over(
        &self,
        on: &FirstOf,
        graph: &Graph,
        at: usize,
        chosen: usize,
    ) -> Vec<PassedOver> {
        let is_constant = graph.nodes.get(at).is_none_or(cut::is_constant);
        if is_constant || self.looked_at(chosen, at).is_none_or(|looked| !looked.missing.is_empty()) {
            return Vec::new();
        }
        let earlier = on.backends().iter().enumerate().take(chosen);
        earlier.map(|(backend, on)| PassedOver::new(on.name(), self.why_not(backend, at, chosen))).collect()
    }

    /// Returns why a node that runs on `chosen` does not run on `backend`.
    fn why_not(&self, backend: usize, at: usize, chosen: usize) -> WhyNot {
        let seconds = self.weights.node(backend, at);
        match self.looked_at(backend, at) {
            _ if self.is_pinned(at, chosen) => WhyNot::Pinned,
            Some(looked) if !looked.missing.is_empty() => WhyNot::Refused(looked.missing.clone()),
            Some(looked) if seconds.is_infinite() => WhyNot::Exceeds(looked.exceeding.clone()),
            Some(looked) if seconds > self.weights.node(chosen, at) => WhyNot::Slower(looked.how),
            _ => WhyNot::Transfers,
        }
    }

    /// Returns the analysis of a node on a backend.
    pub(super) fn looked_at(&self, backend: usize, at: usize) -> Option<&Looked> {
        self.looked.get(backend).and_then(|nodes| nodes.get(at))
    }

    /// Returns whether a node is pinned to a backend.
    pub(super) fn is_pinned(&self, node: usize, backend: usize) -> bool {
        self.pinned.get(node) == Some(&Some(backend))
    }

    /// Places the nodes, excluding for each node the backends that it is barred from.
    pub(super) fn place(&self, graph: &Graph, barred: &Barred) -> Vec<usize> {
        let mut of: Vec<usize> = (0..graph.nodes.len()).map(|at| self.first(at, barred)).collect();
        if self.by_order {
            return of;
        }
        let mut least = self.cost(graph, &of);
        // A backend that runs all of it needs no transfers.
        for backend in 0..self.looked.len() {
            let alone: Vec<usize> =
                (0..of.len()).map(|at| self.pinned_or(at, barred).unwrap_or(backend)).collect();
            let cost = self.cost_within(graph, &alone, barred);
            if cost < least {
                (of, least) = (alone, cost);
            }
        }
        for _ in 0..ROUNDS {
            if !self.join(graph, &mut of, barred) {
                break;
            }
        }
        of
    }

    /// Returns the backend that a node is pinned to, unless the node is barred from it.
    fn pinned_or(&self, at: usize, barred: &Barred) -> Option<usize> {
        self.pinned.get(at).copied().flatten().filter(|backend| !barred.has(*backend, at))
    }

    /// Returns the backend that runs a node at the least cost, the first of several; the last one if none does, so that its error is
    /// reported.
    fn first(&self, at: usize, barred: &Barred) -> usize {
        if let Some(pinned) = self.pinned_or(at, barred) {
            return pinned;
        }
        let mut best = (f64::INFINITY, self.looked.len().saturating_sub(1));
        for backend in 0..self.looked.len() {
            let seconds = self.weights.node(backend, at);
            if self.by_order && seconds.is_finite() && !barred.has(backend, at) {
                return backend;
            }
            if seconds < best.0 && !barred.has(backend, at) {
                best = (seconds, backend);
            }
        }
        best.1
    }

    /// Returns the seconds of a run.
    fn cost(&self, graph: &Graph, of: &[usize]) -> f64 {
        let nodes: f64 = of.iter().enumerate().map(|(at, &backend)| self.weights.node(backend, at)).sum();
        let values = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
        nodes + values.map(|value| self.transfers(*value, of)).sum::<f64>()
    }

    fn cost_within(&self, graph: &Graph, of: &[usize], barred: &Barred) -> f64 {
        let is_barred = of.iter().enumerate().any(|(at, &backend)| barred.has(backend, at));
        if is_barred { f64::INFINITY } else { self.cost(graph, of) }
    }

    /// Returns the seconds of all transfers of a value: one to each other backend that reads it.
    fn transfers(&self, value: ValueId, of: &[usize]) -> f64 {
        let place = |at: usize| of.get(at).copied();
        let Some(from) = self.producer.get(&value).and_then(|&at| place(at)) else { return 0.0 };
        let readers = self.readers.get(&value).map_or(&[][..], Vec::as_slice);
        let to: HashSet<usize> =
            readers.iter().filter_map(|&at| place(at)).filter(|&to| to != from).collect();
        to.into_iter().map(|to| self.weights.transfer(value, from, to)).sum()
    }

    /// Moves each part to the backend where it costs the least together with its transfers. Returns whether one moved.
    fn join(&self, graph: &Graph, of: &mut [usize], barred: &Barred) -> bool {
        let mut moved = false;
        for part in cut::cut(graph, of, |_| false) {
            let pinned = part.nodes.iter().any(|&at| self.pinned_or(at, barred).is_some());
            if pinned {
                continue;
            }
            let mut best = (self.part_cost(graph, &part, of), part.target);
            let here = best.0;
            for backend in (0..self.looked.len()).filter(|&backend| backend != part.target) {
                if part.nodes.iter().any(|&at| barred.has(backend, at)) {
                    continue;
                }
                set(of, &part, backend);
                let there = self.part_cost(graph, &part, of);
                if there < best.0 {
                    best = (there, backend);
                }
            }
            set(of, &part, best.1);
            moved |= best.0 < here;
        }
        moved
    }

    /// Returns the seconds of the nodes of a part, and of the transfers of all values that they read and make.
    fn part_cost(&self, graph: &Graph, part: &Part<usize>, of: &[usize]) -> f64 {
        let place = |at: usize| of.get(at).copied().unwrap_or(part.target);
        let nodes: f64 = part.nodes.iter().map(|&at| self.weights.node(place(at), at)).sum();
        let made = part.nodes.iter().filter_map(|&at| graph.nodes.get(at));
        let values: HashSet<ValueId> =
            made.flat_map(|node| node.reads().chain(node.outputs.iter().flatten().copied())).collect();
        nodes + values.into_iter().map(|value| self.transfers(value, of)).sum::<f64>()
    }

    /// Cuts a placed graph: into parts that are as large as can be, unless two long ones can run at the same time.
    pub(super) fn parts(&self, graph: &Graph, of: &[usize]) -> Vec<Part<usize>> {
        let apart = cut::cut_apart(graph, of);
        if apart.windows(2).any(|pair| matches!(pair, [a, b] if self.beside(a, b))) {
            return apart;
        }
        cut::cut(graph, of, |_| false)
    }

    /// Returns whether two parts that follow each other can run at the same time, and are long enough for that.
    pub(super) fn beside(&self, a: &Part<usize>, b: &Part<usize>) -> bool {
        a.target != b.target
            && !a.outputs.iter().any(|value| b.inputs.contains(value))
            && [a, b].iter().all(|part| self.seconds(part) >= OWN_THREAD)
    }

    /// Returns the seconds of the nodes of a part.
    fn seconds(&self, part: &Part<usize>) -> f64 {
        part.nodes.iter().map(|&at| self.weights.node(part.target, at)).sum()
    }
}

fn set(of: &mut [usize], part: &Part<usize>, backend: usize) {
    for &at in &part.nodes {
        if let Some(place) = of.get_mut(at) {
            *place = backend;
        }
    }
}

/// The nodes that a backend turned out not to run, for each backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Barred(Vec<HashSet<usize>>);

impl Barred {
    pub(super) fn none(backends: usize) -> Barred {
        Barred(vec![HashSet::new(); backends])
    }

    pub(super) fn has(&self, backend: usize, node: usize) -> bool {
        self.0.get(backend).is_some_and(|nodes| nodes.contains(&node))
    }

    /// Bars nodes from a backend. Returns whether one of them was not barred before, and each has another backend left.
    pub(super) fn bar(&mut self, backend: usize, nodes: &[usize]) -> bool {
        let Some(own) = self.0.get_mut(backend) else { return false };
        let before = own.len();
        own.extend(nodes);
        let added = own.len() > before;
        added && nodes.iter().all(|node| self.0.iter().any(|barred| !barred.contains(node)))
    }
}
