//! `Gradient`: derivatives of one value of a graph by others.
//!
//! The part of the graph that leads from `xs` and `zs` to `y` is traced to primitives at the operands; these run, and
//! then the rules of the primitives run backwards. So whatever consists of primitives that have derivatives is
//! differentiated, and so is a gradient itself.

mod rules;
mod shapes;

use super::call::{Call, OpOutputs, OpResult};
use super::inline::inline;
use crate::ext::Ops;
use crate::onnx::infer;
use crate::onnx::rows::operators;
use crate::trace::{
    InputIndex, Operation, Table, TableIndex, Trace, TraceValue, Tracer, ValueSource, Varies, held,
};
use crate::{Error, Tensor};
use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueId};
use std::collections::HashMap;

operators! {
    "ai.onnx.preview.training" {
        Gradient => Primitives(gradient), infer: By(infer::ml::gradient), ignores: { "y": "it is read when the graph of derivatives is made", "zs": "it is read when the graph of derivatives is made" };
    }
}

/// The attribute under which the graph to be differentiated is handed to the operator.
const DIFFERENTIATED: &str = "__differentiated";

/// The most values that the parts of one graph have together.
const MOST_VALUES: usize = 1 << 20;

/// Gives each `Gradient` of a graph the part of the graph that it differentiates.
///
/// One whose `y` does not follow from `xs` and `zs` alone gets none, and fails when it is called.
pub(crate) fn prepare(graph: &mut Graph) {
    let is_gradient = |n: &Node| n.domain == "ai.onnx.preview.training" && n.op_type == "Gradient";
    if !graph.nodes.iter().any(is_gradient) {
        return;
    }
    let index = Index::of(graph);
    let mut room = MOST_VALUES;
    // A later one may differentiate an earlier one, which has its part by then.
    for at in 0..graph.nodes.len() {
        let Some(node) = graph.nodes.get(at).filter(|node| is_gradient(node)) else { continue };
        let Some(part) = index.part(graph, node) else { continue };
        let Some(rest) = room.checked_sub(size(&part)) else { continue };
        room = rest;
        let attributes = node.attributes.iter().map(|(name, value)| (name.to_owned(), value.clone()));
        let own = (DIFFERENTIATED.to_owned(), Attribute::Graph(Box::new(part)));
        let attributes = Attributes::new(attributes.chain([own]).collect());
        if let Some(node) = graph.nodes.get_mut(at) {
            node.attributes = attributes;
        }
    }
}

/// The number of values of a graph and of the parts in it.
fn size(graph: &Graph) -> usize {
    let parts = graph.nodes.iter().filter_map(|n| n.attributes.graph(DIFFERENTIATED).ok().flatten());
    graph.values.len() + parts.map(size).sum::<usize>()
}

/// What a graph's values are called and come from.
struct Index {
    names: HashMap<String, ValueId>,
    /// For each value, the node that makes it.
    makers: Vec<Option<usize>>,
    /// Which values are constants.
    constants: Vec<bool>,
}

impl Index {
    fn of(graph: &Graph) -> Index {
        let mut makers = vec![None; graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            for value in node.outputs.iter().flatten() {
                if let Some(slot) = makers.get_mut(value.index()) {
                    *slot = Some(at);
                }
            }
        }
        let mut constants = vec![false; graph.values.len()];
        for (value, _) in &graph.constants {
            if let Some(slot) = constants.get_mut(value.index()) {
                *slot = true;
            }
        }
        let names =
            graph.values.iter().zip(0..).map(|(value, at)| (value.name.clone(), ValueId(at))).collect();
        Index { names, makers, constants }
    }

    /// The values of a list of names.
    fn named(&self, node: &Node, list: &str) -> Option<Vec<ValueId>> {
        let names = node.attributes.texts(list).ok()?.unwrap_or_default();
        names.iter().map(|name| self.names.get(std::str::from_utf8(name).ok()?).copied()).collect()
    }

    /// The part of a graph that a node differentiates; values keep their numbers.
    fn part(&self, graph: &Graph, node: &Node) -> Option<Graph> {
        let mut inputs = self.named(node, "xs")?;
        inputs.extend(self.named(node, "zs")?);
        let y = *self.names.get(node.attributes.text("y").ok()??)?;
        let mut given = vec![false; graph.values.len()];
        for input in &inputs {
            *given.get_mut(input.index())? = true;
        }
        let mut needed = vec![false; graph.values.len()];
        let mut open = vec![y];
        while let Some(value) = open.pop() {
            let at = value.index();
            if *given.get(at)? || std::mem::replace(needed.get_mut(at)?, true) || *self.constants.get(at)? {
                continue;
            }
            open.extend(graph.nodes.get((*self.makers.get(at)?)?)?.inputs.iter().flatten());
        }
        let inner = |value: &ValueId| needed.get(value.index()).copied().unwrap_or(false);
        Some(Graph {
            name: graph.name.clone(),
            values: graph.values.clone(),
            outputs: vec![y],
            constants: graph.constants.iter().filter(|(value, _)| inner(value)).cloned().collect(),
            captures: Vec::new(),
            nodes: graph.nodes.iter().filter(|n| n.outputs.iter().flatten().any(inner)).cloned().collect(),
            inputs,
        })
    }
}

