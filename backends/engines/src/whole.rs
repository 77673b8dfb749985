//! The state of a backend over an engine.

use crate::cache::Cache;
use crate::counts::{Counters, Counts};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::host::Host;
use crate::program::Program;
use crate::rest::Rest;
use crate::several::Several;
use crate::shared::Shared;
use bb::ext::OpSet;
use bb::ir::graph::{Graph, Node};
use bb::ir::op::{Family, OpSpec, Param};
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, Executable, Fallback, FirstOf, GraphProto,
    InnerBackend, Limits, Module, Outputs, Primitive,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A backend over an engine: the engine, the treatment of its gaps, and the loaded models.
pub struct Whole<E: Engine> {
    shared: Arc<Shared<E>>,
    how: How,
    loaded: Cache<LoadedModel<E>>,
}

/// The strategy for running models.
enum How {
    /// The engine runs the model, or the model is refused.
    Alone,
    /// The engine runs the model lowered to primitives.
    Primitives,
    /// The engine runs the nodes that it can, and the other backend runs the rest.
    Several(BackendHandle),
}

/// A model that is ready to run.
enum LoadedModel<E: Engine> {
    Alone(Program<E>),
    Several(Several),
}

impl<E: Engine> Whole<E> {
    /// Creates the backend's state.
    pub fn new(engine: E, rest: Rest) -> Whole<E> {
        let has_table = !matches!(rest, Rest::Nothing);
        let shared = Arc::new(Shared { engine, has_table, counters: Arc::new(Counters::default()) });
        let how = match rest {
            Rest::Refuse | Rest::Nothing => How::Alone,
            Rest::Primitives => How::Primitives,
            Rest::On(rest) => several(&shared, rest).map_or(How::Alone, How::Several),
        };
        Whole { shared, how, loaded: Cache::default() }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.shared.engine
    }

    /// Returns the engine's counts so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.shared.counters.read();
        if let How::Several(on) = &self.how
            && let Some(several) = FirstOf::of(on)
        {
            let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            counts.rest = several.parts().get(1).copied().map_or(0, count);
            counts.failed = count(several.fallbacks());
        }
        counts
    }

    /// Returns the reason why a node cannot run: the engine does not run it, and there is no other backend.
    pub fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        match self.how {
            How::Alone => self.shared.refusal(graph, node).map(|refusal| refusal.to_string()),
            How::Primitives | How::Several(_) => None,
        }
    }

    /// Loads a model.
    fn load(&self, module: Module, options: &CompileOptions) -> Result<LoadedModel<E>, EngineError> {
        match &self.how {
            How::Several(on) => Several::new(on, module, options).map(LoadedModel::Several),
            How::Alone | How::Primitives => Program::new(&self.shared, &module).map(LoadedModel::Alone),
        }
    }

    /// Runs a graph. The graph is loaded unless it is cached.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Self::load), [`bb::Error::UnknownInput`], and the errors of the run.
    pub fn run<B>(
        &self,
        on: &B,
        graph: &GraphProto,
        inputs: HashMap<String, Host>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Host>, EngineError>
    where
        B: Backend<Tensor = Host, Error = EngineError> + 'static,
    {
        if matches!(self.how, How::Primitives) && !primitive(graph) {
            let lowered = bb::compile_whole_graph::<B>(on, attrs.module(graph)?, &CompileOptions::default())?;
            return named(on, &*lowered, inputs);
        }
        let program = self.loaded.get_or(attrs.identity, || {
            let module = attrs.module(graph)?;
            // The caller has already applied its limits, and they are not known here, so do not limit
            // values again.
            let unbounded = Limits { value_bytes: usize::MAX, iterations: usize::MAX, ..Limits::default() };
            let options = CompileOptions::default().within(&unbounded);
            self.load(module, &options.with_node(attrs.attributes, attrs.metadata))
        })?;
        match &*program {
            LoadedModel::Alone(program) => named(on, program, inputs),
            LoadedModel::Several(several) => named(on, several, inputs),
        }
    }

    /// Compiles a module for the backend `on`.
    ///
    /// # Errors
    ///
    /// The errors of [`load`](Self::load) and of lowering the module to primitives.
    pub fn compile<B>(
        &self,
        on: &B,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<B>>, EngineError>
    where
        B: Backend<Tensor = Host, Error = EngineError> + 'static,
    {
        if matches!(self.how, How::Primitives) {
            return bb::compile_whole_graph(on, module, options);
        }
        Ok(match self.load(module, options)? {
            LoadedModel::Alone(program) => Box::new(program),
            LoadedModel::Several(several) => Box::new(several),
        })
    }
}

/// Combines an engine and the backend for the rest into one backend. The engine runs all nodes that it can.
fn several<E: Engine>(shared: &Arc<Shared<E>>, rest: BackendHandle) -> Option<BackendHandle> {
    let whole = Whole { shared: shared.clone(), how: How::Alone, loaded: Cache::default() };
    let engine = BackendHandle::start("engine", Alone { whole });
    let several = FirstOf::new([engine, rest]).ok()?;
    Some(BackendHandle::start(E::NAME, several.with_order().with_fallback(Fallback::WhenFailed)))
}

/// Runs a loaded model with named tensors.
fn named<B: Backend<Tensor = Host, Error = EngineError>>(
    on: &B,
    program: &dyn Executable<B>,
    mut inputs: HashMap<String, Host>,
) -> Result<HashMap<String, Host>, EngineError> {
    let taken: Vec<Option<Host>> = program.inputs().iter().map(|port| inputs.remove(&port.name)).collect();
    if let Some(name) = inputs.into_keys().min() {
        let expected = program.inputs().iter().map(|port| port.name.clone()).collect();
        return Err(bb::Error::UnknownInput { name, expected }.into());
    }
    let operands: Vec<Option<&Host>> = taken.iter().map(Option::as_ref).collect();
    let results = program.run(on, &operands)?;
    Ok(program.outputs().iter().map(|port| port.name.clone()).zip(results).collect())
}

/// Returns whether a graph contains only primitives, as graphs for a whole-graph backend do.
fn primitive(graph: &GraphProto) -> bool {
    let own = |op: &str| Primitive::ALL.iter().any(|known| known.spec().name == op);
    graph.node.iter().all(|node| node.domain().is_empty() && own(node.op_type()))
}

/// A backend over an engine that refuses the nodes that the engine cannot run.
struct Alone<E: Engine> {
    whole: Whole<E>,
}

crate::implement_backend!(@ [<E: Engine>] Alone<E>, true);

impl<E: Engine> InnerBackend for Alone<E> {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        Vec::new()
    }

    fn native(
        &self,
        _spec: &'static OpSpec,
        _inputs: &[Option<&Host>],
        _params: &[Param<'_>],
    ) -> Result<Outputs<Host>, EngineError> {
        Err(bb::Error::excluded("no native operation of an engine").into())
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
