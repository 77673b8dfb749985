//! Tracing a checked graph, as far as values allow.
//!
//! A stage is a run of nodes that can be traced without knowing a value which only running gives. Most
//! graphs are one stage. Where a node needs such a value (the extents for a `Reshape`, say, computed from
//! data), the stage ends before it; the next begins with that value read back from the backend.

use super::splice::{splice, subgraphs};
use crate::Error;
use crate::ext::OpSet;
use crate::onnx::{Body, Call, Function, Results};
use crate::trace::{Recorded, Traced, Tracer, ValueNo};
use bb_ir::graph::{Dim, Graph, Node, ValueId, ValueType};
use bb_ir::op::Family;
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;
use std::sync::Arc;

/// A graph with what planning looks up once: its nodes' functions and which of them matter.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) graph: Arc<Graph>,
    /// What each node does.
    code: Vec<Code>,
    /// For each value, its position in `graph.constants`.
    weights: Vec<Option<u32>>,
    /// For each value, the last node that reads it; `usize::MAX` for an output of the graph.
    last_reader: Vec<Option<usize>>,
}

/// What a node does.
#[derive(Debug, Clone, Copy)]
enum Code {
    /// Nothing that anybody reads.
    Unused,
    /// Calls an ONNX function.
    Call(Function<Tracer>),
    /// Goes on with one of its branches.
    If,
}

impl Code {
    /// Finds what a node does; `None` if nothing runs it.
    fn of(node: &Node) -> Option<Code> {
        if is_control_flow(node) {
            return Some(Code::If);
        }
        let (_, body) = crate::onnx::lookup::<Tracer>(&node.domain, &node.op_type, node.opset)?;
        match body {
            Body::Tensors(function) => Some(Code::Call(function)),
            Body::Host(_) | Body::Items(_) => None,
        }
    }
}

/// Tells whether a node is taken apart by the plan rather than served by a function.
pub(crate) fn is_control_flow(node: &Node) -> bool {
    node.domain.is_empty() && node.op_type == "If"
}

/// Adds the nodes of a graph and of its subgraphs that nothing runs.
fn missing_in(graph: &Graph, missing: &mut Vec<crate::coverage::Missing>) {
    missing.extend(graph.nodes.iter().flat_map(|node| missing_of(graph, node)));
}

/// Lists what nothing runs of a node: itself, or nodes of its subgraphs.
pub(crate) fn missing_of(graph: &Graph, node: &Node) -> Vec<crate::coverage::Missing> {
    let mut missing = Vec::new();
    if Code::of(node).is_none() {
        missing.push(crate::coverage::Missing::of(graph, node));
    }
    subgraphs(node).for_each(|inner| missing_in(inner, &mut missing));
    missing
}

impl Resolved {
    /// Finds the function of each node.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] with every node for which there is none.
    pub(crate) fn new(graph: Arc<Graph>) -> Result<Resolved, Error> {
        let mut last_reader: Vec<Option<usize>> = vec![None; graph.values.len()];
        for &output in &graph.outputs {
            set(&mut last_reader, output, Some(usize::MAX));
        }
        let mut code = vec![Code::Unused; graph.nodes.len()];
        let mut missing = Vec::new();
        for ((at, node), code) in graph.nodes.iter().enumerate().zip(&mut code).rev() {
            let read = node.outputs.iter().flatten().any(|v| get(&last_reader, *v).is_some());
            if !read {
                continue;
            }
            match Code::of(node) {
                Some(found) => *code = found,
                None => missing.push(crate::coverage::Missing::of(&graph, node)),
            }
            subgraphs(node).for_each(|inner| missing_in(inner, &mut missing));
            let captured = subgraphs(node).flat_map(|inner| inner.captures.iter().map(|(outer, _)| *outer));
            for input in node.inputs.iter().flatten().copied().chain(captured) {
                if get(&last_reader, input).is_none() {
                    set(&mut last_reader, input, Some(at));
                }
            }
        }
        if !missing.is_empty() {
            missing.reverse();
            return Err(Error::Unsupported { missing: crate::coverage::MissingList(missing) });
        }
        let mut weights = vec![None; graph.values.len()];
        for (index, (value, _)) in graph.constants.iter().enumerate() {
            set(&mut weights, *value, Some(index as u32));
        }
        Ok(Resolved { graph, code, weights, last_reader })
    }

