//! A segment for a backend that runs graphs: the trace as graphs of primitives, and between them what the host computes.

use super::failure::{Failure, Where, in_node};
use super::origin::{NodeName, Origins};
use super::segment::SegmentTrace;
use super::watch::{Called, Site, Sites, Watch};
use crate::contract::Caller;
use crate::cost::{self, Cost, TensorType};
use crate::ext::HostKernel;
use crate::trace::{Operation, Source, Step, Trace, ValueNo, to_graph};
use crate::{Backend, BackendAttrs, Error, GraphIdentity};
use bb_ir::graph::Graph;
use bb_ir::op::Param;
use bb_ir::proto::{GraphProto, ValueInfoProto, type_proto};
use bb_ir::{DataType, Shape, TensorData};
use std::sync::{Arc, OnceLock};

/// A segment as graphs.
pub(super) struct PartitionedGraph<T> {
    parts: Vec<Part>,
    /// The constants that the host reads, or that are outputs, and who reads them.
    constants: Vec<(ValueNo, TensorData, Where)>,
    /// For each input, its value.
    inputs: Vec<ValueNo>,
    outputs: Vec<ValueNo>,
    values: usize,
    /// The nodes that the parts come from.
    origins: Origins,
    /// What a profile tells of the parts, from the first run on that has one.
    sites: OnceLock<Arc<Sites>>,
    tensors: std::marker::PhantomData<fn() -> T>,
}

/// A part of a segment.
enum Part {
    /// Primitives, run by the backend as one graph.
    Graph(Box<GraphPart>),
    /// A computation on the host.
    Host {
        body: &'static HostKernel,
        params: Box<[Param<'static>]>,
        inputs: Vec<Option<ValueNo>>,
        outputs: Vec<ValueNo>,
        step: u32,
    },
}

struct GraphPart {
    graph: GraphProto,
    identity: GraphIdentity,
    inputs: Vec<(String, ValueNo)>,
    outputs: Vec<(String, ValueNo)>,
    steps: std::ops::Range<usize>,
    /// What a run costs with inputs of the types and extents of the trace.
    cost: Cost,
    types: Vec<(DataType, Shape)>,
}

impl<T> PartitionedGraph<T> {
    /// Cuts a trace where the host computes; `open` says of each input whether the plan holds for other extents of it.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimitive`] if a step is an operation of an extension family.
    pub(super) fn new(traced: &SegmentTrace, open: &[bool]) -> Result<PartitionedGraph<T>, Error> {
        let recorded = &traced.recorded;
        let mut whole = PartitionedGraph {
            parts: Vec::new(),
            constants: Vec::new(),
            inputs: Vec::new(),
            outputs: traced.outputs.clone(),
            values: recorded.values.len(),
            origins: traced.origins.clone(),
            sites: OnceLock::new(),
            tensors: std::marker::PhantomData,
        };
        for (no, value) in recorded.values.iter().enumerate() {
            if let Source::Input(_) = value.source {
                whole.inputs.push(no as ValueNo);
            }
        }
        let hosts: Vec<usize> = (0..recorded.steps.len())
            .filter(|&at| recorded.steps.get(at).is_some_and(|s| matches!(s.operation, Operation::Host(_))))
            .collect();
        let mut from = 0;
        for end in hosts.into_iter().chain([recorded.steps.len()]) {
            if let Some(part) = GraphPart::new(traced, open, from..end)? {
                whole.parts.push(Part::Graph(Box::new(part)));
            }
            if let Some(step) = recorded.steps.get(end)
                && let Operation::Host(body) = step.operation
            {
                whole.parts.push(Part::Host {
                    body,
                    params: step.params.clone(),
                    inputs: step.inputs.to_vec(),
                    outputs: step.outputs.to_vec(),
                    step: end as u32,
                });
            }
            from = end + 1;
        }
        let read_by_host = whole.parts.iter().flat_map(|part| match part {
            Part::Host { inputs, .. } => inputs.as_slice(),
            Part::Graph(_) => &[],
        });
        for no in read_by_host.flatten().chain(&whole.outputs) {
            let data = match recorded.values.get(*no as usize).map(|v| v.source) {
                Some(Source::Weight(i)) => traced.weights().get(i),
                Some(Source::Constant(i)) => recorded.constants.get(i as usize),
                _ => None,
            };
            if let Some(data) = data {
                data.prepare()?;
                whole.constants.push((*no, data.clone(), traced.reader_of(*no)));
            }
        }
        Ok(whole)
    }

