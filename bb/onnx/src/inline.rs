//! Graphs that are attributes of operators other than control flow, run where the operator's function needs them.

use super::Body;
use bb_core::ext::Ops;
use bb_core::operator::{Call, OpOutputs};
use bb_core::{BackendAttrs, Error};
use bb_ir::graph::{Graph, ValueId};

/// Runs `graph`, an attribute of a node, and returns its outputs; `wrong` adds the node to a problem.
///
/// # Errors
///
/// A problem, if the number of inputs differs, or if the graph reads values from outside, or has an operator that works on
/// no tensors of a backend.
pub fn inline<B: Ops + ?Sized>(
    on: &B,
    graph: &Graph,
    inputs: &[B::Tensor],
    wrong: &dyn Fn(String) -> Error,
) -> Result<Vec<B::Tensor>, B::Error> {
    if let Some((_, captured)) = graph.captures.first() {
        return Err(wrong(format!("reads `{}` of the graph around it", graph.name_of(*captured))).into());
    }
    if graph.inputs.len() != inputs.len() {
        let (expected, got) = (graph.inputs.len(), inputs.len());
        return Err(wrong(format!("has {expected} inputs, and {got} came")).into());
    }
    if !B::IS_TRACER {
        return executed(on, graph, inputs, wrong);
    }
    let mut values: Vec<Option<B::Tensor>> = vec![None; graph.values.len()];
    let set = |values: &mut Vec<Option<B::Tensor>>, at: ValueId, x: Option<B::Tensor>| {
        if let Some(place) = values.get_mut(at.index()) {
            *place = x;
        }
    };
    let get = |values: &[Option<B::Tensor>], at: ValueId| values.get(at.index()).cloned().flatten();
    for (at, constant) in &graph.constants {
        set(&mut values, *at, Some(on.constant(constant)?));
    }
    for (at, x) in graph.inputs.iter().zip(inputs) {
        set(&mut values, *at, Some(x.clone()));
    }
    for node in &graph.nodes {
        let operands: Vec<_> = node.inputs.iter().map(|at| at.and_then(|at| get(&values, at))).collect();
        let found = B::linked_operator(&node.domain, &node.op_type, node.opset);
        let Some(Body::Tensors(function)) = found else {
            return Err(wrong(format!("has `{}`, which does not run here", node.op_type)).into());
        };
        let results: OpOutputs<B::Tensor> = function.call(on, &Call::new(node, &operands).of(graph))?;
        for (at, x) in node.outputs.iter().zip(results) {
            if let Some(at) = at {
                set(&mut values, *at, x);
            }
        }
    }
    let missing = |at: ValueId| wrong(format!("makes no `{}`", graph.name_of(at)));
    graph.outputs.iter().map(|&at| get(&values, at).ok_or_else(|| missing(at).into())).collect()
}

/// Has a backend run the graph by its own method. The tables of operators only have functions over the tracer, and functions over each
/// other backend would be compiled with all operators.
fn executed<B: Ops + ?Sized>(
    on: &B,
    graph: &Graph,
    inputs: &[B::Tensor],
    wrong: &dyn Fn(String) -> Error,
) -> Result<Vec<B::Tensor>, B::Error> {
    let name = |at: &ValueId| graph.name_of(*at).to_owned();
    let (proto, opsets) = (graph.to_proto().map_err(Error::from)?, graph.opsets().map_err(Error::from)?);
    let inputs = graph.inputs.iter().map(name).zip(inputs.iter().cloned()).collect();
    let mut results = on.execute(&proto, inputs, BackendAttrs::default().with_opsets(&opsets))?;
    let output =
        |at| results.remove(&name(at)).ok_or_else(|| wrong(format!("makes no `{}`", name(at))).into());
    graph.outputs.iter().map(output).collect()
}
