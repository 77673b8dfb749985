//! Runs graphs that are attributes of operators other than control flow, as part of the operator's function.

use super::Body;
use bb_core::Error;
use bb_core::operator::{self, Call, OpOutputs};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::graph::{Graph, ValueId};

/// Runs `graph`, an attribute of a node, and returns its outputs. `wrong` turns a description of a problem into an error
/// that names the node.
///
/// # Errors
///
/// An error if the number of inputs differs, if the graph reads values from outside, or if it has an operator whose
/// operands are not tensors.
pub fn inline(
    on: &Tracer,
    graph: &Graph,
    inputs: &[TracedTensor],
    wrong: &dyn Fn(String) -> Error,
) -> Result<Vec<TracedTensor>, TraceStop> {
    if let Some((_, captured)) = graph.captures.first() {
        return Err(wrong(format!("reads `{}` of the graph around it", graph.name_of(*captured))).into());
    }
    if graph.inputs.len() != inputs.len() {
        let (expected, got) = (graph.inputs.len(), inputs.len());
        return Err(wrong(format!("has {expected} inputs, and {got} came")).into());
    }
    let mut values: Vec<Option<TracedTensor>> = vec![None; graph.values.len()];
    let set = |values: &mut Vec<Option<TracedTensor>>, at: ValueId, x: Option<TracedTensor>| {
        if let Some(place) = values.get_mut(at.index()) {
            *place = x;
        }
    };
    let get = |values: &[Option<TracedTensor>], at: ValueId| values.get(at.index()).cloned().flatten();
    for (at, constant) in &graph.constants {
        set(&mut values, *at, Some(on.constant(constant)?));
    }
    for (at, x) in graph.inputs.iter().zip(inputs) {
        set(&mut values, *at, Some(x.clone()));
    }
    for node in &graph.nodes {
        let operands: Vec<_> = node.inputs.iter().map(|at| at.and_then(|at| get(&values, at))).collect();
        let found = operator::find(&node.domain, &node.op_type, node.opset).map(|found| found.body);
        let Some(Body::Tensors(function)) = found else {
            return Err(wrong(format!("has `{}`, which does not run here", node.op_type)).into());
        };
        let results: OpOutputs<TracedTensor> = function.call(on, &Call::new(node, &operands).of(graph))?;
        for (at, x) in node.outputs.iter().zip(results) {
            if let Some(at) = at {
                set(&mut values, *at, x);
            }
        }
    }
    let missing = |at: ValueId| wrong(format!("makes no `{}`", graph.name_of(at)));
    graph.outputs.iter().map(|&at| get(&values, at).ok_or_else(|| missing(at).into())).collect()
}