    /// Runs the parts in order; they were made of this graph.
    pub(super) fn run<B: Backend<Tensor = T> + ?Sized, W: Watch>(
        &self,
        on: &B,
        live: &[&T],
        graph: &Graph,
        watch: &mut W,
    ) -> Result<Vec<T>, Failure<B::Error>>
    where
        T: crate::Tensor,
    {
        let first = watch.plan(|| self.sites(graph));
        let caller = Caller::current();
        let mut slots: Vec<Option<T>> = vec![None; self.values];
        for (no, &x) in self.inputs.iter().zip(live) {
            set(&mut slots, *no, x.clone());
        }
        for (no, data, at) in &self.constants {
            let failed = |error: B::Error| {
                let error = Error::Constant { dtype: data.dtype(), source: error.into() };
                Failure { at: *at, error: error.into() }
            };
            set(&mut slots, *no, on.constant(data).map_err(failed)?);
        }
        for (at, part) in self.parts.iter().enumerate() {
            let ran = part.run(on, &mut slots, &caller, first + at, watch);
            ran.map_err(|error| Failure { at: part.at(&self.origins), error })?;
        }
        let outputs = self.outputs.iter().map(|no| Ok(get(&slots, *no)?.clone()));
        let outputs: Result<Vec<T>, Error> = outputs.collect();
        outputs.map_err(|error| Failure { at: Where::Graph, error: error.into() })
    }

    /// Says what each part is.
    fn sites(&self, graph: &Graph) -> Arc<Sites> {
        let site = |part: &Part| match part {
            Part::Graph(part) => {
                let [node, last] = part.names(&self.origins, graph);
                Site { node, last, called: Called::Graph { inputs: part.types.clone(), cost: part.cost } }
            }
            Part::Host { body, params, step, .. } => Site {
                node: self.origins.name_of(*step, graph),
                last: None,
                called: Called::Operation(Operation::Host(body), params.clone()),
            },
        };
        self.sites.get_or_init(|| Arc::new(Sites(self.parts.iter().map(site).collect()))).clone()
    }
}

impl Part {
    /// Finds the nodes that the part comes from.
    fn at(&self, origins: &Origins) -> Where {
        match self {
            Part::Graph(part) => Where::of(origins, part.steps.clone()),
            Part::Host { step, .. } => origins.node_of(*step).map_or(Where::Graph, Where::Node),
        }
    }

