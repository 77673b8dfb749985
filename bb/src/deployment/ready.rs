//! Checks all bindings and builds a deployment from them. Reports where each node runs, and which bindings would fail or
//! have no effect.

use super::models::Deployment;
use super::run::{Program, Step};
use super::target::{self, Target};
use super::{BackendSubgraph, DeploymentBuilder};
use crate::coverage::{How, Missing, NodeInfo, Why};
use crate::first_of::FirstOf;
use crate::look::{Part, look};
use crate::placement::{Executor, NodePlacement, Placement, Side};
use crate::{BackendHandle, CheckedGraph, Error, Module};
use bb_core::cut;
use bb_core::error::{Problem, ProblemList, Uncovered};
use bb_core::plan::carriers;
use bb_ir::graph::{self, Graph, ValueId, ValueType};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// A model that is read and cut, but not yet prepared to run.
pub(super) struct Loaded {
    name: String,
    pub(super) module: Module,
    parts: Vec<target::Part>,
    placement: Placement,
}

/// Which rules, components and backends had an effect.
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

    /// Finds models, backends and components that were bound twice; only the first would count.
    fn duplicates(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut models = HashSet::new();
        for (model, _) in &self.models {
            if !models.insert(model) {
                problems.push(Problem::DuplicateModel { model: model.clone() });
            }
        }
        let mut backends = HashSet::new();
        for backend in self.backends.iter().map(BackendHandle::name) {
            if !backends.insert(backend) {
                problems.push(Problem::DuplicateBackend { backend: backend.to_owned() });
            }
        }
        let mut components = HashSet::new();
        for bound in &self.components {
            if !components.insert((&bound.domain, &bound.name)) {
                let (domain, name) = (bound.domain.clone(), bound.name.clone());
                problems.push(Problem::DuplicateComponent { domain, name });
            }
        }
        problems
    }

    /// Finds backends that are named but not bound.
    fn unknown_backends(&self) -> Vec<Problem> {
        let rules = self.rules.iter().enumerate().map(|(at, rule)| (rule.text(at), &rule.backend));
        let accompanying = self.accompanying.keys().map(|backend| (self.accompanies(backend), backend));
        let unknown = |(by, backend): (String, &String)| {
            let source = Box::new(self.backends.named(backend).err()?);
            Some(Problem::UnknownBackend { by, source })
        };
        rules.chain(accompanying).filter_map(unknown).collect()
    }

    /// Writes the calls that added attributes or metadata for a backend.
    pub(super) fn accompanies(&self, backend: &str) -> String {
        let given = self.accompanying.get(backend);
        let attributes = given.is_some_and(|given| !given.attributes.is_empty());
        let metadata = given.is_some_and(|given| !given.metadata.is_empty());
        let calls =
            [(attributes, "attribute"), (metadata, "metadata")].into_iter().filter(|(given, _)| *given);
        calls.map(|(_, call)| format!(".{call}(\"{backend}\", …)")).collect::<Vec<_>>().join("`, `")
    }

    /// Cuts a model, and adds everything that cannot run to `problems`.
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
        let misplaced = self.only_tensors_leave(name, graph, &parts)?.into_iter();
        problems.extend(
            misplaced.map(|leaves| Problem::Model { model: name.to_owned(), source: Box::new(leaves) }),
        );
        let mut placement = Placement::of_parts(graph, &parts, |part| self.side(graph, part));
        let mut placed: Vec<Option<NodePlacement>> = vec![None; graph.nodes.len()];
        for part in &parts {
            let (Target::Backend(at) | Target::Carrier(at)) = part.target else {
                for at in &part.nodes {
                    if let (Some(place), Some(node)) = (placed.get_mut(*at), graph.nodes.get(*at)) {
                        let node = NodeInfo::of(graph, node);
                        let (executor, passed_over) = (Executor::Component, Vec::new());
                        *place = Some(NodePlacement { node, executor, checked: true, passed_over });
                    }
                }
                continue;
            };
            let backend = self.backend_at(at)?;
            effects.backends.insert(backend.name().to_owned());
            if let Some(combined) = backend.typed::<FirstOf>() {
                combined.check_pins(graph)?;
            }
            let nodes: HashSet<usize> = part.nodes.iter().copied().collect();
            let has = |at: usize| nodes.contains(&at);
            let part = Part { has: &has, inputs: &part.inputs, outputs: &part.outputs };
            for (at, looked) in look(&module, &part, backend.runtime()).into_iter().enumerate() {
                let (Some(node), true) = (graph.nodes.get(at), nodes.contains(&at)) else { continue };
                let mut missing = looked.missing;
                self.bound_inside(graph, node, effects, &mut missing);
                let how = if missing.is_empty() { looked.how } else { How::Unsupported };
                if !self.accepts_narrowing {
                    let exceeds =
                        |error| Missing { node: NodeInfo::of(graph, node), why: Why::Exceeds(error) };
                    missing.extend(looked.exceeding.into_iter().map(exceeds));
                }
                if let Some(place) = placed.get_mut(at) {
                    let executor = Executor::Backend { name: backend.name().to_owned(), how };
                    let (node, checked) = (NodeInfo::of(graph, node), looked.checked);
                    *place = Some(NodePlacement { node, executor, checked, passed_over: Vec::new() });
                }
                // The rule names a backend that is not bound, so it is not known which backend runs this node.
                if open.contains(&at) {
                    continue;
                }
                problems.extend(missing.into_iter().map(|missing| {
                    let (model, backend) = (name.to_owned(), backend.name().to_owned());
                    Problem::Node(Uncovered::new(model, missing, backend))
                }));
            }
        }
        placement.nodes = placed.into_iter().flatten().collect();
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
                    let owner = self.backends.named(&rule.backend).map(BackendHandle::owner);
                    match owner.ok().and_then(|owner| self.backends.iter().position(|b| b.owner() == owner)) {
                        Some(backend) => target = Target::Backend(backend),
                        None => {
                            open.insert(at);
                        }
                    }
                }
            }
            if let (Target::Backend(at), true) = (target, carriers::body(node).is_some()) {
                // Bindings of the deployment take precedence over the backend that the model names.
                let free = first && component.is_none();
                let asked = carriers::backend(node).filter(|_| free).and_then(|name| {
                    let found = self.backends.iter().position(|backend| backend.name() == name);
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
        let mut open: Vec<&Graph> = holder.subgraphs().collect();
        while let Some(inner) = open.pop() {
            for node in &inner.nodes {
                open.extend(node.subgraphs());
                let Some(component) = self.component_of(node) else { continue };
                if let Some(used) = effects.components.get_mut(component) {
                    *used = true;
                }
                let node = NodeInfo::of(inner, node);
                missing.retain(|known| known.node != node);
                missing.push(Missing {
                    node,
                    why: Why::InSubgraph { holder: bb_core::error::name(graph, holder) },
                });
            }
        }
    }

    fn side(&self, graph: &Graph, part: &target::Part) -> Side {
        let first = || part.nodes.first().and_then(|at| graph.nodes.get(*at));
        match part.target {
            Target::Backend(at) | Target::Carrier(at) => {
                Side::Backend(self.backend_at(at).map_or_else(|_| String::new(), |on| on.name().to_owned()))
            }
            Target::Component(_) => {
                Side::Component(first().map_or_else(String::new, |node| bb_core::error::name(graph, node)))
            }
        }
    }

    fn backend_at(&self, at: usize) -> Result<&BackendHandle, Error> {
        self.backends.iter().nth(at).map_or_else(|| self.backends.default_backend(), Ok)
    }

    /// Prepares the parts of a model.
    fn program(&self, model: Loaded) -> Result<Program, Error> {
        let Loaded { module, parts, placement, .. } = model;
        let graph = module.graph();
        let mut steps = Vec::new();
        for part in &parts {
            steps.push(match part.target {
                Target::Backend(at) => {
                    let backend = self.backend_at(at)?;
                    let part = graph.part(&part.nodes, &part.inputs, &part.outputs);
                    let accompanying = self.accompanying.get(backend.name());
                    Step::Subgraph(BackendSubgraph {
                        backend: backend.clone(),
                        checked: Arc::new(CheckedGraph::new(Module::of_part(part))?),
                        attributes: accompanying.map(|a| a.attributes.clone()).unwrap_or_default(),
                        metadata: accompanying.map(|a| a.metadata.clone()).unwrap_or_default(),
                    })
                }
                Target::Carrier(at) => self.carrier(graph, part, self.backend_at(at)?)?,
                Target::Component(at) => match (self.components.get(at), part.nodes.as_slice()) {
                    (Some(bound), [node]) => {
                        Step::Component { component: bound.component.clone(), node: *node }
                    }
                    _ => continue,
                },
            });
        }
        Program::new(module.clone(), steps, parts, placement, &self.backends)
    }

    /// Prepares the body of a carrier: the backend gets it with the attributes and metadata of the node, and those that accompany
    /// every part.
    fn carrier(&self, graph: &Graph, part: &target::Part, backend: &BackendHandle) -> Result<Step, Error> {
        let node = part.nodes.first().and_then(|at| graph.nodes.get(*at));
        let (Some(node), Some(body)) = (node, node.and_then(carriers::body)) else {
            return Err(Error::excluded("a part of one carrier"));
        };
        carriers::check(node, body)?;
        let kept = node.attributes.iter().filter(|(name, _)| *name != carriers::BODY);
        let kept =
            graph::Attributes::new(kept.map(|(name, value)| (name.to_owned(), value.clone())).collect());
        let mut attributes = kept.to_proto(&|value| graph.name_of(value).to_owned())?;
        let mut metadata: Vec<_> =
            node.metadata.iter().map(|(key, value)| bb_ir::graph::entry(key, value)).collect();
        if let Some(given) = self.accompanying.get(backend.name()) {
            attributes.extend(given.attributes.iter().cloned());
            metadata.extend(given.metadata.iter().cloned());
        }
        let named =
            |(inner, outer): (&ValueId, &Option<ValueId>)| Some((body.name_of(*inner).to_owned(), (*outer)?));
        let captured = body.captures.iter().map(|(outer, inner)| (body.name_of(*inner).to_owned(), *outer));
        let inputs = body.inputs.iter().zip(&node.inputs).filter_map(named).chain(captured).collect();
        let outputs = body.outputs.iter().zip(&node.outputs).filter_map(named).collect();
        let checked = Arc::new(CheckedGraph::new(Module::of_part(carriers::standalone(body)))?);
        let subgraph = BackendSubgraph { backend: backend.clone(), checked, attributes, metadata };
        Ok(Step::Carrier { subgraph, inputs, outputs })
    }

    /// Finds values that are not tensors among those that pass between parts, or between a part and the caller.
    fn only_tensors_leave(
        &self,
        model: &str,
        graph: &Graph,
        parts: &[target::Part],
    ) -> Result<Vec<Error>, Error> {
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
            let name = match part.target {
                Target::Backend(at) | Target::Carrier(at) => {
                    format!("a part on `{}`", self.backend_at(at)?.name())
                }
                Target::Component(_) => "a component".to_owned(),
            };
            found.extend(part.inputs.iter().filter_map(|value| leaves(value, made_by.get(value), &name)));
            made_by.extend(part.outputs.iter().map(|value| (*value, name.clone())));
        }
        found.extend(graph.outputs.iter().filter_map(|value| leaves(value, made_by.get(value), CALLER)));
        Ok(found)
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
