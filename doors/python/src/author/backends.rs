//! Implements the backend contract for an author's object, through its methods for primitives or through its `execute` for graphs.

use super::graph::Known;
use super::instance::Instance;
use super::tensor::PythonTensor;
use crate::python_error::PythonError;
use bb::{
    Backend, BackendAttrs, CompileOptions, DataTypes, Executable, GraphIdentity, GraphProto, InnerBackend,
    Module, Outputs, Primitive, TensorData,
};
use bb_ir::op::Param;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tensors by name.
type Named = HashMap<String, PythonTensor>;

/// The maximum number of graphs that are cached.
const KEPT: usize = 1024;

/// Expands to the methods that both implementations have in common.
macro_rules! common {
    () => {
        type Tensor = PythonTensor;
        type Error = PythonError;

        bb::forward_to_call!(Self::call);

        fn types(&self) -> DataTypes {
            self.on.types()
        }

        fn wrapped(error: &PythonError) -> Option<&bb::Error> {
            match error {
                PythonError::Bb(error) => Some(error),
                _ => None,
            }
        }

        fn to_host(&self, x: &PythonTensor) -> Result<TensorData, PythonError> {
            self.on.to_host(x)
        }
    };
}

/// An author's object with the methods of the primitives.
pub(crate) struct Methods {
    pub(super) on: Arc<Instance>,
}

impl Methods {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&PythonTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PythonTensor>, PythonError> {
        self.on.call(op, inputs, params)
    }
}

#[diagnostic::do_not_recommend]
impl Backend for Methods {
    common!();
}

#[diagnostic::do_not_recommend]
impl InnerBackend for Methods {}

/// An author's object that runs graphs.
pub(crate) struct Graphs {
    pub(super) on: Arc<Instance>,
    known: Mutex<HashMap<GraphIdentity, Arc<Known>>>,
}

impl Graphs {
    pub(super) fn new(on: Arc<Instance>) -> Graphs {
        Graphs { on, known: Mutex::default() }
    }

    /// Calls a primitive by running a graph of one node. Elements of the host need no graph.
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&PythonTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PythonTensor>, PythonError> {
        match params {
            [Param::Data(data)] => Ok(Outputs::from_buf([self.on.from_host(data)?])),
            _ => bb::__private::one_node(self, op, inputs, params),
        }
    }

    fn run(&self, graph: &GraphProto, inputs: Named, attrs: BackendAttrs<'_>) -> Result<Named, PythonError> {
        let known = self.known(graph, attrs)?;
        let Some(expected) = known.expected(&self.on, &inputs)? else {
            // The graph has operators other than primitives, so its caller is not a runtime. The graph is lowered here.
            let lowered = bb::compile_whole_graph(self, attrs.module(graph)?, &CompileOptions::default())?;
            let inputs: Vec<(&str, &PythonTensor)> = inputs.iter().map(|(name, x)| (&**name, x)).collect();
            return lowered.run_named(self, &inputs);
        };
        let graph = known.object(&self.on)?;
        let named = inputs.iter().map(|(name, x)| (&**name, x));
        Ok(self.on.execute(graph, named, &expected)?.into_iter().collect())
    }

    /// Returns the steps of a graph. They are cached if the graph has an identity, because then the caller may run it again.
    fn known(&self, graph: &GraphProto, attrs: BackendAttrs<'_>) -> Result<Arc<Known>, PythonError> {
        let kept = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = attrs.identity.and_then(|identity| kept().get(&identity).cloned()) {
            return Ok(found);
        }
        let made = Arc::new(Known::new(attrs.module(graph)?)?);
        if let Some(identity) = attrs.identity {
            let mut kept = kept();
            let full = if kept.len() >= KEPT { std::mem::take(&mut *kept) } else { HashMap::new() };
            kept.insert(identity, made.clone());
            // The evicted graphs contain the author's tensors, so they are dropped only after the lock is released.
            drop(kept);
            drop(full);
        }
        Ok(made)
    }
}

#[diagnostic::do_not_recommend]
impl Backend for Graphs {
    common!();
    bb::__forward_execute!(Self::run);

    fn runs_whole_graphs(&self) -> bool {
        true
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.on.runs(op)
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Graphs>>, PythonError> {
        bb::compile_whole_graph(self, module, options)
    }
}

#[diagnostic::do_not_recommend]
impl InnerBackend for Graphs {}