    fn run<B: Backend + ?Sized, W: Watch>(
        &self,
        on: &B,
        slots: &mut [Option<B::Tensor>],
        caller: &Option<Arc<Caller>>,
        site: usize,
        watch: &mut W,
    ) -> Result<(), B::Error> {
        let since = watch.mark();
        match self {
            Part::Graph(part) => {
                let mut inputs = std::collections::HashMap::with_capacity(part.inputs.len());
                for (name, no) in &part.inputs {
                    inputs.insert(name.clone(), get(slots, *no)?.clone());
                }
                let mut attrs = BackendAttrs::default().with_identity(part.identity);
                if let Some(caller) = caller {
                    attrs = attrs.with_node(&caller.attributes, &caller.metadata);
                }
                let mut results = on.execute(&part.graph, inputs, attrs)?;
                for (name, no) in &part.outputs {
                    let result = results.remove(name);
                    let result = result.ok_or_else(|| Error::MissingOutput { name: name.clone() })?;
                    set(slots, *no, result);
                }
                let operands = part.inputs.iter().map(|(_, no)| get(slots, *no).ok());
                let results = part.outputs.iter().filter_map(|(_, no)| get(slots, *no).ok());
                watch.instruction(since, site, operands, results);
            }
            Part::Host { body, params, inputs, outputs, .. } => {
                let operands: Vec<Option<&B::Tensor>> =
                    inputs.iter().map(|v| v.map(|v| get(slots, v)).transpose()).collect::<Result<_, _>>()?;
                let results = crate::ext::host::run(on, body, &operands, params)?;
                watch.instruction(since, site, operands.iter().copied(), results.iter());
                for (&no, result) in outputs.iter().zip(results) {
                    set(slots, no, result);
                }
            }
        }
        Ok(())
    }
}

fn set<T>(slots: &mut [Option<T>], no: ValueNo, to: T) {
    if let Some(place) = slots.get_mut(no as usize) {
        *place = Some(to);
    }
}

fn get<T>(slots: &[Option<T>], no: ValueNo) -> Result<&T, Error> {
    let made = slots.get(no as usize).and_then(Option::as_ref);
    made.ok_or_else(|| Error::MissingOutput { name: format!("%{no}") })
}

impl GraphPart {
    /// Writes a run of steps as a graph; `None` if nobody reads what they make.
    fn new(
        traced: &SegmentTrace,
        open: &[bool],
        steps: std::ops::Range<usize>,
    ) -> Result<Option<GraphPart>, Error> {
        let recorded = &traced.recorded;
        let own = recorded.steps.get(steps.clone()).unwrap_or_default();
        let mut made = vec![false; recorded.values.len()];
        let mark = |table: &mut Vec<bool>, no: ValueNo| {
            if let Some(place) = table.get_mut(no as usize) {
                *place = true;
            }
        };
        own.iter().flat_map(|s| &s.outputs).for_each(|no| mark(&mut made, *no));
        let is = |table: &[bool], no: &ValueNo| table.get(*no as usize) == Some(&true);
        let later = recorded.steps.get(steps.end..).unwrap_or_default();
        let read_later = later.iter().flat_map(|s| s.inputs.iter().flatten()).chain(&traced.outputs);
        let mut results: Vec<ValueNo> = read_later.filter(|no| is(&made, no)).copied().collect();
        results.sort_unstable();
        results.dedup();
        if results.is_empty() {
            return Ok(None);
        }
        // What other parts make is an input of this one.
        let mut part = Trace {
            steps: own.to_vec(),
            values: recorded.values.clone(),
            constants: recorded.constants.clone(),
        };
        let mut read = vec![false; recorded.values.len()];
        own.iter().flat_map(|s| s.inputs.iter().flatten()).for_each(|no| mark(&mut read, *no));
        let mut inputs = Vec::new();
        for (no, value) in part.values.iter_mut().enumerate() {
            let no = no as ValueNo;
            if !matches!(value.source, Source::Input(_) | Source::Step) || is(&made, &no) {
                continue;
            }
            value.source = Source::Input(u32::MAX);
            if is(&read, &no) {
                value.source = Source::Input(inputs.len() as u32);
                inputs.push((format!("input_{}", inputs.len()), no));
            }
        }
        let names: Vec<String> = inputs.iter().map(|(name, _)| name.clone()).collect();
        let output_names: Vec<String> = (0..results.len()).map(|i| format!("output_{i}")).collect();
        let weight = |i: u32| traced.weights().get(i).cloned();
        let graph = to_graph(&part, &names, &output_names, &results, &weight);
        let mut graph = graph.map_err(|error| {
            let wrong =
                |step: &Step| matches!(error, Error::NotPrimitive { op } if op == step.operation.name());
            match own.iter().position(wrong).map(|step| traced.node_of(steps.start + step)) {
                Some(Where::Node(node)) => in_node(&traced.resolved.graph, node, error),
                _ => error,
            }
        })?;
        // The graph declares the extents that it was traced with only where they hold whenever the plan does.
        let varies = |no: ValueNo| match recorded.values.get(no as usize).map(|value| value.source) {
            Some(Source::Input(position)) => open.get(position as usize) != Some(&false),
            _ => open.contains(&true),
        };
        let declared = inputs.iter().map(|(_, no)| *no).zip(&mut graph.input);
        for (_, info) in
            declared.chain(results.iter().copied().zip(&mut graph.output)).filter(|(no, _)| varies(*no))
        {
            forget_extents(info);
        }
        let outputs = output_names.into_iter().zip(results).collect();
        let typed = |(_, no): &(String, ValueNo)| {
            recorded.values.get(*no as usize).map(|value| (value.dtype, value.shape.clone()))
        };
        let types = inputs.iter().filter_map(typed).collect();
        let cost = cost_of(recorded, own);
        let identity = GraphIdentity::fresh();
        Ok(Some(GraphPart { graph, identity, inputs, outputs, steps, cost, types }))
    }

    /// Names the first node that the graph comes from, and the last if there are several.
    fn names(&self, origins: &Origins, graph: &Graph) -> [Option<NodeName>; 2] {
        let mut names = self.steps.clone().filter_map(|step| origins.name_of(step as u32, graph));
        let Some(first) = names.next() else { return [None, None] };
        let last = names.next_back().filter(|last| *last != first);
        [Some(first), last]
    }
}

/// Leaves the rank of what is declared of a tensor's shape.
fn forget_extents(info: &mut ValueInfoProto) {
    if let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_mut().and_then(|ty| ty.value.as_mut())
    {
        tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim).for_each(|dim| dim.value = None);
    }
}

/// Sums what steps cost with the extents of the trace.
fn cost_of(recorded: &Trace, steps: &[Step]) -> Cost {
    steps.iter().fold(Cost::ZERO, |all, step| all.and(step_cost(recorded, step)))
}

/// Returns what a step costs with the extents of the trace.
pub(super) fn step_cost(recorded: &Trace, step: &Step) -> Cost {
    let typed = |no: &ValueNo| -> Option<TensorType<'_>> {
        recorded.values.get(*no as usize).map(|value| (value.dtype, value.shape.as_slice()))
    };
    let inputs: Vec<Option<TensorType<'_>>> =
        step.inputs.iter().map(|input| input.as_ref().and_then(typed)).collect();
    let outputs: Vec<TensorType<'_>> = step.outputs.iter().filter_map(typed).collect();
    match step.operation {
        Operation::Row(op) => cost::of(op, &step.params, &inputs, &outputs),
        Operation::Host(_) => cost::of_host(&inputs, &outputs),
    }
}
