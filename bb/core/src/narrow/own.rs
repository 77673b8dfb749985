//! Runs graphs that need no narrowing by the own methods of a backend that lacks element types.
//!
//! If the inputs, the outputs and all computed values of a graph have types of the backend, its own `compile`, `execute` and
//! `dispatch` get the graph as the model has it. If only parts of a graph meet this condition, these methods get the parts
//! (`parts.rs`, `graph_parts.rs`). Constants of other types do not matter, because they are part of the graph and not tensors
//! of the backend.
//!
//! Rust cannot report whether a backend overrides a method, so the method is called. A default method records that it was
//! reached ([`BackendAttrs::asking`]) and does nothing else. Then the graph runs on the adapter with every element type.

use super::backend::Named;
use super::graph_parts::GraphParts;
use super::{NarrowTensor, NarrowedGraph, NarrowedOn};
use crate::contract::{OnnxValue, tensors};
use crate::cut;
use crate::error::NarrowError;
use crate::ext::{ErasedCompiled, ErasedError, ErasedTensor};
use crate::sync::Mutex;
use crate::{
    BackendAttrs, CompileOptions, ContractResponse, Error, Executable, GraphIdentity, GraphProto, Module,
    Port, Tensor,
};
use bb_ir::DataTypes;
use bb_ir::graph::{Graph, Node, ValueId, ValueType};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

/// The maximum number of graphs in [`Known`].
const KEPT: usize = 64;

/// Returns whether the inputs, the outputs and all computed values of a graph are known to have some of these types.
pub(crate) fn needs_no_narrowing(graph: &Graph, types: DataTypes) -> bool {
    let constants = made_constants(graph);
    let has = |id: &ValueId| has_own_types(graph, *id, types);
    let results = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    graph.inputs.iter().chain(&graph.outputs).all(has)
        && results.filter(|id| !constants.contains(id)).all(has)
        && graph.nodes.iter().flat_map(Node::subgraphs).all(|inner| needs_no_narrowing(inner, types))
}

/// Returns the results of the nodes that are constants.
pub(super) fn made_constants(graph: &Graph) -> HashSet<ValueId> {
    let nodes = graph.nodes.iter().filter(|node| cut::is_constant(node));
    nodes.flat_map(|node| node.outputs.iter().flatten().copied()).collect()
}

/// Returns whether a value is known to be a tensor of one of these types.
pub(super) fn has_own_types(graph: &Graph, id: ValueId, types: DataTypes) -> bool {
    match graph.values.get(id.index()).map(|value| &value.ty) {
        Some(ValueType::Tensor { dtype, .. }) => types.has(*dtype),
        _ => false,
    }
}

/// Returns the backend's tensor, if it stores the elements in their own type.
///
/// # Errors
///
/// [`NarrowError::Lacks`].
pub(super) fn held_own(x: &NarrowTensor) -> Result<ErasedTensor, ErasedError> {
    let held = x.on_device().filter(|held| held.dtype() == x.dtype()).cloned();
    let lacks = NarrowError::Lacks { op: "execute", dtype: x.dtype() };
    held.ok_or_else(|| Error::from(lacks).into())
}

/// How the backend runs a graph that is not compiled in advance.
#[derive(Clone)]
enum Way {
    /// By the backend's own methods, because the graph needs no narrowing.
    Own,
    /// In parts, because some parts need no narrowing.
    Parts(Arc<GraphParts>),
    Narrowed,
}

/// How graphs run, by identity. If there are too many graphs, the least recently used one is removed.
#[derive(Default)]
pub(super) struct Known(Mutex<VecDeque<(GraphIdentity, Way)>>);

impl Known {
    fn of(&self, identity: Option<GraphIdentity>, find: impl FnOnce() -> Way) -> Way {
        let Some(identity) = identity else { return find() };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = lock();
        let at = known.iter().position(|(graph, _)| *graph == identity);
        let kept = at.and_then(|at| known.remove(at)).map(|(_, way)| way);
        drop(known);
        let found = kept.unwrap_or_else(find);
        let mut known = lock();
        known.push_front((identity, found.clone()));
        known.truncate(KEPT);
        found
    }
}

/// Inputs of a graph for the backend's own methods.
pub(super) type Own = HashMap<String, ErasedTensor>;