    /// Returns the position in `graph.constants` of a value that is constant.
    pub(crate) fn weight(&self, value: ValueId) -> Option<u32> {
        get(&self.weights, value)
    }
}

fn get<T: Copy>(table: &[Option<T>], value: ValueId) -> Option<T> {
    table.get(value.index()).copied().flatten()
}

fn set<T>(table: &mut [Option<T>], value: ValueId, to: Option<T>) {
    if let Some(place) = table.get_mut(value.index()) {
        *place = to;
    }
}

/// Where a stage begins: the node, and the values that come from before.
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// The first node.
    pub(crate) node: usize,
    /// The values that the backend holds, in the order of the plan's inputs.
    pub(crate) live: Vec<ValueId>,
    /// The values that earlier stages found to be constant.
    pub(crate) known: Vec<(ValueId, TensorData)>,
}

/// What is known of a live value when a stage is traced.
#[derive(Debug, Clone)]
pub(crate) struct Arriving {
    pub(crate) dtype: DataType,
    pub(crate) shape: Shape,
    /// Whether other runs may bring other extents.
    pub(crate) varies: bool,
    /// The elements, where the stage is specialised on them.
    pub(crate) known: Option<TensorData>,
}

/// A traced stage.
#[derive(Debug)]
pub(crate) struct StageTrace {
    pub(crate) recorded: Recorded,
    /// The number of live values that came in.
    pub(crate) inputs: usize,
    /// The values to return.
    pub(crate) outputs: Vec<ValueNo>,
    /// The live values, as bits by position (63 for all from there on), on whose extents the trace depends.
    pub(crate) consulted: u64,
    /// The graph that was traced, in which branches taken stand for their `If`s.
    pub(crate) resolved: Arc<Resolved>,
    /// For each node traced, the number of steps before it; to find the node of a step.
    pub(crate) origins: Vec<(u32, u32)>,
    /// Where the next stage starts; its `live` are the outputs. `None` if the graph is done.
    pub(crate) next: Option<Start>,
    /// The value that the next stage needs to know.
    pub(crate) wanted: Option<ValueId>,
}

/// How tracing a stage ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With a trace.
    Done(Box<StageTrace>),
    /// Before its first node: the value at this position of `live` must be known.
    Needs(usize),
}

/// Settings of a trace that do not change between stages.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) natives: Vec<(Family, OpSet)>,
    pub(crate) value_bytes: usize,
}