/// `Gradient`.
pub(super) fn gradient<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let Some(graph) = call.graph(DIFFERENTIATED)? else {
        let problem = "is no value of the graph that follows from `xs` and `zs` alone";
        return Err(call.wrong("y", problem).into());
    };
    let inputs = call.all()?;
    let tracer = Tracer::default();
    let traced: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(at, x)| tracer.input(InputIndex::at(at), "", x.dtype(), x.shape(), &Varies::Nothing, None))
        .collect();
    let outputs = inline(&tracer, graph, &traced, &|problem| call.wrong("y", problem));
    let outputs = outputs.map_err(Error::from)?;
    let Some(y) = outputs.first() else { return Err(call.wrong("y", "is missing").into()) };
    let y = y.value();
    let mut tape = Tape { on, call, recorded: tracer.finish(vec![y]), values: Table::default() };
    tape.run(&inputs)?;
    let xs = call.texts("xs")?.unwrap_or_default().len();
    let gradients = tape.backwards(y, xs)?;
    let mut results: OpOutputs<B::Tensor> = OpOutputs::new();
    for (x, gradient) in inputs.iter().zip(gradients) {
        results.push(Some(match gradient {
            Some(gradient) => gradient,
            None => on.zeros(x.shape(), x.dtype())?,
        }));
    }
    Ok(results)
}

/// What was traced, and what its values are.
struct Tape<'a, B: Ops + ?Sized> {
    on: &'a B,
    call: &'a Call<'a, B::Tensor>,
    recorded: Trace,
    values: Table<TraceValue, Option<B::Tensor>>,
}

impl<B: Ops + ?Sized> Tape<'_, B> {
    fn value(&self, value: TraceValue) -> Result<&B::Tensor, Error> {
        held(self.values.get(value)?.as_ref(), value)
    }

    /// Runs the steps at `inputs`.
    fn run(&mut self, inputs: &[&B::Tensor]) -> Result<(), B::Error> {
        let on = self.on;
        for info in self.recorded.values.entries() {
            self.values.push(match info.source {
                ValueSource::Input(index) => inputs.get(index.position()).map(|x| (*x).clone()),
                ValueSource::Constant(index) => Some(on.constant(self.recorded.constants.get(index)?)?),
                ValueSource::Weight(_) | ValueSource::Step => None,
            });
        }
        for step in self.recorded.steps.entries() {
            let Operation::Row(spec) = step.operation else {
                let problem = format!("needs `{}`, which has no derivative", step.operation.name());
                return Err(self.call.wrong("y", problem).into());
            };
            let mut operands: Vec<Option<&B::Tensor>> = Vec::with_capacity(step.inputs.len());
            for input in &step.inputs {
                operands.push(input.map(|value| self.value(value)).transpose()?);
            }
            let results = crate::ext::call(on, spec, &operands, &step.params)?;
            for (value, result) in step.outputs.iter().zip(results) {
                self.values.set(*value, Some(result))?;
            }
        }
        Ok(())
    }

    /// Finds which values depend on the first `count` inputs, and have derivatives by them.
    fn depends(&self, count: usize) -> Result<Table<TraceValue, bool>, Error> {
        let recorded = &self.recorded;
        let of = |source| matches!(source, ValueSource::Input(index) if index.position() < count);
        let mut depends: Table<TraceValue, bool> =
            recorded.values.entries().map(|info| of(info.source) && info.dtype.is_float()).collect();
        for step in recorded.steps.entries() {
            let mut any = false;
            for value in step.reads() {
                any |= *depends.get(value)?;
            }
            for value in step.outputs.iter().filter(|_| any) {
                depends.set(*value, recorded.values.get(*value)?.dtype.is_float())?;
            }
        }
        Ok(depends)
    }

    /// Returns the gradients of the sum of `y` by the first `count` inputs; `None` where it does not depend on one.
    fn backwards(&self, y: TraceValue, count: usize) -> Result<Vec<Option<B::Tensor>>, B::Error> {
        let on = self.on;
        let depends = self.depends(count)?;
        let mut gradients: Table<TraceValue, Option<B::Tensor>> = Table::with(self.values.len(), || None);
        let value = self.value(y)?;
        gradients.set(y, Some(on.ones(value.shape(), value.dtype())?))?;
        for step in self.recorded.steps.entries().rev() {
            let mut of_results: Vec<Option<B::Tensor>> = Vec::with_capacity(step.outputs.len());
            for output in &step.outputs {
                of_results.push(gradients.get(*output)?.clone());
            }
            let mut any = false;
            for value in step.reads() {
                any |= *depends.get(value)?;
            }
            if !any || of_results.iter().all(Option::is_none) {
                continue;
            }
            let operands = step.reads().map(|value| self.value(value)).collect::<Result<Vec<_>, _>>()?;
            let results = step.outputs.iter().map(|v| self.value(*v)).collect::<Result<Vec<_>, _>>()?;
            let Some(primitive) = step.operation.primitive() else {
                let problem = format!("needs `{}`, which has no derivative", step.operation.name());
                return Err(self.call.wrong("y", problem).into());
            };
            let of_operands = rules::rule(on, primitive, &operands, &results, &step.params, &of_results)?;
            for (value, gradient) in step.reads().zip(of_operands) {
                let Some(gradient) = gradient.filter(|_| matches!(depends.get(value), Ok(true))) else {
                    continue;
                };
                let slot = gradients.get_mut(value)?;
                *slot = Some(match slot.take() {
                    Some(sum) => on.add(&sum, &gradient)?,
                    None => gradient,
                });
            }
        }
        let mut found: Vec<Option<B::Tensor>> = vec![None; count];
        for (value, info) in self.recorded.values.iter() {
            if let ValueSource::Input(index) = info.source
                && let Some(place) = found.get_mut(index.position())
            {
                *place = gradients.get(value)?.clone();
            }
        }
        Ok(found)
    }
}
