//! A segment for a backend that runs whole graphs: graphs of primitives, with host computations between them.

use super::claims::Claim;
use super::failure::{Failure, Where, in_node};
use super::interpreter::PlanOutputs;
use super::narrowed::{KnownRanges, NarrowedGraph};
use super::origin::Origins;
use super::run_state::RunState;
use super::segment::SegmentTrace;
use super::target::ErasedFailure;
use super::watch::{Called, Site, Sites, Watch, Watcher, type_of};
use crate::contract::{Caller, contained, contained_in};
use crate::cost::{self, Cost, TensorType};
use crate::erased::Holding;
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor, HostKernel};
use crate::trace::{
    InputIndex, Liveness, Operation, Step, StepId, StepOrigins, Table, TableIndex, Trace, TraceValue,
    ValueSource, held, to_graph,
};
use crate::{Backend, BackendAttrs, Error, GraphCache, ResultMaker};
use bb_ir::graph::Graph;
use bb_ir::op::Param;
use bb_ir::proto::{GraphProto, ValueInfoProto, type_proto};
use bb_ir::{DataType, Shape, TensorData};
use std::sync::{Arc, OnceLock};

/// A segment as a list of graphs and host computations.
pub(super) struct PartitionedGraph {
    parts: Vec<SegmentPart>,
    /// The constants that are outputs, or that the host reads, with the nodes that read them.
    constants: Vec<(TraceValue, TensorData, Where)>,
    /// The value of each input.
    inputs: Vec<TraceValue>,
    outputs: Vec<TraceValue>,
    values: usize,
    /// The nodes that the parts come from.
    origins: Origins,
    /// The profiler's description of the parts, computed in the first profiled run.
    sites: OnceLock<Arc<Sites>>,
}

/// The settings for splitting a trace.
#[derive(Clone, Copy)]
struct Cut<'a> {
    traced: &'a SegmentTrace,
    /// For each input, whether the plan is valid for other extents of the input.
    open: &'a [bool],
    /// The value ranges that decide which steps are narrowed; `None` if the backend has every type.
    known_ranges: Option<&'a KnownRanges>,
}

