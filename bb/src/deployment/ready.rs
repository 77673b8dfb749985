//! Checks all bindings and builds a deployment from them. Reports where each node runs, and which bindings would fail or
//! have no effect.

use super::builder::DeploymentBuilder;
use super::models::Deployment;
use super::parts::{Loaded, Part, Target};
use crate::first_of::FirstOf;
use crate::look::look_part;
use crate::placement::{Executor, NodePlacement, PlacedNode, Placement, Side};
use crate::{BackendHandle, Error, Module};
use bb_core::cut;
use bb_core::error::{How, Missing, NodeInfo, Problem, ProblemList, Uncovered, Why, name};
use bb_core::plan::carriers;
use bb_ir::graph::{self, Graph, ValueId, ValueType};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The rules, components and backends that had an effect.
pub(super) struct Effects {
    /// For each component, whether a node calls it.
    pub(super) components: Vec<bool>,
    /// For each rule, whether it matches a node, and whether it is the first rule that matches some node.
    pub(super) rules: Vec<(bool, bool)>,
    /// The names of the backends that run a part.
    pub(super) backends: BTreeSet<String>,
    /// The carriers that name backends which are not bound, with the names of these backends.
    pub(super) unbound: Vec<(String, String)>,
}

impl DeploymentBuilder {
    /// Checks that everything can run, and returns the deployment.
    ///
    /// Each operation that a node is lowered to is tried on its backend with one element, once for each combination of
    /// element types; a backend for whole graphs is not tried, because its declaration counts
    /// ([`Backend::runs_whole_graphs`](crate::Backend::runs_whole_graphs)). Some types are known only when the model runs;
    /// [`NodePlacement::checked`](crate::deployment::NodePlacement::checked) says for each node whether everything was
    /// checked.
    ///
    /// # Errors
    ///
    /// [`Error::NotReady`] with a list of all problems: models that are not valid; every node of every model that
    /// cannot run, with the element types that its backend lacks; and bindings that have no effect.
    /// [`Error::NoBackend`] if there is no backend at all, [`Error::Unavailable`] if no backend can start.
    pub fn ready(mut self) -> Result<Deployment, Error> {
        if self.backends.default_backend().is_err() {
            let linked = bb_core::linked_backends()?;
            let mut available = linked.into_iter().map(|linked| linked.backend);
            let none = || Error::NoBackend { linked: Vec::new() };
            // If no backend is available, report why the first one is not.
            let first = available.next().ok_or_else(none)?;
            self.backends.bind(first.or_else(|error| available.find_map(Result::ok).ok_or(error))?);
        }
        let mut problems = self.duplicates();
        problems.extend(self.unknown_backends());
        let mut models = Vec::new();
        let mut effects = Effects {
            components: vec![false; self.components.len()],
            rules: vec![(false, false); self.rules.len()],
            backends: BTreeSet::new(),
            unbound: Vec::new(),
        };
        let sources = std::mem::take(&mut self.models);
        let count = sources.len();
        for (name, source) in sources {
            let model = source
                .load(&self.limits)
                .and_then(|module| self.loaded(&name, module, &mut effects, &mut problems));
            match model {
                Ok(model) => models.push(model),
                Err(source) => problems.push(Problem::Model { model: name, source: Box::new(source) }),
            }
        }
        // A rule or component without a node might match one in a model that could not be read, so it is reported only
        // if all models were read.
        if models.len() == count {
            problems.extend(self.unused(&models, &effects));
        }
        let mut programs = Vec::new();
        for model in models.into_iter().filter(|_| problems.is_empty()).collect::<Vec<_>>() {
            let name = model.name.clone();
            match self.program(model) {
                Ok(program) => programs.push((name, program)),
                Err(source) => problems.push(Problem::Model { model: name, source: Box::new(source) }),
            }
        }
        if !problems.is_empty() {
            return Err(Error::NotReady { problems: ProblemList(problems) });
        }
        Ok(Deployment { programs, backends: self.backends })
    }

    /// Finds models, backends and components that were bound twice. Only the first of each would take effect.
    fn duplicates(&self) -> Vec<Problem> {
        let models = repeated(self.models.iter().map(|(model, _)| model));
        let models = models.map(|model| Problem::DuplicateModel { model: model.clone() });
        let backends = repeated(self.backends.iter().map(BackendHandle::name));
        let backends = backends.map(|backend| Problem::DuplicateBackend { backend: backend.to_owned() });
        let components = repeated(self.components.iter().map(|bound| (&bound.domain, &bound.name)));
        let components = components
            .map(|(domain, name)| Problem::DuplicateComponent { domain: domain.clone(), name: name.clone() });
        models.chain(backends).chain(components).collect()
    }

