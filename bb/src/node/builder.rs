//! Puts a node together: models, components, backends, and which node runs where.

use super::cut::{self, Target};
use super::report::{By, Crossing, Placed, Placement, Uncovered, UncoveredList};
use super::run::{Program, Step};
use super::{BackendSubgraph, Component, Node};
use crate::coverage::{self, How, Missing};
use crate::{BackendHandle, Backends, Error, GraphIdentity, Module};
use bb_ir::Limits;
use bb_ir::graph::{self, Graph, ValueId, ValueType};
use bb_ir::proto::{AttributeProto, StringStringEntryProto};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a model comes from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Source {
    /// A checked model.
    Module(Module),
    /// A file; its external data lies in its folder.
    File(PathBuf),
    /// A serialized model without external data.
    Bytes(Vec<u8>),
}

impl From<Module> for Source {
    fn from(module: Module) -> Source {
        Source::Module(module)
    }
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Source {
        Source::File(path.to_owned())
    }
}

impl From<PathBuf> for Source {
    fn from(path: PathBuf) -> Source {
        Source::File(path)
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Source {
        Source::Bytes(bytes)
    }
}

impl Source {
    fn load(self, limits: &Limits) -> Result<Module, Error> {
        match self {
            Source::Module(module) => Ok(module),
            Source::File(path) => Module::load(&path, limits),
            Source::Bytes(bytes) => Module::from_bytes(bytes.into(), limits, None),
        }
    }
}

/// Chooses nodes, and the backend that runs them.
struct Rule {
    chooses: Box<dyn Fn(&graph::Node) -> bool + Send + Sync>,
    backend: String,
}

/// A component and the operator that it is.
struct Bound {
    domain: String,
    name: String,
    component: Arc<dyn Component>,
}

/// What accompanies every part that goes to one backend.
#[derive(Default)]
struct Accompanying {
    attributes: Vec<AttributeProto>,
    metadata: Vec<StringStringEntryProto>,
}

/// Collects models, components and backends for a [`Node`].
#[derive(Default)]
pub struct NodeBuilder {
    models: Vec<(String, Source)>,
    backends: Backends,
    components: Vec<Bound>,
    rules: Vec<Rule>,
    accompanying: HashMap<String, Accompanying>,
    limits: Limits,
}

impl NodeBuilder {
    /// Binds a model under a name.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, source: impl Into<Source>) -> Self {
        self.models.push((name.into(), source.into()));
        self
    }

    /// Binds a backend; the first is the default. Without any, it is the first of those linked, by name.
    #[must_use]
    pub fn backend(mut self, backend: BackendHandle) -> Self {
        self.backends.bind(backend);
        self
    }

    /// Binds a component to an operator, by domain and name; it comes before any backend.
    #[must_use]
    pub fn component(
        mut self,
        domain: impl Into<String>,
        name: impl Into<String>,
        component: impl Component + 'static,
    ) -> Self {
        self.components.push(Bound {
            domain: domain.into(),
            name: name.into(),
            component: Arc::new(component),
        });
        self
    }

    /// Runs the nodes of an operator on the backend called `backend`. Of several rules the first counts.
    #[must_use]
    pub fn bind_op(self, op_type: impl Into<String>, backend: impl Into<String>) -> Self {
        let op_type = op_type.into();
        self.bind_where(move |node| node.op_type == op_type, backend)
    }

    /// Runs the node called `name` on the backend called `backend`. Of several rules the first counts.
    #[must_use]
    pub fn bind_node(self, name: impl Into<String>, backend: impl Into<String>) -> Self {
        let name = name.into();
        self.bind_where(move |node| node.name == name, backend)
    }

    /// Runs the nodes chosen on the backend called `backend`. Of several rules the first counts.
    #[must_use]
    pub fn bind_where(
        mut self,
        chooses: impl Fn(&graph::Node) -> bool + Send + Sync + 'static,
        backend: impl Into<String>,
    ) -> Self {
        self.rules.push(Rule { chooses: Box::new(chooses), backend: backend.into() });
        self
    }

