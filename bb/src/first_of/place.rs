//! Chooses the backend that runs each node of a graph.
//!
//! Each node begins on the first backend that runs it at the lowest cost. Then whole parts move to another backend as long as this saves
//! more transfer time than it adds execution time. So neighbouring nodes stay together.

use super::settings::Settings;
use super::weigh::{Weights, touched};
use crate::Module;
use crate::look::{Looked, look};
use crate::placement::{PassedOver, PlacedNode, WhyNot};
use bb_core::cut::{self, Part};
use bb_ir::graph::{Graph, ValueId};
use std::collections::{HashMap, HashSet};

/// The maximum number of rounds that try parts on other backends.
const ROUNDS: usize = 8;

/// The minimum run time of two consecutive parts that run in parallel, on a thread each.
///
/// Units: seconds.
const OWN_THREAD: f64 = 2e-4;

/// The analysis of the nodes of a module on each backend.
pub(super) struct Candidates {
    /// For each backend, the analysis of each node.
    looked: Vec<Vec<Looked>>,
    weights: Weights,
    /// Whether only the order of the backends decides, not the costs.
    by_order: bool,
    /// For each node, the backend that it is pinned to.
    pinned: Vec<Option<usize>>,
    pub(super) barred: Barred,
    /// For each value, the node that computes it, and the nodes that read it.
    producer: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
}