/// A part of a segment.
enum SegmentPart {
    /// Primitives, run by the backend as one graph.
    Graph(Box<GraphPart>),
    /// A computation on the host.
    Host {
        body: &'static HostKernel,
        params: Box<[Param<'static>]>,
        inputs: Vec<Option<TraceValue>>,
        outputs: Vec<TraceValue>,
        origins: StepOrigins,
    },
    /// An operation that is called separately, because only its actual operands determine whether its result fits the narrowed
    /// type.
    Alone(Step, Vec<Claim>),
}

struct GraphPart {
    graph: GraphProto,
    cache: GraphCache,
    inputs: Vec<(String, TraceValue)>,
    outputs: Vec<(String, TraceValue)>,
    /// The known types of the outputs.
    claims: Vec<Claim>,
    /// The nodes that the steps come from.
    origins: Vec<StepOrigins>,
    /// The cost of a run with inputs of the types and shapes in the trace.
    cost: Cost,
    types: Vec<(DataType, Shape)>,
    /// The original steps of the graph, if it was narrowed for a backend that lacks some types.
    narrowed: Option<NarrowedGraph>,
}

impl PartitionedGraph {
    /// Splits a trace at host computations. `open` has, for each input, whether the plan is valid for other extents of the
    /// input. If the backend lacks element types, the graphs are narrowed to its types.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimitive`] if a step is an operation of an extension family.
    pub(super) fn new(
        traced: &SegmentTrace,
        open: &[bool],
        holding: Option<Holding>,
    ) -> Result<PartitionedGraph, Error> {
        let recorded = &traced.recorded;
        let weight = |source| traced.known(source);
        let known_ranges = holding
            .map(|holding| KnownRanges::of(recorded, holding, open.contains(&true), weight))
            .transpose()?;
        let to = Cut { traced, open, known_ranges: known_ranges.as_ref() };
        let mut whole = PartitionedGraph {
            parts: Vec::new(),
            constants: Vec::new(),
            inputs: Vec::new(),
            outputs: recorded.outputs.clone(),
            values: recorded.values.len(),
            origins: traced.origins.clone(),
            sites: OnceLock::new(),
        };
        for (value, info) in recorded.values.iter() {
            if let ValueSource::Input(_) = info.source {
                whole.inputs.push(value);
            }
        }
        let is_fixed = !open.contains(&true);
        let liveness = Liveness::of(recorded)?;
        let mut own = Vec::new();
        for (id, step) in recorded.steps.iter() {
            let alone = match &known_ranges {
                Some(known_ranges) => !known_ranges.is_exact(id)? && liveness.is_live(id)?,
                None => false,
            };
            let cut = match step.operation {
                Operation::Host(body) => SegmentPart::Host {
                    body,
                    params: step.params.clone(),
                    inputs: step.inputs.to_vec(),
                    outputs: step.outputs.to_vec(),
                    origins: step.origins.clone(),
                },
                Operation::Row(_) if alone => {
                    let claims = step.outputs.iter().map(|value| Claim::of(recorded, *value, is_fixed));
                    SegmentPart::Alone(step.clone(), claims.collect::<Result<_, Error>>()?)
                }
                Operation::Row(_) => {
                    own.push((id, step));
                    continue;
                }
            };
            whole.push_graph(to, &liveness, &own, id)?;
            own.clear();
            whole.parts.push(cut);
        }
        whole.push_graph(to, &liveness, &own, StepId::at(recorded.steps.len()))?;
        let read_by_host = whole.parts.iter().flat_map(|part| match part {
            SegmentPart::Host { inputs, .. } => inputs.as_slice(),
            SegmentPart::Alone(step, _) => step.inputs.as_slice(),
            SegmentPart::Graph(_) => &[],
        });
        for &value in read_by_host.flatten().chain(&whole.outputs) {
            let Some(data) = traced.known(recorded.values.get(value)?.source) else { continue };
            data.prepare()?;
            whole.constants.push((value, data.clone(), traced.reader_of(value)));
        }
        Ok(whole)
    }

    /// Adds consecutive steps, which end before the step `end`, as one graph, if their results are read.
    fn push_graph(
        &mut self,
        to: Cut<'_>,
        liveness: &Liveness<TraceValue, StepId>,
        own: &[(StepId, &Step)],
        end: StepId,
    ) -> Result<(), Error> {
        if let Some(part) = GraphPart::new(to, liveness, own, end)? {
            self.parts.push(SegmentPart::Graph(Box::new(part)));
        }
        Ok(())
    }