/// Traces from `start` as far as values allow.
pub(crate) fn trace(
    resolved: &Arc<Resolved>,
    start: &Start,
    arriving: &[Arriving],
    settings: &Settings,
) -> Result<Outcome, Error> {
    let mut resolved = resolved.clone();
    let tracer = Tracer::new(settings.natives.clone(), settings.value_bytes);
    let mut env: Vec<Option<Traced>> = vec![None; resolved.graph.values.len()];
    for (index, (&value, from)) in start.live.iter().zip(arriving).enumerate() {
        let traced = tracer.input(index as u32, from.dtype, &from.shape, from.varies, from.known.clone());
        set(&mut env, value, Some(traced));
    }
    for (value, data) in &start.known {
        set(&mut env, *value, Some(crate::Backend::constant(&tracer, data)?));
    }
    let mut origins = Vec::with_capacity(resolved.graph.nodes.len().saturating_sub(start.node));
    let mut cut = None;
    let mut at = start.node;
    while let (Some(node), Some(&code)) = (resolved.graph.nodes.get(at), resolved.code.get(at)) {
        if matches!(code, Code::Unused) {
            at += 1;
            continue;
        }
        let before = tracer.steps();
        origins.push((before as u32, at as u32));
        let mut inputs: SmallVec<[Option<Traced>; 4]> = SmallVec::new();
        for input in &node.inputs {
            inputs.push(match input {
                Some(value) => Some(value_of(&resolved, &tracer, &mut env, *value)?),
                None => None,
            });
        }
        let ran = match code {
            Code::Unused => Ok(Ran::Results(Results::new())),
            Code::Call(function) => function(&tracer, &Call::new(node, &inputs)).map(Ran::Results),
            Code::If => branch(&tracer, &resolved.graph, at, &inputs).map(Ran::Spliced),
        };
        match ran {
            Ok(Ran::Results(results)) => {
                tracer.take_wanted();
                store(&resolved.graph, at, results, &mut env)?;
                at += 1;
            }
            Ok(Ran::Spliced(graph)) => {
                // The branch's first node stands where the `If` stood.
                origins.pop();
                env.resize(graph.values.len(), None);
                resolved = Arc::new(Resolved::new(Arc::new(graph))?);
            }
            Err(error) => {
                let Some(wanted) = tracer.take_wanted() else {
                    return Err(in_node(&resolved.graph, at, error));
                };
                if let Some(live) = start.live.iter().position(|v| is(&env, *v, wanted)) {
                    return Ok(Outcome::Needs(live));
                }
                let named = node.inputs.iter().flatten().find(|v| is(&env, **v, wanted));
                let Some(&value) = named else { return Err(in_node(&resolved.graph, at, error)) };
                tracer.forget(before);
                origins.pop();
                cut = Some((at, value));
                break;
            }
        }
    }
    let graph = &resolved.graph;
    let mut outputs = Vec::new();
    let mut next = None;
    let consulted = tracer.consulted();
    match cut {
        None => {
            for &output in &graph.outputs {
                outputs.push(value_of(&resolved, &tracer, &mut env, output)?.no());
            }
        }
        Some((node, _)) => {
            let mut begin = Start { node, ..Start::default() };
            for (index, traced) in env.iter().enumerate() {
                let value = ValueId(index as u32);
                let needed = get(&resolved.last_reader, value).is_some_and(|last| last >= node);
                let Some(traced) = traced.as_ref().filter(|_| needed && resolved.weight(value).is_none())
                else {
                    continue;
                };
                match traced.known() {
                    Some(data) => begin.known.push((value, data.clone())),
                    None => {
                        begin.live.push(value);
                        outputs.push(traced.no());
                    }
                }
            }
            next = Some(begin);
        }
    }
    let wanted = cut.map(|(_, value)| value);
    let recorded = tracer.finish();
    let inputs = start.live.len();
    Ok(Outcome::Done(Box::new(StageTrace {
        recorded,
        inputs,
        outputs,
        consulted,
        resolved,
        origins,
        next,
        wanted,
    })))
}

/// What became of a node.
enum Ran {
    /// Its results.
    Results(Results<Traced>),
    /// A graph in which others stand in its place.
    Spliced(Graph),
}

/// Finds which branch an `If` takes, and puts it in the node's place.
fn branch(tracer: &Tracer, graph: &Graph, at: usize, inputs: &[Option<Traced>]) -> Result<Graph, Error> {
    let (Some(node), [Some(condition)]) = (graph.nodes.get(at), inputs) else {
        return Err(Error::Operand { op: "If", index: 0, expected: "a truth value" });
    };
    let name = match crate::ext::Ops::ints(tracer, condition)?.as_slice() {
        [0] => "else_branch",
        [_] => "then_branch",
        other => {
            return Err(Error::Operator {
                op: "If".to_owned(),
                what: "the condition".to_owned(),
                problem: format!("expected one truth value, got {}", other.len()),
            });
        }
    };
    let branch = node.attributes.graph(name)?.ok_or_else(|| Error::Operator {
        op: "If".to_owned(),
        what: format!("attribute `{name}`"),
        problem: "is missing".to_owned(),
    })?;
    Ok(splice(graph, at, branch))
}

