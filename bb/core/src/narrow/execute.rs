//! Graphs that a backend runs itself, although it may lack element types: the defaults of the contract.

use crate::contract::Planned;
use crate::erased::{
    ErasedError, ErasedTensor, WithFamilies, erased_named, narrowed_plans, plans_of, typed_named,
};
use crate::plan::{compile, execute};
use crate::{Backend, BackendAttrs, CompileOptions, Executable, GraphProto, Module};
use std::collections::HashMap;

#[diagnostic::do_not_recommend]
impl<B: Backend + ?Sized> Planned for B {
    fn execute_planned(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, B::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, B::Tensor>, B::Error> {
        execute_itself(self, graph, inputs, attrs)
    }

    fn compile_planned(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, B::Error>
    where
        Self: 'static,
    {
        compile(self, module, options)
    }
}

/// Runs a graph on a backend itself: the default of [`Backend::execute`].
///
/// A backend that lacks element types gets the others for this call, as far as that is exact.
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
    if on.has_every_type() || on.runs_whole_graphs() || plans_of(on, attrs).is_some() {
        return execute(on, graph, inputs, attrs);
    }
    attrs.reach_default(on)?;
    match execute_with_kept(on, graph, inputs, attrs) {
        Ok(results) => results,
        Err(inputs) => {
            let kernels = WithFamilies::new(on, &[]);
            typed::<B>(super::execute_borrowed(&kernels, graph, erased_named(inputs), attrs))
        }
    }
}

/// Runs a graph with the plans that the runtime of a backend without some element types keeps, if the backend's own `dispatch` calls;
/// otherwise returns the inputs as `Err`.
///
/// # Errors
///
/// The inner result has the errors of [`execute_itself`].
#[expect(clippy::type_complexity, reason = "what `execute` takes and returns")]
pub(crate) fn execute_with_kept<B: Backend + ?Sized>(
    on: &B,
    graph: &GraphProto,
    inputs: HashMap<String, B::Tensor>,
    attrs: BackendAttrs<'_>,
) -> Result<Result<HashMap<String, B::Tensor>, B::Error>, HashMap<String, B::Tensor>> {
    match narrowed_plans(attrs).filter(|_| attrs.in_own_dispatch_of(on)) {
        Some(plans) => Ok(typed::<B>(super::execute_kept(plans, graph, erased_named(inputs), attrs))),
        None => Err(inputs),
    }
}

fn typed<B: Backend + ?Sized>(
    results: Result<HashMap<String, ErasedTensor>, ErasedError>,
) -> Result<HashMap<String, B::Tensor>, B::Error> {
    Ok(typed_named(results.map_err(ErasedError::typed::<B>)?)?)
}
