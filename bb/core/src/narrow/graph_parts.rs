//! Graphs that need narrowing only in some parts, for `execute` and `dispatch`. The other parts are passed to the backend's own
//! method, as graphs.

use super::backend::Named;
use super::own::Own;
use super::{NarrowTensor, NarrowedOn};
use crate::cut::{self, Part};
use crate::ext::ErasedError;
use crate::{BackendAttrs, CheckedGraph, ContractResponse, Error, GraphProto, Module, RunOptions};
use bb_ir::graph::{ValueId, ValueType};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A graph that is cut into parts. Each part is a graph itself, and the parts run in order.
pub(super) struct GraphParts {
    module: Module,
    /// The constants that are outputs, or defaults of inputs.
    constants: Vec<(ValueId, NarrowTensor)>,
    parts: Vec<GraphPart>,
}

struct GraphPart {
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// The values that no later part reads, which can be dropped.
    dead: Vec<ValueId>,
    needs_no_narrowing: bool,
    graph: CheckedGraph,
}

/// The source of an output of the whole graph.
enum OutputSource {
    Known(NarrowTensor),
    /// The output with this name of the last part.
    Last(String),
}

/// A method of the backend that runs a graph; whether the backend overrides the method, once this is known; and whether the
/// method is `dispatch`.
pub(super) type Method<'m> = (
    &'m dyn Fn(&Arc<GraphProto>, Own, BackendAttrs<'_>) -> ContractResponse<Own, ErasedError>,
    &'m OnceLock<bool>,
    bool,
);

