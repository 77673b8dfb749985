//! Runs a graph that was not compiled before: checks, plans and runs it. Inputs and outputs are tensors by name.

use super::CompileOptions;
use super::compiled::compile_once;
use crate::contract::{by_name, plans_of, plans_with};
use crate::ext::{ErasedError, ErasedTensor, WithFamilies, foreign};
use crate::narrow::{self, NarrowTensor};
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

/// Runs a graph on a backend without a runtime's adapter: the default of [`Backend::execute`].
///
/// If the backend lacks element types, an adapter provides them for this call, as far as results stay exact.
///
/// # Errors
///
/// As [`execute`]; [`NarrowError`](crate::NarrowError) if the backend lacks the type of an output.
pub fn execute_itself<B: Backend + ?Sized>(
    on: &B,
    graph: &GraphProto,
    inputs: HashMap<String, B::Tensor>,
    attrs: BackendAttrs<'_>,
) -> Result<HashMap<String, B::Tensor>, B::Error> {
    if on.types().is_all() || on.runs_whole_graphs() || plans_of(on, attrs).is_some() {
        return execute(on, graph, inputs, attrs);
    }
    attrs.reach_default(on)?;
    match execute_kept(on, graph, inputs, attrs) {
        Ok(results) => results,
        Err(inputs) => {
            let kernels = WithFamilies::new(on, &[]);
            typed::<B>(narrow::execute_borrowed(&kernels, graph, erased::<B>(inputs), attrs))
        }
    }
}

/// Runs a graph with the plans that the runtime keeps for a backend without some element types. This applies only to calls from
/// the backend's own `dispatch`; otherwise the inputs are returned as `Err`.
///
/// # Errors
///
/// The inner result has the errors of [`execute_itself`].
#[expect(clippy::type_complexity, reason = "what `execute` takes and returns")]
pub(crate) fn execute_kept<B: Backend + ?Sized>(
    on: &B,
    graph: &GraphProto,
    inputs: HashMap<String, B::Tensor>,
    attrs: BackendAttrs<'_>,
) -> Result<Result<HashMap<String, B::Tensor>, B::Error>, HashMap<String, B::Tensor>> {
    match plans_with::<NarrowTensor, ErasedError>(attrs).filter(|_| attrs.in_own_dispatch_of(on)) {
        Some(plans) => Ok(typed::<B>(narrow::execute_kept(plans, graph, erased::<B>(inputs), attrs))),
        None => Err(inputs),
    }
}

fn erased<B: Backend + ?Sized>(inputs: HashMap<String, B::Tensor>) -> HashMap<String, ErasedTensor> {
    inputs.into_iter().map(|(name, x)| (name, ErasedTensor::new(x))).collect()
}

fn typed<B: Backend + ?Sized>(
    results: Result<HashMap<String, ErasedTensor>, ErasedError>,
) -> Result<HashMap<String, B::Tensor>, B::Error> {
    let own = |(name, y): (String, ErasedTensor)| {
        let typed = y.get::<B::Tensor>().ok_or_else(|| foreign("execute", 0))?.clone();
        Ok((name, typed))
    };
    results.map_err(ErasedError::typed::<B>)?.into_iter().map(own).collect()
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
