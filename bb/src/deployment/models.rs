//! Models that can run, with inputs by name or by position, blocking or as futures.

use super::builder::DeploymentBuilder;
use super::parts::BackendSubgraph;
use super::run::Program;
use crate::placement::Placement;
use crate::{Backends, Error, Module, RunOptions, Value};
use std::collections::HashMap;

/// Models that can run, with the components and backends that run them.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// let cpu = bb::backend("cpu")?;
/// let node = bb::Deployment::builder().model("m", "model.onnx").backend(cpu.clone()).ready()?;
/// let outputs = node.run_named([("x", cpu.tensor(&[1, 2], &[1f32, 2.])?)])?;
/// # Ok(())
/// # }
/// ```
pub struct Deployment {
    pub(super) programs: Vec<(String, Program)>,
    pub(super) backends: Backends,
}

impl Deployment {
    /// Returns a builder without models or backends.
    pub fn builder() -> DeploymentBuilder {
        DeploymentBuilder::default()
    }

    /// Returns the backends, the default first.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Iterates over the names of the models, in the order of binding.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|(name, _)| name.as_str())
    }

    /// Returns a model by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownModel`], with the names of the models that are bound.
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

    /// Runs the model that was bound first, with inputs by position; see [`Model::run`].
    ///
    /// # Errors
    ///
    /// The errors of [`Model::run`].
    pub fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        self.first()?.run(inputs)
    }

    /// Runs the model that was bound first. The options can end the run early; see [`Model::run_with`].
    ///
    /// # Errors
    ///
    /// The errors of [`Model::run_with`].
    pub fn run_with(&self, inputs: &[Option<&Value>], options: &RunOptions) -> Result<Vec<Value>, Error> {
        self.first()?.run_with(inputs, options)
    }

    /// Runs the model that was bound first, with inputs by name; see [`Model::run_named`].
    ///
    /// # Errors
    ///
    /// The errors of [`Model::run_named`].
    pub fn run_named<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        self.first()?.run_named(inputs)
    }

    /// Runs the model that was bound first, with inputs by position, as a future for any executor; see [`Model::run`].
    ///
    /// # Errors
    ///
    /// The errors of [`Model::run`].
    pub async fn run_async(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        self.first()?.run_async(inputs).await
    }

    /// Runs the model that was bound first, with inputs by name, as a future for any executor; see
    /// [`Model::run_named`].
    ///
    /// # Errors
    ///
    /// The errors of [`Model::run_named`].
    pub async fn run_named_async<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        self.first()?.run_named_async(inputs).await
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

    /// Returns which backend or component runs each node, and which values are transferred between them.
    pub fn placement(&self) -> &'a Placement {
        &self.program.placement
    }

    /// Iterates over the parts that are sent to backends as a whole, in the order of execution.
    pub fn subgraphs(&self) -> impl Iterator<Item = &'a BackendSubgraph> {
        self.program.subgraphs()
    }

    /// Runs the model with its inputs in the model's order, and returns the outputs in the model's order. Blocks while
    /// a backend's result is pending.
    ///
    /// `None` leaves out an input that has a default. Inputs may be on any backend; they are moved to the backend that
    /// reads them.
    ///
    /// # Errors
    ///
    /// [`Error::InputCount`], [`Error::MissingInput`] and [`Error::Input`]; the errors of backends and components.
    pub fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        let given = inputs.iter().map(|input| input.cloned()).collect();
        self.program.run(self.backends, given)
    }

    /// Runs like [`run`](Self::run). The options can end the run early.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`]; the
    /// errors of [`run`](Self::run).
    pub fn run_with(&self, inputs: &[Option<&Value>], options: &RunOptions) -> Result<Vec<Value>, Error> {
        options.within(|| self.run(inputs))
    }

    /// Runs the model with inputs by name, and returns the outputs by name. Blocks while a backend's result is pending.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`] and [`Error::RepeatedInput`]; the errors of [`run`](Self::run).
    pub fn run_named<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        let outputs = self.program.run(self.backends, self.program.by_position(inputs)?)?;
        Ok(self.program.by_name(outputs))
    }

    /// Runs like [`run`](Self::run), as a future for any executor. The future yields while a backend's result is
    /// pending.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub async fn run_async(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        let given = inputs.iter().map(|input| input.cloned()).collect();
        self.program.run_async(self.backends, given).await
    }

    /// Runs like [`run_named`](Self::run_named), as a future for any executor. The future yields while a backend's
    /// result is pending.
    ///
    /// # Errors
    ///
    /// The errors of [`run_named`](Self::run_named).
    pub async fn run_named_async<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<HashMap<String, Value>, Error> {
        let inputs = self.program.by_position(inputs)?;
        let outputs = self.program.run_async(self.backends, inputs).await?;
        Ok(self.program.by_name(outputs))
    }
}

impl std::fmt::Debug for Model<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("placement", self.placement()).finish_non_exhaustive()
    }
}