    /// Finds backends that a rule, an attribute or metadata names, but that are not bound.
    fn unknown_backends(&self) -> Vec<Problem> {
        let rules = self.rules.iter().enumerate().map(|(at, rule)| (rule.text(at), &rule.backend));
        let accompanying = self.accompanying.keys().map(|backend| (self.accompanies(backend), backend));
        let unknown = |(by, backend): (String, &String)| {
            let source = Box::new(self.backends.named(backend).err()?);
            Some(Problem::UnknownBackend { by, source })
        };
        rules.chain(accompanying).filter_map(unknown).collect()
    }

    /// Returns the source text of the calls that added attributes or metadata for a backend, for messages.
    pub(super) fn accompanies(&self, backend: &str) -> String {
        let given = self.accompanying.get(backend);
        let attributes = given.is_some_and(|given| !given.attributes.is_empty());
        let metadata = given.is_some_and(|given| !given.metadata.is_empty());
        let calls =
            [(attributes, "attribute"), (metadata, "metadata")].into_iter().filter(|(given, _)| *given);
        calls.map(|(_, call)| format!(".{call}(\"{backend}\", …)")).collect::<Vec<_>>().join("`, `")
    }

    /// Cuts a model into parts, and adds everything that cannot run to `problems`.
    fn loaded(
        &self,
        name: &str,
        module: Module,
        effects: &mut Effects,
        problems: &mut Vec<Problem>,
    ) -> Result<Loaded, Error> {
        let graph = module.graph();
        let (targets, open) = self.targets(graph, effects);
        for (node, backend) in effects.unbound.drain(..) {
            if let Err(source) = self.backends.named(&backend) {
                let by = format!("the backend of the node {node}");
                problems.push(Problem::UnknownBackend { by, source: Box::new(source) });
            }
        }
        let parts = cut::cut(graph, &targets, Target::is_alone);
        let misplaced = self.only_tensors_leave(name, graph, &parts).into_iter();
        problems.extend(
            misplaced.map(|leaves| Problem::Model { model: name.to_owned(), source: Box::new(leaves) }),
        );
        let mut placement = Placement::of_parts(graph, &parts, |part| self.side(graph, part));
        let mut placed = BTreeMap::new();
        for part in &parts {
            let nodes = part.nodes.iter().filter_map(|&at| Some((at, graph.nodes.get(at)?)));
            let Some(on) = self.backend_of(part.target) else {
                placed.extend(nodes.map(|(at, node)| {
                    let (node, executor) = (NodeInfo::of(graph, node), Executor::Component);
                    (at, NodePlacement { node, executor, checked: true, passed_over: Vec::new() })
                }));
                continue;
            };
            effects.backends.insert(on.name().to_owned());
            if let Some(combined) = on.typed::<FirstOf>() {
                combined.check_pins(graph)?;
            }
            for ((at, node), mut looked) in nodes.zip(look_part(&module, part, on.runtime())) {
                self.bound_inside(graph, node, effects, &mut looked.missing);
                if !looked.missing.is_empty() {
                    looked.how = How::Unsupported;
                }
                let mut missing = looked.missing.clone();
                if !self.accepts_narrowing {
                    let exceeding = looked.exceeding.iter().cloned();
                    missing.extend(
                        exceeding.map(|e| Missing { node: NodeInfo::of(graph, node), why: Why::Exceeds(e) }),
                    );
                }
                // If the rule of a node names an unbound backend, the node's backend is unknown, so its missing operators
                // are not reported.
                if !open.contains(&at) {
                    problems.extend(missing.into_iter().map(|missing| {
                        Problem::Node(Uncovered::new(name.to_owned(), missing, on.name().to_owned()))
                    }));
                }
                let node_placed = PlacedNode { backend: on.name(), looked, passed_over: Vec::new() };
                placed.insert(at, node_placed.report(graph, node));
            }
        }
        placement.nodes = placed.into_values().collect();
        Ok(Loaded { name: name.to_owned(), module, parts, placement })
    }

    /// Finds the target of each node, and the nodes that rules bind to backends which are not bound.
    fn targets(&self, graph: &Graph, effects: &mut Effects) -> (Vec<Target>, HashSet<usize>) {
        let mut open = HashSet::new();
        let mut targets = Vec::with_capacity(graph.nodes.len());
        for (at, node) in graph.nodes.iter().enumerate() {
            let component = self.component_of(node);
            let mut first = component.is_none();
            let mut target = Target::Backend(0);
            for (rule, (chooses, counts)) in self.rules.iter().zip(&mut effects.rules) {
                if !rule.chooses(graph, node) {
                    continue;
                }
                *chooses = true;
                if std::mem::take(&mut first) {
                    *counts = true;
                    match self.position(&rule.backend) {
                        Some(backend) => target = Target::Backend(backend),
                        None => _ = open.insert(at),
                    }
                }
            }
            if let (Target::Backend(at), true) = (target, carriers::body(node).is_some()) {
                // Bindings of the deployment take precedence over the backend that the model names.
                let free = first && component.is_none();
                let asked = carriers::backend(node).filter(|_| free).and_then(|name| {
                    let found = self.position(name);
                    if found.is_none() {
                        effects.unbound.push((bb_core::error::name(graph, node), name.to_owned()));
                    }
                    found
                });
                target = Target::Carrier(asked.unwrap_or(at));
            }
            if let Some(component) = component {
                target = Target::Component(component);
                if let Some(used) = effects.components.get_mut(component) {
                    *used = true;
                }
            }
            targets.push(target);
        }
        (targets, open)
    }

