//! `Gradient`: the derivatives of one value of a graph with respect to other values.
//!
//! The part of the graph from `xs` and `zs` to `y` is differentiated like any traced function (`bb_core::gradient`). All
//! operations in this part must have derivatives. A `Gradient` has a derivative itself.

use bb_core::Tensor;
use bb_core::gradient::differentiate;
use bb_core::operator::{Call, OpOutputs, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueId};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::inline;
use bb_onnx::shared::operators;
use std::collections::HashMap;

operators! {
    "ai.onnx.preview.training" {
        Gradient => Primitives(gradient), infer: By(gradient_types), halves: Once, ignores: { "y": "it is read when the graph of derivatives is made", "zs": "it is read when the graph of derivatives is made" };
    }
}

/// The attribute that passes the part of the graph to be differentiated to the operator.
pub(crate) const DIFFERENTIATED: &str = "__differentiated";

/// The maximum number of values in all parts of one graph together.
const MOST_VALUES: usize = 1 << 20;

/// Adds to each `Gradient` of a graph the part of the graph that it differentiates.
///
/// If `y` does not follow from `xs` and `zs` only, no part is added, and the operator fails when it runs.
pub(crate) fn prepare(graph: &mut Graph) {
    let is_gradient = |n: &Node| n.domain == "ai.onnx.preview.training" && n.op_type == "Gradient";
    if !graph.nodes.iter().any(is_gradient) {
        return;
    }
    let index = Index::of(graph);
    let mut room = MOST_VALUES;
    // A later `Gradient` may differentiate an earlier one, so the earlier one must already have its part. The nodes are in
    // order.
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

/// Returns the number of values of a graph and of the parts in it.
fn size(graph: &Graph) -> usize {
    let parts = graph.nodes.iter().filter_map(|n| n.attributes.graph(DIFFERENTIATED).ok().flatten());
    graph.values.len() + parts.map(size).sum::<usize>()
}

/// The names, producers and constants of a graph's values.
struct Index {
    names: HashMap<String, ValueId>,
    /// For each value, the index of the node that computes it.
    makers: Vec<Option<usize>>,
    /// For each value, whether it is a constant.
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

    /// Returns the values whose names are in an attribute.
    fn named(&self, node: &Node, list: &str) -> Option<Vec<ValueId>> {
        let names = node.attributes.texts(list).ok()?.unwrap_or_default();
        names.iter().map(|name| self.names.get(std::str::from_utf8(name).ok()?).copied()).collect()
    }

    /// Returns the part of a graph that a node differentiates. Values keep their ids.
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
            imports: Vec::new(),
        })
    }
}

/// Infers the types of `Gradient`: each result has the type of its `xs` value.
fn gradient_types(at: NodeFacts<'_>) -> Option<Types> {
    let count = at.node.attributes.texts("xs").ok()??.len();
    Some((0..count).map(|input| at.ty(input).clone()).collect())
}

/// `Gradient`.
pub(crate) fn gradient(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let Some(graph) = call.graph(DIFFERENTIATED)? else {
        let problem = "is no value of the graph that follows from `xs` and `zs` alone";
        return Err(call.wrong("y", problem).into());
    };
    let inputs = call.all()?;
    let count = call.texts("xs")?.unwrap_or_default().len();
    let wanted: Vec<bool> = (0..inputs.len()).map(|at| at < count).collect();
    let (_, gradients) = differentiate(on, &inputs, &wanted, None, |tracer, traced| {
        let mut outputs = inline(tracer, graph, traced, &|problem| call.wrong("y", problem))?.into_iter();
        outputs.next().ok_or_else(|| call.wrong("y", "is missing").into())
    })?;
    let mut results: OpOutputs<TracedTensor> = OpOutputs::new();
    for (x, gradient) in inputs.iter().zip(gradients).take(count) {
        results.push(Some(match gradient {
            Some(gradient) => gradient,
            None => on.zeros(x.shape(), x.dtype())?,
        }));
    }
    Ok(results)
}
