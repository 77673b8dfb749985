//! Nodes: models, components and backends bound together, checked as a whole before anything runs.
//!
//! A model whose operators are bound to several backends is cut into parts; each goes whole to its
//! backend's [`dispatch`](crate::Backend::dispatch), and what crosses goes by way of the host.

mod builder;
mod carrier;
mod component;
mod cut;
mod ready;
mod report;
mod rule;
mod run;
mod unused;

pub use builder::{DeploymentBuilder, Source};
pub use carrier::BackendSubgraph;
pub use component::{Component, Ctx};
pub use report::{Executor, NodePlacement, Placement, Side, Transfer};

use crate::{Backends, Error, Module, Value};
use run::Program;
use std::collections::HashMap;

/// Models that can run, with the components and backends that run them.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// let cpu = bb::backend("cpu")?;
/// let node = bb::Deployment::builder().model("m", std::path::Path::new("model.onnx")).backend(cpu.clone()).ready()?;
/// let outputs = node.run([("x", cpu.tensor(&[1, 2], &[1f32, 2.])?)])?;
/// # Ok(())
/// # }
/// ```
pub struct Deployment {
    programs: Vec<(String, Program)>,
    backends: Backends,
}

impl Deployment {
    /// Starts to put a node together.
    pub fn builder() -> DeploymentBuilder {
        DeploymentBuilder::default()
    }

    /// Returns the backends, the default first.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Iterates over the names of the models, in the order in which they were bound.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|(name, _)| name.as_str())
    }

    /// Returns a model by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownModel`], with the names of those that are bound.
    pub fn model(&self, name: &str) -> Result<Model<'_>, Error> {
        match self.programs.iter().find(|(known, _)| known == name) {
            Some((_, program)) => Ok(Model { program, backends: &self.backends }),
            None => Err(Error::UnknownModel {
                name: name.to_owned(),
                bound: self.models().map(str::to_owned).collect(),
            }),
        }
    }

    /// Returns the model that was bound first.
    fn first(&self) -> Result<Model<'_>, Error> {
        let (_, program) = self
            .programs
            .first()
            .ok_or_else(|| Error::UnknownModel { name: String::new(), bound: Vec::new() })?;
        Ok(Model { program, backends: &self.backends })
    }

    /// Runs the model that was bound first; see [`Model::run`].
    ///
    /// # Errors
    ///
    /// As [`Model::run`].
    pub fn run<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        self.first()?.run(inputs)
    }

    /// Runs the model that was bound first, as a future of any executor; see [`Model::run`].
    ///
    /// # Errors
    ///
    /// As [`Model::run`].
    pub async fn run_async<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        let named = inputs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let model = self.first()?;
        model.program.run_async(model.backends, named).await
    }
}

impl std::fmt::Debug for Deployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let models: Vec<&str> = self.models().collect();
        f.debug_struct("Deployment").field("models", &models).field("backends", &self.backends).finish()
    }
}

/// A model of a [`Deployment`].
#[derive(Clone, Copy)]
pub struct Model<'a> {
    program: &'a Program,
    backends: &'a Backends,
}

impl<'a> Model<'a> {
    /// Returns the checked model.
    pub fn module(&self) -> &'a Module {
        &self.program.module
    }

    /// Returns what runs each node, and what crosses between backends.
    pub fn placement(&self) -> &'a Placement {
        &self.program.placement
    }

    /// Iterates over the parts that go to backends whole, in the order in which they run.
    pub fn carriers(&self) -> impl Iterator<Item = &'a BackendSubgraph> {
        self.program.carriers()
    }

    /// Runs the model; blocks where a backend answers later.
    ///
    /// Inputs may be on any backend; they are moved to where they are read.
    ///
    /// # Errors
    ///
    /// [`Error::MissingInput`] and [`Error::UnknownInput`]; the failure of a backend or a component.
    pub fn run<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        let named = inputs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        self.program.run(self.backends, named)
    }

    /// Runs the model as a future that any executor drives; it yields where a backend answers later.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_async<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        let named = inputs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        self.program.run_async(self.backends, named).await
    }
}

impl std::fmt::Debug for Model<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("placement", self.placement()).finish_non_exhaustive()
    }
}
