//! Finds out which operations each node of a graph calls, before any inputs are given, by tracing with the
//! inferred types.
//!
//! Unknown extents are replaced by assumed ones, because element types rarely depend on them. If a node cannot be traced with
//! them, or needs elements, it is traced as a single node with stand-ins that fit it, and tracing continues after it with the inferred types
//! of its results. Bodies and branches that cannot be traced in place are traced separately.

use super::begin::{Begin, results};
use super::stand_ins::{StandIns, TRACES};
use super::unknown::{UnknownList, unknown};
use crate::NarrowError;
use crate::Runtime;
use bb_core::contract::OnnxValue;
use bb_core::cut::Part;
use bb_core::error::{Missing, NodeInfo, Refusal, Why};
use bb_core::narrow::exceeding;
use bb_core::plan::{Code, Explored, Resolved, SegmentInput, SegmentTrace, Settings, Start, Stop, explore};
use bb_core::runtime::{Question, Tried, ones};
use bb_core::trace::Varies;
use bb_core::trace::{Liveness, Operation, Step, StepId, Trace, TraceValue, ValueSource};
use bb_ir::graph::{Dim, Graph, Node, ValueId, ValueType};
use bb_ir::op::{Family, Primitive};
use bb_ir::{DataType, Shape, TensorData};
use std::collections::HashMap;
use std::sync::Arc;

/// The findings about a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Whether a result of the node is used.
    pub(super) used: bool,
    /// The number of operations that the node is lowered to, if known.
    pub(super) steps: Option<usize>,
    /// The reasons why the node, or a node inside it, cannot run.
    pub(super) wrong: Vec<Missing>,
    /// If some element types of the node are unknown before inputs are passed, the facts that may determine them.
    pub(super) unchecked: Option<UnknownList>,
    /// The operations whose results may leave the range of the integer type that the backend uses for them.
    pub(super) exceeding: Vec<NarrowError>,
}

/// The assumed extents. They are tried in this order until no node fails because of them.
const EXTENTS: [usize; 5] = [2, 64, 1, 224, 640];

/// A native operation is tried only if its operands and results have at most this many elements together.
const TRIED: usize = 1 << 20;

/// The maximum number of nodes that are skipped in one graph.
const PASSED: usize = 1000;

/// Traces the nodes of a part of a graph that runs on a backend. Nodes outside the part have default findings.
pub(super) fn look<T>(graph: &Arc<Graph>, part: &Part<T>, on: &Runtime) -> Vec<Seen> {
    let mut missing = Vec::new();
    let has = |at: usize| part.nodes.binary_search(&at).is_ok();
    let resolved = match Resolved::part(graph.clone(), &part.outputs, &has, &mut missing) {
        Ok(resolved) => Arc::new(resolved),
        Err(_) => {
            let unchecked = Some(UnknownList::default());
            return vec![Seen { used: true, unchecked, ..Seen::default() }; graph.nodes.len()];
        }
    };
    let settings = Settings {
        natives: on.capabilities().families,
        value_bytes: bb_ir::Limits::default().value_bytes,
        fold_bytes: bb_ir::Limits::default().fold_bytes,
        symbolic: false,
        strict: false,
        types: on.capabilities().types,
    };
    let attempt = |extents| {
        let seen = vec![Seen::default(); graph.nodes.len()];
        let mut look = Look {
            on,
            settings: &settings,
            extents,
            exact: true,
            failed: 0,
            seen,
            traces: TRACES,
            owner: None,
        };
        look.inputs(&resolved, &part.inputs);
        look
    };
    let mut best = attempt(EXTENTS[0]);
    for extents in EXTENTS.into_iter().skip(1) {
        if best.exact || best.failed == 0 {
            break;
        }
        let other = attempt(extents);
        if other.failed < best.failed {
            best = other;
        }
    }
    let mut seen = best.seen;
    for (seen, code) in seen.iter_mut().zip(&resolved.code) {
        seen.used = !matches!(code, Code::Unused);
    }
    for (at, missing) in missing {
        if let Some(seen) = seen.get_mut(at) {
            seen.wrong.push(missing);
        }
    }
    seen
}

/// Returns an extent, with `unknown` as the value of each unknown variable in it.
pub(crate) fn extent_of(dim: &Dim, unknown: usize) -> usize {
    let known = dim.formula().and_then(|formula| formula.value(&|_| i64::try_from(unknown).ok()));
    known.and_then(|extent| usize::try_from(extent).ok()).unwrap_or(unknown)
}

