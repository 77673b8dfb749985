//! Runs a graph that was not compiled before: checks, plans and runs it. Inputs and outputs are tensors by name.

use super::CompileOptions;
use super::compiled::compile_once;
use crate::contract::by_name;
use crate::erased::plans_of;
use crate::{Backend, BackendAttrs, Error, Executable, Port};
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
        return plans.run_typed::<B>(graph, inputs, attrs);
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
    let taken = taken_by_port(program.inputs(), &mut inputs)?;
    let refs: Vec<Option<&B::Tensor>> = taken.iter().map(Option::as_ref).collect();
    let results = program.run(on, &refs)?;
    Ok(by_name(program.outputs(), results))
}

/// Takes the tensors of inputs out of a map, in the order of the inputs.
///
/// # Errors
///
/// [`Error::UnknownInput`] if a tensor is left.
pub(crate) fn taken_by_port<T>(
    inputs: &[Port],
    given: &mut HashMap<String, T>,
) -> Result<Vec<Option<T>>, Error> {
    let taken = inputs.iter().map(|port| given.remove(&port.name)).collect();
    match given.keys().min() {
        None => Ok(taken),
        Some(name) => {
            let expected = inputs.iter().map(|port| port.name.clone()).collect();
            Err(Error::UnknownInput { name: name.clone(), expected })
        }
    }
}