    fn position(&self, backend: &str) -> Option<usize> {
        self.backends.iter().position(|on| on.name() == backend)
    }

    /// Returns the component bound to a node's operator.
    fn component_of(&self, node: &graph::Node) -> Option<usize> {
        self.components.iter().position(|bound| bound.domain == node.domain && bound.name == node.op_type)
    }

    /// Adds the nodes inside a node's subgraphs whose operators are bound to components.
    fn bound_inside(
        &self,
        graph: &Graph,
        holder: &graph::Node,
        effects: &mut Effects,
        missing: &mut Vec<Missing>,
    ) {
        for (inner, node) in inner_nodes(holder) {
            let Some(component) = self.component_of(node) else { continue };
            if let Some(used) = effects.components.get_mut(component) {
                *used = true;
            }
            let node = NodeInfo::of(inner, node);
            missing.retain(|known| known.node != node);
            missing.push(Missing { node, why: Why::InSubgraph { holder: name(graph, holder) } });
        }
    }

    fn side(&self, graph: &Graph, part: &Part) -> Side {
        let first = || part.nodes.first().and_then(|at| graph.nodes.get(*at));
        match self.backend_of(part.target) {
            Some(on) => Side::Backend(on.name().to_owned()),
            None => Side::Component(first().map_or_else(String::new, |node| name(graph, node))),
        }
    }

    /// Returns the backend of a part; `None` for a component.
    pub(super) fn backend_of(&self, target: Target) -> Option<&BackendHandle> {
        match target {
            Target::Backend(at) | Target::Carrier(at) => self.backends.iter().nth(at),
            Target::Component(_) => None,
        }
    }

    /// Finds values that are not tensors among those that pass between parts, or between a part and the caller.
    fn only_tensors_leave(&self, model: &str, graph: &Graph, parts: &[Part]) -> Vec<Error> {
        const CALLER: &str = "the caller";
        let mut made_by: HashMap<ValueId, String> = HashMap::new();
        let leaves = |value: &ValueId, from: Option<&String>, to: &str| {
            Some(Error::Leaves {
                model: model.to_owned(),
                value: graph.name_of(*value).to_owned(),
                kind: kind(graph, *value)?,
                from: from.map_or(CALLER, |name| name).to_owned(),
                to: to.to_owned(),
            })
        };
        let mut found = Vec::new();
        for part in parts {
            let name = match self.backend_of(part.target) {
                Some(on) => format!("a part on `{}`", on.name()),
                None => "a component".to_owned(),
            };
            found.extend(part.inputs.iter().filter_map(|value| leaves(value, made_by.get(value), &name)));
            made_by.extend(part.outputs.iter().map(|value| (*value, name.clone())));
        }
        found.extend(graph.outputs.iter().filter_map(|value| leaves(value, made_by.get(value), CALLER)));
        found
    }
}

/// Names the kind of a value that is known not to be a tensor.
fn kind(graph: &Graph, value: ValueId) -> Option<&'static str> {
    match graph.values.get(value.index())?.ty {
        ValueType::Tensor { .. } | ValueType::Unknown => None,
        ValueType::Sequence(_) => Some("a sequence"),
        ValueType::Optional(_) => Some("an optional"),
        ValueType::Map(..) => Some("a map"),
    }
}

/// Returns the items that come more than once, without the first of each.
fn repeated<T: Eq + std::hash::Hash + Copy>(items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut known = HashSet::new();
    items.filter(move |item| !known.insert(*item))
}

/// Returns all nodes in the subgraphs of a node, with their graphs.
pub(super) fn inner_nodes(holder: &graph::Node) -> Vec<(&Graph, &graph::Node)> {
    let mut open: Vec<&Graph> = holder.subgraphs().collect();
    let mut nodes = Vec::new();
    while let Some(inner) = open.pop() {
        open.extend(inner.nodes.iter().flat_map(graph::Node::subgraphs));
        nodes.extend(inner.nodes.iter().map(|node| (inner, node)));
    }
    nodes
}
