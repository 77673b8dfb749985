//! Runs the parts of a model in order.

use super::BackendSubgraph;
use super::component::{Component, Ctx};
use super::target::Part;
use crate::placement::Placement;
use crate::{Backends, ContractResponse, Error, InputSpec, Module, RunOptions, Value, WrongResult};
use bb_ir::TensorData;
use bb_ir::graph::{Dim, Graph, ValueId, ValueType};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The backend subgraph or the component that runs one part.
pub(super) enum Step {
    Subgraph(BackendSubgraph),
    /// The body of a carrier, with the outer values of its inputs and outputs by name.
    Carrier {
        subgraph: BackendSubgraph,
        inputs: Vec<(String, ValueId)>,
        outputs: Vec<(String, ValueId)>,
    },
    Component {
        component: Arc<dyn Component>,
        node: usize,
    },
}

/// A model that can run.
pub(super) struct Program {
    pub(super) module: Module,
    /// The declared inputs, against which each run checks its inputs.
    declared: InputSpec,
    pub(super) placement: Placement,
    parts: Vec<Part>,
    steps: Vec<Step>,
    /// For each part, the values that no later part reads.
    frees: Vec<Vec<ValueId>>,
    /// The constants that components read or that are outputs of the model.
    constants: Vec<(ValueId, Value)>,
}

/// The values of a run, by number.
type Values = HashMap<ValueId, Value>;

/// Tensors by name.
type Named = HashMap<String, Value>;

impl Program {
    pub(super) fn new(
        module: Module,
        steps: Vec<Step>,
        parts: Vec<Part>,
        placement: Placement,
        backends: &Backends,
    ) -> Result<Program, Error> {
        let graph = module.graph();
        let frees = bb_core::cut::last_reads(graph, &parts);
        let mut wanted: HashSet<ValueId> = graph.outputs.iter().copied().collect();
        for step in &steps {
            match step {
                Step::Component { node, .. } => {
                    wanted.extend(graph.nodes.get(*node).into_iter().flat_map(|node| node.reads()));
                }
                Step::Carrier { inputs, .. } => wanted.extend(inputs.iter().map(|(_, value)| *value)),
                Step::Subgraph(_) => {}
            }
        }
        let on_default = |(value, data): &(ValueId, TensorData)| {
            let made = backends.default_backend()?.constant(data);
            Ok((*value, made.map_err(|e| bb_core::plan::initializer(graph, *value, data.dtype(), e))?))
        };
        let constants = graph.constants.iter().filter(|(value, _)| wanted.contains(value));
        let constants = constants.map(on_default).collect::<Result<_, Error>>()?;
        let declared = InputSpec::new(graph);
        Ok(Program { module, declared, placement, parts, steps, frees, constants })
    }

    /// Iterates over the parts that are sent to backends as a whole.
    pub(super) fn subgraphs(&self) -> impl Iterator<Item = &BackendSubgraph> {
        self.steps.iter().filter_map(|step| match step {
            Step::Subgraph(subgraph) | Step::Carrier { subgraph, .. } => Some(subgraph),
            Step::Component { .. } => None,
        })
    }

    fn graph(&self) -> &Graph {
        self.module.graph()
    }

    /// Runs the model with inputs by position. Blocks while a backend's result is pending.
    pub(super) fn run(&self, backends: &Backends, inputs: Vec<Option<Value>>) -> Result<Vec<Value>, Error> {
        let mut values = self.arrive(inputs)?;
        for at in 0..self.steps.len() {
            RunOptions::check_current()?;
            let outputs = self.begin(at, backends, &values).wait()?;
            self.end(at, outputs, &mut values)?;
        }
        RunOptions::check_current()?;
        self.leave(&values)
    }

    /// Runs the model with inputs by position. Yields while a backend's result is pending.
    pub(super) async fn run_async(
        &self,
        backends: &Backends,
        inputs: Vec<Option<Value>>,
    ) -> Result<Vec<Value>, Error> {
        let mut values = self.arrive(inputs)?;
        for at in 0..self.steps.len() {
            RunOptions::check_current()?;
            let outputs = self.begin(at, backends, &values).await?;
            self.end(at, outputs, &mut values)?;
        }
        RunOptions::check_current()?;
        self.leave(&values)
    }

    /// Puts inputs that are given by name into the order of the graph.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`] and [`Error::RepeatedInput`].
    pub(super) fn by_position<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Result<Vec<Option<Value>>, Error> {
        let graph = self.graph();
        let mut ordered: Vec<Option<Value>> = vec![None; graph.inputs.len()];
        for (name, given) in inputs {
            let name = name.into();
            let place =
                graph.inputs.iter().zip(&mut ordered).find(|(value, _)| graph.name_of(**value) == name);
            let Some((_, place)) = place else {
                let expected = graph.inputs.iter().map(|value| graph.name_of(*value).to_owned()).collect();
                return Err(Error::UnknownInput { name, expected });
            };
            if place.replace(given).is_some() {
                return Err(Error::RepeatedInput { name });
            }
        }
        Ok(ordered)
    }

    /// Returns the outputs by name.
    pub(super) fn by_name(&self, outputs: Vec<Value>) -> HashMap<String, Value> {
        let names = self.graph().outputs.iter().map(|value| self.graph().name_of(*value).to_owned());
        names.zip(outputs).collect()
    }