impl NarrowedOn<'_> {
    /// Cuts a graph into parts. Returns `None` if each node needs narrowing, or if a value between parts is not a tensor.
    pub(super) fn graph_parts(&self, module: Module) -> Option<GraphParts> {
        let graph = module.graph();
        let parts = self.cut(graph)?;
        let is_tensor = |id: &ValueId| {
            graph.values.get(id.index()).is_some_and(|value| matches!(value.ty, ValueType::Tensor { .. }))
        };
        if !parts.iter().flat_map(|part| part.inputs.iter().chain(&part.outputs)).all(is_tensor) {
            return None;
        }
        let dead = cut::last_reads(graph, &parts);
        let mut ready = Vec::with_capacity(parts.len());
        // A part does not run if nothing reads its outputs.
        for (part, dead) in parts.into_iter().zip(dead).filter(|(part, _)| !part.outputs.is_empty()) {
            // Errors in the graph are reported later, when the whole graph is planned.
            let graph = CheckedGraph::new(Module::of_part(part.graph(graph))).ok()?;
            let Part { inputs, outputs, target: needs_no_narrowing, .. } = part;
            ready.push(GraphPart { inputs, outputs, dead, needs_no_narrowing, graph });
        }
        let constants = self.read_constants(graph).ok()?;
        let any = ready.iter().any(|part| part.needs_no_narrowing);
        any.then_some(GraphParts { module, constants, parts: ready })
    }

    /// Runs a graph in parts. Parts that need no narrowing run by a method of the backend. Returns `None` if the backend does
    /// not override this method.
    ///
    /// The answer may come later if the last part needs no narrowing. The call blocks until all earlier parts have finished.
    pub(super) fn run_graph_parts(
        &self,
        whole: &GraphParts,
        inputs: &Named,
        attrs: BackendAttrs<'_>,
        method: Method<'_>,
    ) -> Option<ContractResponse<Named, ErasedError>> {
        if method.1.get() == Some(&false) {
            return None;
        }
        self.run_in_order(whole, inputs, attrs, method)
            .unwrap_or_else(|error| Some(ContractResponse::Now(Err(error))))
    }

    fn run_in_order(
        &self,
        whole: &GraphParts,
        inputs: &Named,
        attrs: BackendAttrs<'_>,
        method: Method<'_>,
    ) -> Result<Option<ContractResponse<Named, ErasedError>>, ErasedError> {
        let graph = whole.module.graph();
        let Some((last, before)) = whole.parts.split_last() else { return Ok(None) };
        let mut values: HashMap<ValueId, NarrowTensor> = whole.constants.iter().cloned().collect();
        for id in &graph.inputs {
            values.extend(inputs.get(graph.name_of(*id)).map(|x| (*id, x.clone())));
        }
        for part in before {
            let Some(answer) = self.run_part(part, &values, attrs, method)? else { return Ok(None) };
            let mut results = answer.wait()?;
            for (id, name) in part.outputs.iter().zip(part.names_of_outputs()) {
                values.insert(*id, take(&mut results, name)?);
            }
            for id in &part.dead {
                values.remove(id);
            }
        }
        let Some(answer) = self.run_part(last, &values, attrs, method)? else { return Ok(None) };
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for id in &graph.outputs {
            let name = graph.name_of(*id).to_owned();
            let made = last.outputs.iter().zip(last.names_of_outputs()).find(|(made, _)| *made == id);
            let source = match (made, values.get(id)) {
                (Some((_, name)), _) => OutputSource::Last(name.to_owned()),
                (None, Some(x)) => OutputSource::Known(x.clone()),
                (None, None) => return Err(Error::MissingOutput { name, made: Vec::new() }.into()),
            };
            outputs.push((name, source));
        }
        let named = move |results: Result<Named, ErasedError>| {
            let mut results = results?;
            let output = |(name, source)| match source {
                OutputSource::Known(x) => Ok((name, x)),
                OutputSource::Last(made) => Ok((name, take(&mut results, &made)?)),
            };
            outputs.into_iter().map(output).collect::<Result<Named, ErasedError>>()
        };
        Ok(Some(match answer {
            ContractResponse::Now(results) => ContractResponse::Now(named(results)),
            ContractResponse::Later(later) => ContractResponse::Later(later.map(named)),
        }))
    }

    fn run_part(
        &self,
        part: &GraphPart,
        values: &HashMap<ValueId, NarrowTensor>,
        attrs: BackendAttrs<'_>,
        (method, is_own, is_dispatch): Method<'_>,
    ) -> Result<Option<ContractResponse<Named, ErasedError>>, ErasedError> {
        RunOptions::check_current()?;
        let mut inputs = Named::with_capacity(part.inputs.len());
        for (id, name) in part.inputs.iter().zip(part.names_of_inputs()) {
            let missing = || Error::MissingInput { name: name.to_owned(), expected: Vec::new() };
            inputs.insert(name.to_owned(), values.get(id).ok_or_else(missing)?.clone());
        }
        let proto = part.graph.proto()?;
        let mut attrs = part.graph.accompany(attrs)?;
        if part.needs_no_narrowing {
            let answer = self.call_own(&inputs, attrs, is_dispatch, |own, attrs| method(proto, own, attrs));
            let is_own = *is_own.get_or_init(|| answer.is_some());
            // A backend that overrides the method may still call the default for some graphs. These graphs are narrowed below.
            if answer.is_some() || !is_own {
                return Ok(answer);
            }
        }
        // Without an identity the plan of a part is not kept. It is kept only if the backend is known to run the other parts.
        attrs.identity = attrs.identity.filter(|_| is_own.get() == Some(&true));
        Ok(Some(ContractResponse::Now(self.run_narrowed(proto, inputs, attrs))))
    }
}

impl GraphPart {
    fn names_of_inputs(&self) -> impl Iterator<Item = &str> {
        let graph = self.graph.module().graph();
        graph.inputs.iter().map(|id| graph.name_of(*id))
    }

    fn names_of_outputs(&self) -> impl Iterator<Item = &str> {
        let graph = self.graph.module().graph();
        graph.outputs.iter().map(|id| graph.name_of(*id))
    }
}

fn take(results: &mut Named, name: &str) -> Result<NarrowTensor, ErasedError> {
    let result = results.remove(name);
    Ok(result.ok_or_else(|| Error::missing_output(name, results))?)
}
