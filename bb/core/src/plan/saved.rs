//! The plans of a program in the form that is saved with its graph, and reused when the saved graph is compiled.
//!
//! The saved form is the result of tracing and of the passes, because these take most of the time: a trace, and the inputs that
//! it is valid for. The instructions, guards, constants and kernels of a plan are built from the trace when the plan first
//! runs. A plan is saved if it runs the whole graph in one segment without host computations; other plans are built again when
//! they are needed.
//!
//! A saved plan may come from an untrusted source. [`check`] proves that its indices exist and that it agrees with the weights, and
//! [`Claims`](super::claims::Claims) compares the results of instructions with the types in the trace, so that kernels run on the
//! types that they were prepared for.

use super::claims::faulty;
use super::engine::Engine;
use super::guard::Guards;
use super::origin::{Origin, Origins};
use super::passes::{PassOptions, rewrite};
use super::program::Program;
use super::resolve::Resolved;
use super::segment::{Outcome, SegmentInput, SegmentTrace, Wanted, trace};
use super::segment_end::End;
use crate::contract::PassSwitches;
use crate::error::TraceFault;
use crate::operator::OPERATORS;
use crate::trace::{Operation, Phase, TableIndex, Trace, ValueSource};
use crate::{Error, Module};
use bb_ir::compact::{Compact, Reader};
use bb_ir::graph::Graph;
use bb_ir::{DataType, Shape, TensorData};
use std::sync::Arc;

/// The plans of a program.
#[derive(Debug)]
pub(crate) struct SavedPlans {
    settings: SavedSettings,
    /// The inputs whose elements a plan depends on, each with the node that needs the elements if the node is in the module's
    /// graph.
    read: Vec<(usize, usize)>,
    plans: Vec<SavedPlan>,
}

/// The settings that plans depend on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SavedSettings {
    pub(super) whole_graph: bool,
    pub(super) switches: PassSwitches,
    pub(super) value_bytes: usize,
    pub(super) fold_bytes: usize,
    /// The native operations of each family, by their indices in the family's table.
    natives: Vec<(String, Vec<u16>)>,
    /// The element types of the backend, by their ONNX values.
    types: Vec<u16>,
}

/// A plan.
#[derive(Debug)]
struct SavedPlan {
    inputs: Vec<MadeFor>,
    /// The traced graph, if it differs from the module's graph because branches of `If` nodes were spliced into it.
    graph: Option<Graph>,
    trace: Trace,
    /// The weights of unrolled loop bodies.
    weights: Vec<TensorData>,
    /// The nodes that the steps come from.
    nodes: Vec<usize>,
}

/// An input that a plan was built for.
#[derive(Debug, Clone)]
pub(super) struct MadeFor {
    dtype: DataType,
    shape: Shape,
    /// The elements, if the plan depends on them.
    known: Option<TensorData>,
}

bb_ir::__compact!(struct SavedPlans { settings, read, plans });
bb_ir::__compact!(struct SavedSettings { whole_graph, switches, value_bytes, fold_bytes, natives, types });
bb_ir::__compact!(struct SavedPlan { inputs, graph, trace, weights, nodes });
bb_ir::__compact!(struct MadeFor { dtype, shape, known });

impl MadeFor {
    pub(super) fn of(inputs: &[SegmentInput]) -> Vec<MadeFor> {
        let one = |input: &SegmentInput| MadeFor {
            dtype: input.dtype,
            shape: input.shape.clone(),
            known: input.known.clone(),
        };
        inputs.iter().map(one).collect()
    }
}

/// A loaded plan that has not been used yet.
pub(super) struct LoadedPlan {
    pub(super) guards: Guards,
    pub(super) traced: SegmentTrace,
    pub(super) inputs: Vec<MadeFor>,
}

/// The loaded plans of a graph, and the inputs whose elements they depend on.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) read: Vec<Arc<Wanted>>,
    pub(super) plans: Vec<LoadedPlan>,
}

