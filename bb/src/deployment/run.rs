//! Runs the parts of a model in order.

use super::component::{Component, Ctx};
use super::parts::BackendSubgraph;
use crate::placement::{PlacedTensor, Placement};
use crate::{BackendAttrs, Backends, ContractResponse, Error, Module, RunOptions, Value, WrongResult};
use bb_core::contract::{OnnxValue, PartValues, PartedGraph, by_name, by_position, tensors};
use bb_ir::graph::{Dim, Graph, ValueId, ValueType};
use std::collections::HashMap;
use std::sync::Arc;

/// A part of a model that can run.
pub(super) struct Step {
    pub(super) runs: Runs,
    /// The results that are read outside the part, with their names.
    pub(super) outputs: Vec<(String, ValueId)>,
    /// The values that no later part reads.
    pub(super) dead: Vec<ValueId>,
}

/// The backend subgraph or the component that runs one part.
pub(super) enum Runs {
    /// A graph that is sent to a backend, and the values of its inputs by name.
    Subgraph { subgraph: BackendSubgraph, inputs: Vec<(String, ValueId)> },
    /// A component, and the index of its node.
    Component { component: Arc<dyn Component>, node: usize },
}

/// A model that can run.
pub(super) struct Program {
    pub(super) module: Module,
    pub(super) placement: Placement,
    pub(super) whole: PartedGraph<PlacedTensor>,
    pub(super) steps: Vec<Step>,
}

/// The values of a run, by value id.
type Values = PartValues<PlacedTensor>;

/// Tensors by name.
type Named = HashMap<String, Value>;

impl Program {
    /// Iterates over the parts that are sent to backends as a whole.
    pub(super) fn subgraphs(&self) -> impl Iterator<Item = &BackendSubgraph> {
        self.steps.iter().filter_map(|step| match &step.runs {
            Runs::Subgraph { subgraph, .. } => Some(subgraph),
            Runs::Component { .. } => None,
        })
    }

    /// Runs the model with inputs by position. Blocks while a backend's result is pending.
    pub(super) fn run(&self, backends: &Backends, inputs: Vec<Option<Value>>) -> Result<Vec<Value>, Error> {
        let mut values = self.arrive(inputs)?;
        for step in &self.steps {
            RunOptions::check_current()?;
            let outputs = self.begin(step, backends, &values).wait()?;
            self.end(step, &outputs, &mut values)?;
        }
        self.leave(&values)
    }

    /// Runs the model with inputs by position. Yields while a backend's result is pending.
    pub(super) async fn run_async(
        &self,
        backends: &Backends,
        inputs: Vec<Option<Value>>,
    ) -> Result<Vec<Value>, Error> {
        let mut values = self.arrive(inputs)?;
        for step in &self.steps {
            RunOptions::check_current()?;
            let outputs = self.begin(step, backends, &values).await?;
            self.end(step, &outputs, &mut values)?;
        }
        self.leave(&values)
    }

    /// Puts inputs that are passed by name into the order of the graph.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`] and [`Error::RepeatedInput`].
    pub(super) fn by_position<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<Vec<Option<Value>>, Error> {
        let named: Vec<(String, Value)> = inputs.into_iter().map(|(name, x)| (name.into(), x)).collect();
        let named: Vec<(&str, &Value)> = named.iter().map(|(name, x)| (name.as_str(), x)).collect();
        Ok(by_position(&self.whole.inputs, &named)?.into_iter().map(Option::<&Value>::cloned).collect())
    }

    /// Returns the outputs by name.
    pub(super) fn by_name(&self, outputs: Vec<Value>) -> HashMap<String, Value> {
        by_name(&self.whole.outputs, outputs)
    }

    /// Checks the inputs and returns them by value id, with the constants.
    fn arrive(&self, inputs: Vec<Option<Value>>) -> Result<Values, Error> {
        let placed: Vec<_> = inputs.into_iter().map(|x| x.map(PlacedTensor::of_value)).collect();
        let given: Vec<_> = placed.iter().map(|x| x.as_ref().map(OnnxValue::Tensor)).collect();
        self.whole.begin(&given)
    }

    /// Starts a part.
    fn begin(&self, step: &Step, backends: &Backends, values: &Values) -> ContractResponse<Named, Error> {
        match &step.runs {
            Runs::Subgraph { subgraph, inputs } => {
                let given = inputs.iter().filter_map(|(name, value)| Some((name, tensor(values, *value)?)));
                let moved = given.map(|(name, x)| Ok((name.clone(), x.on(&subgraph.backend, |_| {})?)));
                let attrs = BackendAttrs::default().with_node(&subgraph.attributes, &subgraph.metadata);
                match moved.collect() {
                    Ok(inputs) => {
                        subgraph.backend.runtime().clone().dispatch_checked(&subgraph.checked, inputs, attrs)
                    }
                    Err(error) => ContractResponse::Now(Err(error)),
                }
            }
            Runs::Component { component, node } => {
                ContractResponse::Now(self.component(&**component, *node, backends, values))
            }
        }
    }

