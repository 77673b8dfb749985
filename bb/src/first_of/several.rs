//! The combined backend, and the report of where it runs each node of a graph.

use super::counts::{Counters, Transfers};
use super::place::{Barred, Candidates};
use super::settings::{Fallback, Settings};
use crate::placement::{PlacedNode, Placement, Side};
use crate::{BackendHandle, Capabilities, Error, Module};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// Creates a backend that combines several running ones, the preferred one first.
///
/// # Errors
///
/// The errors of [`FirstOf::new`].
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

/// A backend that combines several backends: each node of a graph runs on the most suitable one.
///
/// Before anything runs, each node is placed on the first backend that has it natively with its element types; if there is none, on the
/// first backend that runs it at all. Each backend counts as twice as fast as the next one in the list. A whole part of a graph moves to
/// another backend if the slower execution costs less than the transfers that it saves, so that neighbouring nodes stay together. Weights
/// are copied once to each backend that reads them. Two parts that do not depend on each other run at the same time.
///
/// A single operation runs on the backend that stores most of its operands, if that backend supports it.
///
/// The command line, Python and the service create it by name: `first_of(gpu, cpu)`, `first_of(gpu, cpu, Softmax=cpu, fallback=lost)`.
///
/// A layer around a `FirstOf` that implements operations receives each operation separately, so nothing is placed beforehand. Put the layer
/// around each member instead: `first_of(metrics+gpu, metrics+cpu)`.
#[derive(Debug, Clone)]
pub struct FirstOf {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
}

impl FirstOf {
    /// Creates a backend that combines several running ones, the preferred one first.
    ///
    /// # Errors
    ///
    /// [`Error::NoMembers`] if there is no backend; [`Error::MemberTwice`] if two backends have the same name.
    pub fn new(backends: impl IntoIterator<Item = BackendHandle>) -> Result<FirstOf, Error> {
        let settings = Settings::new(backends.into_iter().collect())?;
        let counters = Arc::new(Counters::of(settings.backends.len()));
        Ok(FirstOf { settings: Arc::new(settings), counters })
    }

    /// Pins a node, or all nodes of an operator, to one of the backends. A node without a name has the name of its first result. If several
    /// pins match, the first one counts. Compiling a model fails with [`Error::UnusedPin`] if the pin names neither a node of the model nor
    /// an operator of `bb`.
    ///
    /// # Errors
    ///
    /// [`Error::NotMember`] if none of the backends has this name.
    pub fn with_pin(mut self, node_or_operator: impl Into<String>, backend: &str) -> Result<FirstOf, Error> {
        Arc::make_mut(&mut self.settings).pin(node_or_operator.into(), backend)?;
        Ok(self)
    }

    /// Sets the reaction to a backend that fails in the middle of a graph.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Fallback) -> FirstOf {
        Arc::make_mut(&mut self.settings).fallback = fallback;
        self
    }

    /// Places nodes only by the order of the backends: each node runs on the first backend that supports it, whatever the transfers cost.
    #[must_use]
    pub fn with_order(mut self) -> FirstOf {
        Arc::make_mut(&mut self.settings).by_order = true;
        self
    }

    /// Returns the combined backend of a handle; `None` if the handle belongs to another kind of backend.
    pub fn of(handle: &BackendHandle) -> Option<&FirstOf> {
        handle.typed::<FirstOf>().map(|on| on.backend())
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
        let candidates = Candidates::of(module, &self.settings, self.none_barred());
        let of = candidates.place(graph);
        let parts = candidates.parts(graph, &of);
        let side = |at: usize| Side::Backend(self.settings.name_of(at).to_owned());
        let mut placement = Placement::of_parts(graph, &parts, |part| side(part.target));
        let placed = candidates.report(graph, &of, &self.settings).into_iter().zip(&graph.nodes);
        placement.nodes = placed.map(|(placed, node)| placed.report(graph, node)).collect();
        placement
    }

    /// Returns the backend that would run each node of a graph, with the analysis of the node.
    pub(crate) fn placed(&self, module: &Module) -> Vec<PlacedNode> {
        let candidates = Candidates::of(module, &self.settings, self.none_barred());
        candidates.report(module.graph(), &candidates.place(module.graph()), &self.settings)
    }

    /// Returns the native operations of each backend, and its device.
    pub(super) fn capabilities(&self) -> &[Capabilities] {
        &self.settings.capabilities
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn none_barred(&self) -> Barred {
        Barred::none(self.backends().len())
    }

    pub(super) fn fallback(&self) -> Fallback {
        self.settings.fallback
    }

    /// Refuses a pin that names neither an operator nor a node of the graph.
    pub(crate) fn check_pins(&self, graph: &Graph) -> Result<(), Error> {
        self.settings.check_pins(graph)
    }
}