    /// Runs the parts in order; they were built from this graph.
    pub(super) fn run(
        &self,
        on: &ErasedBackend<'_>,
        live: &[&ErasedTensor],
        graph: &Graph,
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<PlanOutputs<ErasedTensor>, ErasedFailure> {
        let internal = |error: Error| Box::new(Failure { at: Where::Graph, error: error.into() });
        let first = watch.plan(|| self.sites(graph)).map_err(internal)?;
        let caller = Caller::current();
        let mut slots: Slots = Table::with(self.values, || None);
        for (value, &x) in self.inputs.iter().zip(live) {
            slots.set(*value, Some(x.clone())).map_err(internal)?;
        }
        for (value, data, at) in &self.constants {
            let failed = |error: ErasedError| {
                let error = Error::Constant { dtype: data.dtype(), source: error.into_source() };
                Box::new(Failure { at: *at, error: error.into() })
            };
            let tensor = contained(|| on.constant(data)).map_err(failed)?;
            slots.set(*value, Some(tensor)).map_err(internal)?;
        }
        for (at, part) in self.parts.iter().enumerate() {
            let ran = contained_in(
                || part.operation(),
                || {
                    state.go_on()?;
                    part.run(on, &mut slots, &caller, first + at, state, watch)
                },
            );
            ran.map_err(|error| Box::new(Failure { at: part.at(&self.origins), error }))?;
        }
        let outputs = self.outputs.iter().map(|value| Ok(filled(&slots, *value)?.clone()));
        outputs.collect::<Result<_, Error>>().map_err(internal)
    }

    /// Describes each part for the profiler.
    fn sites(&self, graph: &Graph) -> Result<Arc<Sites>, Error> {
        if let Some(sites) = self.sites.get() {
            return Ok(sites.clone());
        }
        let mut sites = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let called = match part {
                SegmentPart::Graph(part) => Called::Graph { inputs: part.types.clone(), cost: part.cost },
                SegmentPart::Host { body, params, .. } => {
                    Called::Operation(Operation::Host(body), params.clone())
                }
                SegmentPart::Alone(step, _) => Called::Operation(step.operation, step.params.clone()),
            };
            sites.push(Site { nodes: self.origins.names_of(part.origins(), graph)?, called });
        }
        Ok(self.sites.get_or_init(|| Arc::new(Sites(sites))).clone())
    }
}

/// The values of a trace that have been computed so far.
type Slots = Table<TraceValue, Option<ErasedTensor>>;

/// Returns a value that has been computed.
fn filled(slots: &Slots, value: TraceValue) -> Result<&ErasedTensor, Error> {
    held(slots.get(value)?.as_ref(), value)
}

impl SegmentPart {
    /// Returns the nodes that each step of the part comes from.
    fn origins(&self) -> &[StepOrigins] {
        match self {
            SegmentPart::Graph(part) => &part.origins,
            SegmentPart::Host { origins, .. } => std::slice::from_ref(origins),
            SegmentPart::Alone(step, _) => std::slice::from_ref(&step.origins),
        }
    }

    /// Returns the name of the operation; `None` if the part is a graph.
    fn operation(&self) -> Option<&'static str> {
        match self {
            SegmentPart::Graph(_) => None,
            SegmentPart::Host { body, .. } => Some(body.name),
            SegmentPart::Alone(step, _) => Some(step.operation.name()),
        }
    }

    /// Finds the nodes that the part comes from.
    fn at(&self, origins: &Origins) -> Where {
        Where::of(origins, self.origins())
    }