    /// Runs a component.
    fn component(
        &self,
        component: &dyn Component,
        at: usize,
        backends: &Backends,
        values: &Values,
    ) -> Result<Named, Error> {
        let graph = self.module.graph();
        let Some(node) = graph.nodes.get(at) else { return Ok(Named::new()) };
        let failed = |source| Error::Node {
            node: bb_core::error::name(graph, node),
            op: node.op_type.clone(),
            source,
        };
        let operands: Vec<Option<&PlacedTensor>> =
            node.inputs.iter().map(|input| input.and_then(|value| tensor(values, value))).collect();
        // A component runs on the backend of its first operand, so the other operands are moved there.
        let first = operands.iter().flatten().find_map(|x| x.computed());
        let home = first.and_then(|x| backends.owner(x.owner()).or(backends.iter().next()));
        let here = |x: &Option<&PlacedTensor>| match (home, x) {
            (Some(home), Some(x)) => x.on(home, |_| {}).map(Some),
            _ => Ok(None),
        };
        let operands: Vec<Option<Value>> = operands.iter().map(here).collect::<Result<_, Error>>()?;
        let operands: Vec<Option<&Value>> = operands.iter().map(Option::as_ref).collect();
        let ctx = Ctx::for_node(backends, node);
        let results = bb_core::runtime::catch(|| component.run(&ctx, &operands))
            .unwrap_or_else(|message| Err(Error::ComponentPanicked { message }.into()))
            .map_err(failed)?;
        let (op, got, most) = (&node.op_type, results.len(), node.outputs.len());
        let count = |expected| failed(Error::Results { op: op.clone(), expected, got }.into());
        if got > most {
            return Err(count(most));
        }
        let mut results = results.into_iter();
        let mut named = Named::new();
        for (position, output) in node.outputs.iter().enumerate() {
            let result = results.next();
            let Some(value) = output else { continue };
            let result = result.ok_or_else(|| count(position + 1))?;
            check_result(graph, *value, op, position, &result)
                .map_err(|wrong| failed(wrong.by_component().into()))?;
            named.insert(graph.name_of(*value).to_owned(), result);
        }
        Ok(named)
    }

    /// Stores the results of a part by value id, and drops the values that no later part reads.
    fn end(&self, step: &Step, outputs: &Named, values: &mut Values) -> Result<(), Error> {
        for (index, (name, value)) in step.outputs.iter().enumerate() {
            let made = outputs.get(name).ok_or_else(|| Error::missing_output(name, outputs))?;
            // The results of a component were already checked when it ran.
            if matches!(step.runs, Runs::Subgraph { .. }) {
                check_result(self.module.graph(), *value, "dispatch", index, made)
                    .map_err(Error::WrongResult)?;
            }
            values.set(*value, Some(OnnxValue::Tensor(PlacedTensor::of_value(made.clone()))));
        }
        values.drop_all(&step.dead);
        Ok(())
    }

    /// Returns the outputs, each on the backend that computed it.
    fn leave(&self, values: &Values) -> Result<Vec<Value>, Error> {
        RunOptions::check_current()?;
        let results = tensors(self.whole.end(values)?, &self.whole.outputs)?;
        results.iter().map(|x| x.computed().ok_or(Error::Abandoned)).collect()
    }
}

/// Returns a value of a run. Only tensors pass between the parts of a deployment.
fn tensor(values: &Values, value: ValueId) -> Option<&PlacedTensor> {
    values.get(value).and_then(OnnxValue::tensor)
}

/// Compares a result with the type that the graph declares for it.
///
/// # Errors
///
/// An error if the element type or a known extent differs.
fn check_result(
    graph: &Graph,
    value: ValueId,
    op: &str,
    index: usize,
    result: &Value,
) -> Result<(), Box<WrongResult>> {
    let ty = graph.values.get(value.index()).map(|value| &value.ty);
    let Some(ValueType::Tensor { dtype, shape }) = ty else { return Ok(()) };
    let known = |dim: &Dim| if let Dim::Known(extent) = dim { Some(*extent) } else { None };
    let expected: Option<Vec<Option<usize>>> = shape.as_ref().map(|dims| dims.iter().map(known).collect());
    let fits = expected.as_ref().is_none_or(|expected| {
        expected.len() == result.shape().len()
            && expected.iter().zip(result.shape()).all(|(expected, got)| expected.is_none_or(|n| n == *got))
    });
    if fits && *dtype == result.dtype() {
        return Ok(());
    }
    let expected = expected.unwrap_or_else(|| result.shape().iter().copied().map(Some).collect());
    let got = (result.dtype(), result.shape());
    Err(Box::new(WrongResult::new(op, index, (*dtype, expected), got)))
}
