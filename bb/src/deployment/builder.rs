//! Collects the parts of a deployment: models, components, backends, and the rules that assign nodes to
//! backends.

use super::component::{Component, Ctx};
use super::rule::{Chooses, Rule};
use crate::{BackendHandle, Backends, BoxError, Error, Module, Value};
use bb_ir::Limits;
use bb_ir::graph;
use bb_ir::proto::{AttributeProto, StringStringEntryProto};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The source of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ModelSource {
    /// A checked model.
    Module(Module),
    /// A file. Its external data are in the same folder.
    File(PathBuf),
    /// A serialized model without external data.
    Bytes(Vec<u8>),
}

impl From<Module> for ModelSource {
    fn from(module: Module) -> ModelSource {
        ModelSource::Module(module)
    }
}

impl From<&Path> for ModelSource {
    fn from(path: &Path) -> ModelSource {
        ModelSource::File(path.to_owned())
    }
}

impl From<PathBuf> for ModelSource {
    fn from(path: PathBuf) -> ModelSource {
        ModelSource::File(path)
    }
}

impl From<&str> for ModelSource {
    fn from(path: &str) -> ModelSource {
        ModelSource::File(path.into())
    }
}

impl From<Vec<u8>> for ModelSource {
    fn from(bytes: Vec<u8>) -> ModelSource {
        ModelSource::Bytes(bytes)
    }
}

impl ModelSource {
    pub(super) fn load(self, limits: &Limits) -> Result<Module, Error> {
        match self {
            ModelSource::Module(module) => Ok(module),
            ModelSource::File(path) => Module::load_with(path, limits),
            ModelSource::Bytes(bytes) => Module::from_bytes_with(bytes, limits),
        }
    }
}

/// A component, with the domain and name of the operator that it implements.
pub(super) struct Bound {
    pub(super) domain: String,
    pub(super) name: String,
    pub(super) component: Arc<dyn Component>,
}

/// The attributes and metadata that are sent with every part that goes to one backend.
#[derive(Default)]
pub(super) struct Accompanying {
    pub(super) attributes: Vec<AttributeProto>,
    pub(super) metadata: Vec<StringStringEntryProto>,
}

/// Collects models, components and backends for a [`Deployment`](crate::Deployment).
#[derive(Default)]
pub struct DeploymentBuilder {
    pub(super) models: Vec<(String, ModelSource)>,
    pub(super) backends: Backends,
    pub(super) components: Vec<Bound>,
    pub(super) rules: Vec<Rule>,
    pub(super) accompanying: BTreeMap<String, Accompanying>,
    pub(super) limits: Limits,
    pub(super) accepts_narrowing: bool,
}

impl DeploymentBuilder {
    /// Binds a model under a name.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, source: impl Into<ModelSource>) -> Self {
        self.models.push((name.into(), source.into()));
        self
    }

    /// Binds a backend. The first one is the default. If none is bound, the default is the first available backend that
    /// is linked in, by name. Binding an instance again changes nothing; two instances of one name are a problem that
    /// [`ready`](Self::ready) reports.
    #[must_use]
    pub fn backend(mut self, backend: BackendHandle) -> Self {
        self.backends.bind(backend);
        self
    }

    /// Binds a component to an operator, by domain and name. The component takes precedence over any backend.
    ///
    /// Any domain is allowed, also ONNX's own (`ai.onnx`), and so is any operator, whether ONNX has it or not.
    ///
    /// A closure without the types of its parameters is bound with [`component_fn`](Self::component_fn).
    #[must_use]
    pub fn component(
        mut self,
        domain: impl Into<String>,
        name: impl Into<String>,
        component: impl Component + 'static,
    ) -> Self {
        self.components.push(Bound {
            domain: bb_ir::opset::domain_name(&domain.into()).to_owned(),
            name: name.into(),
            component: Arc::new(component),
        });
        self
    }

    /// Binds a closure to an operator, as [`component`](Self::component) does. The closure may omit the types of its parameters,
    /// which rustc infers only from this bound.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = bb::Deployment::builder().component_fn("example", "Double", |ctx, inputs| match inputs {
    ///     [Some(x)] => Ok(vec![ctx.backends.add(x, x)?]),
    ///     _ => Err("expected one operand".into()),
    /// });
    /// ```
    #[must_use]
    pub fn component_fn(
        self,
        domain: impl Into<String>,
        name: impl Into<String>,
        component: impl Fn(&Ctx<'_>, &[Option<&Value>]) -> Result<Vec<Value>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.component(domain, name, component)
    }

    /// Runs the nodes of an operator on the backend called `backend`. If several rules match a node, the first one
    /// counts.
    #[must_use]
    pub fn bind_op(mut self, op_type: impl Into<String>, backend: impl Into<String>) -> Self {
        self.rules.push(Rule { chooses: Chooses::Op(op_type.into()), backend: backend.into() });
        self
    }

    /// Runs the node called `name` on the backend called `backend`. A node without a name has the name of its first result. If several
    /// rules match a node, the first one counts.
    #[must_use]
    pub fn bind_node(mut self, name: impl Into<String>, backend: impl Into<String>) -> Self {
        self.rules.push(Rule { chooses: Chooses::Node(name.into()), backend: backend.into() });
        self
    }

    /// Runs the nodes that `chooses` returns true for on the backend called `backend`. If several rules match a node,
    /// the first one counts.
    #[must_use]
    pub fn bind_where(
        mut self,
        chooses: impl Fn(&graph::Node) -> bool + Send + Sync + 'static,
        backend: impl Into<String>,
    ) -> Self {
        self.rules.push(Rule { chooses: Chooses::Where(Box::new(chooses)), backend: backend.into() });
        self
    }

    /// Adds an attribute to those that are sent with every part that goes to the backend called `backend`.
    #[must_use]
    pub fn attribute(mut self, backend: impl Into<String>, attribute: AttributeProto) -> Self {
        self.accompanying.entry(backend.into()).or_default().attributes.push(attribute);
        self
    }

    /// Adds metadata to those that are sent with every part that goes to the backend called `backend`.
    #[must_use]
    pub fn metadata(mut self, backend: impl Into<String>, key: &str, value: &str) -> Self {
        self.accompanying.entry(backend.into()).or_default().metadata.push(graph::entry(key, value));
        self
    }

    /// Accepts operations whose results may leave the range of the type that a backend uses for integers that it lacks.
    ///
    /// Without this, [`ready`](Self::ready) lists each of them. Results are right in either case: an operation that leaves the range is
    /// computed on the host, and is an error if it has too many elements for that.
    #[must_use]
    pub fn accept_narrowing(mut self) -> Self {
        self.accepts_narrowing = true;
        self
    }

    /// Limits the resources that models may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl std::fmt::Debug for DeploymentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeploymentBuilder").field("backends", &self.backends).finish_non_exhaustive()
    }
}