    fn run(
        &self,
        on: &ErasedBackend<'_>,
        slots: &mut Slots,
        caller: &Option<Arc<Caller>>,
        site: usize,
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<(), ErasedError> {
        match self {
            SegmentPart::Graph(part) => {
                let mut inputs = std::collections::HashMap::with_capacity(part.inputs.len());
                for (name, value) in &part.inputs {
                    inputs.insert(name.clone(), filled(slots, *value)?.clone());
                }
                let attrs = BackendAttrs::default().with_cache(&part.cache);
                let mut attrs = attrs.with_narrowed(part.narrowed.as_ref());
                if let Some(caller) = caller {
                    attrs = attrs.with_node(&caller.attributes, &caller.metadata);
                }
                let seen = watch
                    .operands(part.inputs.iter().map(|(_, value)| filled(slots, *value).ok().map(type_of)));
                let since = watch.mark();
                let mut results = on.0.execute(&part.graph, inputs, attrs)?;
                for (index, ((name, value), claim)) in part.outputs.iter().zip(&part.claims).enumerate() {
                    let result = results.remove(name);
                    let result = result.ok_or_else(|| Error::missing_output(name, &results))?;
                    if !claim.holds(&result) {
                        return Err(claim
                            .wrong("execute", index, &result, false, ResultMaker::BACKEND)
                            .into());
                    }
                    state.ledger.result(&result)?;
                    slots.set(*value, Some(result))?;
                }
                let results = part.outputs.iter().filter_map(|(_, value)| filled(slots, *value).ok());
                watch.instruction(since, site, seen, results);
            }
            SegmentPart::Host { body, params, inputs, outputs, .. } => {
                let operands: Vec<Option<&ErasedTensor>> = inputs
                    .iter()
                    .map(|v| v.map(|v| filled(slots, v)).transpose())
                    .collect::<Result<_, _>>()?;
                let seen = watch.operands(operands.iter().map(|x| x.map(type_of)));
                let since = watch.mark();
                let check = |results: &[TensorData]| state.ledger.host(results);
                let results = crate::trace::host::run_checked(on, body, &operands, params, check)?;
                results.iter().try_for_each(|result| state.ledger.result(result).map(drop))?;
                watch.instruction(since, site, seen, results.iter());
                for (&value, result) in outputs.iter().zip(results) {
                    slots.set(value, Some(result))?;
                }
            }
            SegmentPart::Alone(step, claims) => {
                let operands: Vec<Option<&ErasedTensor>> = step
                    .inputs
                    .iter()
                    .map(|v| v.map(|v| filled(slots, v)).transpose())
                    .collect::<Result<_, _>>()?;
                let seen = watch.operands(operands.iter().map(|x| x.map(type_of)));
                let since = watch.mark();
                let op = step.operation.primitive();
                let op = op.ok_or_else(|| Error::excluded("a primitive where one is called alone"))?;
                let results = on.0.primitive(op, &operands, &step.params)?;
                for (index, (result, claim)) in results.iter().zip(claims).enumerate() {
                    if !claim.holds(result) {
                        let maker = on.0.maker_of(op.spec());
                        return Err(claim.wrong(op.spec().method, index, result, false, maker).into());
                    }
                }
                results.iter().try_for_each(|result| state.ledger.result(result).map(drop))?;
                watch.instruction(since, site, seen, results.iter());
                for (&value, result) in step.outputs.iter().zip(results) {
                    slots.set(value, Some(result))?;
                }
            }
        }
        Ok(())
    }
}

impl GraphPart {
    /// Converts consecutive steps, which end before the step `end`, to a graph; `None` if their results are not read.
    fn new(
        Cut { traced, open, known_ranges }: Cut<'_>,
        liveness: &Liveness<TraceValue, StepId>,
        own: &[(StepId, &Step)],
        end: StepId,
    ) -> Result<Option<GraphPart>, Error> {
        let recorded = &traced.recorded;
        let Some((mut part, inputs)) = part_of(recorded, liveness, own, end)? else { return Ok(None) };
        let results = part.outputs.clone();
        let names: Vec<String> = inputs.iter().map(|(name, _)| name.clone()).collect();
        let output_names: Vec<String> = (0..results.len()).map(|i| format!("output_{i}")).collect();
        let mut narrowed = None;
        if let Some(known_ranges) = known_ranges {
            let outputs = output_names.iter().cloned().zip(results.iter().copied());
            let weight = |source| traced.known(source);
            narrowed = Some(NarrowedGraph::of(known_ranges, &part, &inputs, outputs, weight)?);
            known_ranges.narrow(&mut part)?;
        }
        let weight = |id| {
            let data = traced.weights().get(id).ok()?;
            known_ranges.map_or_else(|| Some(data.clone()), |known_ranges| known_ranges.constant(data).ok())
        };
        let graph = to_graph(&part, &names, &output_names, &weight);
        let mut graph = graph.map_err(|error| {
            let wrong =
                |step: &&Step| matches!(error, Error::NotPrimitive { op } if op == step.operation.name());
            let step = own.iter().map(|(_, step)| *step).find(wrong);
            match step.map(|step| Where::of(&traced.origins, [&step.origins])) {
                Some(Where::Node(node)) => in_node(&traced.resolved.graph, node, error),
                _ => error,
            }
        })?;
        // The graph declares an extent of the trace only if all inputs of the plan have this extent.
        let made = inputs.iter().map(|(_, value)| value).zip(&mut graph.input);
        for (&value, info) in made.chain(results.iter().zip(&mut graph.output)) {
            let varies = match recorded.values.get(value)?.source {
                ValueSource::Input(index) => open.get(index.position()) != Some(&false),
                _ => open.contains(&true),
            };
            if varies {
                forget_extents(info);
            }
        }
        let is_fixed = !open.contains(&true);
        let claims = results
            .iter()
            .map(|value| Claim::of(recorded, *value, is_fixed))
            .collect::<Result<_, Error>>()?;
        let mut types = Vec::with_capacity(inputs.len());
        for (_, value) in &inputs {
            let info = recorded.values.get(*value)?;
            types.push((info.dtype, info.shape.clone()));
        }
        let mut cost = Cost::ZERO;
        for (_, step) in own {
            cost = cost.and(step_cost(recorded, step)?);
        }
        Ok(Some(GraphPart {
            graph,
            cache: GraphCache::fresh(),
            inputs,
            outputs: output_names.into_iter().zip(results).collect(),
            claims,
            origins: own.iter().map(|(_, step)| step.origins.clone()).collect(),
            cost,
            types,
            narrowed,
        }))
    }
}

/// Values with their names, in order.
type NamedValues = Vec<(String, TraceValue)>;

/// Returns consecutive steps, which end before the step `end`, as a trace, and its inputs by name; `None` if their results are
/// not read.
fn part_of(
    recorded: &Trace,
    liveness: &Liveness<TraceValue, StepId>,
    own: &[(StepId, &Step)],
    end: StepId,
) -> Result<Option<(Trace, NamedValues)>, Error> {
    let mut made: Table<TraceValue, bool> = Table::with(recorded.values.len(), || false);
    let mut read = made.clone();
    let mut results: Vec<TraceValue> = Vec::new();
    for (_, step) in own {
        for &value in &step.outputs {
            made.set(value, true)?;
            if liveness.is_read_from(value, end)? {
                results.push(value);
            }
        }
        for value in step.reads() {
            read.set(value, true)?;
        }
    }
    results.sort_unstable();
    if results.is_empty() {
        return Ok(None);
    }
    // Results of other parts are inputs of this part.
    let mut part = Trace {
        steps: own.iter().map(|(_, step)| Step::clone(step)).collect(),
        values: recorded.values.clone(),
        constants: recorded.constants.clone(),
        outputs: results,
        ..Trace::default()
    };
    let mut inputs = Vec::new();
    for (value, info) in part.values.iter_mut() {
        if info.source.is_constant() || *made.get(value)? {
            continue;
        }
        info.source = ValueSource::Input(InputIndex::at(usize::MAX));
        if *read.get(value)? {
            info.source = ValueSource::Input(InputIndex::at(inputs.len()));
            inputs.push((format!("input_{}", inputs.len()), value));
        }
    }
    Ok(Some((part, inputs)))
}

/// Removes the extents from a tensor's declared shape, and keeps its rank.
fn forget_extents(info: &mut ValueInfoProto) {
    if let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_mut().and_then(|ty| ty.value.as_mut())
    {
        tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim).for_each(|dim| dim.value = None);
    }
}

/// Returns the cost of a step with the shapes in the trace.
///
/// # Errors
///
/// [`Error::Internal`] if the step refers to a value that does not exist.
pub(super) fn step_cost(recorded: &Trace, step: &Step) -> Result<Cost, Error> {
    let typed = |value: TraceValue| -> Result<TensorType<'_>, Error> {
        recorded.values.get(value).map(|info| (info.dtype, info.shape.as_slice()))
    };
    let inputs: Vec<Option<TensorType<'_>>> =
        step.inputs.iter().map(|input| input.map(typed).transpose()).collect::<Result<_, _>>()?;
    let outputs: Vec<TensorType<'_>> = step.outputs.iter().map(|v| typed(*v)).collect::<Result<_, _>>()?;
    Ok(match step.operation {
        Operation::Row(op) => cost::of(op, &step.params, &inputs, &outputs),
        Operation::Host(_) => cost::of_host(&inputs, &outputs),
    })
}