impl NarrowedOn<'_> {
    fn way(&self, graph: &GraphProto, attrs: BackendAttrs<'_>) -> Way {
        if attrs.narrowed::<NarrowedGraph>().is_some() {
            return Way::Narrowed;
        }
        self.known.of(attrs.identity, || {
            // Errors in the graph are reported later, when the graph is planned.
            let Ok(module) = attrs.module(graph) else { return Way::Narrowed };
            if needs_no_narrowing(module.graph(), self.holding().types) {
                return Way::Own;
            }
            match self.device().runs_whole_graphs() {
                true => Way::Narrowed,
                false => self.graph_parts(module).map_or(Way::Narrowed, |parts| Way::Parts(Arc::new(parts))),
            }
        })
    }

    /// Converts inputs to backend tensors of the same element types.
    pub(super) fn own_inputs(&self, inputs: &Named) -> Result<Own, ErasedError> {
        inputs.iter().map(|(name, x)| Ok((name.clone(), self.own_tensor(x)?))).collect()
    }

    /// Converts a tensor to a backend tensor of the same element type.
    pub(super) fn own_tensor(&self, x: &NarrowTensor) -> Result<ErasedTensor, ErasedError> {
        match held_own(x) {
            Ok(held) => Ok(held),
            Err(_) => held_own(&self.bring(&self.read(x)?)?),
        }
    }

    /// Calls the backend's `execute` for a graph, or for parts of it. Returns `None` if the backend does not override
    /// `execute`, or if each node needs narrowing.
    pub(super) fn execute_own(
        &self,
        graph: &GraphProto,
        inputs: &Named,
        attrs: BackendAttrs<'_>,
    ) -> Option<Result<Named, ErasedError>> {
        let execute = |graph: &Arc<GraphProto>, inputs: Own, attrs: BackendAttrs<'_>| {
            ContractResponse::Now(self.device().execute(graph, inputs, attrs))
        };
        match self.way(graph, attrs) {
            Way::Own => {
                let call = |own: Own, attrs: BackendAttrs<'_>| {
                    ContractResponse::Now(self.device().execute(graph, own, attrs))
                };
                self.call_own(inputs, attrs, false, call)
            }
            Way::Parts(parts) => {
                self.run_graph_parts(&parts, inputs, attrs, (&execute, &self.own_execute, false))
            }
            Way::Narrowed => None,
        }
        .map(ContractResponse::wait)
    }

    /// Calls the backend's `dispatch` for a graph, or for parts of it. Returns `None` if the backend overrides neither
    /// `dispatch` nor `execute`, or if each node needs narrowing.
    pub(super) fn dispatch_own(
        &self,
        graph: &Arc<GraphProto>,
        inputs: &Named,
        attrs: BackendAttrs<'_>,
    ) -> Option<ContractResponse<Named, ErasedError>> {
        let dispatch = |graph: &Arc<GraphProto>, inputs: Own, attrs: BackendAttrs<'_>| {
            self.device().dispatch(graph.clone(), inputs, attrs)
        };
        match self.way(graph, attrs) {
            Way::Own => self.call_own(inputs, attrs, true, |own, attrs| dispatch(graph, own, attrs)),
            Way::Parts(parts) => {
                self.run_graph_parts(&parts, inputs, attrs, (&dispatch, &self.own_dispatch, true))
            }
            Way::Narrowed => None,
        }
    }

    /// Calls a method of the backend with a graph that needs no narrowing; `None` if the backend does not override the method.
    pub(super) fn call_own(
        &self,
        inputs: &Named,
        attrs: BackendAttrs<'_>,
        is_dispatch: bool,
        method: impl FnOnce(Own, BackendAttrs<'_>) -> ContractResponse<Own, ErasedError>,
    ) -> Option<ContractResponse<Named, ErasedError>> {
        let own = match self.own_inputs(inputs) {
            Ok(own) => own,
            Err(error) => return Some(ContractResponse::Now(Err(error))),
        };
        let reached = AtomicBool::new(false);
        let attrs = if is_dispatch { attrs.asking_dispatch(&reached) } else { attrs.asking(&reached) };
        match method(own, attrs) {
            ContractResponse::Now(results) => {
                answer(results, &reached).map(|results| ContractResponse::Now(results.map(adopted)))
            }
            ContractResponse::Later(later) => {
                Some(ContractResponse::Later(later.map(|results| results.map(adopted))))
            }
        }
    }

    /// Calls the backend's `compile`; `None` if the backend does not override it.
    pub(super) fn compile_own(
        &self,
        module: &Module,
        options: &CompileOptions,
    ) -> Result<Option<OwnExecutable>, ErasedError> {
        let reached = Arc::new(AtomicBool::new(false));
        let compiled = self.device().compile(module.clone(), options, Some(&reached));
        answer(compiled, &reached).transpose().map(|compiled| compiled.map(OwnExecutable))
    }
}

/// Returns the result of a method; `None` if the call reached the default method, which does nothing.
fn answer<T>(answer: Result<T, ErasedError>, reached: &AtomicBool) -> Option<Result<T, ErasedError>> {
    match answer {
        Err(_) if reached.load(Ordering::Relaxed) => None,
        answer => Some(answer),
    }
}

fn adopted(results: Own) -> Named {
    results.into_iter().map(|(name, y)| (name, NarrowedOn::adopt(y))).collect()
}

/// A graph that a backend without some element types compiled by its own method.
pub(super) struct OwnExecutable(Box<dyn ErasedCompiled>);

impl Executable<NarrowedOn<'_>> for OwnExecutable {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(
        &self,
        on: &NarrowedOn<'_>,
        inputs: &[Option<&NarrowTensor>],
    ) -> Result<Vec<NarrowTensor>, ErasedError> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        Ok(tensors(self.run_items(on, &items)?, self.0.outputs())?)
    }

    fn run_items(
        &self,
        on: &NarrowedOn<'_>,
        inputs: &[Option<OnnxValue<&NarrowTensor>>],
    ) -> Result<Vec<OnnxValue<NarrowTensor>>, ErasedError> {
        let own = |item: &OnnxValue<&NarrowTensor>| item.try_map(&mut |x: &&NarrowTensor| on.own_tensor(x));
        let inputs = inputs.iter().map(|item| item.as_ref().map(own).transpose());
        let inputs: Vec<Option<OnnxValue<ErasedTensor>>> = inputs.collect::<Result<_, ErasedError>>()?;
        let results = self.0.run_items(on.device(), &inputs, None)?;
        Ok(results.iter().map(|y| y.map(&mut |y: &ErasedTensor| NarrowedOn::adopt(y.clone()))).collect())
    }

    fn compiled_module(&self) -> Result<Option<Module>, ErasedError> {
        self.0.compiled_module()
    }
}
