//! The other side of the contract: a backend that is one function, from a graph and inputs to outputs.
//!
//! A graph compiler would translate the graph here, keep what it built under the graph's identity, and launch it.
//! This one compiles for the reference backend's kernels instead, which is enough to show what such a backend
//! is given: graphs of primitives in normal form, each known again when it comes again.
#![forbid(unsafe_code)]

use bb::Limits;
use bb::{Backend, BackendAttrs, CompileOptions, Executable, GraphIdentity, GraphProto};
use bb_reference::Reference;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The tensor of the engine underneath.
pub type Tensor = <Reference as Backend>::Tensor;
/// The error of the engine underneath.
pub type Error = <Reference as Backend>::Error;

/// A graph that was compiled before.
type Compiled = Arc<dyn Executable<Reference>>;

/// The most compiled graphs kept.
const KEPT: usize = 1024;

/// A backend that runs whole graphs.
#[derive(Default, bb::Backend)]
#[bb(name = "whole-graph")]
pub struct WholeGraph {
    engine: Reference,
    compiled: Mutex<HashMap<GraphIdentity, Compiled>>,
}

impl WholeGraph {
    /// Makes the backend.
    pub fn new() -> WholeGraph {
        WholeGraph::default()
    }

    /// Runs a graph; the one function that a backend like this writes.
    fn run(
        &self,
        graph: &GraphProto,
        mut inputs: HashMap<String, Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, Error> {
        let compiled = self.compiled(graph, attrs)?;
        let taken: Vec<Option<Tensor>> =
            compiled.inputs().iter().map(|port| inputs.remove(&port.name)).collect();
        if let Some(name) = inputs.into_keys().min() {
            let expected = compiled.inputs().iter().map(|port| port.name.clone()).collect();
            return Err(bb::Error::UnknownInput { name, expected }.into());
        }
        let operands: Vec<Option<&Tensor>> = taken.iter().map(Option::as_ref).collect();
        let results = compiled.run(&self.engine, &operands)?;
        Ok(compiled.outputs().iter().map(|port| port.name.clone()).zip(results).collect())
    }

    /// Finds what was compiled for this graph, or compiles it.
    fn compiled(&self, graph: &GraphProto, attrs: BackendAttrs<'_>) -> Result<Compiled, Error> {
        let known =
            |identity| self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(identity).cloned();
        if let Some(found) = attrs.identity.as_ref().and_then(known) {
            return Ok(found);
        }
        let module = attrs.module(graph)?;
        // Whoever hands a graph over has bounded its values, by limits that are not known here.
        let unbounded = Limits { value_bytes: usize::MAX, iterations: usize::MAX, ..Limits::default() };
        let options = CompileOptions::default().within(&unbounded);
        let compiled: Compiled = self.engine.compile(module, &options)?.into();
        if let Some(identity) = attrs.identity {
            let mut kept = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(identity, compiled.clone());
        }
        Ok(compiled)
    }
}

impl Backend for WholeGraph {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<bb::TensorData, Error> {
        self.engine.to_host(x)
    }
}