impl SavedPlans {
    /// Reads plans.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the bytes are not valid plans.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<SavedPlans, Error> {
        Ok(Compact::read(from)?)
    }

    /// Checks the plans, and prepares them for the graph that they were saved with. Returns no plans if they were built with
    /// other settings.
    ///
    /// # Errors
    ///
    /// [`Error::SavedPlan`] with the first fault.
    pub(super) fn load(&self, resolved: &Arc<Resolved>, settings: &SavedSettings) -> Result<Loaded, Error> {
        if self.settings != *settings {
            return Ok(Loaded::default());
        }
        let mut loaded = Loaded::default();
        for &(position, node) in &self.read {
            if position >= resolved.graph.inputs.len() {
                return Err(faulty(Error::excluded("an input that a node reads")));
            }
            loaded.read.push(Arc::new(Wanted { position, resolved: resolved.clone(), node }));
        }
        for plan in &self.plans {
            loaded.plans.push(plan.load(resolved, settings).map_err(faulty)?);
        }
        Ok(loaded)
    }
}

impl SavedPlan {
    fn load(&self, resolved: &Arc<Resolved>, settings: &SavedSettings) -> Result<LoadedPlan, Error> {
        let resolved = match &self.graph {
            None => resolved.clone(),
            Some(graph) => {
                bb_ir::check::loaded(graph, OPERATORS)?;
                let module = &resolved.graph;
                if [graph.inputs.len(), graph.outputs.len()] != [module.inputs.len(), module.outputs.len()] {
                    return Err(Error::excluded("a graph with the inputs and outputs of the module's"));
                }
                Arc::new(Resolved::new(Arc::new(graph.clone()))?)
            }
        };
        let mut origins = Origins::default();
        for &node in &self.nodes {
            resolved.node(node)?;
            origins.push(Origin::Node(node));
        }
        let traced = SegmentTrace {
            recorded: self.trace.clone(),
            structure: None,
            passed: Vec::new(),
            consulted: 0,
            resolved,
            inner_weights: self.weights.clone(),
            origins,
            causes: Vec::new(),
            is_loaded: true,
        };
        check(&traced, &self.inputs, settings)?;
        let inputs = self.inputs.iter().map(|input| (input.dtype, input.shape.clone(), input.known.clone()));
        let guards = Guards::new(&traced.recorded, inputs, settings.value_bytes)?;
        Ok(LoadedPlan { guards, traced, inputs: self.inputs.clone() })
    }
}

/// Checks a trace from an untrusted source, as far as possible without running it. Each value must be computed exactly once,
/// before it is read. Values must agree with the inputs, the weights and the rules of primitives; parameters must be of the
/// kinds that the operations take; nothing may exceed the limits.
fn check(traced: &SegmentTrace, inputs: &[MadeFor], settings: &SavedSettings) -> Result<(), Error> {
    let trace = &traced.recorded;
    trace.check_order()?;
    let graph = &traced.resolved.graph;
    let are_all = inputs.len() == graph.inputs.len() && trace.outputs.len() == graph.outputs.len();
    if !are_all {
        return Err(Error::excluded("a plan with the inputs and outputs of its graph"));
    }
    for (value, info) in trace.values.iter() {
        if info.bytes() > settings.value_bytes {
            let (dtype, shape) = (info.dtype, info.shape.as_slice());
            return Err(crate::contract::too_large(dtype, shape, settings.value_bytes));
        }
        match info.source {
            ValueSource::Input(index) => {
                let given = inputs.get(index.position());
                let given = given.ok_or_else(|| Error::excluded("the inputs of a plan to be there"))?;
                trace.check_type(value, given.dtype, &given.shape)?;
            }
            ValueSource::Weight(id) => {
                let data = traced.weights().get(id)?;
                trace.check_type(value, data.dtype(), data.shape())?;
            }
            ValueSource::Constant(_) | ValueSource::Step => {}
        }
    }
    let mut folded = 0usize;
    for (id, step) in trace.steps.iter() {
        let Operation::Row(spec) = step.operation else {
            return Err(Error::excluded("operations of a table in a saved plan"));
        };
        let kinds = spec.params.iter().map(|param| param.kind);
        if !step.params.iter().map(|param| param.kind()).eq(kinds) {
            let reason = format!("`{}` takes parameters of other kinds", spec.method);
            return Err(TraceFault::Refused { step: format!("step {id}"), reason }.into());
        }
        // Only primitives are checked, because their rules are cheap. The rules of other operations trace their bodies.
        if step.operation.primitive().is_some() {
            trace.check_results(id, step)?;
        }
        for origin in &step.origins {
            traced.origins.node_of(*origin)?;
        }
        if step.phase == Phase::Once {
            for value in &step.outputs {
                folded = folded.saturating_add(trace.values.get(*value)?.bytes());
            }
        }
    }
    if folded > settings.fold_bytes {
        let (what, limit, got) = ("bytes of constants that a plan computes", settings.fold_bytes, folded);
        return Err(bb_ir::Error::Limit { what, name: Some("fold_bytes"), limit, got }.into());
    }
    Ok(())
}