/// Stores a node's results.
fn store(
    graph: &Graph,
    at: usize,
    results: Results<Traced>,
    env: &mut [Option<Traced>],
) -> Result<(), Error> {
    let Some(node) = graph.nodes.get(at) else { return Ok(()) };
    let got = results.len();
    let mut results = results.into_iter();
    for (position, output) in node.outputs.iter().enumerate() {
        let result = results.next().flatten();
        if let Some(value) = output {
            if result.is_none() {
                let op = node.op_type.clone();
                return Err(in_node(graph, at, Error::Results { op, expected: position + 1, got }));
            }
            set(env, *value, result);
        }
    }
    Ok(())
}

/// Tells whether a value of the graph is this value of the trace.
fn is(env: &[Option<Traced>], value: ValueId, no: ValueNo) -> bool {
    env.get(value.index()).and_then(Option::as_ref).is_some_and(|t| t.no() == no)
}

/// Returns a value, adding it to the trace where it is a weight not yet used.
fn value_of(
    resolved: &Resolved,
    tracer: &Tracer,
    env: &mut [Option<Traced>],
    value: ValueId,
) -> Result<Traced, Error> {
    if let Some(traced) = env.get(value.index()).and_then(Option::as_ref) {
        return Ok(traced.clone());
    }
    let data =
        resolved.weight(value).and_then(|i| resolved.graph.constants.get(i as usize).map(|(_, d)| (i, d)));
    let Some((index, data)) = data else {
        return Err(Error::MissingInput {
            name: resolved.graph.name_of(value).to_owned(),
            expected: resolved.graph.inputs.iter().map(|v| resolved.graph.name_of(*v).to_owned()).collect(),
        });
    };
    let traced = tracer.weight(index, data);
    set(env, value, Some(traced.clone()));
    Ok(traced)
}

/// Says in which node an error happened.
pub(crate) fn in_node(graph: &Graph, at: usize, source: impl Into<crate::BoxError>) -> Error {
    let node = graph.nodes.get(at);
    let name = node.map_or_else(String::new, |n| crate::coverage::name(graph, n));
    Error::Node {
        node: name,
        op: node.map_or_else(String::new, |n| n.op_type.clone()),
        source: source.into(),
    }
}

/// Counts the steps that each node is lowered to, where the extents of all inputs are known; `None` where they
/// are not, or where tracing needs values.
pub(crate) fn count_steps(
    module: &crate::Module,
    natives: &[(Family, OpSet)],
) -> Option<Vec<(usize, usize)>> {
    let graph = module.graph();
    let arriving: Option<Vec<Arriving>> = graph
        .inputs
        .iter()
        .map(|value| match graph.values.get(value.index()).map(|v| &v.ty) {
            Some(ValueType::Tensor { dtype, shape: Some(dims) }) => {
                let shape = dims
                    .iter()
                    .map(|d| if let Dim::Known(n) = d { Some(*n) } else { None })
                    .collect::<Option<_>>()?;
                Some(Arriving { dtype: *dtype, shape, varies: false, known: None })
            }
            _ => None,
        })
        .collect();
    let start = Start { live: graph.inputs.clone(), ..Start::default() };
    let settings = Settings { natives: natives.to_vec(), value_bytes: crate::trace::DEFAULT_LIMIT };
    let resolved = Arc::new(Resolved::new(module.shared()).ok()?);
    let Outcome::Done(traced) = trace(&resolved, &start, &arriving?, &settings).ok()? else { return None };
    let ends =
        traced.origins.iter().skip(1).map(|(step, _)| *step).chain([traced.recorded.steps.len() as u32]);
    Some(
        traced
            .origins
            .iter()
            .zip(ends)
            .map(|((from, node), to)| (*node as usize, (to - from) as usize))
            .collect(),
    )
}