    /// Checks the inputs and returns them by value number, with the constants.
    fn arrive(&self, inputs: Vec<Option<Value>>) -> Result<Values, Error> {
        let graph = self.graph();
        if inputs.len() > graph.inputs.len() {
            return Err(Error::InputCount { expected: graph.inputs.len(), got: inputs.len() });
        }
        let mut values: Values = self.constants.iter().cloned().collect();
        let has_default = |value: &ValueId| graph.constants.iter().any(|(constant, _)| constant == value);
        let given = inputs.into_iter().chain(std::iter::repeat(None));
        for (value, given) in graph.inputs.iter().zip(given) {
            match given {
                Some(given) => {
                    values.insert(*value, given);
                }
                None if has_default(value) => {}
                None => {
                    let needed = graph.inputs.iter().filter(|value| !has_default(value));
                    let expected = needed.map(|value| graph.name_of(*value).to_owned()).collect();
                    let name = graph.name_of(*value).to_owned();
                    return Err(Error::MissingInput { name, expected });
                }
            }
        }
        let given = |i: usize| values.get(graph.inputs.get(i)?).map(|x| (x.dtype(), x.shape()));
        self.declared.check_by(graph.inputs.len(), &given)?;
        Ok(values)
    }

    /// Starts a part.
    fn begin(&self, at: usize, backends: &Backends, values: &Values) -> ContractResponse<Named, Error> {
        match (self.steps.get(at), self.parts.get(at)) {
            (Some(Step::Subgraph(subgraph)), Some(part)) => {
                let given = part.inputs.iter().filter_map(|value| Some((*value, values.get(value)?.clone())));
                subgraph.dispatch(given.map(|(value, given)| (self.graph().name_of(value).to_owned(), given)))
            }
            (Some(Step::Carrier { subgraph, inputs, .. }), _) => {
                let given = inputs.iter().filter_map(|(name, value)| Some((name, values.get(value)?)));
                subgraph.dispatch(given.map(|(name, value)| (name.clone(), value.clone())))
            }
            (Some(Step::Component { component, node }), _) => {
                ContractResponse::Now(self.component(&**component, *node, backends, values))
            }
            _ => ContractResponse::Now(Ok(Named::new())),
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
        let graph = self.graph();
        let Some(node) = graph.nodes.get(at) else { return Ok(Named::new()) };
        let failed = |source| Error::Node {
            node: bb_core::error::name(graph, node),
            op: node.op_type.clone(),
            source,
        };
        let inputs: Vec<Option<&Value>> =
            node.inputs.iter().map(|input| input.as_ref().and_then(|value| values.get(value))).collect();
        // The operations of a component run where its first operand is.
        let first = inputs.iter().flatten().next();
        let home = first.and_then(|x| backends.owner(x.owner()).or(backends.iter().next()));
        let moved = inputs.iter().map(|x| match (home, x) {
            (Some(home), Some(x)) if x.owner() != home.owner() => home.adopt(x).map(Some),
            _ => Ok(None),
        });
        let moved: Vec<Option<Value>> = moved.collect::<Result<_, Error>>()?;
        let inputs: Vec<Option<&Value>> =
            inputs.iter().zip(&moved).map(|(x, moved)| moved.as_ref().or(*x)).collect();
        let ctx = Ctx::for_node(backends, node);
        let results = bb_core::runtime::catch(|| component.run(&ctx, &inputs))
            .unwrap_or_else(|message| Err(Error::ComponentPanicked { message }.into()))
            .map_err(failed)?;
        let (got, most) = (results.len(), node.outputs.len());
        if got > most {
            return Err(failed(Error::Results { op: node.op_type.clone(), expected: most, got }.into()));
        }
        let mut results = results.into_iter();
        let mut named = Named::new();
        for (position, output) in node.outputs.iter().enumerate() {
            match (output, results.next()) {
                (Some(value), Some(result)) => {
                    check_result(graph, *value, &node.op_type, position, &result)
                        .map_err(|wrong| failed(wrong.by_component().into()))?;
                    named.insert(graph.name_of(*value).to_owned(), result);
                }
                (None, _) => {}
                (Some(_), None) => {
                    let results = Error::Results { op: node.op_type.clone(), expected: position + 1, got };
                    return Err(failed(results.into()));
                }
            }
        }
        Ok(named)
    }

    /// Stores the results of a part by value number, and drops the values that no later part reads.
    fn end(&self, at: usize, mut outputs: Named, values: &mut Values) -> Result<(), Error> {
        let Some(part) = self.parts.get(at) else { return Ok(()) };
        let carried = match self.steps.get(at) {
            Some(Step::Carrier { outputs, .. }) => outputs.as_slice(),
            _ => &[],
        };
        let check = |value: &ValueId, index: usize, made: &Value| {
            check_result(self.graph(), *value, "dispatch", index, made).map_err(Error::WrongResult)
        };
        for (index, (name, value)) in carried.iter().enumerate() {
            let made = outputs.get(name).cloned().ok_or_else(|| Error::missing_output(name, &outputs))?;
            check(value, index, &made)?;
            values.insert(*value, made);
        }
        // The results of a component were compared where it ran.
        let by_backend = matches!(self.steps.get(at), Some(Step::Subgraph(_)));
        for (index, value) in part.outputs.iter().filter(|_| carried.is_empty()).enumerate() {
            let name = self.graph().name_of(*value);
            let made = outputs.remove(name).ok_or_else(|| Error::missing_output(name, &outputs))?;
            if by_backend {
                check(value, index, &made)?;
            }
            values.insert(*value, made);
        }
        for value in self.frees.get(at).into_iter().flatten() {
            values.remove(value);
        }
        Ok(())
    }

    /// Returns the outputs.
    fn leave(&self, values: &Values) -> Result<Vec<Value>, Error> {
        let output = |value: &ValueId| {
            let missing =
                || Error::MissingOutput { name: self.graph().name_of(*value).to_owned(), made: Vec::new() };
            values.get(value).cloned().ok_or_else(missing)
        };
        self.graph().outputs.iter().map(output).collect()
    }
}

/// Compares a result with the type that the graph declares for it.
///
/// # Errors
///
/// The element type differs, or an extent that is known.
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
