//! A backend without kernels. It is a single function that receives a graph and inputs and returns outputs.
//!
//! A graph compiler would translate the graph here, cache the result under the graph's identity, and launch it. This backend
//! uses the kernels of the reference backend instead. That is enough to show the input of a graph compiler: graphs of
//! primitives in normal form, each with an identity, so that a repeated graph is recognised.
#![forbid(unsafe_code)]

// Code outside this workspace depends on `bb`, which re-exports `bb_core`. This crate uses only `bb_core`, so it compiles in
// parallel with the operator crates.
extern crate bb_core as bb;

use bb::Limits;
use bb::{Backend, BackendAttrs, CompileOptions, Executable, GraphIdentity, GraphProto};
use bb_reference::Reference;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The tensor of the underlying backend.
pub type WholeGraphTensor = <Reference as Backend>::Tensor;
/// The error of the underlying backend.
pub type Error = <Reference as Backend>::Error;

/// A compiled graph, shared with the cache.
type Compiled = Arc<dyn Executable<Reference>>;

/// The maximum number of compiled graphs in the cache.
const KEPT: usize = 1024;

/// A backend that runs whole graphs.
#[derive(Default, bb::Backend)]
#[bb(name = "whole-graph")]
pub struct WholeGraph {
    engine: Reference,
    compiled: Mutex<HashMap<GraphIdentity, Compiled>>,
}

impl WholeGraph {
    /// Creates the backend.
    pub fn new() -> WholeGraph {
        WholeGraph::default()
    }

    /// Runs a graph. A backend of this kind implements only this function.
    fn run(
        &self,
        graph: &GraphProto,
        mut inputs: HashMap<String, WholeGraphTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, WholeGraphTensor>, Error> {
        let compiled = self.compiled(graph, attrs)?;
        let taken: Vec<Option<WholeGraphTensor>> =
            compiled.inputs().iter().map(|port| inputs.remove(&port.name)).collect();
        if let Some(name) = inputs.into_keys().min() {
            let expected = compiled.inputs().iter().map(|port| port.name.clone()).collect();
            return Err(bb::Error::UnknownInput { name, expected }.into());
        }
        let operands: Vec<Option<&WholeGraphTensor>> = taken.iter().map(Option::as_ref).collect();
        let results = compiled.run(&self.engine, &operands)?;
        Ok(compiled.outputs().iter().map(|port| port.name.clone()).zip(results).collect())
    }

    /// Returns the compiled graph from the cache, and compiles the graph if it is not cached.
    fn compiled(&self, graph: &GraphProto, attrs: BackendAttrs<'_>) -> Result<Compiled, Error> {
        let known =
            |identity| self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(identity).cloned();
        if let Some(found) = attrs.identity.as_ref().and_then(known) {
            return Ok(found);
        }
        let module = attrs.module(graph)?;
        // The caller has already applied its limits, and they are not known here, so do not limit values again.
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
    type Tensor = WholeGraphTensor;
    type Error = Error;

    bb::forward_to_execute!(Self::run);

    fn wrapped(error: &Error) -> Option<&bb::Error> {
        <Reference as Backend>::wrapped(error)
    }

    fn to_host(&self, x: &WholeGraphTensor) -> Result<bb::TensorData, Error> {
        self.engine.to_host(x)
    }
}