struct Look<'a> {
    on: &'a Runtime,
    settings: &'a Settings,
    /// The assumed extent that replaces unknown ones.
    extents: usize,
    /// Whether no extent was assumed so far.
    exact: bool,
    /// The number of nodes that failed, perhaps because of assumed extents.
    failed: usize,
    seen: Vec<Seen>,
    /// The number of traces with stand-ins that are still allowed.
    traces: usize,
    /// While a subgraph is traced, the node of the outermost graph that contains it.
    owner: Option<usize>,
}

impl Look<'_> {
    /// Traces a graph whose inputs have the declared types.
    fn inputs(&mut self, resolved: &Arc<Resolved>, inputs: &[ValueId]) {
        let mut begin = Begin::default();
        for &value in inputs {
            self.declared(&resolved.graph, value, &mut begin);
        }
        // The first node that runs and reads each value.
        let mut readers: HashMap<ValueId, usize> = HashMap::new();
        for (at, node) in resolved.graph.nodes.iter().enumerate() {
            if !matches!(resolved.code.get(at), None | Some(Code::Unused)) {
                for value in node.reads() {
                    readers.entry(value).or_insert(at);
                }
            }
        }
        for (value, inputs_known) in begin.start.live.iter().zip(&begin.inputs_known) {
            // The runtime creates a tensor for the input, so the backend must accept constants of this type.
            if let Some(at) = readers.get(value) {
                self.ask(resolved, *at, &Question::constant(inputs_known.dtype));
            }
        }
        self.segments(resolved, begin);
    }

    /// Adds a value with a known type but unknown contents; does nothing if even the type is unknown.
    fn declared(&mut self, graph: &Graph, value: ValueId, begin: &mut Begin) {
        let ty = graph.values.get(value.index()).map_or(&ValueType::Unknown, |info| &info.ty);
        let mut tensors = Vec::new();
        match self.made_up(ty, &mut tensors) {
            Some(item) => begin.add(value, item, tensors),
            None => self.exact = false,
        }
    }

    /// Creates a placeholder for a value of a type, with assumed extents where they are unknown.
    fn made_up(&mut self, ty: &ValueType, tensors: &mut Vec<SegmentInput>) -> Option<OnnxValue<()>> {
        match ty {
            ValueType::Tensor { dtype, shape } => {
                let mut extent = |dim: &Dim| match dim {
                    Dim::Known(extent) => *extent,
                    other => {
                        self.exact = false;
                        extent_of(other, self.extents)
                    }
                };
                let shape: Shape = match shape {
                    Some(dims) => dims.iter().map(&mut extent).collect(),
                    None => [Dim::Unknown, Dim::Unknown].iter().map(&mut extent).collect(),
                };
                tensors.push(SegmentInput { dtype: *dtype, shape, varies: Varies::Nothing, known: None });
                Some(OnnxValue::Tensor(()))
            }
            ValueType::Sequence(of) => {
                self.exact = false;
                Some(OnnxValue::Sequence(vec![self.made_up(of, tensors)?]))
            }
            ValueType::Optional(of) => {
                self.exact = false;
                self.made_up(of, tensors)
            }
            ValueType::Map(..) | ValueType::Unknown => None,
        }
    }

    /// Traces a graph segment by segment.
    fn segments(&mut self, resolved: &Arc<Resolved>, mut begin: Begin) {
        let mut certain = self.owner.is_none() && self.exact;
        for _ in 0..PASSED {
            let from = begin.start.node;
            let (start, known, structure) = (&begin.start, &begin.inputs_known, begin.structure());
            let Ok((traced, explored)) = explore(resolved, start, known, &structure, self.settings) else {
                return self.unchecked_from(resolved, from);
            };
            self.steps(resolved, &traced);
            let (start, stop) = match explored {
                Explored::Returned(values) => return self.returned(resolved, &traced, &values),
                Explored::Stopped(start, stop) => (start, stop),
            };
            self.passed_over(resolved, &start, &traced, stop, certain);
            begin = self.after(resolved, &start, &traced);
            certain = false;
        }
        self.unchecked_from(resolved, begin.start.node);
    }

    /// Returns the start after the node that ended a segment.
    fn after(&mut self, resolved: &Arc<Resolved>, ended: &Start, traced: &SegmentTrace) -> Begin {
        let node = ended.node + 1;
        let mut begin = Begin { start: Start { node, ..Start::default() }, ..Begin::default() };
        // If the query fails, the value counts as read, and the next trace reports the error.
        let read = |value: &ValueId| resolved.is_read_from(*value, node).unwrap_or(true);
        let known = ended.known.iter().filter(|(value, _)| read(value));
        begin.start.known = known.cloned().collect();
        for (value, item, tensors) in results(&ended.live, traced) {
            if read(&value) {
                begin.add(value, item, tensors);
            }
        }
        let passed = resolved.graph.nodes.get(ended.node);
        for value in passed.into_iter().flat_map(|node| node.outputs.iter().flatten()) {
            if read(value) {
                self.declared(&resolved.graph, *value, &mut begin);
            }
        }
        begin
    }

    /// Queries whether the backend supports every operation that the steps of a segment call.
    fn steps(&mut self, resolved: &Arc<Resolved>, traced: &SegmentTrace) {
        let recorded = &traced.recorded;
        if self.owner.is_none() && self.exact {
            for node in traced.origins.nodes() {
                if let Some(seen) = self.seen.get_mut(node) {
                    seen.steps = Some(0);
                }
            }
            for (_, node) in traced.steps_by_node() {
                if let Some(count) = self.seen.get_mut(node).and_then(|seen| seen.steps.as_mut()) {
                    *count += 1;
                }
            }
        }
        let Ok(liveness) = Liveness::of(recorded) else {
            return self.unchecked_from(resolved, 0);
        };
        for (id, node) in traced.steps_by_node() {
            if let (Ok(true), Ok(step)) = (liveness.is_live(id), recorded.steps.get(id)) {
                self.step(resolved, node, recorded, step);
            }
        }
        if !self.settings.types.is_all() {
            self.exceeding(traced, &liveness);
        }
    }

    /// Finds the operations that may leave the range of the integer type that the backend uses for them.
    fn exceeding(&mut self, traced: &SegmentTrace, liveness: &Liveness<TraceValue, StepId>) {
        let weight = |source| match source {
            ValueSource::Weight(id) => traced.weights().get(id).ok(),
            ValueSource::Constant(index) => traced.recorded.constants.get(index).ok(),
            ValueSource::Input(_) | ValueSource::Step => None,
        };
        let found = exceeding(&traced.recorded, self.settings.types, weight);
        for (id, node) in traced.steps_by_node() {
            let of_step =
                found.iter().filter(|(step, _)| *step == id && matches!(liveness.is_live(id), Ok(true)));
            for (_, error) in of_step {
                if let Some(seen) = self.seen.get_mut(self.owner.unwrap_or(node))
                    && !seen.exceeding.contains(error)
                {
                    seen.exceeding.push(error.clone());
                }
            }
        }
    }

    fn step(&mut self, resolved: &Arc<Resolved>, node: usize, recorded: &Trace, step: &Step) {
        let value = |value: &TraceValue| recorded.values.get(*value).ok();
        for operand in step.inputs.iter().flatten().filter_map(value) {
            if operand.source.is_constant() {
                self.ask(resolved, node, &Question::constant(operand.dtype));
            }
        }
        let spec = match step.operation {
            Operation::Row(spec) => spec,
            Operation::Host(_) => {
                for made in step.outputs.iter().filter_map(value) {
                    self.ask(resolved, node, &Question::constant(made.dtype));
                }
                return;
            }
        };
        let types = step.inputs.iter().map(|no| no.as_ref().and_then(value).map(|v| v.dtype));
        if spec.family == Family::Primitive
            && let Some(op) = Primitive::from_index(spec.index)
        {
            if !self.on.runs_primitive(op) {
                return self.wrong(resolved, node, Why::NoPrimitive { method: spec.method });
            }
            let to = step.params.iter().find_map(|param| match param {
                bb_ir::op::Param::Type(dtype) => Some(*dtype),
                _ => None,
            });
            return self.ask(resolved, node, &Question::primitive(op, types.flatten(), to));
        }
        let question = Question::call(spec, types, &step.params);
        let tried = |_: &Question| {
            let values = step.inputs.iter().flatten().chain(&step.outputs).filter_map(value);
            let shapes = values.map(|v| bb_ir::element_count(&v.shape));
            let elements = shapes.sum::<Option<usize>>()?;
            let operand =
                |no: &Option<TraceValue>| no.as_ref().and_then(value).and_then(|v| ones(v.dtype, &v.shape));
            (elements <= TRIED).then(|| Tried {
                operands: step.inputs.iter().map(operand).collect(),
                params: step.params.to_vec(),
                any_error: false,
            })
        };
        let refusal = question.refused(self.on, tried);
        self.refused(resolved, node, refusal);
    }

    /// Checks for each constant output that the backend accepts constants of its type, because the output is created from host
    /// elements.
    fn returned(&mut self, resolved: &Arc<Resolved>, traced: &SegmentTrace, values: &[ValueId]) {
        let nodes = resolved.graph.nodes.iter().enumerate();
        let makers: HashMap<ValueId, usize> = nodes
            .flat_map(|(at, node)| node.outputs.iter().flatten().map(move |value| (*value, at)))
            .collect();
        for (at, (value, _, _)) in results(values, traced).into_iter().enumerate() {
            let made = traced.recorded.outputs.get(at).and_then(|v| traced.recorded.values.get(*v).ok());
            if let (Some(made), Some(&node)) = (made, makers.get(&value))
                && traced.structure.is_none()
                && made.source.is_constant()
            {
                self.ask(resolved, node, &Question::constant(made.dtype));
            }
        }
    }

    /// Handles a node that ended a segment because it could not be traced. Tracing skips the node.
    fn passed_over(
        &mut self,
        resolved: &Arc<Resolved>,
        start: &Start,
        traced: &SegmentTrace,
        stop: Stop,
        certain: bool,
    ) {
        let at = start.node;
        let (Some(node), Some(code)) = (resolved.graph.nodes.get(at), resolved.code.get(at)) else { return };
        match (code, stop) {
            (Code::Unused | Code::Missing, _) => {}
            (Code::If, Stop::Branch(taken)) => self.inside(resolved, start, traced, taken),
            (Code::If, _) => {
                self.inside(resolved, start, traced, "then_branch");
                self.inside(resolved, start, traced, "else_branch");
            }
            (Code::Repeat(repeat), _) => {
                repeat.bodies().iter().for_each(|body| self.inside(resolved, start, traced, body));
            }
            (_, Stop::Failed(error)) if error.no_body().is_some() => {
                if let Some(method) = error.no_body() {
                    self.wrong(resolved, at, Why::NoKernel { method });
                }
            }
            (_, Stop::Failed(error)) if certain => {
                let why = Why::Fails { reason: bb_core::error::causes(&error) };
                self.wrong(resolved, at, why);
            }
            (Code::Call(_), _) if self.with_stand_ins(resolved, start, traced) => {}
            (code, stop) => {
                self.failed += usize::from(matches!(stop, Stop::Failed(_)));
                self.by_types(resolved, at, node, *code);
            }
        }
    }

    /// Traces only the node that ended a segment, with stand-ins for everything about its operands that is unknown. Returns whether a trace
    /// succeeded.
    fn with_stand_ins(&mut self, resolved: &Arc<Resolved>, start: &Start, traced: &SegmentTrace) -> bool {
        let stand_ins = StandIns::of(resolved, start, &results(&start.live, traced));
        let Some((alone, traced, values)) =
            stand_ins.and_then(|all| all.trace(self.settings, &mut self.traces))
        else {
            return false;
        };
        // The number of operations may depend on the stand-ins.
        let exact = std::mem::replace(&mut self.exact, false);
        self.steps(&alone, &traced);
        self.returned(&alone, &traced, &values);
        self.exact = exact;
        true
    }

    /// Queries whether the backend supports a node, by the known types of its operands and results.
    fn by_types(&mut self, resolved: &Arc<Resolved>, at: usize, node: &Node, code: Code) {
        let dtype = |value: &Option<ValueId>| match value.and_then(|v| resolved.graph.values.get(v.index())) {
            Some(info) => match &info.ty {
                ValueType::Tensor { dtype, .. } => Some(*dtype),
                _ => None,
            },
            None => None,
        };
        let results: Option<Vec<DataType>> =
            node.outputs.iter().filter(|value| value.is_some()).map(dtype).collect();
        let primitive = Primitive::from_name(&node.op_type).filter(|_| node.domain.is_empty());
        match (code, primitive, results) {
            (Code::Host(_), _, Some(results)) => {
                results.into_iter().for_each(|made| self.ask(resolved, at, &Question::constant(made)));
            }
            (Code::Call(_), Some(op), _) if !self.on.runs_primitive(op) => {
                self.wrong(resolved, at, Why::NoPrimitive { method: op.spec().method });
            }
            (Code::Call(_), Some(op), _) => {
                // In newer opsets, the operands are followed by inputs that are parameters of the primitive.
                let count = if op == Primitive::Concat { node.inputs.len() } else { op.spec().inputs.len() };
                let operands: Option<Vec<DataType>> = node.inputs.iter().take(count).map(dtype).collect();
                let to = node.outputs.first().and_then(dtype).filter(|_| op == Primitive::Cast);
                match operands {
                    Some(operands) if op != Primitive::Cast || to.is_some() => {
                        self.ask(resolved, at, &Question::primitive(op, operands, to));
                    }
                    _ => self.unchecked(resolved, at),
                }
            }
            _ => self.unchecked(resolved, at),
        }
    }

    /// Traces a subgraph of a node that ended a segment.
    fn inside(&mut self, resolved: &Arc<Resolved>, start: &Start, traced: &SegmentTrace, attribute: &str) {
        let Ok(inner) = resolved.inner(start.node, attribute) else { return };
        let inputs = &inner.resolved.graph.inputs;
        let own = inputs.len().saturating_sub(inner.captures.len());
        let outer = self.owner;
        self.owner = Some(outer.unwrap_or(start.node));
        let mut begin = Begin::default();
        for &value in inputs.iter().take(own) {
            self.declared(&inner.resolved.graph, value, &mut begin);
        }
        let live = results(&start.live, traced);
        let live: HashMap<ValueId, _> =
            live.iter().map(|(value, item, tensors)| (*value, (item, tensors))).collect();
        let before: HashMap<ValueId, &TensorData> =
            start.known.iter().map(|(value, data)| (*value, data)).collect();
        for (from, &value) in inner.captures.iter().zip(inputs.iter().skip(own)) {
            let weight =
                resolved.weight(*from).ok().flatten().and_then(|at| resolved.graph.constants.get(at));
            let known = before.get(from).copied().or(weight.map(|(_, data)| data));
            match (known, live.get(from)) {
                (Some(data), _) => begin.start.known.push((value, data.clone())),
                (None, Some((item, tensors))) => begin.add(value, (*item).clone(), tensors.iter().cloned()),
                (None, None) => self.declared(&inner.resolved.graph, value, &mut begin),
            }
        }
        self.segments(&inner.resolved, begin);
        self.owner = outer;
    }

    fn ask(&mut self, resolved: &Arc<Resolved>, at: usize, question: &Question) {
        let refusal = question.refused(self.on, Question::sample);
        self.refused(resolved, at, refusal);
    }

    fn refused(&mut self, resolved: &Arc<Resolved>, at: usize, refusal: Option<Refusal>) {
        if let Some(refusal) = refusal {
            self.wrong(resolved, at, Why::ElementTypes(vec![refusal]));
        }
    }

    /// Records a problem of a node.
    fn wrong(&mut self, resolved: &Arc<Resolved>, at: usize, why: Why) {
        let Some(node) = resolved.graph.nodes.get(at) else { return };
        let node = NodeInfo::of(&resolved.graph, node);
        let Some(seen) = self.seen.get_mut(self.owner.unwrap_or(at)) else { return };
        let same = |missing: &&mut Missing| missing.node == node;
        match (seen.wrong.iter_mut().rev().find(same).map(|missing| &mut missing.why), why) {
            (Some(Why::ElementTypes(known)), Why::ElementTypes(more)) => {
                for refusal in more.into_iter().filter(|refusal| !known.contains(refusal)).collect::<Vec<_>>()
                {
                    known.push(refusal);
                }
            }
            (_, why) => {
                let missing = Missing { node, why };
                if !seen.wrong.contains(&missing) {
                    seen.wrong.push(missing);
                }
            }
        }
    }

    fn unchecked(&mut self, resolved: &Resolved, at: usize) {
        if let Some(seen) = self.seen.get_mut(self.owner.unwrap_or(at)) {
            seen.unchecked.get_or_insert_with(|| unknown(resolved, at));
        }
    }

    fn unchecked_from(&mut self, resolved: &Arc<Resolved>, from: usize) {
        for (at, code) in resolved.code.iter().enumerate().skip(from) {
            if !matches!(code, Code::Unused | Code::Missing) {
                self.unchecked(resolved, at);
            }
        }
    }
}
