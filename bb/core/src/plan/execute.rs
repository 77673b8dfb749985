//! Runs a graph that was not compiled before: checks, plans and runs it. Inputs and outputs are tensors by name.

use super::CompileOptions;
use super::compiled::compile_once;
use crate::contract::{by_name, plans_of};
use crate::{Backend, BackendAttrs, Error, Executable};
use bb_ir::proto::GraphProto;
use std::collections::HashMap;

/// Runs a graph on a backend operation by operation, with the plan that a runtime keeps for the graph, or with a new plan.
///
/// # Errors
///
/// The errors of an invalid graph; [`Error::MissingInput`] and [`Error::UnknownInput`]; a node's failure.
pub fn execute<B: Backend + ?Sized>(
    on: &B,
    graph: &GraphProto,
    inputs: HashMap<String, B::Tensor>,
    attrs: BackendAttrs<'_>,
) -> Result<HashMap<String, B::Tensor>, B::Error> {
    attrs.reach_default(on)?;
    if let Some(plans) = plans_of(on, attrs) {
        return plans.run(graph, inputs, attrs);
    }
    let module = attrs.module(graph)?;
    let options = CompileOptions::default().with_node(attrs.attributes, attrs.metadata);
    let program = compile_once(on, &module, &options)?;
    run_named(on, &program, inputs)
}

/// Runs a compiled graph with tensors by name.
///
/// # Errors
///
/// [`Error::Input`], [`Error::MissingInput`] and [`Error::UnknownInput`]; a node's failure.
pub fn run_named<B: Backend + ?Sized>(
    on: &B,
    program: &dyn Executable<B>,
    mut inputs: HashMap<String, B::Tensor>,
) -> Result<HashMap<String, B::Tensor>, B::Error> {
    let taken: Vec<Option<B::Tensor>> =
        program.inputs().iter().map(|port| inputs.remove(&port.name)).collect();
    if let Some(name) = inputs.into_keys().min() {
        let expected = program.inputs().iter().map(|port| port.name.clone()).collect();
        return Err(Error::UnknownInput { name, expected }.into());
    }
    let refs: Vec<Option<&B::Tensor>> = taken.iter().map(Option::as_ref).collect();
    let results = program.run(on, &refs)?;
    Ok(by_name(program.outputs(), results))
}
