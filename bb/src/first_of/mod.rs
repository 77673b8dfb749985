//! A backend that combines several: each operation runs on a backend that supports it.

mod backend;
mod counts;
mod error;
mod named;
mod place;
mod program;
mod route;
mod tensor;
mod weigh;

pub use counts::Transfers;
pub use error::FirstOfError;
pub use tensor::PlacedTensor;

use crate::look::Looked;
use crate::placement::{Executor, NodePlacement, PassedOver, Placement, Side};
use crate::{BackendHandle, Capabilities, Error, Module, Runtime};
use bb_core::error::NodeInfo;
use bb_ir::graph::{Graph, Node};
use counts::Counters;
use place::{Barred, Candidates};
use std::sync::Arc;

/// Makes a backend of several running ones, the preferred one first.
///
/// # Errors
///
/// Those of [`FirstOf::new`].
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// let both = bb::first_of([bb::backend("gpu")?, bb::backend("cpu")?])?;
/// let both = bb::BackendHandle::start("both", both.with_pin("Softmax", "cpu")?);
/// let model = both.compile(bb::Module::load("model.onnx")?, &bb::CompileOptions::default())?;
/// # Ok(())
/// # }
/// ```
pub fn first_of(backends: impl IntoIterator<Item = BackendHandle>) -> Result<FirstOf, Error> {
    FirstOf::new(backends)
}

/// A backend that combines several: each node of a graph runs on the one that suits it best.
///
/// Before anything runs, each node is placed on the first backend that has it natively with its element types; if none has, on the first
/// that runs it at all. Each backend counts as twice as fast as the next one in the list. A part of a graph moves to another backend as a
/// whole if that costs less than its transfers do, so that neighbours stay together. Weights go to the backend that reads them, once. Two
/// parts that do not depend on each other run at the same time.
///
/// Single operations run on the backend that holds most of their operands, if it supports them.
///
/// By name, in the command line, Python and the service: `first_of(gpu, cpu)`, `first_of(gpu, cpu, Softmax=cpu, fallback=lost)`.
///
/// A layer around it that implements operations receives each of them separately, and nothing is placed beforehand. Put it around
/// each member instead: `first_of(metrics+gpu, metrics+cpu)`.
#[derive(Debug, Clone)]
pub struct FirstOf {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
}

#[derive(Debug, Clone)]
struct Settings {
    backends: Vec<BackendHandle>,
    /// The native operations of each backend, and its device.
    capabilities: Vec<Capabilities>,
    /// Names of nodes or operators, and the number of the backend that runs them.
    pins: Vec<(String, usize)>,
    fallback: Fallback,
    by_order: bool,
}

/// A node on the backend that runs it.
pub(crate) struct PlacedNode {
    /// The name of the backend.
    pub(crate) backend: &'static str,
    /// The analysis of the node on this backend.
    pub(crate) looked: Looked,
    /// The preferred backends that do not run it.
    pub(crate) passed_over: Vec<PassedOver>,
}

/// The reaction to a backend that fails in the middle of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fallback {
    /// The run fails.
    #[default]
    Never,
    /// If the device is lost, the graph runs on the other backends, from its inputs on; so do later runs.
    WhenLost,
    /// As [`WhenLost`](Self::WhenLost); and if a part fails for another reason that is not its caller's, another backend runs it.
    WhenFailed,
}

impl FirstOf {
    /// Makes a backend of several running ones, the preferred one first.
    ///
    /// # Errors
    ///
    /// [`Error::NoMembers`] if there is none; [`Error::MemberTwice`] if two have the same name.
    pub fn new(backends: impl IntoIterator<Item = BackendHandle>) -> Result<FirstOf, Error> {
        let backends: Vec<BackendHandle> = backends.into_iter().collect();
        if backends.is_empty() {
            return Err(Error::NoMembers { name: named::NAME.to_owned() });
        }
        for (at, backend) in backends.iter().enumerate() {
            if backends.iter().take(at).any(|first| first.name() == backend.name()) {
                return Err(Error::MemberTwice { name: backend.name().to_owned() });
            }
        }
        let counters = Arc::new(Counters::of(backends.len()));
        let capabilities = backends.iter().map(|on| on.runtime().capabilities()).collect();
        let (pins, fallback, by_order) = (Vec::new(), Fallback::default(), false);
        let settings = Settings { backends, capabilities, pins, fallback, by_order };
        Ok(FirstOf { settings: Arc::new(settings), counters })
    }

    /// Returns the same with a node, or all nodes of an operator, pinned to one of the backends. A node without a name has the name of its
    /// first result. If several pins match, the first one counts. Compiling a model fails with [`Error::UnusedPin`] if neither the model has a
    /// node of this name nor `bb` an operator.
    ///
    /// # Errors
    ///
    /// [`Error::NotMember`] if none of the backends has this name.
    pub fn with_pin(mut self, node_or_operator: impl Into<String>, backend: &str) -> Result<FirstOf, Error> {
        let place = self.backends().iter().position(|known| known.name() == backend);
        let names = || self.backends().iter().map(BackendHandle::name);
        let backend = place.ok_or_else(|| Error::NotMember {
            name: backend.to_owned(),
            of: named::NAME,
            nearest: bb_ir::nearest(backend, names()).map(str::to_owned),
            members: names().map(str::to_owned).collect(),
        })?;
        Arc::make_mut(&mut self.settings).pins.push((node_or_operator.into(), backend));
        Ok(self)
    }