    /// Adds an attribute to what accompanies every part that goes to the backend called `backend`.
    #[must_use]
    pub fn attribute(mut self, backend: impl Into<String>, attribute: AttributeProto) -> Self {
        self.accompanying.entry(backend.into()).or_default().attributes.push(attribute);
        self
    }

    /// Adds metadata to what accompanies every part that goes to the backend called `backend`.
    #[must_use]
    pub fn metadata(mut self, backend: impl Into<String>, key: &str, value: &str) -> Self {
        self.accompanying.entry(backend.into()).or_default().metadata.push(graph::entry(key, value));
        self
    }

    /// Bounds what models may ask for.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Checks that everything can run, and returns the node that runs it.
    ///
    /// # Errors
    ///
    /// [`Error::Uncovered`] with every node of every model that nothing runs; what is wrong with a model;
    /// [`Error::Leaves`] if a sequence, an optional or a map would go from one backend to another, or to the caller;
    /// [`Error::UnknownBackend`] if a rule names a backend that is not bound.
    pub fn ready(mut self) -> Result<Node, Error> {
        if self.backends.default_backend().is_err() {
            let linked = crate::backends()?;
            let mut available = linked.into_iter().map(|linked| linked.backend);
            let none = || Error::NoBackend { linked: Vec::new() };
            // If none is available, the error is why the first is not.
            let first = available.next().ok_or_else(none)?;
            self.backends.bind(first.or_else(|error| available.find_map(Result::ok).ok_or(error))?);
        }
        let mut programs = Vec::new();
        let mut uncovered = Vec::new();
        for (name, source) in std::mem::take(&mut self.models) {
            let module = source.load(&self.limits)?;
            let targets = self.targets(module.graph())?;
            let placement = self.place(&name, &module, &targets, &mut uncovered)?;
            if uncovered.is_empty() {
                let program = self.program(&name, &module, &targets, placement)?;
                programs.push((name, program));
            }
        }
        if !uncovered.is_empty() {
            return Err(Error::Uncovered { missing: UncoveredList(uncovered) });
        }
        Ok(Node { programs, backends: self.backends })
    }

    /// Finds what runs each node.
    fn targets(&self, graph: &Graph) -> Result<Vec<Target>, Error> {
        let target = |node: &graph::Node| {
            let is_bound = |bound: &Bound| bound.domain == node.domain && bound.name == node.op_type;
            if let Some(component) = self.components.iter().position(is_bound) {
                return Ok(Target::Component(component));
            }
            match self.rules.iter().find(|rule| (rule.chooses)(node)) {
                None => Ok(Target::Backend(0)),
                Some(rule) => {
                    let owner = self.backends.named(&rule.backend)?.owner();
                    Ok(Target::Backend(self.backends.iter().position(|b| b.owner() == owner).unwrap_or(0)))
                }
            }
        };
        graph.nodes.iter().map(target).collect()
    }

    fn backend_at(&self, at: usize) -> Result<&BackendHandle, Error> {
        self.backends.iter().nth(at).map_or_else(|| self.backends.default_backend(), Ok)
    }

    /// Finds how each node runs, and adds those that nothing runs to `uncovered`.
    fn place(
        &self,
        model: &str,
        module: &Module,
        targets: &[Target],
        uncovered: &mut Vec<Uncovered>,
    ) -> Result<Placement, Error> {
        let graph = module.graph();
        let families = |backend: &BackendHandle| backend.runtime().capabilities().families;
        let hows: Vec<Vec<How>> =
            self.backends.iter().map(|backend| coverage::hows(module, &families(backend))).collect();
        let mut placement = Placement::default();
        for (at, (node, target)) in graph.nodes.iter().zip(targets).enumerate() {
            let by = match *target {
                Target::Component(_) => By::Component,
                Target::Backend(backend) => {
                    let how =
                        hows.get(backend).and_then(|hows| hows.get(at)).copied().unwrap_or(How::Unsupported);
                    By::Backend { name: self.backend_at(backend)?.name().to_owned(), how }
                }
            };
            if let By::Backend { name, .. } = &by {
                let missing = crate::plan::missing_of(graph, node).into_iter();
                uncovered.extend(missing.map(|node| Uncovered {
                    model: model.to_owned(),
                    node,
                    backend: name.clone(),
                }));
            }
            placement.nodes.push(Placed { node: Missing::of(graph, node), by });
        }
        Ok(placement)
    }

