//! A part of a model that is ready to run: a session of the engine, or a plan of what runs the rest.

use crate::counts::{Counted, Counters};
use crate::engine::{Engine, Signature};
use crate::error::{EngineError, Refusal, RestError, contained};
use crate::gap::{Gap, dtype_of};
use crate::message::{message, signature};
use crate::rest::Rest;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, Module, TensorData, Value};
use bb_ir::graph::{Graph, Node, ValueId};
use std::sync::{Arc, Mutex, PoisonError};

/// What the parts of all models of a backend share.
pub(crate) struct Shared<E> {
    pub(crate) engine: E,
    pub(crate) rest: Rest,
    pub(crate) counters: Arc<Counters>,
}

/// A part with the values that it takes and makes.
pub(crate) struct Part<E: Engine> {
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) how: How<E>,
}

/// How a part runs.
pub(crate) enum How<E: Engine> {
    Engine(Box<Own<E>>),
    Rest(Box<Resting>),
}

/// A part that the engine has loaded.
pub(crate) struct Own<E: Engine> {
    session: Counted<E::Session>,
    signature: Signature,
    /// The same part on the rest, if there is one, for when the engine fails.
    otherwise: Option<Resting>,
}

/// A part on the rest, compiled when it first runs.
pub(crate) struct Resting {
    on: BackendHandle,
    graph: Graph,
    options: CompileOptions,
    compiled: Mutex<Option<Arc<dyn bb::ErasedExecutable>>>,
}

type Item = OnnxValue<TensorData>;

impl<E: Engine> Shared<E> {
    /// Says why the engine does not run a node, as far as its table and the element types tell.
    pub(crate) fn refusal(&self, graph: &Graph, node: &Node) -> Option<Refusal> {
        if !matches!(self.rest, Rest::Nothing)
            && let Some(Gap { reason, case, .. }) =
                self.engine.gaps().iter().find(|gap| gap.is_of(graph, node))
        {
            return Some(Refusal::Gap { reason: *reason, case });
        }
        let values = node.inputs.iter().chain(&node.outputs).flatten();
        let lacking = values.filter_map(|&value| Some((value, dtype_of(graph, value)?)));
        if let Some((value, dtype)) = lacking.into_iter().find(|(_, dtype)| !self.engine.holds(*dtype)) {
            return Some(Refusal::Type { value: graph.name_of(value).to_owned(), dtype });
        }
        node.subgraphs().find_map(|inner| inner.nodes.iter().find_map(|node| self.refusal(inner, node)))
    }

    /// Loads a graph.
    pub(crate) fn load(&self, graph: &Graph, otherwise: Option<Resting>) -> Result<Own<E>, Refusal> {
        let signature = signature(graph, |dtype| self.engine.passes(dtype))?;
        let message = message(graph, self.engine.newest_opset())?;
        let session = contained(|| self.engine.load(message, &signature)).map_err(Refusal::Load)?;
        Ok(Own { session: Counted::new(session, &self.counters), signature, otherwise })
    }

    /// Prepares a graph for the backend that runs the rest; `None` if there is none.
    pub(crate) fn resting(&self, graph: &Graph, options: &CompileOptions) -> Option<Resting> {
        let Rest::On(on) = &self.rest else { return None };
        let mut options = options.clone();
        options.identity = None;
        Some(Resting { on: on.clone(), graph: graph.clone(), options, compiled: Mutex::default() })
    }
}

impl<E: Engine> Part<E> {
    /// Runs the part.
    pub(crate) fn run(&self, shared: &Shared<E>, inputs: &[Option<&Item>]) -> Result<Vec<Item>, EngineError> {
        match &self.how {
            How::Engine(own) => own.run(shared, inputs),
            How::Rest(resting) => {
                shared.counters.rested();
                resting.run(inputs)
            }
        }
    }
}

impl<E: Engine> Own<E> {
    fn run(&self, shared: &Shared<E>, inputs: &[Option<&Item>]) -> Result<Vec<Item>, EngineError> {
        let error = match self.by_engine(shared, inputs) {
            Ok(results) => return Ok(results),
            Err(error) => error,
        };
        match &self.otherwise {
            None => Err(error),
            Some(resting) => {
                shared.counters.failed();
                resting.run(inputs)
            }
        }
    }

    fn by_engine(&self, shared: &Shared<E>, inputs: &[Option<&Item>]) -> Result<Vec<Item>, EngineError> {
        let Signature { inputs: names, outputs } = &self.signature;
        let mut given = Vec::with_capacity(inputs.len());
        for ((name, dtype), item) in names.iter().zip(inputs) {
            match item {
                Some(OnnxValue::Tensor(x)) if x.dtype() == *dtype => {
                    x.prepare().map_err(bb::Error::from)?;
                    given.push(x);
                }
                // What was inferred of a value was wrong.
                Some(_) => return Err(EngineError::State { expected: "a tensor of the known type" }),
                None => {
                    let expected = names.iter().map(|(name, _)| name.clone()).collect();
                    return Err(bb::Error::MissingInput { name: name.clone(), expected }.into());
                }
            }
        }
        shared.counters.ran();
        let failed = |source| EngineError::Run { engine: E::NAME, source };
        let results =
            contained(|| shared.engine.run(&self.session, &self.signature, &given)).map_err(failed)?;
        if results.len() != outputs.len() {
            let (expected, got) = (outputs.len(), results.len());
            return Err(EngineError::Results { engine: E::NAME, expected, got });
        }
        Ok(results.into_iter().map(OnnxValue::Tensor).collect())
    }
}

impl Resting {
    fn compiled(&self) -> Result<Arc<dyn bb::ErasedExecutable>, bb::Error> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = &*compiled {
            return Ok(compiled.clone());
        }
        let made = self.on.compile(Module::new(self.graph.clone()), &self.options)?;
        Ok(compiled.insert(made).clone())
    }

    fn run(&self, inputs: &[Option<&Item>]) -> Result<Vec<Item>, EngineError> {
        self.run_on(inputs).map_err(|error| EngineError::Rest(Box::new(RestError::new(error, &self.on))))
    }

    fn run_on(&self, inputs: &[Option<&Item>]) -> Result<Vec<Item>, bb::Error> {
        let compiled = self.compiled()?;
        let runtime = self.on.runtime();
        let upload = |item: &Option<&Item>| {
            item.map(|item| item.try_map(&mut |x: &TensorData| runtime.constant(x))).transpose()
        };
        let inputs: Vec<Option<OnnxValue<Value>>> = inputs.iter().map(upload).collect::<Result<_, _>>()?;
        let results = compiled.run_items(&inputs)?;
        let fetch = |item: OnnxValue<Value>| item.try_map(&mut |x: &Value| runtime.to_host(x));
        results.into_iter().map(fetch).collect()
    }
}
