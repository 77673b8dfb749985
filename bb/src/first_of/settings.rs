//! The settings of a combined backend: its backends, the pins, and the reaction to failures.

use crate::{BackendHandle, Capabilities, Error};
use bb_ir::graph::{Graph, Node};

/// The name of a combined backend, as it stands before the parentheses.
pub(super) const NAME: &str = "first_of";

/// The reaction to a backend that fails in the middle of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fallback {
    /// The run fails.
    #[default]
    Never,
    /// If the device is lost, the graph runs again from its inputs on the other backends. Later runs use these backends, too.
    WhenLost,
    /// Like [`WhenLost`](Self::WhenLost). In addition, if a part fails for another reason that the caller did not cause, another
    /// backend runs it.
    WhenFailed,
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) backends: Vec<BackendHandle>,
    /// The native operations of each backend, and its device.
    pub(super) capabilities: Vec<Capabilities>,
    /// Names of nodes or operators, and the index of the backend that runs them.
    pub(super) pins: Vec<(String, usize)>,
    pub(super) fallback: Fallback,
    pub(super) by_order: bool,
}

impl Settings {
    pub(super) fn new(backends: Vec<BackendHandle>) -> Result<Settings, Error> {
        if backends.is_empty() {
            return Err(Error::NoMembers { name: NAME.to_owned() });
        }
        for (at, backend) in backends.iter().enumerate() {
            if backends.iter().take(at).any(|first| first.name() == backend.name()) {
                return Err(Error::MemberTwice { name: backend.name().to_owned() });
            }
        }
        let capabilities = backends.iter().map(|on| on.runtime().capabilities()).collect();
        Ok(Settings {
            backends,
            capabilities,
            pins: Vec::new(),
            fallback: Fallback::default(),
            by_order: false,
        })
    }

    /// Pins a node, or all nodes of an operator, to one of the backends.
    pub(super) fn pin(&mut self, node_or_operator: String, backend: &str) -> Result<(), Error> {
        let names = || self.backends.iter().map(BackendHandle::name);
        let backend = names().position(|known| known == backend).ok_or_else(|| Error::NotMember {
            name: backend.to_owned(),
            of: NAME,
            nearest: bb_ir::nearest(backend, names()).map(str::to_owned),
            members: names().map(str::to_owned).collect(),
        })?;
        self.pins.push((node_or_operator, backend));
        Ok(())
    }

    pub(super) fn name_of(&self, backend: usize) -> &'static str {
        self.backends.get(backend).map_or("", BackendHandle::name)
    }

    /// Returns the backend that each node is pinned to.
    pub(super) fn pinned(&self, graph: &Graph) -> Vec<Option<usize>> {
        let pin_of = |node: &Node| {
            let own = bb_core::error::name(graph, node);
            let found = self.pins.iter().find(|(name, _)| node.op_type == *name || own == *name);
            found.map(|(_, backend)| *backend)
        };
        match self.pins.is_empty() {
            true => vec![None; graph.nodes.len()],
            false => graph.nodes.iter().map(pin_of).collect(),
        }
    }

    /// Refuses a pin that names neither an operator nor a node of the graph, so that a typing error is found before anything runs.
    pub(super) fn check_pins(&self, graph: &Graph) -> Result<(), Error> {
        if self.pins.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = graph.nodes.iter().map(|node| bb_core::error::name(graph, node)).collect();
        let operators = graph.nodes.iter().map(|node| node.op_type.as_str());
        let all: Vec<&str> = operators.chain(names.iter().map(String::as_str)).collect();
        let is_known = |pin: &str| {
            all.contains(&pin) || bb_core::operator::operators().any(|operator| operator.name == pin)
        };
        match self.pins.iter().find(|(pin, _)| !is_known(pin)) {
            None => Ok(()),
            Some((pin, backend)) => Err(Error::UnusedPin {
                name: pin.clone(),
                backend: self.name_of(*backend).to_owned(),
                nearest: bb_ir::nearest(pin, all).map(str::to_owned),
            }),
        }
    }
}