impl Program {
    /// Returns the settings that the plans of the program depend on.
    pub(super) fn saved_settings(&self) -> SavedSettings {
        let natives = self.settings.natives.iter().map(|(family, set)| {
            let native = crate::ext::rows(*family).into_iter().map(|row| row.index);
            (family.name().to_owned(), native.filter(|index| set.contains(*index)).collect())
        });
        SavedSettings {
            whole_graph: self.passes.engine == Engine::WholeGraph,
            switches: self.passes.switches,
            value_bytes: self.settings.value_bytes,
            fold_bytes: self.settings.fold_bytes,
            natives: natives.collect(),
            types: self.settings.types.iter().map(|dtype| dtype.to_onnx() as u16).collect(),
        }
    }

    /// Returns the graph with the plans that have been built so far.
    ///
    /// # Errors
    ///
    /// As [`saved_plans`](Self::saved_plans).
    pub(super) fn compiled_module(&self) -> Result<Module, Error> {
        Ok(Module::with_plans(self.resolved.graph.clone(), self.saved_plans()?))
    }

    /// Traces the plans that have been built so far again, to save them. The backend is not called.
    ///
    /// # Errors
    ///
    /// The errors of tracing, which succeeded before.
    pub(super) fn saved_plans(&self) -> Result<SavedPlans, Error> {
        let mut plans = Vec::new();
        for made_for in self.first.plans().iter().filter_map(|plan| plan.made_for()) {
            let input = |(position, input): (usize, &MadeFor)| SegmentInput {
                dtype: input.dtype,
                shape: input.shape.clone(),
                varies: self.varies(&self.first, &None, position),
                known: input.known.clone(),
            };
            let inputs: Vec<SegmentInput> = made_for.iter().enumerate().map(input).collect();
            let outcome = trace(&self.resolved, &self.first.start, &inputs, &None, &self.settings)?;
            if let Outcome::Traced(mut traced, End::Done) = outcome {
                let (recorded, weights) = traced.rewritable();
                rewrite(recorded, PassOptions { weights, settings: Some(&self.settings), ..self.passes })?;
                plans.extend(SavedPlan::of(*traced, made_for, &self.resolved));
            }
        }
        let nodes = self.resolved.graph.nodes.len();
        let wanted = self.first.wanted();
        let read = wanted.iter().map(|wanted| (wanted.position, wanted.node.min(nodes))).collect();
        Ok(SavedPlans { settings: self.saved_settings(), read, plans })
    }
}

impl SavedPlan {
    /// Converts a trace to the saved form; `None` for a trace that cannot be saved.
    fn of(traced: SegmentTrace, inputs: Vec<MadeFor>, module: &Arc<Resolved>) -> Option<SavedPlan> {
        let is_row = |operation| matches!(operation, Operation::Row(_));
        let rows = traced.recorded.steps.entries().all(|step| is_row(step.operation));
        let nodes: Vec<usize> = traced.origins.nodes().collect();
        let whole = rows && nodes.len() == traced.origins.len();
        let SegmentTrace { resolved, recorded: trace, inner_weights: weights, .. } = traced;
        let graph = (!Arc::ptr_eq(&resolved, module)).then(|| resolved.graph.as_ref().clone());
        whole.then_some(SavedPlan { inputs, graph, trace, weights, nodes })
    }
}