    /// Returns the same with this reaction to a backend that fails in the middle of a graph.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Fallback) -> FirstOf {
        Arc::make_mut(&mut self.settings).fallback = fallback;
        self
    }

    /// Returns the same with nodes placed only by the order of the backends: each on the first that runs it, whatever the transfers cost.
    #[must_use]
    pub fn with_order(mut self) -> FirstOf {
        Arc::make_mut(&mut self.settings).by_order = true;
        self
    }

    /// Returns the several backends of a running one, if it was started from them.
    pub fn of(handle: &BackendHandle) -> Option<&FirstOf> {
        let any: &dyn std::any::Any = &**handle.runtime();
        any.downcast_ref::<Runtime<FirstOf>>().map(Runtime::backend)
    }

    /// Returns the backends, the preferred one first.
    pub fn backends(&self) -> &[BackendHandle] {
        &self.settings.backends
    }

    /// Returns the transfers between backends so far.
    pub fn transfers(&self) -> Transfers {
        self.counters.read()
    }

    /// Returns how many parts of graphs each backend ran so far.
    pub fn parts(&self) -> Vec<u64> {
        self.counters.parts()
    }

    /// Returns how often another backend reran a failed part.
    pub fn fallbacks(&self) -> u64 {
        self.counters.fallbacks()
    }

    /// Returns which backend would run each node of a graph, and which values would move.
    pub fn placement(&self, module: &Module) -> Placement {
        let graph = module.graph();
        let candidates = Candidates::of(module, self);
        let of = candidates.place(graph, &Barred::none(self.backends().len()));
        let parts = candidates.parts(graph, &of);
        let side = |at: usize| self.backend(at).map_or("", BackendHandle::name).to_owned();
        let mut placement = Placement::of_parts(graph, &parts, |part| Side::Backend(side(part.target)));
        for (at, (node, &backend)) in graph.nodes.iter().zip(&of).enumerate() {
            let Some(looked) = candidates.looked_at(backend, at) else { continue };
            let executor = Executor::Backend { name: side(backend), how: looked.how };
            placement.nodes.push(NodePlacement {
                node: NodeInfo::of(graph, node),
                executor,
                checked: looked.checked,
                passed_over: candidates.passed_over(self, graph, at, backend),
            });
        }
        placement
    }

    /// Returns each node of a graph on the backend that would run it.
    pub(crate) fn placed(&self, module: &Module) -> Vec<PlacedNode> {
        let (graph, candidates) = (module.graph(), Candidates::of(module, self));
        let of = candidates.place(graph, &Barred::none(self.backends().len()));
        let nodes = of.iter().enumerate();
        let passed: Vec<_> = nodes.map(|(at, &on)| candidates.passed_over(self, graph, at, on)).collect();
        let mut looked: Vec<_> = candidates.looked.into_iter().map(Vec::into_iter).collect();
        let placed = of.into_iter().zip(passed).filter_map(|(at, passed_over)| {
            // The analysis of the node on each backend.
            let mut each: Vec<Looked> = looked.iter_mut().filter_map(Iterator::next).collect();
            let backend = self.backend(at)?.name();
            (at < each.len()).then(|| PlacedNode { backend, looked: each.swap_remove(at), passed_over })
        });
        placed.collect()
    }

    /// Returns the native operations of each backend, and its device.
    fn capabilities(&self) -> &[Capabilities] {
        &self.settings.capabilities
    }

    fn backend(&self, at: usize) -> Option<&BackendHandle> {
        self.settings.backends.get(at)
    }

    fn fallback(&self) -> Fallback {
        self.settings.fallback
    }

    fn is_by_order(&self) -> bool {
        self.settings.by_order
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Refuses a pin that is the name of no operator and of no node of the graph, so that a typing error is found before anything runs.
    pub(crate) fn check_pins(&self, graph: &Graph) -> Result<(), Error> {
        if self.settings.pins.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = graph.nodes.iter().map(|node| bb_core::error::name(graph, node)).collect();
        let operators = || graph.nodes.iter().map(|node| node.op_type.as_str());
        let known = |pin: &str| {
            names.iter().any(|name| name == pin)
                || operators().any(|op| op == pin)
                || bb_core::operator::operators().any(|operator| operator.name == pin)
        };
        match self.settings.pins.iter().find(|(pin, _)| !known(pin)) {
            None => Ok(()),
            Some((pin, backend)) => {
                let all = operators().chain(names.iter().map(String::as_str));
                Err(Error::UnusedPin {
                    name: pin.clone(),
                    backend: self.backend(*backend).map_or_else(String::new, |on| on.name().to_owned()),
                    nearest: bb_ir::nearest(pin, all).map(str::to_owned),
                })
            }
        }
    }

    /// Returns the backend that a node is pinned to.
    fn pin_of(&self, graph: &Graph, node: &Node) -> Option<usize> {
        let pins = &self.settings.pins;
        if pins.is_empty() {
            return None;
        }
        let own = bb_core::error::name(graph, node);
        let found = pins.iter().find(|(name, _)| node.op_type == *name || own == *name);
        found.map(|(_, backend)| *backend)
    }
}
