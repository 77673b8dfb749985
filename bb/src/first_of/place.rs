//! Chooses the backend that runs each node of a graph.
//!
//! Each node begins on the first backend that runs it at the least cost. Then parts move to another backend as a whole for as long as the
//! saved transfers cost more than the slower execution: neighbours stay together.

use super::settings::Settings;
use super::weigh::{Weights, touched};
use crate::Module;
use crate::look::{Looked, look};
use crate::placement::{PassedOver, PlacedNode, WhyNot};
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
    looked: Vec<Vec<Looked>>,
    weights: Weights,
    /// Whether costs do not count.
    by_order: bool,
    /// For each node, the backend that it is pinned to.
    pinned: Vec<Option<usize>>,
    pub(super) barred: Barred,
    /// For each value, the node that makes it, and the nodes that read it.
    producer: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
}

impl Candidates {
    /// Looks at a module for each backend.
    pub(super) fn of(module: &Module, settings: &Settings, barred: Barred) -> Candidates {
        let graph = module.graph();
        let looked: Vec<Vec<Looked>> =
            settings.backends.iter().map(|backend| look(module, backend.runtime())).collect();
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
        let weights = Weights::of(module, &settings.capabilities, &looked);
        let (by_order, pinned) = (settings.by_order, settings.pinned(graph));
        Candidates { looked, weights, by_order, pinned, barred, producer, readers }
    }

    /// Reports each node on the backend that runs it, and the backends before it that do not.
    pub(super) fn report(&self, graph: &Graph, of: &[usize], settings: &Settings) -> Vec<PlacedNode> {
        let nodes = graph.nodes.iter().zip(of).enumerate().filter_map(|(at, (node, &chosen))| {
            let looked = self.looked_at(chosen, at)?.clone();
            // A constant is made wherever it is read, and a node that cannot run has reasons of its own.
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

    /// Returns the seconds of a node on a backend; infinite if the backend does not run it.
    fn seconds(&self, backend: usize, at: usize) -> f64 {
        if self.barred.has(backend, at) { f64::INFINITY } else { self.weights.node(backend, at) }
    }

    /// Places the nodes.
    pub(super) fn place(&self, graph: &Graph) -> Vec<usize> {
        let nodes = 0..graph.nodes.len();
        let mut of: Vec<usize> = nodes.clone().map(|at| self.first(at)).collect();
        if self.by_order {
            return of;
        }
        let mut least = self.cost(graph, &of);
        // A backend that runs all of it needs no transfers.
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

    /// Returns the backend that a node is pinned to; `None` if the node is barred from it.
    fn pin(&self, at: usize) -> Option<usize> {
        self.pinned.get(at).copied().flatten().filter(|backend| !self.barred.has(*backend, at))
    }

    /// Returns the backend that runs a node at the least cost, the first of several; the last one if none does, so that its error is
    /// reported.
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

    /// Returns the seconds of a run.
    fn cost(&self, graph: &Graph, of: &[usize]) -> f64 {
        let nodes: f64 = of.iter().enumerate().map(|(at, &backend)| self.seconds(backend, at)).sum();
        let values = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
        nodes + values.map(|value| self.transfers(*value, of)).sum::<f64>()
    }

    /// Returns the seconds of all transfers of a value: one to each other backend that reads it.
    fn transfers(&self, value: ValueId, of: &[usize]) -> f64 {
        let place = |at: usize| of.get(at).copied();
        let Some(from) = self.producer.get(&value).and_then(|&at| place(at)) else { return 0.0 };
        let readers = self.readers.get(&value).into_iter().flatten();
        let to: HashSet<usize> = readers.filter_map(|&at| place(at)).filter(|&to| to != from).collect();
        to.into_iter().map(|to| self.weights.transfer(value, from, to)).sum()
    }

    /// Moves each part to the backend where it costs the least together with its transfers. Returns whether one moved.
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

    /// Returns the seconds of the nodes of a part on a backend, and of the transfers of all values that they read and make.
    fn part_cost(&self, graph: &Graph, part: &Part<usize>, backend: usize, of: &[usize]) -> f64 {
        let made = part.nodes.iter().filter_map(|&at| graph.nodes.get(at));
        let values: HashSet<ValueId> = made.flat_map(touched).collect();
        let transfers: f64 = values.into_iter().map(|value| self.transfers(value, of)).sum();
        self.part_seconds(part, backend) + transfers
    }

    /// Returns the seconds of the nodes of a part on a backend.
    fn part_seconds(&self, part: &Part<usize>, backend: usize) -> f64 {
        part.nodes.iter().map(|&at| self.seconds(backend, at)).sum()
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
