//! A backend over an engine.

use crate::cache::Cache;
use crate::counts::{Counters, Counts};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::host::Host;
use crate::part::Shared;
use crate::program::Program;
use crate::rest::Rest;
use bb::{Backend, BackendAttrs, CompileOptions, Executable, GraphProto, Limits, Module, Primitive};
use std::collections::HashMap;
use std::sync::Arc;

/// What a backend over an engine consists of: the engine, what runs the rest, and the models that were loaded.
pub struct Whole<E: Engine> {
    shared: Arc<Shared<E>>,
    loaded: Cache<Program<E>>,
}

impl<E: Engine> Whole<E> {
    /// Makes one.
    pub fn new(engine: E, rest: Rest) -> Whole<E> {
        Whole {
            shared: Arc::new(Shared { engine, rest, counters: Arc::new(Counters::default()) }),
            loaded: Cache::default(),
        }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.shared.engine
    }

    /// Returns what the engine did so far.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Loads a model.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] if the engine cannot run a node and nothing else does.
    pub fn load(&self, module: &Module, options: &CompileOptions) -> Result<Program<E>, EngineError> {
        Program::new(&self.shared, module, options)
    }

    /// Runs a graph, which is loaded unless it was loaded before.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load); [`bb::Error::UnknownInput`]; those of the run.
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
        if matches!(self.shared.rest, Rest::Primitives) && !primitive(graph) {
            let lowered = bb::compile_whole_graph::<B>(on, attrs.module(graph)?, &CompileOptions::default())?;
            return named(on, &*lowered, inputs);
        }
        let program = self.loaded.get_or(attrs.identity, || {
            let module = attrs.module(graph)?;
            // The caller has already limited the graph's values. Its limits are not known here.
            let unbounded = Limits { value_bytes: usize::MAX, iterations: usize::MAX, ..Limits::default() };
            let options = CompileOptions::default().within(&unbounded);
            self.load(&module, &options.with_node(attrs.attributes, attrs.metadata))
        })?;
        named(on, &*program, inputs)
    }

    /// Compiles a module for the backend `on`.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load), or of lowering the module to primitives.
    pub fn compile<B>(
        &self,
        on: &B,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<B>>, EngineError>
    where
        B: Backend<Tensor = Host, Error = EngineError> + 'static,
    {
        match self.shared.rest {
            Rest::Primitives => bb::compile_whole_graph(on, module, options),
            Rest::On(_) | Rest::Refuse | Rest::Nothing => Ok(Box::new(self.load(&module, options)?)),
        }
    }
}

/// Runs a loaded model with tensors by name.
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

/// Tells whether a graph is made of primitives, as a backend gets it that runs whole graphs.
fn primitive(graph: &GraphProto) -> bool {
    let own = |op: &str| Primitive::ALL.iter().any(|known| known.spec().name == op);
    graph.node.iter().all(|node| node.domain().is_empty() && own(node.op_type()))
}