    /// Cuts a model and prepares its parts.
    fn program(
        &self,
        model: &str,
        module: &Module,
        targets: &[Target],
        mut placement: Placement,
    ) -> Result<Program, Error> {
        let graph = module.graph();
        let parts = cut::cut(graph, targets);
        placement.parts = parts.len();
        self.only_tensors_leave(model, graph, &parts)?;
        placement.crossings = self.crossings(graph, &parts)?;
        let mut steps = Vec::new();
        for part in &parts {
            steps.push(match part.target {
                Target::Backend(at) => {
                    let backend = self.backend_at(at)?;
                    let (proto, opsets) = graph.part_to_proto(&part.nodes, &part.inputs, &part.outputs)?;
                    let accompanying = self.accompanying.get(backend.name());
                    Step::Carrier(BackendSubgraph {
                        backend: backend.clone(),
                        graph: Arc::new(proto),
                        opsets,
                        attributes: accompanying.map(|a| a.attributes.clone()).unwrap_or_default(),
                        metadata: accompanying.map(|a| a.metadata.clone()).unwrap_or_default(),
                        identity: GraphIdentity::fresh(),
                    })
                }
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

    /// Refuses values other than tensors among what parts, and the caller, give each other.
    fn only_tensors_leave(&self, model: &str, graph: &Graph, parts: &[cut::Part]) -> Result<(), Error> {
        const CALLER: &str = "the caller";
        let mut made_by: HashMap<ValueId, String> = HashMap::new();
        let leaves = |value: &ValueId, from: Option<&String>, to: &str| match kind(graph, *value) {
            None => Ok(()),
            Some(kind) => Err(Error::Leaves {
                model: model.to_owned(),
                value: graph.name_of(*value).to_owned(),
                kind,
                from: from.map_or(CALLER, |name| name).to_owned(),
                to: to.to_owned(),
            }),
        };
        for part in parts {
            let name = match part.target {
                Target::Backend(at) => format!("a part on `{}`", self.backend_at(at)?.name()),
                Target::Component(_) => "a component".to_owned(),
            };
            part.inputs.iter().try_for_each(|value| leaves(value, made_by.get(value), &name))?;
            made_by.extend(part.outputs.iter().map(|value| (*value, name.clone())));
        }
        graph.outputs.iter().try_for_each(|value| leaves(value, made_by.get(value), CALLER))
    }

    /// Lists what one backend makes and another reads.
    fn crossings(&self, graph: &Graph, parts: &[cut::Part]) -> Result<Vec<Crossing>, Error> {
        let mut made_on: HashMap<ValueId, usize> = HashMap::new();
        let mut listed = HashSet::new();
        let mut crossings = Vec::new();
        for part in parts {
            let Target::Backend(to) = part.target else { continue };
            for value in &part.inputs {
                let Some(&from) = made_on.get(value) else { continue };
                if from != to && listed.insert((*value, to)) {
                    crossings.push(Crossing {
                        value: graph.name_of(*value).to_owned(),
                        from: self.backend_at(from)?.name().to_owned(),
                        to: self.backend_at(to)?.name().to_owned(),
                    });
                }
            }
            made_on.extend(part.outputs.iter().map(|value| (*value, to)));
        }
        Ok(crossings)
    }
}

/// Says what a value is that is known to be no tensor.
fn kind(graph: &Graph, value: ValueId) -> Option<&'static str> {
    match graph.values.get(value.index())?.ty {
        ValueType::Tensor { .. } | ValueType::Unknown => None,
        ValueType::Sequence(_) => Some("a sequence"),
        ValueType::Optional(_) => Some("an optional"),
        ValueType::Map(..) => Some("a map"),
    }
}

impl std::fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeBuilder").field("backends", &self.backends).finish_non_exhaustive()
    }
}