impl Candidates {
    /// Analyses a module for each backend.
    pub(super) fn of(module: &Module, settings: &Settings, barred: Barred) -> Candidates {
        let graph = module.graph();
        let looked: Vec<Vec<Looked>> =
            settings.backends.iter().map(|backend| look(module, backend.runtime())).collect();
        let mut producer = HashMap::new();
        let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            // A constant is created on each backend that reads it, so it has no producer.
            if !cut::is_constant(node) {
                producer.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
            }
            for value in node.reads() {
                readers.entry(value).or_default().push(at);
            }
        }
        let weights = Weights::of(module, &settings.capabilities, &looked);
        let (by_order, pinned) = (settings.by_order, settings.pinned(graph));
        Candidates { looked, weights, by_order, pinned, barred, producer, readers }
    }

    /// Reports for each node the backend that runs it, and the earlier backends that do not.
    pub(super) fn report(&self, graph: &Graph, of: &[usize], settings: &Settings) -> Vec<PlacedNode> {
        let nodes = graph.nodes.iter().zip(of).enumerate().filter_map(|(at, (node, &chosen))| {
            let looked = self.looked_at(chosen, at)?.clone();
            // Constants and nodes that cannot run are not reported as passed over: constants are created wherever they are read, and the
            // other nodes have their own reasons.
            let earlier = if cut::is_constant(node) || !looked.missing.is_empty() { 0 } else { chosen };
            let over = |other| PassedOver::new(settings.name_of(other), self.why_not(other, at, chosen));
            let passed_over = (0..earlier).map(over).collect();
            Some(PlacedNode { backend: settings.name_of(chosen), looked, passed_over })
        });
        nodes.collect()
    }

    /// Returns why a node that runs on `chosen` does not run on `backend`.
    fn why_not(&self, backend: usize, at: usize, chosen: usize) -> WhyNot {
        let seconds = self.seconds(backend, at);
        match self.looked_at(backend, at) {
            _ if self.is_pinned(at, chosen) => WhyNot::Pinned,
            Some(looked) if !looked.missing.is_empty() => WhyNot::Refused(looked.missing.clone()),
            Some(looked) if seconds.is_infinite() => WhyNot::Exceeds(looked.exceeding.clone()),
            Some(looked) if seconds > self.seconds(chosen, at) => WhyNot::Slower(looked.how),
            _ => WhyNot::Transfers,
        }
    }

    /// Returns the analysis of a node on a backend.
    fn looked_at(&self, backend: usize, at: usize) -> Option<&Looked> {
        self.looked.get(backend).and_then(|nodes| nodes.get(at))
    }

    /// Returns whether a node is pinned to a backend.
    pub(super) fn is_pinned(&self, node: usize, backend: usize) -> bool {
        self.pinned.get(node) == Some(&Some(backend))
    }

    /// Returns the estimated time of a node on a backend, in seconds; infinite if the backend does not run it.
    fn seconds(&self, backend: usize, at: usize) -> f64 {
        if self.barred.has(backend, at) { f64::INFINITY } else { self.weights.node(backend, at) }
    }

    /// Returns the index of the chosen backend for each node.
    pub(super) fn place(&self, graph: &Graph) -> Vec<usize> {
        let nodes = 0..graph.nodes.len();
        let mut of: Vec<usize> = nodes.clone().map(|at| self.first(at)).collect();
        if self.by_order {
            return of;
        }
        let mut least = self.cost(graph, &of);
        // Compare with each backend running the whole graph, because that needs no transfers.
        for backend in 0..self.looked.len() {
            let alone: Vec<usize> = nodes.clone().map(|at| self.pin(at).unwrap_or(backend)).collect();
            let cost = self.cost(graph, &alone);
            if cost < least {
                (of, least) = (alone, cost);
            }
        }
        for _ in 0..ROUNDS {
            if !self.join(graph, &mut of) {
                break;
            }
        }
        of
    }

    /// Returns the backend that a node is pinned to; `None` without a pin, or if the node is barred from that backend.
    fn pin(&self, at: usize) -> Option<usize> {
        self.pinned.get(at).copied().flatten().filter(|backend| !self.barred.has(*backend, at))
    }

    /// Returns the backend that a node is pinned to, or else the first backend with the lowest cost. If no backend runs the node, returns
    /// the last one, so that its error is reported.
    fn first(&self, at: usize) -> usize {
        if let Some(pinned) = self.pin(at) {
            return pinned;
        }
        let mut best = (f64::INFINITY, self.looked.len().saturating_sub(1));
        for backend in 0..self.looked.len() {
            let seconds = self.seconds(backend, at);
            if seconds < best.0 {
                best = (seconds, backend);
                if self.by_order {
                    break;
                }
            }
        }
        best.1
    }

    /// Returns the estimated time of a run in seconds, where `of` has the backend of each node.
    fn cost(&self, graph: &Graph, of: &[usize]) -> f64 {
        let nodes: f64 = of.iter().enumerate().map(|(at, &backend)| self.seconds(backend, at)).sum();
        let values = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
        nodes + values.map(|value| self.transfers(*value, of)).sum::<f64>()
    }

    /// Returns the time of all transfers of a value in seconds: one transfer to each other backend that reads it.
    fn transfers(&self, value: ValueId, of: &[usize]) -> f64 {
        let place = |at: usize| of.get(at).copied();
        let Some(from) = self.producer.get(&value).and_then(|&at| place(at)) else { return 0.0 };
        let readers = self.readers.get(&value).into_iter().flatten();
        let to: HashSet<usize> = readers.filter_map(|&at| place(at)).filter(|&to| to != from).collect();
        to.into_iter().map(|to| self.weights.transfer(value, from, to)).sum()
    }

    /// Moves each part to the backend where the part and its transfers cost the least. Returns whether a part moved.
    fn join(&self, graph: &Graph, of: &mut [usize]) -> bool {
        let mut moved = false;
        for part in cut::cut(graph, of, |_| false) {
            if part.nodes.iter().any(|&at| self.pin(at).is_some()) {
                continue;
            }
            let here = self.part_cost(graph, &part, part.target, of);
            let mut best = (here, part.target);
            for backend in (0..self.looked.len()).filter(|&backend| backend != part.target) {
                set(of, &part, backend);
                let there = self.part_cost(graph, &part, backend, of);
                if there < best.0 {
                    best = (there, backend);
                }
            }
            set(of, &part, best.1);
            moved |= best.0 < here;
        }
        moved
    }

    /// Returns the time of a part on a backend in seconds, with the transfers of all values that its nodes read or compute.
    fn part_cost(&self, graph: &Graph, part: &Part<usize>, backend: usize, of: &[usize]) -> f64 {
        let made = part.nodes.iter().filter_map(|&at| graph.nodes.get(at));
        let values: HashSet<ValueId> = made.flat_map(touched).collect();
        let transfers: f64 = values.into_iter().map(|value| self.transfers(value, of)).sum();
        self.part_seconds(part, backend) + transfers
    }

    /// Returns the time of the nodes of a part on a backend, in seconds.
    fn part_seconds(&self, part: &Part<usize>, backend: usize) -> f64 {
        part.nodes.iter().map(|&at| self.seconds(backend, at)).sum()
    }

    /// Cuts a placed graph into parts that are as large as possible, unless smaller parts let two long parts run at the same time.
    pub(super) fn parts(&self, graph: &Graph, of: &[usize]) -> Vec<Part<usize>> {
        let apart = cut::cut_apart(graph, of);
        if apart.windows(2).any(|pair| matches!(pair, [a, b] if self.beside(a, b))) {
            return apart;
        }
        cut::cut(graph, of, |_| false)
    }

    /// Returns whether two consecutive parts can run at the same time, and are long enough to make this worthwhile.
    pub(super) fn beside(&self, a: &Part<usize>, b: &Part<usize>) -> bool {
        a.target != b.target
            && !a.outputs.iter().any(|value| b.inputs.contains(value))
            && [a, b].iter().all(|part| self.part_seconds(part, part.target) >= OWN_THREAD)
    }
}

fn set(of: &mut [usize], part: &Part<usize>, backend: usize) {
    for &at in &part.nodes {
        if let Some(place) = of.get_mut(at) {
            *place = backend;
        }
    }
}

/// For each backend, the nodes that it turned out not to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Barred(Vec<HashSet<usize>>);

impl Barred {
    pub(super) fn none(backends: usize) -> Barred {
        Barred(vec![HashSet::new(); backends])
    }

    pub(super) fn has(&self, backend: usize, node: usize) -> bool {
        self.0.get(backend).is_some_and(|nodes| nodes.contains(&node))
    }

    /// Bars nodes from a backend. Returns true if at least one node was not barred before, and each node has another backend left.
    pub(super) fn bar(&mut self, backend: usize, nodes: &[usize]) -> bool {
        let Some(own) = self.0.get_mut(backend) else { return false };
        let before = own.len();
        own.extend(nodes);
        let added = own.len() > before;
        added && nodes.iter().all(|node| self.0.iter().any(|barred| !barred.contains(node)))
    }
}
